"""Replies are read defensively: only the exact form of the extension is an answer."""

from __future__ import annotations

import pytest
from a2a.types.a2a_pb2 import Message, Part, Role, SendMessageResponse, Task, TaskState
from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Struct

from contract.extension import DECISION_KEY
from contract.verdict import Reason
from delegation.reply import Outcome, stop_of
from delegation.reply_reader import from_response, whole_numbers
from tests.root_agent.scripted_remote import completed, granted_decision, rejected


def read(task: Task):
    return from_response(SendMessageResponse(task=task))


def good() -> Task:
    return completed(b'{"rows":[]}', {"payload": "x"})


def test_a_completed_task_gives_the_bytes_as_received() -> None:
    reply = read(good())
    assert (reply.outcome, reply.body, reply.envelope) == (Outcome.COMPLETED, b'{"rows":[]}', {"payload": "x"})


def test_rows_do_not_show_in_the_representation_of_a_reply() -> None:
    assert "rows" not in repr(read(good()))


@pytest.mark.parametrize(
    ("reason", "verdict", "policy", "outcome"),
    [
        ("INSUFFICIENT_PRIVILEGE", "REFUSED", "BPD-DATA-014", Outcome.REFUSED),
        ("GRANT_REPLAYED", "REFUSED", None, Outcome.REFUSED),
        ("EVALUATOR_TIMEOUT", "INDETERMINATE", None, Outcome.INDETERMINATE),
    ],
)
def test_a_rejected_task_keeps_the_remotes_own_reason(
    reason: str, verdict: str, policy: str | None, outcome: Outcome
) -> None:
    reply = read(rejected(reason, verdict, policy))
    assert (reply.outcome, reply.reason, reply.decision.policy_id) == (outcome, Reason(reason), policy)


def test_a_decision_in_the_status_message_is_read_too() -> None:
    task = rejected("GRANT_EXPIRED", "REFUSED")
    said = Message(message_id="m", role=Role.ROLE_AGENT, parts=[Part(text="no")], metadata=task.metadata)
    task.status.message.CopyFrom(said)
    task.ClearField("metadata")
    assert read(task).reason is Reason.GRANT_EXPIRED


def test_a_refusal_becomes_a_stop_that_names_the_remotes_policy() -> None:
    stop = stop_of(read(rejected("INSUFFICIENT_PRIVILEGE", "REFUSED", "BPD-DATA-014")))
    assert (stop.reason, stop.policy_id) == (Reason.INSUFFICIENT_PRIVILEGE, "BPD-DATA-014")


def _without_envelope(task: Task) -> None:
    del task.artifacts[1]


def _third_artifact(task: Task) -> None:
    task.artifacts.add(name="more")


def _twice_the_result(task: Task) -> None:
    task.artifacts[1].name = "result"


def _data_instead_of_raw(task: Task) -> None:
    task.artifacts[0].parts[0].ClearField("raw")
    task.artifacts[0].parts[0].text = "{}"


def _other_media_type(task: Task) -> None:
    task.artifacts[0].parts[0].media_type = "text/plain"


def _two_parts(task: Task) -> None:
    task.artifacts[0].parts.add(raw=b"{}", media_type="application/json")


def _no_decision(task: Task) -> None:
    task.ClearField("metadata")


def _decision(task: Task, **changes: object) -> None:
    task.metadata.CopyFrom(ParseDict({DECISION_KEY: granted_decision() | changes}, Struct()))


def _unknown_reason(task: Task) -> None:
    _decision(task, reason="BECAUSE")


def _contradiction(task: Task) -> None:
    _decision(task, verdict="REFUSED")


def _refusal_that_completed(task: Task) -> None:
    _decision(task, verdict="REFUSED", reason="INSUFFICIENT_PRIVILEGE")


def _id_with_a_line_break(task: Task) -> None:
    _decision(task, decision_id="dec\n-1")


def _envelope_not_json(task: Task) -> None:
    task.artifacts[1].parts[0].raw = b"not json"


