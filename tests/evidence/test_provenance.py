"""Provenance is complete or is not given; and it holds for its own bytes, grant and signer only."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from contract.authority import Authority
from contract.errors import DatasetAgentError
from contract.result import CacheOutcome
from contract.verdict import Decision, NotGranted, Reason
from evidence.artifact import Artifact, read_artifact, write_artifact
from evidence.checkpoint import Receipt
from evidence.dsse import InvalidProvenance, open_envelope, sign_envelope, upstream_digest
from evidence.ledger import Ledger
from evidence.predicate import Statement
from evidence.provenance import differences, read_statement, verify_provenance
from evidence.statement import _LEFT_OUT_BYTES, Draft, Invocation, draft, relay, upstream_of
from evidence.tree import own_bytes, verify_tree
from tests.authority_builder import make_authority
from tests.evidence.evidence_builders import (
    AGENT,
    BODY,
    CALL_HASH,
    DOCUMENT,
    INVOCATION,
    NOW,
    SeedSigner,
    draft_members,
    make_row,
    open_ledger,
)
from tests.evidence.provenance_trees import Node, grown, unverified

SIGNER = SeedSigner()
KEY = SIGNER.public_key
ROOT_SIGNER = SeedSigner(9)
MASKED = {
    "rows": {"batches.site": {"one_of": ["EU"]}},
    "columns": ["batches.batch_id", "batches.yield_pct"],
    "masks": {"batches.operator": "hash"},
}


@pytest.fixture
def authority() -> Authority:
    return make_authority(decision_id="dec-1", **MASKED)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    ledger = open_ledger(tmp_path)
    yield ledger
    ledger.close()


def record(ledger: Ledger, made: Draft) -> Receipt:
    return ledger.append(
        make_row(
            decision_id="dec-1",
            policy_id="BPD-DATA-001",
            result_digest=made.result_digest,
            leaf_digest="d" * 64,
            rows_returned=DOCUMENT.row_count,
        )
    )


@pytest.fixture
def envelope(authority: Authority, ledger: Ledger) -> dict[str, Any]:
    made = draft(authority, **draft_members())
    return made.seal(record(ledger, made), SIGNER)


def leaves(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The path of every scalar of a JSON value."""
    if isinstance(value, dict):
        for name, member in value.items():
            yield from leaves(member, (*path, name))
    elif isinstance(value, list):
        for at, member in enumerate(value):
            yield from leaves(member, (*path, at))
    else:
        yield path


def check_of(verify: Callable[[], object]) -> str | None:
    """The check that failed, or ``None`` where everything held."""
    try:
        verify()
    except InvalidProvenance as error:
        return error.check
    return None


def without(value: dict[str, Any], path: tuple[str | int, ...]) -> dict[str, Any]:
    changed = copy.deepcopy(value)
    at = changed
    for name in path[:-1]:
        at = at[name]
    del at[path[-1]]
    return changed


def test_a_sealed_result_verifies_with_everything_the_root_knows(
    envelope: dict[str, Any], authority: Authority
) -> None:
    statement = verify_provenance(
        envelope,
        KEY,
        body=BODY,
        agent_id=AGENT,
        leaf_digest=authority.grant.leaf_digest,
        leaf_jti=authority.grant.leaf_jti,
        txn=authority.grant.txn,
        call_hash=CALL_HASH,
        dataset=authority.dataset,
        capability=authority.capability,
    )
    assert statement.predicate.decision.decision_id == "dec-1"


def test_the_statement_says_what_was_applied(envelope: dict[str, Any]) -> None:
    applied = verify_provenance(envelope, KEY, body=BODY).predicate.authorization
    assert applied.columns == ("batches.batch_id", "batches.yield_pct")
    assert (applied.rows_returned, applied.limits.max_rows, applied.truncated) == (0, 1000, False)


def test_other_constraints_have_another_digest() -> None:
    one, two, none = (
        draft(make_authority(rows=rows), **draft_members()).body["predicate"]["authorization"]
        for rows in ({"batches.site": {"one_of": ["EU"]}}, {"batches.site": {"one_of": ["US"]}}, None)
    )
    assert len({value["row_constraints_digest"] for value in (one, two, none)}) == 3


