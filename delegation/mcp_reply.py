"""Reads the result of an MCP tool call defensively, into the same typed outcome as a reply over A2A.

Nothing but the form that a dataset agent's MCP door answers in is an answer; what is returned is
not yet verified.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from contract.mcp import (
    MCP_DECISION,
    MCP_ERROR,
    MCP_PROPOSAL,
    MCP_PROVENANCE,
    MCP_RECEIPT,
    MCP_RESULT,
    MCP_REVIEW,
    MCP_TASK,
)
from contract.verdict import Reason, Verdict
from delegation.reply import Outcome, Reply
from delegation.reply_reader import (
    MAX_ENVELOPE,
    MAX_ID,
    STORED_TYPES,
    Unreadable,
    outcome_of,
    plain,
    read_decision,
    read_review,
    read_stored,
)
from evidence.dsse import InvalidProvenance, payload_of


def from_tool_result(result: Any) -> Reply:
    """The typed outcome of a ``CallToolResult``, as parsed JSON. Never raises."""
    task_id = ""
    try:
        meta = _object(result, "_meta") if isinstance(result, dict) else None
        if meta is None:
            raise Unreadable("it holds no decision")
        task_id = plain(meta.get(MCP_TASK), MAX_ID)
        return _read(result, meta, task_id)
    except Unreadable as error:
        return Reply.failed(Reason.REMOTE_RESPONSE_INVALID, f"the dataset agent's reply: {error}", task_id=task_id)


def _read(result: Mapping[str, Any], meta: Mapping[str, Any], task_id: str) -> Reply:
    decision = read_decision(_object(meta, MCP_DECISION))
    if decision is None:
        raise Unreadable("it holds no decision")
    if result.get("isError", False) is not False:
        if decision.verdict is Verdict.GRANTED:
            raise Unreadable("an error result claims a GRANTED decision")
        review = read_review(_object(meta, MCP_REVIEW))
        return Reply(
            outcome=Outcome(decision.verdict.value) if review is None else outcome_of(decision),
            task_id=task_id,
            reason=decision.reason,
            message=decision.rationale,
            decision=decision,
            receipt=_object(meta, MCP_RECEIPT),
            error=_object(meta, MCP_ERROR),
            proposal=_object(meta, MCP_PROPOSAL),
            review=review,
        )
    if decision.verdict is not Verdict.GRANTED:
        raise Unreadable("a result has no GRANTED decision")
    content = result.get("content")
    if not isinstance(content, list) or len(content) != 1 or not isinstance(content[0], dict):
        raise Unreadable("a result is one block of content")
    block = content[0]
    stored = block.get("type") == "resource_link"
    return Reply(
        outcome=Outcome.COMPLETED,
        task_id=task_id,
        decision=decision,
        body=b"" if stored else _body(block),
        stored=_stored(block, meta, task_id) if stored else None,
        envelope=_envelope(meta),
    )


def _body(block: Mapping[str, Any]) -> bytes:
    text = block.get("text")
    if block.get("type") != "text" or not isinstance(text, str):
        raise Unreadable("a result is one text")
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise Unreadable("a result is valid Unicode text") from error


def _stored(block: Mapping[str, Any], meta: Mapping[str, Any], task_id: str) -> Any:
    media_type = block.get("mimeType")
    if media_type not in STORED_TYPES:
        raise Unreadable("a result that waits elsewhere is of a known media type")
    return read_stored(_object(meta, MCP_RESULT), url=block.get("uri"), media_type=str(media_type), task_id=task_id)


def _envelope(meta: Mapping[str, Any]) -> dict[str, Any]:
    envelope = _object(meta, MCP_PROVENANCE)
    if envelope is None:
        raise Unreadable("a result has no provenance beside it")
    try:
        if len(payload_of(envelope)) > MAX_ENVELOPE:
            raise Unreadable("its provenance is too large")
    except InvalidProvenance as error:
        raise Unreadable("its provenance is not an envelope") from error
    return envelope


def _object(holder: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    value = holder.get(name)
    if value is not None and not isinstance(value, dict):
        raise Unreadable(f"its member {name} is not an object")
    return value
