"""An answer for programs (one JSON object) and for people (one sentence, one table)."""

from __future__ import annotations

import json
from typing import Any, Final

from contract.extension import PROVENANCE_MEDIA_TYPE
from contract.result import ResultDocument
from contract.verdict import Decision, Verdict
from control_plane.descriptor import DatasetDescriptor
from root_agent.asking import Answer, Asking
from root_agent.reply import Reply

_SHOWN_ROWS: Final = 50


def to_json(answer: Answer, *, agent_name: str | None = None, agent_url: str | None = None) -> dict[str, Any]:
    """The object that ``ask --json``, ``call --json`` and ``POST /ask`` print.

    ``verdict``, ``reason`` and ``rationale`` are of the whole; ``decision`` is the root's own
    and ``remote`` what the dataset agent said or why nothing came. Rows and envelope are there
    together or not at all. ``a2a_calls`` are the calls whose receiver's engine ran.
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
        "missing": [missing.to_json() for missing in target.missing] if target else [],
        "agent": _agent(asking, agent_name, agent_url),
        "cache": _cache(asking) if shown else None,
        "result": json.loads(answer.document.body) if answer.document is not None else None,
        "provenance": _provenance(asking) if shown else None,
        "visited_nodes": list(asking.visited),
        "discovery": dict(asking.funnel),
        "tool_calls": [],
        "mcp_calls": [],
        "a2a_calls": _a2a_calls(asking) if shown else [],
        "attempts": asking.attempts,
        "trace_id": asking.trace_id,
        "evidence": {
            "root": dict(answer.evidence) if answer.evidence is not None else None,
            "remote": dict(asking.reply.receipt) if asking.reply and asking.reply.receipt else None,
        },
    }


def summary(answer: Answer) -> str:
    """One sentence without an argument or a row."""
    decision, asking = answer.decision, answer.asking
    descriptor = _descriptor(asking)
    if answer.document is None or descriptor is None:
        policy = f" (policy {decision.policy_id})" if decision.policy_id else ""
        return f"{decision.verdict.value} {decision.reason.value}{policy}: {decision.rationale}."
    outcome = asking.reply.cache.get("outcome", "unknown") if asking.reply else "unknown"
    return (
        f"GRANTED: {answer.document.row_count} rows of {descriptor.dataset} {descriptor.version}, revision "
        f"{descriptor.revision}, as of {answer.document.as_of}; cache {outcome}; provenance verified."
    )


def table(document: ResultDocument) -> str:
    """The first rows as tab-separated text under their column names."""
    result = json.loads(document.body)
    lines = ["\t".join(str(column["name"]) for column in result["schema"])]
    lines += ["\t".join("" if cell is None else str(cell) for cell in row) for row in result["rows"][:_SHOWN_ROWS]]
    hidden = len(result["rows"]) - _SHOWN_ROWS
    return "\n".join(lines + ([f"... and {hidden} more rows"] if hidden > 0 else []))


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


def _agent(asking: Asking, name: str | None, url: str | None) -> dict[str, Any] | None:
    if asking.target is None or asking.target.agent_id is None:
        return None
    # An offer exists only on a card whose signature was verified with the pinned key.
    return {"id": asking.target.agent_id, "name": name, "url": url or _url(asking), "card_verified": True}


def _url(asking: Asking) -> str | None:
    agent_id = asking.target.agent_id if asking.target else None
    return next((offer.agent_url for offer in asking.offered if offer.agent_id == agent_id), None)


def _cache(asking: Asking) -> dict[str, Any]:
    cache = asking.reply.cache if asking.reply else {}
    return {name: cache.get(name) for name in ("outcome", "key", "as_of", "execution_id")}


def _provenance(asking: Asking) -> dict[str, Any] | None:
    if asking.verified is None:
        return None
    return {"verified": True, "media_type": PROVENANCE_MEDIA_TYPE, "envelope": dict(asking.verified.envelope)}


def _a2a_calls(asking: Asking) -> list[dict[str, Any]]:
    """Empty on a hit: then the receiver's engine ran nothing. WITHHELD counts as a run."""
    if asking.reply is None or asking.target is None or asking.reply.cache.get("outcome") == "HIT":
        return []
    return [
        {
            "agent": asking.target.agent_id,
            "dataset": asking.target.call.dataset,
            "capability": asking.target.call.capability,
            "task_id": asking.reply.task_id,
        }
    ]


def _descriptor(asking: Asking) -> DatasetDescriptor | None:
    descriptor = asking.target.descriptor if asking.target else None
    return descriptor if isinstance(descriptor, DatasetDescriptor) else None