def test_the_summary_has_every_required_name(envelope: dict[str, Any]) -> None:
    summary = verify_provenance(envelope, KEY, body=BODY).summary()
    assert set(summary) >= {
        *("dataset_id", "dataset_version", "dataset_revision", "schema_version", "capability", "policy_id"),
        *("policy_version", "decision", "decision_id", "tool_name", "tool_origin", "sources", "cache", "trace_id"),
        *("request_id", "executed_at", "adk", "requested_dataset"),
    }
    assert [name for name, value in summary.items() if value in (None, "", [])] == []


def test_no_part_of_the_token_or_the_person_is_in_the_payload(envelope: dict[str, Any]) -> None:
    text = json.dumps(open_envelope(envelope, KEY))
    assert [value for value in ("u-eng-01", "eyJ", "B001") if value in text] == []


def test_every_required_member_is_enforced_when_reading(envelope: dict[str, Any]) -> None:
    statement = open_envelope(envelope, KEY)
    accepted = []
    for path in {path[:depth] for path in leaves(statement["predicate"]) for depth in (1, 2) if len(path) >= depth}:
        if path[0] in ("upstream", "ledger"):
            continue
        cut = {**statement, "predicate": without(statement["predicate"], path)}
        if check_of(lambda cut=cut: verify_provenance(sign_envelope(cut, SIGNER), KEY, body=BODY)) != "schema":
            accepted.append(path)
    assert accepted == []


@pytest.mark.parametrize("member", ["upstream", "ledger"])
def test_members_that_may_be_empty_may_not_be_missing(envelope: dict[str, Any], member: str) -> None:
    statement = open_envelope(envelope, KEY)
    cut = {**statement, "predicate": without(statement["predicate"], (member,))}
    with pytest.raises(InvalidProvenance):
        verify_provenance(sign_envelope(cut, SIGNER), KEY, body=BODY)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"agent_id": ""}, "predicate.agent.id"),
        ({"template_digest": ""}, "predicate.operation.template_digest"),
        ({"call_hash": "B001"}, "predicate.operation.call_hash"),
        ({"requested_dataset": ""}, "predicate.operation.requested_dataset"),
        ({"sources": []}, "predicate.dataset.sources"),
        ({"cache": CacheOutcome("PERHAPS")}, "predicate.cache.outcome"),  # type: ignore[arg-type]
        ({"invocation": Invocation("r", "", "s", "i")}, "predicate.invocation.trace_id"),
        ({"invocation": Invocation("r", "t", "s", "")}, "predicate.invocation.invocation_id"),
        ({"invocation": Invocation("r", "t", None, "i")}, "predicate.invocation.session_id"),  # type: ignore[arg-type]
    ],
)
def test_a_result_without_complete_provenance_is_not_returned(
    authority: Authority, change: dict[str, Any], named: str
) -> None:
    draft(authority, **draft_members())
    for _ in range(2):  # nothing that was in form before hides what is not
        with pytest.raises(NotGranted) as caught:
            draft(authority, **draft_members(**change))
        assert caught.value.reason is Reason.EVIDENCE_UNAVAILABLE
        assert caught.value.message == f"the result has no complete provenance: {named}"


def test_a_statement_is_hardly_longer_with_the_members_that_it_leaves_out(authority: Authority) -> None:
    body = draft(authority, **draft_members()).body
    longer = own_bytes(Statement.model_validate(body)) - len(orjson.dumps(body))
    assert 0 < longer < _LEFT_OUT_BYTES


def test_an_incomplete_authority_is_not_sealed() -> None:
    with pytest.raises(NotGranted, match="dataset.revision"):
        draft(make_authority(revision=""), **draft_members())


def test_no_signed_scalar_can_change_unnoticed(envelope: dict[str, Any]) -> None:
    statement = open_envelope(envelope, KEY)
    for path in leaves(statement):
        changed: Any = copy.deepcopy(statement)
        at = changed
        for part in path[:-1]:
            at = at[part]
        at[path[-1]] = "changed"
        forged = {**sign_envelope(changed, SeedSigner(2)), "signatures": envelope["signatures"]}
        with pytest.raises(InvalidProvenance):
            verify_provenance(forged, KEY, body=BODY)


