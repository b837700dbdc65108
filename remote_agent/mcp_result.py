"""An answer as the result of an MCP tool call.

The content is for whoever reads text: the result JSON exactly as the provenance digests it, or in
words why there is none. Decision and proof are in ``_meta``, which no model reads. A refusal is an
error result, an outcome and no protocol error, and it holds no row.
"""

from __future__ import annotations

from typing import Any

from contract.mcp import (
    MCP_CACHE,
    MCP_DECISION,
    MCP_ERROR,
    MCP_PROPOSAL,
    MCP_PROVENANCE,
    MCP_RECEIPT,
    MCP_RESULT,
    MCP_REVIEW,
    MCP_TASK,
)
from contract.result import Result, StoredResult
from contract.verdict import Verdict
from evidence.row import rfc3339
from remote_agent.outcome import Answer
from remote_agent.refusals import OUTWARD


def tool_result(answer: Answer, task_id: str) -> dict[str, Any]:
    """The members of a ``CallToolResult``."""
    if answer.document is None:
        return {"content": [_said(answer)], "isError": True, "_meta": _meta(answer, task_id)}
    return {"content": [_result(answer.document)], "isError": False, "_meta": _meta(answer, task_id)}


def _said(answer: Answer) -> dict[str, Any]:
    decision = answer.decision
    if names := ", ".join(missing["name"] for missing in (answer.proposal or {}).get("missing", ())):
        return _text(f"{decision.verdict}: {decision.reason}. Call again, with a fresh grant, with: {names}.")
    return _text(f"{decision.verdict}: {decision.reason}. {decision.rationale}. Next: {OUTWARD[decision.reason].hint}.")


def _result(document: Result) -> dict[str, Any]:
    if isinstance(document, StoredResult):
        return {
            "type": "resource_link",
            "name": "result",
            "uri": document.url,
            "mimeType": document.media_type,
            "size": document.size,
        }
    return _text(document.body.decode("utf-8"))


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _meta(answer: Answer, task_id: str) -> dict[str, Any]:
    meta: dict[str, Any] = {MCP_DECISION: answer.decision.public(), MCP_TASK: task_id}
    if answer.decision.verdict is not Verdict.GRANTED:
        outward = OUTWARD[answer.decision.reason]
        meta[MCP_ERROR] = outward.told(answer.retry_after_s)
    if answer.proposal is not None:
        meta[MCP_PROPOSAL] = dict(answer.proposal)
    if answer.review is not None:
        meta[MCP_REVIEW] = dict(answer.review)
    if answer.envelope is not None:
        meta[MCP_PROVENANCE] = dict(answer.envelope)
    elif answer.receipt is not None:  # a signed statement holds its own
        meta[MCP_RECEIPT] = answer.receipt.to_json()
    document, execution = answer.document, answer.execution
    if answer.cache is not None and document is not None and execution is not None:
        meta[MCP_CACHE] = {
            "outcome": answer.cache.outcome,
            "key": answer.cache.key,
            "derived": answer.cache.derived,
            "as_of": document.as_of,
            "execution_id": execution.execution_id,
        } | ({} if answer.age_s is None else {"age_s": round(answer.age_s, 3)})
    if isinstance(document, StoredResult):
        meta[MCP_RESULT] = {
            "sha256": document.digest,
            "size": document.size,
            "row_count": document.row_count,
            "truncated": document.truncated,
            "as_of": document.as_of,
            "expires_at": rfc3339(document.expires_at),
        }
    return meta
