"""The whole request path of a dataset agent. Read this file first.

    verify -> bind -> admit -> spend -> delegate -> find | run -> recheck -> record -> seal -> release

``verify`` believes no token, ``bind`` ties the grant to the call that arrived, ``admit``
decides again under this agent's own policy, ``spend`` uses the grant up, ``delegate`` asks
another dataset agent under a narrower grant where the capability says so (else it does
nothing), ``find`` looks inside one authorization partition of the cache, ``run`` executes a
parameterised template, over what was supplied if anything was,
``recheck`` reads revocations once more, and decides once more where what was admitted under (the
revision, a schema, a template, a policy) was replaced since: rows of what is served no more are
rows of nobody, found or run. ``record`` commits evidence before anything leaves,
``seal`` signs the provenance (which ``describe`` completed before the row was written) and
``release`` hands rows out.

Nothing here knows A2A, ADK or HTTP. To find, to run and to describe a result takes an
``Authority``, which only a verified grant together with a GRANTED decision can make; what is
sealed and released comes from there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

from cache.result_cache import Hit
from contract.authority import Authority
from contract.call import RESULT_MEDIA_TYPE
from contract.grant import VerifiedGrant
from contract.key_ring import sign_with, waits
from contract.principal import Principal
from contract.progress import reported_to
from contract.result import CacheOutcome, Execution, Intent, Result, ResultDocument, StoredResult, instant
from contract.schema import Parameter
from contract.scope import Scope
from contract.verdict import Decision, NotGranted, Reason, Verdict
from control_plane.admission import AdmissionRequest, decide
from control_plane.descriptor import Effect
from evidence.checkpoint import Receipt
from evidence.statement import Draft, Invocation, draft
from grants.verify import verify as verify_chain
from queries.bind import ArgumentsMissing
from queries.bind import bind as bind_arguments
from queries.govern import govern
from remote_agent.cancelling import past_cancelling
from remote_agent.derived import derive, family_of
from remote_agent.hop import check_reach, delegate
from remote_agent.outcome import Answer, BoundCall, Found, Request, RunIds, Supplied, Trail
from remote_agent.proposal import half_call_json
from remote_agent.results import collect
from remote_agent.results_aside import set_aside
from remote_agent.service import ServedDataset, Service, World
from remote_agent.standing import same_policy, same_rows, same_template
from remote_agent.underway import Underway

log = logging.getLogger(__name__)

Perform = Callable[[], Awaitable[tuple[Result, Execution]]]
Execute = Callable[[Authority, BoundCall, Perform], Awaitable[Found]]
"""Runs an admitted call through an agent runtime, which calls ``Perform`` exactly once."""


async def answer(request: Request, service: Service, execute: Execute, underway: Underway) -> Answer:
    """Answer one governed call. Outcomes are values; only cancellation leaves as an exception.

    ``underway`` learns how far it is, for those who wait for it.
    """
    world, now = service.world, service.clock()
    trail = Trail(request=request)

    async def path() -> Answer:
        trail.grant = underway.grant = grant = await verify(request, service, now)
        trail.call = call = bind(request, grant, service.agent_id, world)
        trail.decision, authority = await admit(grant, call, world, now)
        await spend(authority, service, now)
        underway.accept(authority, call)
        if call.missing:
            return await ask_back(call, trail, service)
        trail.supplied = supplied = await delegate(authority, call, request, service)
        trail.found = found = await find_or_run(authority, call, supplied, service, execute)
        underway.ran(supplied, found)
        if underway.detached:
            trail.found = found = await set_aside(authority, call, found, service)
        await recheck(authority, call, world, service)
        told = found.withheld(service.clock()) if found.cache.outcome == "WITHHELD" else found
        statement = describe(authority, call, supplied, told, request, service)
        receipt = await record(trail, service)
        envelope = await seal(statement, receipt, service)
        return release(authority, call, told, receipt, envelope, service)

    with reported_to(underway.progress), underway.used(lambda: service.spool.drop_unreleased(request.task_id)):
        try:
            return await accountable(path, trail, service)
        finally:
            underway.end(trail.decision)


async def verify(request: Request, service: Service, now: float) -> VerifiedGrant:
    """The grant in the header, for this receiver, this client and this operation."""
    header = request.grant_header()
    grant = verify_chain(
        header,
        trust=await service.published_keys.complete(service.trust, header, now=now),
        audience=service.agent_id,
        client=request.client,
        operation=request.operation,
        now=now,
    )
    if request.on_behalf_of is not None and request.on_behalf_of != (grant.issuer, grant.tenant, grant.subject):
        raise NotGranted(Reason.GRANT_CLIENT_MISMATCH, "the client speaks for another person than the grant")
    return grant


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
    capability = served.capabilities.get(call.capability) if served else None
    missing: tuple[Parameter, ...] = ()
    try:
        bound = bind_arguments(capability.template, call.arguments) if capability else None
    except ArgumentsMissing as half:  # what they are is told to who may make the call
        bound, missing = None, half.parameters
    return BoundCall(call, scope, principal, served, capability, bound, missing, request.media_type, request.task_id)


def person(grant: VerifiedGrant, world: World) -> Principal:
    """The grant's subject as this agent knows it, under the same tenant. Raises UNKNOWN_PRINCIPAL."""
    principal = world.directory.find(grant.issuer, grant.subject)
    if principal is None or principal.tenant != grant.tenant:
        raise NotGranted(Reason.UNKNOWN_PRINCIPAL, "the subject is not in this agent's directory")
    return principal


