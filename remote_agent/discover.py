"""Discovery: what the person of a ``discover`` leaf may ask, decided like any call and recorded.

verify -> admit each capability -> spend -> record
"""

from __future__ import annotations

from collections.abc import Sequence

from contract.call import Operation
from contract.grant import VerifiedGrant
from contract.verdict import Decision, NotGranted, Reason, Verdict
from control_plane.admission import AdmissionRequest, Review, decide
from control_plane.descriptor import DatasetDescriptor
from remote_agent.accounting import accountable, record
from remote_agent.answer import verify
from remote_agent.card import only
from remote_agent.deciding import person
from remote_agent.outcome import Answer, Request
from remote_agent.service import Service, World
from remote_agent.trail import Trail

DISCOVER = Operation("discover")


async def discover(request: Request, service: Service) -> tuple[Answer, Sequence[DatasetDescriptor]]:
    """The outcome, and the descriptors with just the askable capabilities; none unless GRANTED.

    A leaf that names a scope shows no more than that scope.
    """
    world, now = service.world, service.clock()
    trail = Trail(request=request)
    shown: list[DatasetDescriptor] = []

    async def path() -> Answer:
        trail.grant = grant = await verify(request, service, now)
        decisions = await _decisions(grant, service.agent_id, world, now)
        trail.decision = next(iter(decisions.values()), None)
        if trail.decision is None:
            raise NotGranted(Reason.INSUFFICIENT_PRIVILEGE, "the person may ask nothing here", policy_id="AD-POL-005")
        await service.state.spend(grant, policy=None, now=now)
        receipt = await record(trail, service)
        for name, served in world.datasets.items():
            view = only(served.descriptor, {capability for dataset, capability in decisions if dataset == name})
            if view is not None:
                shown.append(view)
        return Answer(decision=trail.decision, grant=grant, receipt=receipt)

    return await accountable(path, trail, service), shown


async def _decisions(grant: VerifiedGrant, agent_id: str, world: World, now: float) -> dict[tuple[str, str], Decision]:
    """The GRANTED decisions by (dataset, capability)."""
    principal = person(grant, world)
    granted: dict[tuple[str, str], Decision] = {}
    for name, served in world.datasets.items():
        scope = grant.scope_at(name, agent_id)
        for capability in served.descriptor.capabilities:
            if grant.scopes and (scope is None or capability.name not in scope.actions):
                continue
            decision = await decide(
                AdmissionRequest(
                    principal=principal,
                    dataset=name,
                    capability=capability.name,
                    descriptor=served.descriptor,
                    policy_version=world.policy_version,
                    now=now,
                    review=Review.ELSEWHERE,  # what needs an approval may be asked: that is how it is asked for
                ),
                world.evaluator,
            )
            if decision.verdict is Verdict.GRANTED:
                granted[(name, capability.name)] = decision
    return granted