def _envelope_with_duplicate_members(task: Task) -> None:
    task.artifacts[1].parts[0].raw = b'{"payload":1,"payload":2}'


def _envelope_beyond_a_double(task: Task) -> None:
    task.artifacts[1].parts[0].raw = b'{"payload":1e999}'


def _metadata_that_is_no_json(task: Task) -> None:
    task.metadata.fields["more"].number_value = float("nan")


def _still_working(task: Task) -> None:
    task.status.state = TaskState.TASK_STATE_WORKING


@pytest.mark.parametrize(
    "spoil",
    [
        _without_envelope,
        _third_artifact,
        _twice_the_result,
        _data_instead_of_raw,
        _other_media_type,
        _two_parts,
        _no_decision,
        _unknown_reason,
        _contradiction,
        _refusal_that_completed,
        _id_with_a_line_break,
        _envelope_not_json,
        _envelope_with_duplicate_members,
        _envelope_beyond_a_double,
        _metadata_that_is_no_json,
        _still_working,
    ],
)
def test_anything_but_the_exact_form_is_indeterminate_and_holds_no_rows(spoil) -> None:
    task = good()
    spoil(task)
    reply = read(task)
    assert (reply.outcome, reply.reason, reply.body) == (
        Outcome.INDETERMINATE,
        Reason.REMOTE_RESPONSE_INVALID,
        b"",
    )


def test_a_rejected_task_that_claims_granted_is_not_believed() -> None:
    assert read(rejected("PRINCIPAL_AUTHORIZED", "GRANTED", "P")).reason is Reason.REMOTE_RESPONSE_INVALID


def test_a_bare_message_is_no_answer() -> None:
    message = Message(message_id="m", role=Role.ROLE_AGENT, parts=[Part(text="GRANTED")])
    assert from_response(SendMessageResponse(message=message)).reason is Reason.REMOTE_RESPONSE_INVALID


def test_a_failed_task_without_a_decision_is_a_fault_of_the_remote() -> None:
    task = rejected("GRANT_EXPIRED", "REFUSED")
    task.status.state = TaskState.TASK_STATE_FAILED
    task.ClearField("metadata")
    assert read(task).reason is Reason.REMOTE_FAULT


def test_a_negotiation_brings_its_proposal_and_no_rows() -> None:
    task = good()
    del task.artifacts[:]
    task.status.state = TaskState.TASK_STATE_INPUT_REQUIRED
    proposal = Part(raw=b'{"missing":[{"name":"batch"}]}', media_type="application/json")
    task.status.message.CopyFrom(Message(message_id="m", role=Role.ROLE_AGENT, parts=[Part(text="say"), proposal]))
    reply = read(task)
    assert (reply.reason, reply.proposal) == (Reason.ARGUMENTS_MISSING, {"missing": [{"name": "batch"}]})


def test_a_refusal_whose_message_is_no_json_is_no_answer() -> None:
    task = rejected("GRANT_EXPIRED", "REFUSED")
    task.status.message.metadata.fields["more"].number_value = float("inf")
    task.ClearField("metadata")
    assert read(task).reason is Reason.REMOTE_RESPONSE_INVALID


def test_a_foreign_rationale_is_one_bounded_printable_line() -> None:
    task = rejected("GRANT_EXPIRED", "REFUSED")
    decision = granted_decision() | {
        "verdict": "REFUSED",
        "reason": "GRANT_EXPIRED",
        "policy_id": None,
        "rationale": "no\n\x1b[31m" + "x" * 5_000,
    }
    task.metadata.CopyFrom(ParseDict({DECISION_KEY: decision}, Struct()))
    rationale = read(task).decision.rationale
    assert rationale.isprintable() and len(rationale) <= 500


def test_whole_numbers_come_back_from_doubles() -> None:
    assert whole_numbers({"a": 3600.0, "b": [1.5, 2.0]}) == {"a": 3600, "b": [1.5, 2]}
