"""Negotiation: words, or a call that misses arguments, become a proposed call. Never rows.

    verify -> admit each capability in scope -> spend -> propose -> record

The reply is INPUT_REQUIRED with a call to send, or with the names, types and allowed values
that are missing. Rows then need a fresh leaf bound to that call. Words in a task that remembers
a call that misses arguments are read for those and for nothing else.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from contract.call import Call
from contract.grant import VerifiedGrant
from contract.verdict import Decision, NotGranted, Reason, Verdict
from control_plane.admission import Review, decide
from control_plane.descriptor import DatasetDescriptor
from control_plane.interpret import hear, supplement
from remote_agent.accounting import accountable, record
from remote_agent.answer import verify
from remote_agent.card import only
from remote_agent.deciding import admission_request, person
from remote_agent.outcome import Answer, Request
from remote_agent.proposal import offer_json, proposal_json
from remote_agent.review import still_waiting
from remote_agent.service import Service, World
from remote_agent.trail import Trail
from remote_agent.underway import Underway

Discuss = Callable[[Callable[[], dict[str, Any]]], Awaitable[dict[str, Any]]]
"""Runs the proposing step through an agent runtime and returns what it proposed."""


async def negotiate(request: Request, service: Service, discuss: Discuss, underway: Underway) -> Answer:
    """Answer one negotiation. Outcomes are values; ``underway`` learns whose it is."""
    world, now = service.world, service.clock()
    trail = Trail(request=request)

    async def path() -> Answer:
        trail.grant = underway.grant = grant = await verify(request, service, now)
        trail.decision, descriptors = await _admissible(grant, service.agent_id, world, now)
        if request.half is not None:
            descriptors = [_described(request.half, descriptors)]
        await service.state.spend(grant, policy=None, now=now)
        proposal = await discuss(lambda: _propose(request, descriptors, now))
        receipt = await record(trail, service)
        return Answer(decision=trail.decision, grant=grant, receipt=receipt, proposal=proposal)

    try:
        return await still_waiting(await accountable(path, trail, service), trail, service)
    finally:
        underway.end(trail.decision)


async def _admissible(
    grant: VerifiedGrant, agent_id: str, world: World, now: float
) -> tuple[Decision, list[DatasetDescriptor]]:
    """The granted datasets with just the capabilities this agent itself would run for the principal, once approved."""
    if not grant.scopes:
        raise NotGranted(Reason.NO_ACTIVE_GRANT, "the grant authorizes discovery only")
    principal = person(grant, world)
    decisions = {
        (scope.dataset, action): await decide(
            admission_request(scope, principal, action, world, now, review=Review.ELSEWHERE), world.evaluator
        )
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


def _described(half: Call, descriptors: list[DatasetDescriptor]) -> DatasetDescriptor:
    """The dataset of the call that the words are to complete, where this person may make that call."""
    for descriptor in descriptors:
        if descriptor.dataset == half.dataset and descriptor.capability(half.capability) is not None:
            return descriptor
    raise NotGranted(Reason.GRANT_WIDENED, "the grant does not cover the call that the task remembers")


def _propose(request: Request, descriptors: list[DatasetDescriptor], now: float) -> dict[str, Any]:
    """The proposed call and what it misses, or what could be asked instead."""
    words, half = request.question or "", request.half
    if half is not None:
        return proposal_json(supplement(words, descriptors[0], half.arguments, half.capability, now=now))
    heard = hear(words, descriptors, now=now)
    return offer_json(descriptors, heard.left, words) if heard.proposal is None else proposal_json(heard.proposal)
