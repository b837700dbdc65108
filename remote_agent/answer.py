"""The whole request path of a dataset agent. Read this file first.

    verify -> bind -> admit -> spend -> delegate -> find | run -> recheck -> record -> seal -> release

Of a call that a person must approve, its task's approval is looked up before ``admit`` and used up after ``spend``,
once; without one nothing runs, and the call is put off (``review.py``).

``verify`` believes no token, ``bind`` ties the grant to the call that arrived, ``admit``
decides again under this agent's own policy, ``spend`` uses the grant up, ``delegate`` asks
another dataset agent under a narrower grant where the capability says so (else it does
nothing), ``find`` looks inside one authorization partition of the cache, ``run`` executes a
parameterised template, over what was supplied if anything was,
``recheck`` reads revocations once more, and decides once more where what was admitted under (the
revision, a schema, a template, a policy) was replaced since: rows of what is served no more are
rows of nobody, found or run. ``record`` commits evidence before anything leaves,
``seal`` signs the provenance (which ``describe`` completed before the row was written, of a result
that is within its limits, wherever it came from) and
``release`` hands rows out. Behind an answer that was STALE its call runs once more, for whoever
asks next (``refresh.py``).

``admit`` and ``recheck`` are in ``deciding.py``, ``delegate`` in ``hop.py``, what may be stored in
``reuse.py``; ``describe``, ``record`` and ``seal`` in ``accounting.py``, with the one row that also
ends a request which is stopped anywhere on the way.

Nothing here knows A2A, ADK or HTTP. To find, to run and to describe a result takes an
``Authority``, which only a verified grant together with a GRANTED decision can make; what is
sealed and released comes from there.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from cache.allowance import one_call
from cache.result_cache import Hit
from contract.authority import Authority
from contract.call import Call
from contract.grant import VerifiedGrant
from contract.progress import reported_to
from contract.result import CacheOutcome, Execution, Result, ResultDocument, StoredResult, instant
from contract.schema import Parameter
from contract.verdict import NotGranted, Reason
from control_plane.tools import tools_of
from evidence.checkpoint import Receipt
from queries.bind import ArgumentsMissing
from queries.bind import bind as bind_arguments
from remote_agent.accounting import accountable, describe, record, refuse, seal
from remote_agent.believing import Basis, believe
from remote_agent.deciding import admit, person, policy_of, recheck
from remote_agent.derived import derive
from remote_agent.hop import delegate
from remote_agent.limits import inline_limits, young_enough
from remote_agent.outcome import Answer, BoundCall, Execute, Found, Request, RunIds, Supplied
from remote_agent.proposal import half_call_json
from remote_agent.quotas import executing, limit
from remote_agent.refresh import refresh_later
from remote_agent.results import collect
from remote_agent.results_aside import set_aside
from remote_agent.reuse import intent_of, keep, reusable, stale_s
from remote_agent.review import reviewed, still_waiting, use, with_approval
from remote_agent.service import ServedDataset, Service, World
from remote_agent.steps import Step, timed, timed_at_once
from remote_agent.trail import Trail
from remote_agent.underway import Underway


async def answer(request: Request, service: Service, execute: Execute, underway: Underway) -> Answer:
    """Answer one governed call. Outcomes are values; only cancellation leaves as an exception.

    ``underway`` learns how far it is, for those who wait for it.
    """
    world, now = service.world, service.clock()
    basis = Basis.of(request, service)
    trail = Trail(request=request)

    async def path() -> Answer:
        trail.grant = underway.grant = grant = await verify(request, service, now)
        trail.call = call = bind(request, grant, service.agent_id, world)
        trail.call = call = await with_approval(call, grant, request, service)
        trail.decision, authority = await admit(grant, call, world, now)
        await spend(authority, service, now)
        await use(call, trail, service)
        underway.accept(authority, call)
        if call.missing:
            return await ask_back(call, trail, service)
        trail.supplied = supplied = await delegate(authority, call, request, service)
        found = await find_or_run(authority, call, supplied, service, execute)
        young_enough(call, found.document, now)
        trail.found = found = found.asked_by(request)
        underway.ran(supplied, found)
        if underway.detached:
            trail.found = found = await set_aside(authority, call, found, service)
        await recheck(authority, call, basis, service, supplied)
        told = found.told(service.clock())
        statement = describe(authority, call, supplied, told, request, service)
        receipt = await record(trail, service)
        envelope = await seal(statement, receipt, service)
        released = release(authority, call, told, receipt, envelope, service)
        if told.cache.outcome == "STALE":
            refresh_later(authority, call, basis, service, execute)
        return released

    drop = underway.used(lambda: service.spool.drop_unreleased(request.task_id))
    with reported_to(underway.progress), drop, one_call():
        try:
            answered = await accountable(reviewed(path, trail, service, ask_back), trail, service)
            return await still_waiting(answered, trail, service)
        finally:
            underway.end(trail.decision)


@timed(Step.VERIFY)
async def verify(request: Request, service: Service, now: float) -> VerifiedGrant:
    """The grant in the header, for this receiver, this client and this operation, of a person within their limits."""
    grant = await believe(request, service, now)
    if request.on_behalf_of is not None and request.on_behalf_of != (grant.issuer, grant.tenant, grant.subject):
        raise NotGranted(Reason.GRANT_CLIENT_MISMATCH, "the client speaks for another person than the grant")
    await limit(grant, service, now)
    return grant


@timed_at_once(Step.BIND)
def bind(request: Request, grant: VerifiedGrant, agent_id: str, world: World) -> BoundCall:
    """The call that arrived, inside the grant's scope: a known person, validated canonical arguments.

    A dataset or capability unknown here is left for admission to name.
    """
    call = request.parsed_call()
    scope = grant.scope_at(call.dataset, agent_id)
    if scope is None or call.capability not in scope.actions:
        raise NotGranted(Reason.GRANT_WIDENED, "the call would widen the grant")
    principal = person(grant, world)
    served = world.datasets.get(call.dataset)
    if request.tool is not None:
        check_tool(request.tool, call, served)
    capability = served.capabilities.get(call.capability) if served else None
    bound, invalid = None, None
    missing: tuple[Parameter, ...] = ()
    try:
        bound = bind_arguments(capability.template, call.arguments) if capability else None
    except ArgumentsMissing as half:  # what they are is told to who may make the call
        missing = half.parameters
    except NotGranted as wrong:  # as is what is wrong with them
        invalid = wrong
    return BoundCall(
        call,
        scope,
        principal,
        served,
        capability,
        bound,
        missing,
        request.media_type,
        request.task_id,
        invalid=invalid,
    )


def check_tool(name: str, call: Call, served: ServedDataset | None) -> None:
    """That the call is the one its tool stands for, at this moment. Raises UNREGISTERED_CAPABILITY."""
    tool = tools_of(served.descriptor).get(name) if served else None
    if tool is None or tool.capability.name != call.capability:
        raise NotGranted(Reason.UNREGISTERED_CAPABILITY, "no tool of this name is offered here")


@timed(Step.SPEND)
async def spend(authority: Authority, service: Service, now: float) -> None:
    """Use the leaf up and read revocations: one round trip, last, so no failed attempt burns a grant."""
    await service.state.spend(authority.grant, policy=policy_of(authority), now=now)


async def ask_back(call: BoundCall, trail: Trail, service: Service) -> Answer:
    """The reply to an admitted call that misses arguments: what they are, recorded; nothing ran."""
    stopped = await refuse(ArgumentsMissing(call.missing), trail, service)
    if stopped.decision.reason is not Reason.ARGUMENTS_MISSING:
        return stopped  # it could not be recorded
    return replace(stopped, call=call.call, proposal=half_call_json(call))


async def find_or_run(
    authority: Authority, call: BoundCall, supplied: Supplied | None, service: Service, execute: Execute
) -> Found:
    """What the cache has, else one execution for all equal calls at once; each under its own authority."""

    async def look() -> Found | None:
        return await find(authority, call, service, again=True)

    async def go(owner: str | None) -> Found:
        return await run(authority, call, supplied, service, execute, owner)

    if not reusable(call, service):
        return await go(None)
    if (found := await find(authority, call, service)) is not None:
        return found
    return await service.cache.once(authority, intent_of(call), freshness_class=call.freshness_class, look=look, run=go)


@timed(Step.FIND)
async def find(authority: Authority, call: BoundCall, service: Service, *, again: bool = False) -> Found | None:
    """A stored result of the same meaning inside the same authorization partition, or one that follows from one.

    ``None`` where there is none. It is STALE where it is past its time, and publisher and policy
    allow that it is answered while it is refreshed. What is larger than may be answered now is none, and so are
    rows as of an earlier instant than admission was told.
    """
    served, capability, _ = call.parts()
    intent = intent_of(call)
    found = await service.cache.find(
        authority,
        intent,
        freshness_class=call.freshness_class,
        max_age_s=capability.descriptor.freshness_requirement_s,
        now=service.clock(),
        stale_s=stale_s(authority, call),
        limits=inline_limits(call, service),
        as_of=served.as_of,
        again=again,
        derive=None if again else partial(derive, authority, call, intent, service),
    )
    if not isinstance(found, Hit):
        return None
    return Found(found.document, found.execution, found.outcome, RunIds.fresh())


@timed(Step.RUN)
async def run(
    authority: Authority,
    call: BoundCall,
    supplied: Supplied | None,
    service: Service,
    execute: Execute,
    owner: str | None = None,
) -> Found:
    """Execute the template through the agent runtime; keep the result for its partition, if it is not large.

    It is kept under the lease of ``owner``, and by nobody who leads no equal call.
    """
    served, _, _ = call.parts()

    async def perform() -> tuple[Result, Execution]:
        return await collect(authority, call, supplied, service, as_of=as_of(served, supplied))

    async with executing(authority, service):
        found = await execute(authority, call, perform)
    if not reusable(call, service):
        return replace(found, cache=CacheOutcome("OFF"))
    if not isinstance(found.document, ResultDocument):
        return replace(found, cache=CacheOutcome("WITHHELD" if call.restricted else "MISS"))
    if owner is not None:
        await keep(authority, call, found, service, owner)
    place = service.cache.locate(authority, intent_of(call), freshness_class=call.freshness_class)
    return replace(found, cache=CacheOutcome("WITHHELD") if call.restricted else CacheOutcome("MISS", place.key))


def release(
    authority: Authority,
    call: BoundCall,
    found: Found,
    receipt: Receipt,
    envelope: dict[str, object],
    service: Service,
) -> Answer:
    """Rows, with the decision and the proof of where they come from; large ones may be fetched from now on."""
    if isinstance(found.document, StoredResult):
        service.spool.release(found.document.result_id)
    return Answer(
        decision=authority.decision,
        grant=authority.grant,
        call=call.call,
        document=found.document,
        execution=found.execution,
        cache=found.cache,
        age_s=service.clock() - found.execution.started if found.cache.outcome == "STALE" else None,
        receipt=receipt,
        envelope=envelope,
    )


def as_of(served: ServedDataset, supplied: Supplied | None) -> str:
    """When the answer was last true: it is as old as the oldest it rests on."""
    if supplied is None:
        return served.as_of
    return min(served.as_of, supplied.document.as_of, key=instant)