@pytest.mark.parametrize("at", range(0, len(BODY), 7))
def test_no_byte_of_the_result_can_change(envelope: dict[str, Any], at: int) -> None:
    changed = BODY[:at] + bytes([BODY[at] ^ 1]) + BODY[at + 1 :]
    with pytest.raises(InvalidProvenance) as caught:
        verify_provenance(envelope, KEY, body=changed)
    assert caught.value.check == "digest"


@pytest.mark.parametrize(
    "expected",
    [
        {"agent_id": "urn:dataset-agent:other"},
        {"leaf_digest": "e" * 64},
        {"leaf_jti": "jti-of-another-leaf"},
        {"txn": "another"},
        {"call_hash": "0" * 64},
        {"dataset": "clinical-private"},
        {"capability": "another"},
    ],
)
def test_provenance_of_another_grant_or_call_does_not_pass(envelope: dict[str, Any], expected: dict[str, str]) -> None:
    with pytest.raises(InvalidProvenance) as caught:
        verify_provenance(envelope, KEY, body=BODY, **expected)
    assert caught.value.check == next(iter(expected))


def test_another_agent_s_key_does_not_pass(envelope: dict[str, Any]) -> None:
    with pytest.raises(InvalidProvenance) as caught:
        verify_provenance(envelope, SeedSigner(2).public_key, body=BODY)
    assert caught.value.check == "signature"


@pytest.mark.parametrize("member", ["_type", "predicateType"])
def test_another_kind_of_statement_does_not_pass(envelope: dict[str, Any], member: str) -> None:
    statement = {**open_envelope(envelope, KEY), member: "https://slsa.dev/provenance/v1"}
    with pytest.raises(InvalidProvenance) as caught:
        verify_provenance(sign_envelope(statement, SIGNER), KEY, body=BODY)
    assert caught.value.check == "type"


def test_a_refusal_cannot_be_dressed_as_provenance(envelope: dict[str, Any]) -> None:
    statement = open_envelope(envelope, KEY)
    statement["predicate"]["decision"]["verdict"] = "REFUSED"
    with pytest.raises(InvalidProvenance) as caught:
        verify_provenance(sign_envelope(statement, SIGNER), KEY, body=BODY)
    assert caught.value.check == "schema"


def test_a_receipt_that_does_not_hold_is_refused(envelope: dict[str, Any]) -> None:
    statement = open_envelope(envelope, KEY)
    statement["predicate"]["ledger"]["leaf_hash"] = "0" * 64
    with pytest.raises(InvalidProvenance) as caught:
        verify_provenance(sign_envelope(statement, SIGNER), KEY, body=BODY)
    assert caught.value.check == "ledger"


def test_a_statement_without_a_receipt_is_refused(authority: Authority) -> None:
    unsealed = draft(authority, **draft_members()).body
    with pytest.raises(InvalidProvenance) as caught:
        verify_provenance(sign_envelope(unsealed, SIGNER), KEY, body=BODY)
    assert caught.value.check == "ledger"


def test_the_ledger_s_entry_agrees_with_the_statement(envelope: dict[str, Any], ledger: Ledger) -> None:
    statement = verify_provenance(envelope, KEY, body=BODY)
    ledger.append(make_row(1))
    own, other = ledger.rows()
    assert differences(statement, own) == ()
    assert set(differences(statement, other)) >= {"decision_id", "leaf_hash", "call", "result"}


def test_the_entry_of_an_agent_that_asked_another_agrees_on_what_its_result_rests_on(ledger: Ledger) -> None:
    envelope = grown(Node(1), client=AGENT, path="0.0")
    theirs = upstream_of(unverified(envelope), envelope, "task-2")
    made = draft(make_authority(decision_id="dec-1", txn="txn-1"), **draft_members(upstream=[theirs]))
    members = {"decision_id": "dec-1", "policy_id": "BPD-DATA-001", "rows_returned": DOCUMENT.row_count}
    members |= {"result_digest": made.result_digest, "leaf_digest": "d" * 64}
    right = make_row(upstream_digest=upstream_digest(envelope), **members)
    wrong = make_row(upstream_digest="0" * 64, **members)
    told = [
        differences(read_statement(made.statement(receipt)), list(ledger.rows())[-1])
        for receipt in (ledger.append(row) for row in (right, wrong, make_row(**members)))
    ]
    assert told == [(), ("upstream_digest",), ("upstream_digest",)]


