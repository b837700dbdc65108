"""What is told of one asking in its trace and in the log: ids and codes, each of them its evidence has too."""

from __future__ import annotations

from contract.tracing import settle, tell, under_way
from control_plane.descriptor import DatasetDescriptor
from root_agent.asking import Answer, Asking


def traced(answer: Answer, *, restricted: bool) -> None:
    """The end of an asking, in the span that is open for it. No dataset is told but one that a verified card offers."""
    if not under_way():
        return
    asking, decision = answer.asking, answer.decision
    descriptor, capability = _place(asking)
    settle(asking.trace_id, withheld=restricted)
    tell(
        request_id=asking.request_id,
        verdict=decision.verdict.value,
        reason=decision.reason.value,
        decision_id=decision.decision_id,
        policy_version=decision.policy_version,
        session_id=str(asking.session_id),
        dataset=descriptor.dataset if descriptor else None,
        revision=descriptor.revision if descriptor else None,
        capability=capability,
        attempts=asking.attempts,
    )


def ending(answer: Answer, took: float | None) -> dict[str, object]:
    """What the log says of how an asking ended; ``took`` is in seconds."""
    decision = answer.decision
    told: dict[str, object] = {} if took is None else {"ms": round(took * 1_000, 3)}
    return {
        "verdict": decision.verdict.value,
        "reason": decision.reason.value,
        "decision_id": decision.decision_id,
    } | told


def _place(asking: Asking) -> tuple[DatasetDescriptor | None, str | None]:
    target = asking.target
    if target is None or not isinstance(target.descriptor, DatasetDescriptor):
        return None, None
    capability = target.descriptor.capability(target.call.capability)
    return target.descriptor, capability.name if capability else None
