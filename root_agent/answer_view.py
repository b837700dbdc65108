"""An answer for programs (one JSON object) and for people (one sentence, one table)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

import orjson

from contract.extension import PROVENANCE_MEDIA_TYPE
from contract.result import ResultDocument, StoredResult, instant
from contract.schema import ResultColumn, schema_member
from contract.verdict import Decision, Verdict
from control_plane.descriptor import DatasetDescriptor
from delegation.reply import Reply
from evidence.predicate import Predicate
from evidence.row import rfc3339
from root_agent.asking import Answer, Asking

_SHOWN_ROWS: Final = 50


def to_json(answer: Answer) -> dict[str, Any]:
    """The object that ``ask --json``, ``call --json`` and ``POST /ask`` print.

    ``verdict``, ``reason`` and ``rationale`` are of the whole; ``decision`` is the root's own
    and ``remote`` what the dataset agent said or why nothing came. Rows and envelope are there
    together or not at all. ``approval`` is there while the call waits for a person. ``a2a_calls`` and ``mcp_calls``
    are the calls whose receiver's engine ran.
    """
    asking = answer.asking
    target, descriptor = asking.target, _descriptor(asking)
    shown = answer.document is not None
    return {
        "verdict": answer.verdict.value,
        "reason": answer.decision.reason.value,
        "rationale": answer.decision.rationale,
        "decision": _root_decision(answer).public(),
        "remote": _remote(asking.reply),
        "dataset": target.call.dataset if target else None,
        "dataset_version": descriptor.version if descriptor else None,
        "revision": descriptor.revision if descriptor else None,
        "capability": target.call.capability if target else None,
        "arguments": dict(target.call.arguments) if target else None,
        "zone": str(asking.wanted.zone),
        "not_understood": asking.not_understood.to_json() if asking.not_understood else None,
        "unasked": _unasked(asking),
        "missing": [missing.to_json() for missing in target.missing] if target else [],
        "approval": _approval(asking.reply),
        "agent": _agent(asking),
        "cache": _cache(asking) if shown else None,
        "result": _result(answer),
        "provenance": _provenance(asking) if shown else None,
        "visited_nodes": list(asking.visited),
        "discovery": asdict(asking.funnel.told()) if asking.funnel else {},
        "tool_calls": [],
        "mcp_calls": _calls(asking) if shown and _tool(asking) else [],
        "a2a_calls": _calls(asking) if shown and not _tool(asking) else [],
        "attempts": asking.attempts,
        "trace_id": asking.trace_id,
        "evidence": {
            "root": dict(answer.evidence) if answer.evidence is not None else None,
            "remote": _remote_evidence(asking),
        },
    }


def summary(answer: Answer) -> str:
    """One sentence without an argument or a row, and without a word of another agent's: it enters a session."""
    decision, asking = answer.decision, answer.asking
    descriptor = _descriptor(asking)
    if answer.document is None or descriptor is None:
        policy = f" (policy {decision.policy_id})" if decision.policy_id else ""
        return f"{decision.verdict.value} {decision.reason.value}{policy}: {_own_words(asking.reply, decision)}."
    outcome = asking.verified.statement.predicate.cache.outcome if asking.verified else "unknown"
    waits = f"; {answer.document.size} bytes wait to be fetched" if isinstance(answer.document, StoredResult) else ""
    return (
        f"GRANTED: {answer.document.row_count} rows of {descriptor.dataset} {descriptor.version}, revision "
        f"{descriptor.revision}, as of {answer.document.as_of}; cache {outcome}; provenance verified{waits}."
    )


def _own_words(reply: Reply | None, decision: Decision) -> str:
    theirs = reply is not None and reply.decision is not None and reply.decision.rationale == decision.rationale
    return "the dataset agent says so" if theirs else decision.rationale


def table(document: ResultDocument) -> str:
    """The first rows as tab-separated text under their column names."""
    result = orjson.loads(document.body)
    lines = ["\t".join(str(column["name"]) for column in result["schema"])]
    lines += ["\t".join("" if cell is None else str(cell) for cell in row) for row in result["rows"][:_SHOWN_ROWS]]
    hidden = len(result["rows"]) - _SHOWN_ROWS
    return "\n".join(lines + ([f"... and {hidden} more rows"] if hidden > 0 else []))


def stored_json(stored: StoredResult, columns: Sequence[ResultColumn]) -> dict[str, Any]:
    """What is known, and proven, of a result before it is fetched: everything but its rows."""
    return {
        "schema": [schema_member(column) for column in columns],
        "rows": None,
        "row_count": stored.row_count,
        "truncated": stored.truncated,
        "as_of": stored.as_of,
        "media_type": stored.media_type,
        "size": stored.size,
        "sha256": stored.digest,
        "result_id": stored.result_id,
        "expires_at": rfc3339(stored.expires_at),
    }