async def admit(grant: VerifiedGrant, call: BoundCall, world: World, now: float) -> tuple[Decision, Authority]:
    """This agent's own decision, and the authority it makes together with the grant."""
    decision = await decide(
        admission_request(call.scope, call.principal, call.call.capability, world, now), world.evaluator
    )
    if decision.verdict is not Verdict.GRANTED:
        raise NotGranted(
            decision.reason, decision.rationale, policy_id=decision.policy_id, policy_version=decision.policy_version
        )
    served, capability = call.place()
    authority = Authority.of(
        grant,
        decision,
        call.principal,
        scope=call.scope,
        capability=call.call.capability,
        schema_version=served.descriptor.schema_version,
        sensitivity=capability.descriptor.sensitivity,
    )
    # What could not be governed, or not be asked for, is refused before anything is spent on it.
    govern(capability.template, authority)
    check_reach(grant, capability.descriptor)
    return decision, authority


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


async def find(authority: Authority, call: BoundCall, service: Service, *, again: bool = False) -> Found | None:
    """A stored result of the same meaning inside the same authorization partition, or one that follows from one.

    ``None`` where there is none.
    """
    _, capability, _ = call.parts()
    intent = intent_of(call)
    found = await service.cache.find(
        authority,
        intent,
        freshness_class=call.freshness_class,
        max_age_s=capability.descriptor.freshness_requirement_s,
        now=service.clock(),
        again=again,
        derive=None if again else partial(derive, authority, call, intent, service),
    )
    if not isinstance(found, Hit):
        return None
    return Found(found.document, found.execution, found.outcome, RunIds.fresh())


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

    found = await execute(authority, call, perform)
    if not reusable(call, service):
        return replace(found, cache=CacheOutcome("OFF"))
    if not isinstance(found.document, ResultDocument):
        return replace(found, cache=CacheOutcome("WITHHELD" if call.restricted else "MISS"))
    intent = intent_of(call)
    if owner is not None:
        await service.cache.keep(
            authority,
            intent,
            found.document,
            found.execution,
            freshness_class=call.freshness_class,
            reuse_s=served.descriptor.freshness.reuse_s,
            now=service.clock(),
            family=family_of(authority, call, intent),
            owner=owner,
        )
    place = service.cache.locate(authority, intent, freshness_class=call.freshness_class)
    return replace(found, cache=CacheOutcome("WITHHELD") if call.restricted else CacheOutcome("MISS", place.key))


async def recheck(authority: Authority, call: BoundCall, world: World | None, service: Service) -> None:
    """Revocations and root expiry once more, and whether what was admitted stands: the engine, or a wait, took time.

    ``world`` is the one that the call was admitted under and its rows are of; ``None`` where these may differ.
    """
    await service.state.recheck(authority.grant, policy=policy_of(authority), now=service.clock())
    if service.world is world and world.evaluator.version() == authority.decision.policy_version:
        return
    while True:
        present = service.world
        await readmit(authority, call, present, service.clock())
        if service.world is present:
            return


