"""The evidence of a request: what is signed about an answer, and the one row that every request ends in."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from contract.about import about
from contract.authority import Authority
from contract.key_ring import sign_with, waits
from contract.tracing import under_way
from contract.verdict import Decision, NotGranted, Reason
from evidence.arrivals import Arrival
from evidence.checkpoint import Receipt
from evidence.statement import Draft, Invocation, draft
from remote_agent.cancelling import past_cancelling
from remote_agent.limits import judged
from remote_agent.outcome import Answer, BoundCall, Found, Request, Supplied
from remote_agent.service import Service
from remote_agent.steps import Step, timed
from remote_agent.traced import traced
from remote_agent.trail import Trail

log = logging.getLogger(__name__)


@timed(Step.RECORD)
async def record(trail: Trail, service: Service) -> Receipt:
    """The terminal row, durable before anything leaves. Raises ``EVIDENCE_UNAVAILABLE``.

    A row that is being written is not taken back, so from here on the call is past cancelling.
    """
    row = trail.row(service.agent_id, service.clock())
    trail.recorded = True
    trail.receipt = receipt = await past_cancelling(service.ledger.append_async(row))
    return receipt


def describe(
    authority: Authority, call: BoundCall, supplied: Supplied | None, found: Found, request: Request, service: Service
) -> Draft:
    """The provenance statement, complete before a row is recorded; only its receipt is missing.

    Raises RESULT_TOO_LARGE where the result, whether it ran, was stored or shared, is beyond the limits that it
    states, and as ``draft`` where it could not be sealed, or no verifier above would take it.
    """
    served, capability, _ = call.parts()
    limits = judged(call, found.document, service)
    return draft(
        authority,
        agent_id=service.agent_id,
        call_hash=call.call.call_hash,
        requested_dataset=call.call.dataset,
        template_digest=capability.template.digest,
        document=found.document,
        execution=found.execution,
        cache=found.cache,
        invocation=Invocation(
            request_id=request.request_id,
            trace_id=str(authority.grant.rctx.get("trace_id") or request.trace_id),
            session_id=found.run.session_id,
            invocation_id=found.run.invocation_id,
            function_call_id=found.run.function_call_id,
        ),
        sources=(f"{served.descriptor.provenance.system}:{served.descriptor.provenance.source}",),
        now=service.clock(),
        tool_name=request.tool or capability.descriptor.tool_name,
        max_rows=limits.max_rows,
        max_bytes=limits.max_bytes,
        upstream=(supplied.upstream,) if supplied else (),
    )


@timed(Step.SEAL)
async def seal(statement: Draft, receipt: Receipt, service: Service) -> dict[str, object]:
    """The signed in-toto statement about the bytes that will be sent, with its place in the ledger.

    A key that another process holds is not waited for in the event loop. Raises
    ``EVIDENCE_UNAVAILABLE``: ``describe`` has proven that the statement can be signed, not that
    the signer is there when it is needed.
    """
    try:
        if not waits(service.signer):
            return statement.seal(receipt, service.signer)
        return await past_cancelling(sign_with(service.signer, lambda signer: statement.seal(receipt, signer)))
    except Exception as fault:
        log.error("sealing failed with %s", type(fault).__name__)
        raise NotGranted(
            Reason.EVIDENCE_UNAVAILABLE, "the answer could not be signed, so nothing is released"
        ) from fault


async def accountable(path: Callable[[], Awaitable[Answer]], trail: Trail, service: Service) -> Answer:
    """Run a path to an outcome; whatever happens on it ends in exactly one terminal row, and is counted once."""
    about.set(trail)
    counted = _counted(path, trail, service)
    return await (traced("request", counted, trail) if under_way() else counted)


def arrival_of(request: Request) -> Arrival:
    """What the terminal row of a request can be made of where this process does not live to make it."""
    task = request.task_id or request.operation.task
    return Arrival(request.request_id, request.client, request.trace_id or None, task or None)


async def _counted(path: Callable[[], Awaitable[Answer]], trail: Trail, service: Service) -> Answer:
    steps, answer = service.measures.begin(), None

    async def expected() -> Answer:
        service.ledger.expect(arrival_of(trail.request), trail.request.on_behalf_of or ())
        return await path()

    try:
        answer = await to_outcome(expected, trail, service)
        return answer
    finally:
        decision, cache = (trail.decision, None) if answer is None else (answer.decision, answer.cache)
        took = service.measures.end(steps, decision, cache, restricted=trail.is_restricted)
        if log.isEnabledFor(logging.INFO):
            log.info("a request ended", extra={"told": ending(decision, took)})


def ending(decision: Decision | None, took: float | None) -> dict[str, object]:
    """What the log says of how a request ended."""
    told: dict[str, object] = {} if took is None else {"ms": round(took * 1_000, 3)}
    if decision is None:
        return told
    return {
        "verdict": decision.verdict.value,
        "reason": decision.reason.value,
        "decision_id": decision.decision_id,
    } | told


async def to_outcome(path: Callable[[], Awaitable[Answer]], trail: Trail, service: Service) -> Answer:
    """Run a path to an outcome, which has a row in the ledger whatever happens on it."""
    try:
        return await path()
    except NotGranted as stop:
        return await refuse(stop, trail, service)
    except asyncio.CancelledError:
        gone = NotGranted(Reason.CANCELLED, "the caller went away or cancelled the task")
        await refuse(gone, trail, service)
        raise
    except Exception as fault:
        # The text of an unforeseen fault may quote a row or an argument: only its type is logged.
        log.error("the request path failed with %s", type(fault).__name__)
        return await refuse(NotGranted(Reason.EXECUTION_FAILED, "the dataset agent failed"), trail, service)


async def refuse(stop: NotGranted, trail: Trail, service: Service) -> Answer:
    """The outcome without rows, recorded like any other; without a receipt where even that failed.

    A request whose terminal row is already written, or was tried, gets no second one; where it
    was written and nothing was released, a row of another kind says that.
    """
    granted, trail.decision, trail.found = trail.decision, stop.decision(service.world.policy_version), None
    if trail.recorded:
        receipt = await withdraw(trail, granted, service)
        return Answer(decision=trail.decision, grant=trail.grant, receipt=receipt)
    try:
        receipt = await record(trail, service)
    except NotGranted as unrecorded:
        return Answer(decision=unrecorded.decision(service.world.policy_version), grant=trail.grant)
    return Answer(decision=trail.decision, grant=trail.grant, receipt=receipt, retry_after_s=stop.retry_after_s)


async def withdraw(trail: Trail, granted: Decision | None, service: Service) -> Receipt | None:
    """The row that says that nothing was released after a GRANTED one; ``None`` where that cannot be written."""
    if trail.receipt is None or granted is None:
        return None
    row = trail.row(service.agent_id, service.clock(), withdrawn=granted)
    try:
        return await past_cancelling(service.ledger.append_async(row))
    except NotGranted:  # whatever signs rows does not sign either
        return None
