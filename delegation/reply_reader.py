"""Reads an A2A reply defensively: nothing but the exact form of the extension is an answer.

``from_response`` is the only reader of A2A replies; what it returns is not yet verified.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from a2a.types.a2a_pb2 import Artifact, Part, SendMessageResponse, Task, TaskState
from google.protobuf.json_format import MessageToDict
from google.protobuf.struct_pb2 import Struct

from contract.call import ARROW_MEDIA_TYPE, RESULT_MEDIA_TYPE
from contract.canonical import InvalidJson, parse_json
from contract.extension import (
    DECISION_KEY,
    ERROR_KEY,
    PROVENANCE_MEDIA_TYPE,
    RECEIPT_KEY,
    RESULT_KEY,
    REVIEW_KEY,
)
from contract.result import StoredResult, instant
from contract.verdict import VERDICTS, Reason, Verdict
from delegation.reply import Outcome, RemoteDecision, Reply
from evidence.limits import MAX_LEVELS, envelope_bytes
from evidence.row import recordable

MAX_ENVELOPE: Final = envelope_bytes(MAX_LEVELS - 1)  # whoever asks has a level of its own above
_MAX_PROPOSAL: Final = 256 * 1024
_MAX_TEXT: Final = 500
MAX_ID: Final = 200
_MAX_URL: Final = 2_000
STORED_TYPES: Final = (RESULT_MEDIA_TYPE, ARROW_MEDIA_TYPE)
_STORED_MEMBERS: Final = {"sha256", "size", "row_count", "truncated", "as_of", "expires_at"}
_REVIEW_MEMBERS: Final = {"approval_id", "state", "edited", "expires_at"}
_REVIEW_STATES: Final = ("pending", "approved")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


class Unreadable(Exception):
    """A reply that is not in the form of the extension; the text says which part."""


def from_response(response: SendMessageResponse) -> Reply:
    """The typed outcome of a SendMessage response. Never raises."""
    if not response.HasField("task"):
        return Reply.failed(Reason.REMOTE_RESPONSE_INVALID, "the dataset agent answered without a task")
    task = response.task
    task_id = plain(task.id, MAX_ID)
    try:
        return _READERS.get(task.status.state, _unexpected)(task, task_id)
    except Unreadable as error:
        return Reply.failed(Reason.REMOTE_RESPONSE_INVALID, f"the dataset agent's reply: {error}", task_id=task_id)


def _completed(task: Task, task_id: str) -> Reply:
    decision = _decision(_metadata(task))
    if decision is None or decision.verdict is not Verdict.GRANTED:
        raise Unreadable("a completed task has no GRANTED decision")
    if sorted(artifact.name for artifact in task.artifacts) != ["provenance", "result"]:
        raise Unreadable("a completed task has one result and one provenance artifact")
    result = _artifact(task, "result")
    stored = _stored(result, task_id) if any(part.HasField("url") for part in result.parts) else None
    body = b"" if stored else _only_raw(result, RESULT_MEDIA_TYPE)
    sealed = _only_raw(_artifact(task, "provenance"), PROVENANCE_MEDIA_TYPE)
    metadata = _metadata(task)
    return Reply(
        outcome=Outcome.COMPLETED,
        task_id=task_id,
        decision=decision,
        receipt=_object(metadata, RECEIPT_KEY),
        body=body,
        stored=stored,
        envelope=json_object(sealed, "provenance", MAX_ENVELOPE),
    )


def _rejected(task: Task, task_id: str) -> Reply:
    metadata = _metadata(task)
    decision = _decision(metadata) or _decision(_plain_object(task.status.message.metadata))
    error = _object(metadata, ERROR_KEY)
    if decision is None:
        if task.status.state == TaskState.TASK_STATE_FAILED:
            return Reply.failed(Reason.REMOTE_FAULT, "the dataset agent failed", task_id=task_id)
        raise Unreadable("a rejected task has no readable decision")
    if decision.verdict is Verdict.GRANTED:
        raise Unreadable("a rejected task claims a GRANTED decision")
    return Reply(
        outcome=Outcome(decision.verdict.value),  # also of a review that nobody can give: it waits for nobody
        task_id=task_id,
        reason=decision.reason,
        message=decision.rationale,
        decision=decision,
        receipt=_object(metadata, RECEIPT_KEY),
        error=error,
    )


def _input_required(task: Task, task_id: str) -> Reply:
    raw = [part for part in task.status.message.parts if part.HasField("raw")]
    if len(raw) != 1:
        raise Unreadable("a negotiation holds one proposal")
    return Reply(
        outcome=Outcome.INDETERMINATE,
        task_id=task_id,
        reason=Reason.ARGUMENTS_MISSING,
        message="the dataset agent asks for arguments that the call does not give",
        decision=_decision(_metadata(task)),
        proposal=json_object(raw[0].raw, "the proposal", _MAX_PROPOSAL),
    )


def _auth_required(task: Task, task_id: str) -> Reply:
    """A task that waits for a person: why this message did not run, and what it waits for."""
    metadata = _metadata(task)
    decision, review = _decision(metadata), read_review(_object(metadata, REVIEW_KEY))
    if decision is None or decision.verdict is Verdict.GRANTED or review is None:
        raise Unreadable("a task that waits for a person says neither what for nor why")
    raw = [part for part in task.status.message.parts if part.HasField("raw")]
    if len(raw) > 1:
        raise Unreadable("a task that waits for a person proposes one call")
    return Reply(
        outcome=outcome_of(decision),
        task_id=task_id,
        reason=decision.reason,
        message=decision.rationale,
        decision=decision,
        receipt=_object(metadata, RECEIPT_KEY),
        error=_object(metadata, ERROR_KEY),
        proposal=json_object(raw[0].raw, "the proposal", _MAX_PROPOSAL) if raw else None,
        review=review,
    )


def outcome_of(decision: RemoteDecision) -> Outcome:
    """How a reply without rows answered, by its decision."""
    return Outcome.REVIEW if decision.reason is Reason.REVIEW_REQUIRED else Outcome(decision.verdict.value)


def read_review(value: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """What a task waits for; ``None`` where it waits for nobody. Raises ``Unreadable``."""
    if value is None:
        return None
    if set(value) != _REVIEW_MEMBERS or type(value["edited"]) is not bool or value["state"] not in _REVIEW_STATES:
        raise Unreadable("what it waits for is not described")
    try:
        instant(str(value["expires_at"]))
    except ValueError as error:
        raise Unreadable("what it waits for has an end that is no instant") from error
    return {**value, "approval_id": _id(value["approval_id"]), "expires_at": str(value["expires_at"])}


def _canceled(task: Task, task_id: str) -> Reply:
    return Reply(
        outcome=Outcome.INDETERMINATE,
        task_id=task_id,
        reason=Reason.CANCELLED,
        message="the task was cancelled at the dataset agent",
        decision=_decision(_metadata(task)),
    )


def _unexpected(task: Task, task_id: str) -> Reply:
    raise Unreadable("the task has not ended")


_READERS: Final = {
    TaskState.TASK_STATE_COMPLETED: _completed,
    TaskState.TASK_STATE_REJECTED: _rejected,
    TaskState.TASK_STATE_FAILED: _rejected,
    TaskState.TASK_STATE_INPUT_REQUIRED: _input_required,
    TaskState.TASK_STATE_AUTH_REQUIRED: _auth_required,
    TaskState.TASK_STATE_CANCELED: _canceled,
}


def whole_numbers(value: Any) -> Any:
    """Protobuf's ``Struct`` turns every number into a double: whole ones become integers again."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, dict):
        return {name: whole_numbers(item) for name, item in value.items()}
    if isinstance(value, list):
        return [whole_numbers(item) for item in value]
    return value