async def readmit(authority: Authority, call: BoundCall, world: World, now: float) -> None:
    """That ``world`` gives the same rows to the same authority as the one that they were made in.

    Raises the reason of the decision that is made now, and UNKNOWN_DATASET_REVISION where it is
    granted, but for something else: then nobody errs, and who is admitted anew is answered.
    """
    served = world.datasets.get(authority.dataset)
    capability = served.capabilities.get(authority.capability) if served else None
    principal = person(authority.grant, world)
    standing = replace(call, scope=authority.scope, principal=principal, served=served, capability=capability)
    _, again = await admit(authority.grant, standing, world, now)
    if not (same_rows(again, authority) and same_policy(again, authority) and same_template(standing, call)):
        raise NotGranted(Reason.UNKNOWN_DATASET_REVISION, "what the call was admitted under was replaced meanwhile")


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

    Raises as ``draft`` where it could not be sealed, or no verifier above would take it.
    """
    served, capability, _ = call.parts()
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
        tool_name=capability.descriptor.tool_name,
        max_rows=capability.descriptor.max_rows,
        max_bytes=service.max_result_bytes
        if isinstance(found.document, ResultDocument)
        else service.spool.max_result_bytes,
        upstream=(supplied.upstream,) if supplied else (),
    )


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
        receipt=receipt,
        envelope=envelope,
    )


async def accountable(path: Callable[[], Awaitable[Answer]], trail: Trail, service: Service) -> Answer:
    """Run a path to an outcome; whatever happens on it ends in exactly one terminal row."""
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
    return Answer(decision=trail.decision, grant=trail.grant, receipt=receipt)


async def withdraw(trail: Trail, granted: Decision | None, service: Service) -> Receipt | None:
    """The row that says that nothing was released after a GRANTED one; ``None`` where that cannot be written."""
    if trail.receipt is None or granted is None:
        return None
    row = trail.row(service.agent_id, service.clock(), withdrawn=granted)
    try:
        return await past_cancelling(service.ledger.append_async(row))
    except NotGranted:  # whatever signs rows does not sign either
        return None


def reusable(call: BoundCall, service: Service) -> bool:
    """Whether this call's result may be stored and reused here.

    Not so while the keys of the cache are newer than the engine that this call began with.
    """
    served, _, _ = call.parts()
    return service.cache_enabled and served.mask_id == service.mask_id and storable(call)


def storable(call: BoundCall) -> bool:
    """Whether a call's result is one to store: read-only, deterministic, all its own, not opted out."""
    _, capability, _ = call.parts()
    return (
        call.media_type == RESULT_MEDIA_TYPE
        and capability.descriptor.cacheable
        and capability.descriptor.effect in (Effect.READ, Effect.COMPUTE)
        and capability.template.deterministic
        and capability.descriptor.delegates is None
    )


def admission_request(
    scope: Scope, principal: Principal, capability: str, world: World, now: float
) -> AdmissionRequest:
    """What this agent decides about: its own descriptor and principal, beside what the sender states."""
    return AdmissionRequest(
        principal=principal,
        dataset=scope.dataset,
        capability=capability,
        descriptor=world.lookup(scope.dataset),
        policy_version=world.policy_version,
        now=now,
        stated_dataset_version=scope.dataset_version,
        stated_revision=scope.revision,
    )


def as_of(served: ServedDataset, supplied: Supplied | None) -> str:
    """When the answer was last true: it is as old as the oldest it rests on."""
    if supplied is None:
        return served.as_of
    return min(served.as_of, supplied.document.as_of, key=instant)


def policy_of(authority: Authority) -> str:
    """The policy a revocation may name: ``id@version``."""
    return f"{authority.decision.policy_id}@{authority.decision.policy_version}"


def intent_of(call: BoundCall) -> Intent:
    """The meaning of a call, equal for every wording that resolves to it."""
    _, capability, bound = call.parts()
    return Intent(
        dataset=call.call.dataset,
        capability=call.call.capability,
        template_digest=capability.template.digest,
        arguments=bound.canonical,
    )