def test_a_hit_names_the_run_that_produced_it(authority: Authority, ledger: Ledger) -> None:
    made = draft(authority, **draft_members(cache=CacheOutcome("HIT", "dsc:1:key"), now=NOW + 30))
    told = verify_provenance(made.seal(record(ledger, made), SIGNER), KEY, body=BODY).predicate
    assert (told.cache.used, told.execution.execution_id) == (True, "exe-1")
    assert told.execution.ended < told.sealed_at


class TestRelay:
    """A root agent passes on a result: the remote's envelope travels unchanged inside its own."""

    @pytest.fixture
    def relayed(self, envelope: dict[str, Any], tmp_path: Path) -> dict[str, Any]:
        statement = verify_provenance(envelope, KEY, body=BODY)
        made = relay(
            statement,
            envelope,
            agent_id="urn:dataset-agent:root",
            decision=Decision(Reason.PRINCIPAL_AUTHORIZED, "BPD-DATA-001", "2026.1", "permitted"),
            document=DOCUMENT,
            invocation=INVOCATION,
            now=NOW,
            task_id="task-1",
        )
        ledger = open_ledger(tmp_path / "root", ROOT_SIGNER)
        receipt = ledger.append(make_row(side="root", tool_origin="A2A", upstream_digest=upstream_digest(envelope)))
        ledger.close()
        return made.seal(receipt, ROOT_SIGNER)

    def relayed_statement(self, relayed: dict[str, Any]) -> Statement:
        return verify_provenance(relayed, ROOT_SIGNER.public_key, body=BODY, agent_id="urn:dataset-agent:root")

    def test_its_origin_is_a2a_and_the_remote_s_stays_local(self, relayed: dict[str, Any]) -> None:
        outer = self.relayed_statement(relayed)
        (inner,) = verify_tree(outer, {AGENT: (KEY,)})
        origins = (outer.predicate.execution.tool_origin, inner.statement.predicate.execution.tool_origin)
        assert origins == ("A2A", "LOCAL")

    def test_the_remote_s_envelope_is_inside_unchanged(self, relayed: dict[str, Any], envelope: dict[str, Any]) -> None:
        assert self.relayed_statement(relayed).predicate.upstream[0].envelope == envelope


class TestArtifactFile:
    """An artifact saved to a file verifies with no service running."""

    def test_it_reads_back(self, envelope: dict[str, Any], tmp_path: Path) -> None:
        path = tmp_path / "answer.json"
        write_artifact(path, Artifact(envelope, BODY))
        artifact = read_artifact(path)
        assert verify_provenance(artifact.envelope, KEY, body=artifact.body)
        assert [file.name for file in tmp_path.glob("*answer*")] == ["answer.json"]

    def test_any_changed_byte_is_refused_or_changes_nothing(self, envelope: dict[str, Any], tmp_path: Path) -> None:
        path = tmp_path / "answer.json"
        write_artifact(path, Artifact(envelope, BODY))
        whole = path.read_bytes()
        for at in range(0, len(whole), 11):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
            try:
                artifact = read_artifact(path)
                verify_provenance(artifact.envelope, KEY, body=artifact.body)
            except (DatasetAgentError, InvalidProvenance):
                continue
            assert artifact.body == BODY
            assert artifact.envelope["payload"] == envelope["payload"]

    @pytest.mark.parametrize(
        "text", ["", "[]", "{}", '{"envelope":{},"result_base64":5}', '{"envelope":{},"result_base64":"*"}', "\xff"]
    )
    def test_a_file_that_is_none_is_a_fault(self, tmp_path: Path, text: str) -> None:
        path = tmp_path / "answer.json"
        path.write_text(text, encoding="latin-1")
        with pytest.raises(DatasetAgentError) as caught:
            read_artifact(path)
        assert caught.value.code == "evidence.artifact.malformed"

    def test_a_file_that_is_not_there_is_a_fault(self, tmp_path: Path) -> None:
        with pytest.raises(DatasetAgentError) as caught:
            read_artifact(tmp_path / "none.json")
        assert caught.value.is_not_found