def _metadata(task: Task) -> dict[str, Any]:
    return dict(whole_numbers(_plain_object(task.metadata)))


def _plain_object(metadata: Struct) -> dict[str, Any]:
    try:
        return dict(MessageToDict(metadata))
    except ValueError as error:  # NaN and infinities, which JSON does not have
        raise Unreadable("its metadata is not JSON") from error


def _object(metadata: Mapping[str, Any], key: str) -> dict[str, Any] | None:
    value = metadata.get(key)
    if value is not None and not isinstance(value, dict):
        raise Unreadable("a member of its metadata is not an object")
    return value


def _decision(metadata: Mapping[str, Any]) -> RemoteDecision | None:
    """A decision in its public form; ``None`` where there is none, unreadable where it is inconsistent."""
    return read_decision(_object(metadata, DECISION_KEY))


def read_decision(value: Mapping[str, Any] | None) -> RemoteDecision | None:
    """A decision in its public form; ``None`` where there is none. Raises ``Unreadable`` where it is inconsistent."""
    if value is None:
        return None
    try:
        reason = Reason(str(value.get("reason")))
    except ValueError as error:
        raise Unreadable("its reason is not one of the extension's") from error
    policy_id = value.get("policy_id")
    if value.get("verdict") != VERDICTS[reason].value:
        raise Unreadable("its verdict and reason contradict one another")
    if VERDICTS[reason] is Verdict.INDETERMINATE and policy_id is not None:
        raise Unreadable("an INDETERMINATE decision names a policy")
    return RemoteDecision(
        reason=reason,
        policy_id=None if policy_id is None else _id(policy_id),
        policy_version=_id(value.get("policy_version")),
        decision_id=_id(value.get("decision_id")),
        rationale=plain(value.get("rationale"), _MAX_TEXT) or "no rationale was given",
    )


