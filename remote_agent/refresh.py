"""Behind an answer that was STALE its call runs once more, so that whoever asks next finds a fresh result.

    recheck -> readmit -> run -> recheck -> record -> keep

It is the call that was answered: under the same authority, which is judged again before anything
runs and before anything is kept, and decided about anew. Nobody waits for it and no row leaves.
It has a row of its own in the ledger (``cache_refreshed``), which names the decision that it
follows. One runs for all equal calls, in whatever process; what fails is not stored, so that the
next call past the stale time runs by itself, and is told why. Nothing here knows A2A, ADK or HTTP.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from cache.result_cache import Hit
from contract.authority import Authority
from contract.ids import new_id
from contract.result import CacheOutcome, Execution, Intent, Result
from contract.tracing import Kind, passed_on
from contract.verdict import Verdict
from remote_agent.accounting import record, to_outcome
from remote_agent.believing import Basis, check_believed
from remote_agent.cancelling import past_cancelling
from remote_agent.deciding import policy_of, readmit, recheck
from remote_agent.limits import inline_limits
from remote_agent.outcome import Answer, BoundCall, Execute
from remote_agent.results import collect
from remote_agent.reuse import intent_of, keep, reusable
from remote_agent.service import Service
from remote_agent.trail import Trail

_RAN: Final = CacheOutcome("MISS")


def refresh_later(authority: Authority, call: BoundCall, basis: Basis, service: Service, execute: Execute) -> None:
    """Begin the refresh behind an answer, unless one of the same result is under way."""
    place = service.cache.locate(authority, intent_of(call), freshness_class=call.freshness_class)
    traces = service.traces.after(passed_on(Trail(basis.request, authority.grant).trace_id))

    async def traced() -> None:
        with traces.begin("refresh", Kind.INTERNAL):
            await refresh(authority, call, basis, service, execute)

    grant = authority.grant
    service.refreshes.begin(place.key, (grant.issuer, grant.tenant, grant.subject), traced)


async def refresh(authority: Authority, call: BoundCall, basis: Basis, service: Service, execute: Execute) -> None:
    """Run the call once more, where nobody does or did, and keep what comes of it."""
    intent = intent_of(call)

    async def once(owner: str | None) -> None:
        if owner is None or await _is_fresh(authority, call, intent, service):
            return
        trail = Trail(request=basis.request, grant=authority.grant, call=call, refreshes=authority.decision)
        # What it is under is not the request's own task: a large result of it waits for nobody.
        mine = replace(call, task_id=new_id("task"))
        try:
            again = partial(_refreshed, authority, mine, basis, trail, service, execute, owner)
            ran = await to_outcome(again, trail, service)
            service.cache.refreshed(_RAN, well=ran.decision.verdict is Verdict.GRANTED)
        finally:
            service.spool.drop_unreleased(mine.task_id)

    await service.cache.alone(authority, intent, freshness_class=call.freshness_class, run=once)


async def _refreshed(
    before: Authority,
    asked: BoundCall,
    began: Basis,
    trail: Trail,
    service: Service,
    execute: Execute,
    owner: str,
) -> Answer:
    await service.state.recheck(before.grant, policy=policy_of(before), now=service.clock())
    await check_believed(began, before.grant, service)
    basis, world = Basis.of(trail.request, service), service.world
    call, authority = await readmit(before, asked, world, service.clock())
    trail.call, trail.decision = call, authority.decision
    served, _ = call.place()

    async def perform() -> tuple[Result, Execution]:
        return await collect(authority, call, None, service, as_of=served.as_of)

    trail.found = found = replace(await execute(authority, call, perform), cache=_RAN)
    await recheck(authority, call, basis, service)
    await record(trail, service)
    if reusable(call, service):
        await past_cancelling(keep(authority, call, found, service, owner))
    return Answer(decision=authority.decision)


async def _is_fresh(authority: Authority, call: BoundCall, intent: Intent, service: Service) -> bool:
    """Whether another process refreshed it since."""
    found = await service.cache.look(
        authority,
        intent,
        freshness_class=call.freshness_class,
        max_age_s=call.place()[1].descriptor.freshness_requirement_s,
        now=service.clock(),
        limits=inline_limits(call, service),
        as_of=call.place()[0].as_of,
        peek=True,
    )
    return isinstance(found, Hit)
