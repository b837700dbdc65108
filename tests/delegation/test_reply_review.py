"""A task that waits, for a person or for arguments, is read as strictly as one that ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from a2a.types.a2a_pb2 import Message, Part, Role, SendMessageResponse, Task, TaskState
from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Struct

from contract.extension import DECISION_KEY, ERROR_KEY, RECEIPT_KEY, REVIEW_KEY
from contract.verdict import VERDICTS, Reason
from delegation.reply import Outcome, Reply
from delegation.reply_reader import from_response
from tests.root_agent.scripted_remote import granted_decision

Told = dict[str, Any]
REASON = Reason.REVIEW_REQUIRED
DECISION = granted_decision() | {"reason": REASON.value, "verdict": VERDICTS[REASON].value}
REVIEW = {"approval_id": "apr-1", "state": "pending", "edited": False, "expires_at": "2026-08-31T00:00:00.000000Z"}
PROPOSAL = b'{"call":{"capability":"c"}}'


def waiting(told: Told, *proposals: bytes, state: int = TaskState.TASK_STATE_AUTH_REQUIRED) -> Reply:
    task = Task(id="task-1")
    task.status.state = state  # type: ignore[assignment]
    task.metadata.CopyFrom(ParseDict(told, Struct()))
    parts = [Part(text="wait"), *(Part(raw=raw, media_type="application/json") for raw in proposals)]
    task.status.message.CopyFrom(Message(message_id="m", role=Role.ROLE_AGENT, parts=parts))
    return from_response(SendMessageResponse(task=task))


def told(**changes: Any) -> Told:
    return {DECISION_KEY: DECISION, REVIEW_KEY: REVIEW} | changes


def test_a_task_that_waits_for_a_person_says_what_for_and_may_propose_another_call() -> None:
    reply = waiting(told())
    assert (reply.outcome, reply.reason, reply.review, reply.proposal) == (Outcome.REVIEW, REASON, REVIEW, None)
    assert (reply.body, reply.envelope, reply.task_id) == (b"", None, "task-1")
    edited = REVIEW | {"state": "approved", "edited": True}
    reply = waiting(told(**{REVIEW_KEY: edited}), PROPOSAL)
    assert (reply.review, reply.proposal) == (edited, {"call": {"capability": "c"}})


def changed(key: str, **members: Any) -> Callable[[], Reply]:
    held: Told = told()[key]
    return lambda: waiting(told(**{key: {name: value for name, value in (held | members).items() if value != "-"}}))


SPOILED: dict[str, Callable[[], Reply]] = {
    "no decision": lambda: waiting({REVIEW_KEY: REVIEW}),
    "a decision that is a text": lambda: waiting(told(**{DECISION_KEY: "GRANTED"})),
    "a decision that grants": lambda: waiting(told(**{DECISION_KEY: granted_decision()})),
    "nothing that it waits for": lambda: waiting({DECISION_KEY: DECISION}),
    "a list that it waits for": lambda: waiting(told(**{REVIEW_KEY: [REVIEW]})),
    "two calls": lambda: waiting(told(), PROPOSAL, PROPOSAL),
    "a call that is no object": lambda: waiting(told(), b"[]"),
    "a receipt that is a text": lambda: waiting(told(**{RECEIPT_KEY: "x"})),
    "an error that is a list": lambda: waiting(told(**{ERROR_KEY: []})),
    "a member more": changed(REVIEW_KEY, more=1),
    "a member less": changed(REVIEW_KEY, state="-"),
    "another state": changed(REVIEW_KEY, state="denied"),
    "a state that is a list": changed(REVIEW_KEY, state=["pending"]),
    "an edit that is a number": changed(REVIEW_KEY, edited=1),
    "an end that is none": changed(REVIEW_KEY, expires_at="tomorrow"),
    "an id of two lines": changed(REVIEW_KEY, approval_id="apr\n1"),
    "an id that is a number": changed(REVIEW_KEY, approval_id=1),
    "a decision by a number": changed(DECISION_KEY, decision_id=1),
    "another verdict": changed(DECISION_KEY, verdict="INDETERMINATE"),
    "a policy of what nobody could decide": changed(
        DECISION_KEY, reason="EVALUATOR_TIMEOUT", verdict="INDETERMINATE", policy_id="P-1"
    ),
}


@pytest.mark.parametrize("spoilt", SPOILED.values(), ids=SPOILED)
def test_in_another_form_it_waits_for_nobody(spoilt: Callable[[], Reply]) -> None:
    reply = spoilt()
    assert (reply.outcome, reply.reason) == (Outcome.INDETERMINATE, Reason.REMOTE_RESPONSE_INVALID)
    assert (reply.review, reply.proposal) == (None, None)


@pytest.mark.parametrize("proposals", [(), (PROPOSAL, PROPOSAL), (b"{",), (b"7",)])
def test_a_task_that_waits_for_arguments_proposes_one_call(proposals: tuple[bytes, ...]) -> None:
    state = TaskState.TASK_STATE_INPUT_REQUIRED
    assert waiting({}, PROPOSAL, state=state).proposal == {"call": {"capability": "c"}}
    reply = waiting({}, *proposals, state=state)
    assert (reply.reason, reply.proposal) == (Reason.REMOTE_RESPONSE_INVALID, None)
