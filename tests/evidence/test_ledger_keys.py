"""A key is replaced: the ledger goes on, and what the old key signed still verifies, by that name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from contract.errors import DatasetAgentError
from evidence.dsse import InvalidProvenance
from evidence.provenance import verify_saved
from evidence.statement import draft
from evidence.verify import SignedRows, verify_ledger
from tests.authority_builder import make_authority
from tests.evidence.evidence_builders import AGENT, BODY, SeedSigner, draft_members, make_row, open_ledger

OLD, NEW, STRANGER = SeedSigner(1), SeedSigner(2), SeedSigner(3)
KEYS = (NEW.public_key, OLD.public_key)


def continued(folder: Path) -> Path:
    """A ledger of which the retired key signed two rows and the present one a third."""
    first = open_ledger(folder, OLD)
    for number in range(2):
        first.append(make_row(number))
    first.close()
    second = open_ledger(folder, NEW, retired=(OLD.public_key,))
    second.append(make_row(2))
    second.close()
    return second.path


def saved(folder: Path, signer: SeedSigner) -> dict[str, Any]:
    ledger = open_ledger(folder, signer)
    made = draft(make_authority(decision_id="dec-1"), **draft_members())
    receipt = ledger.append(make_row(decision_id="dec-1", result_digest=made.result_digest))
    ledger.close()
    return made.seal(receipt, signer)


def test_a_ledger_goes_on_under_a_new_key_and_says_which_key_signed_what(tmp_path: Path) -> None:
    report = verify_ledger(continued(tmp_path), KEYS)
    assert report.ok
    assert report.signed_by == (
        SignedRows(OLD.public_key.thumbprint, rows=2, first=0, last=1),
        SignedRows(NEW.public_key.thumbprint, rows=1, first=2, last=2),
    )
    assert report.public()["signed_by"][0] == {"kid": OLD.public_key.thumbprint, "rows": 2, "first": 0, "last": 1}


def test_processes_that_change_over_at_different_times_leave_a_whole_ledger(tmp_path: Path) -> None:
    late = open_ledger(tmp_path, OLD)
    late.append(make_row(0))
    early = open_ledger(tmp_path, NEW, retired=(OLD.public_key,))
    early.append(make_row(1))
    late.append(make_row(2))
    report = verify_ledger(late.path, KEYS)
    assert report.ok
    assert [(rows.rows, rows.first, rows.last) for rows in report.signed_by] == [(1, 1, 1), (2, 0, 2)]


def test_a_row_by_an_unknown_key_is_named_and_not_called_forged(tmp_path: Path) -> None:
    report = verify_ledger(continued(tmp_path), NEW.public_key)
    trusted = f"trusted: kid {NEW.public_key.thumbprint}"
    assert (report.ok, report.bad_row) == (False, 0)
    assert report.problem == f"row 0 is signed by a key that is not trusted here ({trusted})"


def test_a_ledger_with_a_new_key_is_opened_only_with_the_retired_one(tmp_path: Path) -> None:
    open_ledger(tmp_path, OLD).append(make_row(0))
    with pytest.raises(DatasetAgentError, match="retired_keys") as stop:
        open_ledger(tmp_path, NEW)
    assert stop.value.code == "evidence.ledger.stranger"


@pytest.mark.parametrize("signer", [OLD, NEW])
def test_a_saved_answer_is_verified_with_any_key_of_its_agent_and_that_key_is_named(
    tmp_path: Path, signer: SeedSigner
) -> None:
    statement, key = verify_saved(saved(tmp_path, signer), KEYS, body=BODY, agent_id=AGENT)
    assert (statement.predicate.agent.id, key) == (AGENT, signer.public_key)


def refused(envelope: dict[str, Any], keys: tuple[Any, ...] = KEYS) -> str:
    with pytest.raises(InvalidProvenance) as stop:
        verify_saved(envelope, keys, body=BODY, agent_id=AGENT)
    assert stop.value.check == "signature"
    return str(stop.value)


def test_a_saved_answer_of_an_unknown_key_names_its_kid(tmp_path: Path) -> None:
    kid = STRANGER.public_key.thumbprint
    told = refused(saved(tmp_path, STRANGER))
    assert told == f"the envelope is signed by a key that is not trusted here (kid {kid})"


@pytest.mark.parametrize("kid", [None, 7, "x" * 1000, "\x1b[31m" + "x" * 38])
def test_a_kid_that_is_none_is_not_repeated(tmp_path: Path, kid: object) -> None:
    envelope = saved(tmp_path, STRANGER)
    envelope["signatures"][0]["keyid"] = kid
    assert refused(envelope).endswith("(no kid named)")


def test_a_changed_answer_of_a_known_key_is_not_blamed_on_a_stranger(tmp_path: Path) -> None:
    envelope = saved(tmp_path / "one", OLD)
    other = saved(tmp_path / "two", OLD)
    assert refused(envelope | {"payload": other["payload"]}) == (
        "the envelope was changed after the key that it names signed it"
    )
