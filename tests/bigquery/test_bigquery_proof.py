"""Bytes and job of a run in the signed statement, in what a root agent relays of it, and in a stored result."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from contract.verdict import Decision, NotGranted, Reason
from evidence.dsse import upstream_digest
from evidence.provenance import verify_provenance
from evidence.statement import draft, relay
from evidence.tree import verify_tree
from tests.authority_builder import make_authority
from tests.evidence.evidence_builders import (
    AGENT,
    BODY,
    DOCUMENT,
    EXECUTION,
    INVOCATION,
    NOW,
    SeedSigner,
    draft_members,
    make_row,
    open_ledger,
)

SIGNER, ROOT = SeedSigner(), SeedSigner(9)
BILLED = replace(
    EXECUTION, engine="bigquery", job_id="dataset_agent_" + "0" * 32, bytes_processed=0, bytes_billed=10_485_760
)


def sealed(folder: Path, **changes: Any) -> dict[str, Any]:
    made = draft(make_authority(decision_id="dec-1"), **draft_members(**changes))
    ledger = open_ledger(folder)
    receipt = ledger.append(
        make_row(
            decision_id="dec-1", policy_id="BPD-DATA-001", result_digest=made.result_digest, leaf_digest="d" * 64,
            rows_returned=DOCUMENT.row_count,
        )
    )  # fmt: skip
    ledger.close()
    return made.seal(receipt, SIGNER)


def relayed(folder: Path, envelope: dict[str, Any]) -> Any:
    statement = verify_provenance(envelope, SIGNER.public_key, body=BODY)
    made = relay(
        statement, envelope, agent_id="urn:dataset-agent:root", document=DOCUMENT, invocation=INVOCATION, now=NOW,
        decision=Decision(Reason.PRINCIPAL_AUTHORIZED, "BPD-DATA-001", "2026.1", "permitted"), task_id="task-1",
    )  # fmt: skip
    ledger = open_ledger(folder, ROOT)
    receipt = ledger.append(make_row(side="root", tool_origin="A2A", upstream_digest=upstream_digest(envelope)))
    ledger.close()
    return made, verify_provenance(made.seal(receipt, ROOT), ROOT.public_key, body=BODY)


def test_the_statement_and_the_relayed_one_say_job_and_bytes(tmp_path: Path) -> None:
    envelope = sealed(tmp_path / "remote", execution=BILLED)
    told = verify_provenance(envelope, SIGNER.public_key, body=BODY).predicate.execution
    assert (told.engine, told.job_id, told.bytes_processed, told.bytes_billed) == (
        "bigquery",
        BILLED.job_id,
        0,
        10_485_760,
    )
    _, outer = relayed(tmp_path / "root", envelope)
    verify_tree(outer, {AGENT: (SIGNER.public_key,)})
    assert outer.predicate.execution.bytes_billed == 10_485_760


def test_an_engine_that_bills_nothing_has_no_such_member(tmp_path: Path) -> None:
    envelope = sealed(tmp_path / "remote")
    made, outer = relayed(tmp_path / "root", envelope)
    drafted = draft(make_authority(decision_id="dec-1"), **draft_members())
    for body in (drafted.body, made.body):
        assert not {"bytes_processed", "bytes_billed"} & set(body["predicate"]["execution"])
    assert outer.predicate.execution.bytes_billed is None


@pytest.mark.parametrize("count", [-1, 2**53])
def test_bytes_are_a_count(count: int) -> None:
    with pytest.raises(NotGranted, match="bytes_billed"):
        draft(make_authority(), **draft_members(execution=replace(BILLED, bytes_billed=count)))