def _artifact(task: Task, name: str) -> Artifact:
    artifact: Artifact = next(artifact for artifact in task.artifacts if artifact.name == name)
    return artifact


def _only_raw(artifact: Artifact, media_type: str) -> bytes:
    parts: list[Part] = list(artifact.parts)
    if len(parts) != 1 or not parts[0].HasField("raw") or parts[0].media_type != media_type:
        raise Unreadable(f"the {artifact.name} artifact is not one raw {media_type} part")
    return bytes(parts[0].raw)


def _stored(artifact: Artifact, task_id: str) -> StoredResult:
    """What the one ``url`` part says of bytes that wait elsewhere; nothing of it is believed yet."""
    parts: list[Part] = list(artifact.parts)
    if len(parts) != 1 or parts[0].media_type not in STORED_TYPES:
        raise Unreadable("the result artifact is not one url part of a known media type")
    told = _object(whole_numbers(_plain_object(parts[0].metadata)), RESULT_KEY)
    return read_stored(told, url=parts[0].url, media_type=parts[0].media_type, task_id=task_id)


def read_stored(told: Mapping[str, Any] | None, *, url: Any, media_type: str, task_id: str) -> StoredResult:
    """A result that waits elsewhere, as a reply describes it. Raises ``Unreadable``."""
    if told is None or set(told) != _STORED_MEMBERS:
        raise Unreadable("what is to be fetched is not described")
    counts = [told["size"], told["row_count"]]
    if not all(type(count) is int and 0 <= count < 2**53 for count in counts) or type(told["truncated"]) is not bool:
        raise Unreadable("what is to be fetched has a count that is none")
    if not isinstance(told["sha256"], str) or _DIGEST.fullmatch(told["sha256"]) is None:
        raise Unreadable("what is to be fetched has no digest")
    try:
        instant(str(told["as_of"]))
        expires_at = instant(str(told["expires_at"])).timestamp()
    except ValueError as error:
        raise Unreadable("what is to be fetched has an instant that is none") from error
    return StoredResult(
        result_id=task_id,
        url=plain(url, _MAX_URL),
        media_type=media_type,
        digest=told["sha256"],
        size=told["size"],
        row_count=told["row_count"],
        truncated=told["truncated"],
        as_of=str(told["as_of"]),
        expires_at=expires_at,
    )


def json_object(raw: bytes, what: str, limit: int) -> dict[str, Any]:
    """An object of at most ``limit`` bytes. Raises ``Unreadable``, which calls it ``what``."""
    try:
        value = parse_json(raw, limit=limit)
    except InvalidJson as error:
        raise Unreadable(f"{what} is not acceptable JSON") from error
    if not isinstance(value, dict):
        raise Unreadable(f"{what} is not an object")
    return value


def _id(value: Any) -> str:
    """An id that a ledger takes in as it stands: plain, bounded, and no token."""
    if not isinstance(value, str) or recordable(value) != value:
        raise Unreadable("its decision has an id or version that is not one")
    return value


def plain(value: Any, limit: int) -> str:
    """Foreign text for people: printable, on one line, bounded."""
    text = value if isinstance(value, str) else ""
    return "".join(char if char.isprintable() else " " for char in text[:limit]).strip()