def columns_of(answer: Answer) -> tuple[ResultColumn, ...]:
    """The columns that the verified card declares of the result; none where nothing was resolved."""
    descriptor, target = _descriptor(answer.asking), answer.asking.target
    capability = descriptor.capability(target.call.capability) if descriptor and target else None
    return () if capability is None else capability.results


def _result(answer: Answer) -> dict[str, Any] | None:
    document = answer.document
    if document is None:
        return None
    if isinstance(document, StoredResult):
        return stored_json(document, columns_of(answer))
    return dict(orjson.loads(document.body))


def _root_decision(answer: Answer) -> Decision:
    """The root's own last word: its admission, unless it was the root itself that stopped later."""
    asking = answer.asking
    if asking.admitted is None or asking.admitted.verdict is not Verdict.GRANTED:
        return answer.decision
    spoken_by_remote = asking.reply is not None and asking.reply.reason is answer.decision.reason
    return asking.admitted if spoken_by_remote or answer.verdict is Verdict.GRANTED else answer.decision


def _remote(reply: Reply | None) -> dict[str, Any] | None:
    if reply is None:
        return None
    error: dict[str, Any] | None = None
    if reply.decision is None and reply.reason is not None:
        error = {"reason": reply.reason.value, "message": reply.message}
    elif reply.error is not None:
        error = dict(reply.error)
    return {
        "decision": reply.decision.to_json() if reply.decision else None,
        "error": error,
        "task_id": reply.task_id or None,
        "proposal": dict(reply.proposal) if reply.proposal else None,
    }


def _approval(reply: Reply | None) -> dict[str, Any] | None:
    """What waits for a person: its id for the approver, the task to send the call in again; ``call`` where it was edited."""
    if reply is None or reply.review is None:
        return None
    proposed = (reply.proposal or {}).get("call")
    return {**reply.review, "task_id": reply.task_id, "call": dict(proposed) if isinstance(proposed, dict) else None}


def _unasked(asking: Asking) -> list[dict[str, str]]:
    """Agents that could not be asked, or not about all they offer: what they have is not in the answer."""
    return [{"agent": away.agent_id, "reason": away.decision.reason.value} for away in asking.unavailable]


def _agent(asking: Asking) -> dict[str, Any] | None:
    agent_id = asking.target.agent_id if asking.target else None
    offer = next((offer for offer in asking.offered if offer.agent_id == agent_id), None)
    if offer is None:
        return None
    # An offer exists only on a card whose signature was verified with the pinned key.
    return {"id": offer.agent_id, "name": offer.agent_name, "url": offer.agent_url, "card_verified": True}


def _cache(asking: Asking) -> dict[str, Any] | None:
    """As the signed statement says, not as the task's metadata does."""
    if asking.verified is None:
        return None
    told = asking.verified.statement.predicate
    return {
        "outcome": told.cache.outcome,
        "key": told.cache.key,
        "derived": told.cache.derived,
        "as_of": told.result.as_of,
        "execution_id": told.execution.execution_id,
        "age_s": _age(told) if told.cache.outcome == "STALE" else None,
    }


def _age(told: Predicate) -> float:
    """Of a stored result: seconds from its execution to the answer."""
    return (instant(told.sealed_at) - instant(told.execution.started)).total_seconds()


def _provenance(asking: Asking) -> dict[str, Any] | None:
    """The dataset agent's envelope, and the root's own around it (``tool_origin`` A2A)."""
    if asking.verified is None or asking.relayed is None:
        return None
    return {
        "verified": True,
        "media_type": PROVENANCE_MEDIA_TYPE,
        "envelope": dict(asking.verified.envelope),
        "relayed": dict(asking.relayed),
    }


def _remote_evidence(asking: Asking) -> dict[str, Any] | None:
    """The remote's ledger receipt: the signed one beside rows, the unsigned one of a refusal."""
    if asking.verified is not None:
        return dict(asking.verified.statement.predicate.ledger)
    return dict(asking.reply.receipt) if asking.reply and asking.reply.receipt else None


def _tool(asking: Asking) -> str | None:
    return asking.plan.tool if asking.plan else None


def _calls(asking: Asking) -> list[dict[str, Any]]:
    """Empty where a stored result was used: then the receiver's engine ran nothing. WITHHELD counts as a run."""
    verified = asking.verified
    if asking.reply is None or asking.target is None or verified is None:
        return []
    if verified.statement.predicate.cache.used:
        return []
    return [
        {
            "agent": asking.target.agent_id,
            "dataset": asking.target.call.dataset,
            "capability": asking.target.call.capability,
            "task_id": asking.reply.task_id,
        }
        | ({"tool": tool} if (tool := _tool(asking)) else {})
    ]


def _descriptor(asking: Asking) -> DatasetDescriptor | None:
    descriptor = asking.target.descriptor if asking.target else None
    return descriptor if isinstance(descriptor, DatasetDescriptor) else None
