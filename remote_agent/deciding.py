"""This agent's own decision: made before anything is found or run, and once more before a row leaves."""

from __future__ import annotations

from dataclasses import replace

from contract.authority import Authority
from contract.grant import VerifiedGrant
from contract.principal import Principal
from contract.scope import Scope
from contract.verdict import Decision, NotGranted, Reason, Verdict
from control_plane.admission import AdmissionRequest, Review, decide
from queries.govern import govern
from remote_agent.believing import Basis, check_believed
from remote_agent.hop import check_reach, check_supplied
from remote_agent.outcome import BoundCall, Supplied
from remote_agent.service import Service, World
from remote_agent.standing import same_policy, same_rows, same_template
from remote_agent.steps import Step, timed


def person(grant: VerifiedGrant, world: World) -> Principal:
    """The grant's subject as this agent knows it, under the same tenant. Raises UNKNOWN_PRINCIPAL."""
    principal = world.directory.find(grant.issuer, grant.subject)
    if principal is None or principal.tenant != grant.tenant:
        raise NotGranted(Reason.UNKNOWN_PRINCIPAL, "the subject is not in this agent's directory")
    return principal


@timed(Step.ADMIT)
async def admit(grant: VerifiedGrant, call: BoundCall, world: World, now: float) -> tuple[Decision, Authority]:
    """This agent's own decision, and the authority it makes together with the grant."""
    decision = await decide(
        admission_request(
            call.scope,
            call.principal,
            call.call.capability,
            world,
            now,
            review=Review.OUTSTANDING if call.approved is None else Review.GIVEN,
        ),
        world.evaluator,
    )
    # What a capability takes is told to who may call it: a review is the last of the rules.
    if call.invalid is not None and (decision.verdict is Verdict.GRANTED or decision.reason is Reason.REVIEW_REQUIRED):
        raise call.invalid
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


def admission_request(
    scope: Scope,
    principal: Principal,
    capability: str,
    world: World,
    now: float,
    *,
    review: Review = Review.OUTSTANDING,
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
        review=review,
    )


@timed(Step.RECHECK)
async def recheck(
    authority: Authority, call: BoundCall, basis: Basis, service: Service, supplied: Supplied | None = None
) -> None:
    """Revocations and root expiry once more, and whether what it rests on stands: the engine, or a wait, took time.

    The world of ``basis`` is the one that the call was admitted under and its rows are of. ``supplied`` are rows of
    another agent that they rest on.
    """
    await service.state.recheck(authority.grant, policy=policy_of(authority), now=service.clock())
    if service.trust is basis.trust and same_world(authority, basis.world, service):
        return
    while True:
        trust, present = service.trust, service.world
        await check_believed(basis, authority.grant, service)
        check_supplied(supplied, trust)
        await readmit(authority, call, present, service.clock())
        if service.trust is trust and service.world is present:
            return


def same_world(authority: Authority, world: World | None, service: Service) -> bool:
    """Whether what is served is ``world``, and its policies are those that the authority rests on."""
    return service.world is world and world.evaluator.version() == authority.decision.policy_version


async def readmit(authority: Authority, call: BoundCall, world: World, now: float) -> tuple[BoundCall, Authority]:
    """Check that ``world`` gives the same rows to the same authority as the world that they were made in.

    Returns the call as ``world`` serves it, and its authority by the decision made now. Raises the reason of that
    decision where it does not grant, and UNKNOWN_DATASET_REVISION where it grants something else: then nobody errs,
    and who is admitted anew is answered.
    """
    served = world.datasets.get(authority.dataset)
    capability = served.capabilities.get(authority.capability) if served else None
    principal = person(authority.grant, world)
    standing = replace(call, scope=authority.scope, principal=principal, served=served, capability=capability)
    _, again = await admit(authority.grant, standing, world, now)
    if not (same_rows(again, authority) and same_policy(again, authority) and same_template(standing, call)):
        raise NotGranted(Reason.UNKNOWN_DATASET_REVISION, "what the call was admitted under was replaced meanwhile")
    return standing, again


def policy_of(authority: Authority) -> str:
    """The policy a revocation may name: ``id@version``."""
    return f"{authority.decision.policy_id}@{authority.decision.policy_version}"
