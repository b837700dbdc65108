"""What is told of one request in its trace: ids and codes, each of them its evidence has too."""

from __future__ import annotations

from collections.abc import Awaitable

from contract.tracing import tracing
from remote_agent.outcome import Answer
from remote_agent.trail import Trail


async def traced(name: str, work: Awaitable[Answer], trail: Trail) -> Answer:
    """``work`` as a span. However it ends, the trace has the id that the row of evidence has."""
    with tracing(name) as span:
        try:
            answer = await work
            _tell(span, answer, trail)
            return answer
        finally:
            span.settle(trail.trace_id, withheld=trail.is_restricted)
            span.tell(**trail.ids())


def _tell(span: tracing, answer: Answer, trail: Trail) -> None:
    decision, call = answer.decision, trail.call
    served = call.served.descriptor if call and call.served else None
    span.tell(
        verdict=decision.verdict.value,
        reason=decision.reason.value,
        decision_id=decision.decision_id,
        policy_id=decision.policy_id,
        policy_version=decision.policy_version,
        dataset=served.dataset if served else None,
        revision=served.revision if served else None,
        capability=call.capability.descriptor.name if call and call.capability else None,
        cache__outcome=answer.cache.outcome if answer.cache else None,
        execution_id=answer.execution.execution_id if answer.execution else None,
    )
