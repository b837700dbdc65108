"""A2A messages in, A2A tasks out: translation and nothing else.

A governed message has exactly one part: raw ``application/json`` bytes (a call, hashed as
sent) or text (a negotiation). Rows leave only inside the artifact of the response that was
asked for; ``without_rows`` is what may be remembered.
"""

from __future__ import annotations

import binascii
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson
from a2a.types.a2a_pb2 import Message, SendMessageRequest
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
    REVIEW_KEY,
)
from contract.ids import new_id
from contract.result import Result, StoredResult
from contract.verdict import Verdict
from evidence.row import rfc3339
from remote_agent.caller import Caller
from remote_agent.incoming import wanted_form
from remote_agent.outcome import Answer, Request
from remote_agent.refusals import OUTWARD
from remote_agent.wire import TaskJson, doubles

SUBSCRIBE: Final = "SubscribeToTask"


@dataclass(frozen=True, slots=True)
class FollowUp:
    """That a message goes on with its task, which remembers the call ``half`` and waits for ``review``, if anything."""

    half: Call | None
    review: Mapping[str, Any] | None = None


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
        context_id=params.message.context_id,
        half=follows.half if follows else None,
        review=follows.review if follows else None,
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


def tell(answer: Answer, task_id: str, context_id: str) -> TaskJson:
    """The complete task of an answer, rows included."""
    status: dict[str, Any] = {"state": _state(answer)}
    if answer.decision.verdict is not Verdict.GRANTED or answer.proposal is not None:
        status["message"] = _say(answer, task_id, context_id)
    status["timestamp"] = _now().ToJsonString()
    artifacts = []
    if answer.document is not None:
        artifacts.append(
            _artifact("result", "The rows, exactly as the provenance digests them.", _result(answer.document))
        )
    if answer.envelope is not None:
        raw = _raw(orjson.dumps(answer.envelope), PROVENANCE_MEDIA_TYPE)
        artifacts.append(_artifact("provenance", "A signed in-toto statement about the result (DSSE).", raw))
    told = {"id": task_id, "contextId": context_id, "status": status, "metadata": doubles(_metadata(answer))}
    return {**told, "artifacts": artifacts} if artifacts else told


def _now() -> Timestamp:
    seconds, nanos = divmod(time.time_ns(), 10**9)
    return Timestamp(seconds=seconds, nanos=nanos // 1_000 * 1_000)


def without_rows(task: TaskJson) -> TaskJson:
    """What may be stored: status, decision and envelope, never rows nor a proposed call.

    Of a result that is fetched there is where it waits, which is worth nothing without a leaf for it.
    """
    kept = [artifact for artifact in task.get("artifacts", ()) if _is_without_rows(artifact)]
    status = dict(task["status"])
    if "message" in status:  # a proposed call holds arguments
        spoken = [part for part in status["message"]["parts"] if "text" in part]
        status["message"] = {**status["message"], "parts": spoken}
    return {**task, "status": status, "artifacts": kept}


def _is_without_rows(artifact: dict[str, Any]) -> bool:
    return artifact["name"] == "provenance" or all("url" in part for part in artifact["parts"])


def _state(answer: Answer) -> str:
    granted = answer.decision.verdict is Verdict.GRANTED
    state = "TASK_STATE_COMPLETED" if granted else OUTWARD[answer.decision.reason].state
    if answer.review is not None:
        return "TASK_STATE_AUTH_REQUIRED"
    return state if answer.proposal is None else "TASK_STATE_INPUT_REQUIRED"


def _metadata(answer: Answer) -> dict[str, Any]:
    metadata: dict[str, Any] = {DECISION_KEY: answer.decision.public()}
    if answer.decision.verdict is not Verdict.GRANTED:
        outward = OUTWARD[answer.decision.reason]
        metadata[ERROR_KEY] = outward.told(answer.retry_after_s)
    if answer.review is not None:
        metadata[REVIEW_KEY] = dict(answer.review)
    if answer.cache is not None and answer.document is not None and answer.execution is not None:
        metadata[CACHE_KEY] = {
            "outcome": answer.cache.outcome,
            "key": answer.cache.key,
            "derived": answer.cache.derived,
            "as_of": answer.document.as_of,
            "execution_id": answer.execution.execution_id,
        } | ({} if answer.age_s is None else {"age_s": round(answer.age_s, 3)})
    if answer.receipt is not None and answer.envelope is None:  # a signed statement holds its own
        metadata[RECEIPT_KEY] = answer.receipt.to_json()
    return metadata


def _say(answer: Answer, task_id: str, context_id: str) -> dict[str, Any]:
    """One text part for people; the proposal of a negotiation as raw JSON beside it."""
    decision = answer.decision
    if answer.proposal is not None:
        body = json.dumps(answer.proposal, ensure_ascii=False).encode()
        parts = [{"text": _asked_for(answer.proposal)}, _raw(body, CALL_MEDIA_TYPE)]
    else:
        hint = OUTWARD[decision.reason].hint
        parts = [{"text": f"{decision.verdict}: {decision.reason}. {decision.rationale}. Next: {hint}."}]
    return {
        "messageId": new_id("msg"),
        "contextId": context_id,
        "taskId": task_id,
        "role": "ROLE_AGENT",
        "parts": parts,
        "metadata": {DECISION_KEY: decision.public()},
        "extensions": [EXTENSION_URI],
    }


def _asked_for(proposal: Mapping[str, Any]) -> str:
    """What to send next, for people; names of parameters, and nothing that was said."""
    if names := ", ".join(missing["name"] for missing in proposal.get("missing", ())):
        return f"Say in this task, with a fresh grant: {names}."
    return "Send this call with a grant for it."


def _artifact(name: str, description: str, part: dict[str, Any]) -> dict[str, Any]:
    return {
        "artifactId": new_id("art"),
        "name": name,
        "description": description,
        "parts": [part],
        "extensions": [EXTENSION_URI],
    }


def _raw(data: bytes, media_type: str) -> dict[str, Any]:
    return {"raw": binascii.b2a_base64(data, newline=False).decode("ascii"), "mediaType": media_type}


def _result(document: Result) -> dict[str, Any]:
    """The rows themselves; of a large result where it is fetched, and what it is, which the provenance says too."""
    if not isinstance(document, StoredResult):
        return _raw(document.body, document.media_type)
    told = {
        "sha256": document.digest,
        "size": document.size,
        "row_count": document.row_count,
        "truncated": document.truncated,
        "as_of": document.as_of,
        "expires_at": rfc3339(document.expires_at),
    }
    return {"url": document.url, "mediaType": document.media_type, "metadata": doubles({RESULT_KEY: told})}
