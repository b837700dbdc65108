"""A2A messages in, A2A tasks out: translation and nothing else.

A governed message has exactly one part: raw ``application/json`` bytes (a call, hashed as
sent) or text (a negotiation). Rows leave only inside the artifact of the response that was
asked for; ``without_rows`` is what may be remembered.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson
from a2a.types.a2a_pb2 import (
    Artifact,
    Message,
    Part,
    Role,
    SendMessageRequest,
    Task,
    TaskState,
    TaskStatus,
)
from google.protobuf.timestamp_pb2 import Timestamp

from contract.call import CALL_MEDIA_TYPE, RESULT_MEDIA_TYPE, Call, Operation
from contract.canonical import sha256_hex
from contract.extension import (
    CACHE_KEY,
    DECISION_KEY,
    ERROR_KEY,
    EXTENSION_URI,
    PROVENANCE_MEDIA_TYPE,
    RECEIPT_KEY,
    RESULT_KEY,
)
from contract.ids import new_id
from contract.result import Result, StoredResult
from contract.verdict import Verdict
from evidence.row import rfc3339
from remote_agent.caller import Caller
from remote_agent.incoming import wanted_form
from remote_agent.outcome import Answer, Request
from remote_agent.refusals import OUTWARD
from remote_agent.wire import struct

SUBSCRIBE: Final = "SubscribeToTask"


@dataclass(frozen=True, slots=True)
class FollowUp:
    """That a message goes on with its task, which remembers the call ``half``, if any."""

    half: Call | None


def to_request(
    params: SendMessageRequest,
    caller: Caller,
    grants: tuple[str, ...],
    method: str,
    task_id: str,
    follows: FollowUp | None = None,
) -> Request:
    """The framework-free request of a SendMessage or SendStreamingMessage."""
    call, question = _content(params.message)
    operation = Operation(method, negotiate=True) if call is None else Operation(method, call_hash=sha256_hex(call))
    return Request(
        client=caller.agent,
        on_behalf_of=caller.person,
        operation=operation,
        grants=grants,
        call=call,
        question=question,
        trace_id=caller.trace_id,
        task_id=task_id,
        follows=follows is not None,
        half=follows.half if follows else None,
        media_type=wanted_form(params) or RESULT_MEDIA_TYPE,
    )


def subscription_request(task_id: str, call: Call, caller: Caller, grants: tuple[str, ...]) -> Request:
    """The framework-free request of a SubscribeToTask, to the task that runs ``call``."""
    return Request(
        client=caller.agent,
        on_behalf_of=caller.person,
        operation=Operation(SUBSCRIBE, task=task_id),
        grants=grants,
        call=call.raw,
        trace_id=caller.trace_id,
        task_id=task_id,
    )


def _content(message: Message) -> tuple[bytes | None, str | None]:
    if len(message.parts) == 1:
        part = message.parts[0]
        if part.HasField("raw") and part.media_type in ("", CALL_MEDIA_TYPE):
            return part.raw, None
        if part.HasField("text"):
            return None, part.text
    # Anything else is bound as an empty call, which no sender's grant can match by accident.
    return b"", None


def to_task(answer: Answer, task_id: str, context_id: str) -> Task:
    """The complete task of an answer, rows included."""
    task = Task(
        id=task_id,
        context_id=context_id,
        status=TaskStatus(state=_state(answer), timestamp=_now()),
        metadata=struct(_metadata(answer)),
    )
    if answer.decision.verdict is not Verdict.GRANTED or answer.proposal is not None:
        task.status.message.CopyFrom(_say(answer, task))
    if answer.document is not None:
        task.artifacts.append(_result(answer.document))
    if answer.envelope is not None:
        task.artifacts.append(_provenance(answer))
    return task


def _now() -> Timestamp:
    seconds, nanos = divmod(time.time_ns(), 10**9)
    return Timestamp(seconds=seconds, nanos=nanos // 1_000 * 1_000)


def without_rows(task: Task) -> Task:
    """A copy that may be stored: status, decision and envelope, never rows nor a proposed call.

    Of a result that is fetched there is where it waits, which is worth nothing without a leaf for it.
    """
    kept = Task()
    kept.CopyFrom(task)
    del kept.artifacts[:]
    kept.artifacts.extend(artifact for artifact in task.artifacts if _is_without_rows(artifact))
    spoken = [part for part in kept.status.message.parts if part.HasField("text")]
    if kept.status.HasField("message"):  # a proposed call holds arguments
        del kept.status.message.parts[:]
        kept.status.message.parts.extend(spoken)
    return kept


def _is_without_rows(artifact: Artifact) -> bool:
    return artifact.name == "provenance" or all(part.HasField("url") for part in artifact.parts)


def _state(answer: Answer) -> TaskState:
    if answer.proposal is not None:
        return TaskState.TASK_STATE_INPUT_REQUIRED
    if answer.decision.verdict is not Verdict.GRANTED:
        state: TaskState = TaskState.Value(OUTWARD[answer.decision.reason].state)
        return state
    return TaskState.TASK_STATE_COMPLETED


def _metadata(answer: Answer) -> dict[str, Any]:
    metadata: dict[str, Any] = {DECISION_KEY: answer.decision.public()}
    if answer.decision.verdict is not Verdict.GRANTED:
        outward = OUTWARD[answer.decision.reason]
        metadata[ERROR_KEY] = {"retryable": outward.retryable, "hint": outward.hint}
    if answer.cache is not None and answer.document is not None and answer.execution is not None:
        metadata[CACHE_KEY] = {
            "outcome": answer.cache.outcome,
            "key": answer.cache.key,
            "derived": answer.cache.derived,
            "as_of": answer.document.as_of,
            "execution_id": answer.execution.execution_id,
        }
    if answer.receipt is not None and answer.envelope is None:  # a signed statement holds its own
        metadata[RECEIPT_KEY] = answer.receipt.to_json()
    return metadata


def _say(answer: Answer, task: Task) -> Message:
    """One text part for people; the proposal of a negotiation as raw JSON beside it."""
    decision = answer.decision
    if answer.proposal is not None:
        body = json.dumps(answer.proposal, ensure_ascii=False).encode()
        parts = [Part(text=_asked_for(answer.proposal)), Part(raw=body, media_type=CALL_MEDIA_TYPE)]
    else:
        hint = OUTWARD[decision.reason].hint
        parts = [Part(text=f"{decision.verdict}: {decision.reason}. {decision.rationale}. Next: {hint}.")]
    return Message(
        message_id=new_id("msg"),
        task_id=task.id,
        context_id=task.context_id,
        role=Role.ROLE_AGENT,
        parts=parts,
        metadata=struct({DECISION_KEY: decision.public()}),
        extensions=[EXTENSION_URI],
    )


def _asked_for(proposal: Mapping[str, Any]) -> str:
    """What to send next, for people; names of parameters, and nothing that was said."""
    if names := ", ".join(missing["name"] for missing in proposal.get("missing", ())):
        return f"Say in this task, with a fresh grant: {names}."
    return "Send this call with a grant for it."


def _result(document: Result) -> Artifact:
    part = _stored(document) if isinstance(document, StoredResult) else Part(raw=document.body)
    part.media_type = document.media_type
    return Artifact(
        artifact_id=new_id("art"),
        name="result",
        description="The rows, exactly as the provenance digests them.",
        parts=[part],
        extensions=[EXTENSION_URI],
    )


def _stored(document: StoredResult) -> Part:
    """Where a large result is fetched, and what it is, which the provenance says too."""
    told = {
        "sha256": document.digest,
        "size": document.size,
        "row_count": document.row_count,
        "truncated": document.truncated,
        "as_of": document.as_of,
        "expires_at": rfc3339(document.expires_at),
    }
    return Part(url=document.url, metadata=struct({RESULT_KEY: told}))


def _provenance(answer: Answer) -> Artifact:
    body = orjson.dumps(answer.envelope)
    return Artifact(
        artifact_id=new_id("art"),
        name="provenance",
        description="A signed in-toto statement about the result (DSSE).",
        parts=[Part(raw=body, media_type=PROVENANCE_MEDIA_TYPE)],
        extensions=[EXTENSION_URI],
    )
