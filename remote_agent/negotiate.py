"""Negotiation: words, or a call that misses arguments, become a proposed call. Never rows.

    verify -> admit each capability in scope -> spend -> propose -> record

The reply is INPUT_REQUIRED with a call to send, or with the names, types and allowed values
that are missing. Rows then need a fresh leaf bound to that call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from contract.grant import VerifiedGrant
from contract.verdict import Decision, NotGranted, Reason, Verdict
from control_plane.admission import decide
from control_plane.descriptor import DatasetDescriptor
from control_plane.interpret import Proposal, interpret
from remote_agent.answer import accountable, admission_request, person, record, verify
from remote_agent.card import only
from remote_agent.outcome import Answer, Request, Trail
from remote_agent.service import Service, World

Discuss = Callable[[Callable[[], dict[str, Any]]], Awaitable[dict[str, Any]]]
"""Runs the proposing step through an agent runtime and returns what it proposed."""


async def negotiate(request: Request, service: Service, discuss: Discuss) -> Answer:
    """Answer one negotiation. Outcomes are values."""
    world, now = service.world, service.clock()
    trail = Trail(request=request)

    async def path() -> Answer:
        trail.grant = grant = await verify(request, service, now)
        trail.decision, descriptors = await _admissible(grant, service.agent_id, world, now)
        await service.state.spend(grant, policy=None, now=now)
        question = request.question or ""
        proposal = await discuss(lambda: _propose(question, descriptors, now))
        receipt = await record(trail, service)
        return Answer(decision=trail.decision, grant=grant, receipt=receipt, proposal=proposal)

    return await accountable(path, trail, service)


async def _admissible(
    grant: VerifiedGrant, agent_id: str, world: World, now: float
) -> tuple[Decision, list[DatasetDescriptor]]:
    """The granted datasets with just the capabilities this agent itself would run for the principal."""
    if not grant.scopes:
        raise NotGranted(Reason.NO_ACTIVE_GRANT, "the grant authorizes discovery only")
    principal = person(grant, world)
    decisions = {
        (scope.dataset, action): await decide(admission_request(scope, principal, action, world, now), world.evaluator)
        for scope in grant.scopes
        if agent_id in scope.locations
        for action in sorted(scope.actions)
    }
    granted = {place: decision for place, decision in decisions.items() if decision.verdict is Verdict.GRANTED}
    views = (
        only(served.descriptor, {action for dataset, action in granted if dataset == name})
        for name, served in world.datasets.items()
    )
    shown = [view for view in views if view is not None]
    if not shown:
        first = next(iter(decisions.values()))  # a scope that was verified names an action of this agent
        raise NotGranted(first.reason, first.rationale, policy_id=first.policy_id)
    return next(iter(granted.values())), shown


def _propose(question: str, descriptors: list[DatasetDescriptor], now: float) -> dict[str, Any]:
    """The proposed call and what it misses, or what could be asked instead."""
    proposal = interpret(question, descriptors, now=now)
    if proposal is None:
        return {
            "capabilities": [
                {
                    "dataset": descriptor.dataset,
                    "capability": c.name,
                    "description": c.description,
                    "parameters": [p.name for p in c.parameters],
                }
                for descriptor in descriptors
                for c in descriptor.capabilities
            ],
        }
    return proposal_json(proposal)


def proposal_json(proposal: Proposal) -> dict[str, Any]:
    """The JSON form of a proposal: the call as it may be sent, and what is missing."""
    return {
        "call": {
            "dataset": proposal.dataset,
            "capability": proposal.capability,
            "arguments": dict(proposal.arguments),
        },
        "missing": [
            {"name": m.name, "type": m.type, "values": list(m.values), "description": m.description}
            for m in proposal.missing
        ],
    }
