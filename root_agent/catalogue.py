"""What is offered, and by whom: what an agent says it serves counts only as far as ``trust.toml`` says so too.

A card proves which agent speaks, and nothing about whose data it has. So where more than one
dataset agent is asked, each is believed the datasets that the trust file lists for it and no
others; the trust file lists no dataset twice. A lone agent without a list is believed all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from contract.verdict import NotGranted, Reason
from control_plane.descriptor import DatasetDescriptor, Delegation
from delegation.offer import Offer, Unavailable
from grants.claims import MAX_DEPTH
from grants.trust import TrustedAgent
from root_agent.asking import Asking
from root_agent.service import Service

_NAMED: Final = 3
_READING: Final[set[asyncio.Future[Found]]] = set()  # asyncio itself holds no task that nobody waits for


@dataclass(frozen=True, slots=True)
class Found:
    """What was learned of one agent: what it is believed to offer, and what could not be had or was not believed."""

    offers: tuple[Offer, ...]
    problem: Unavailable | None = None


async def catalogued(asking: Asking, service: Service) -> Asking:
    """The asking with what is offered now, and with those whose card could not be had.

    A question is read over all agents; of a call whose dataset is listed for one, only that
    one and those that complete it are asked for their cards. It is stopped where nothing can be
    asked at all, with the first agent's reason. Raises ``NotGranted`` where nobody that can be asked is to be asked directly.
    """
    call = asking.target.call if asking.target else asking.wanted.call
    found = await (found_for(call.dataset, call.capability, service) if call else _found_by_all(service))
    offers = tuple(offer for item in found for offer in item.offers)
    offered = tuple(offer for offer in offers if offer.direct)
    indirect = tuple(offer for offer in offers if not offer.direct)
    problems = tuple(item.problem for item in found if item.problem is not None)
    if not offered and problems:
        first = problems[0].decision
        stop = NotGranted(first.reason, first.rationale).decision(asking.world_in(service).policy_version)
        return replace(asking, unavailable=problems).stopped(stop)
    if not offered and indirect:
        raise stranger(indirect[0])
    return replace(asking, offered=offered, indirect=indirect, unavailable=problems)


async def found_for(dataset: str, capability: str, service: Service) -> Sequence[Found]:
    """What concerns this call, or, where its dataset is listed for nobody, everything."""
    places = {agent.id: (agent, url) for agent, url in service.agents}
    place = next((item for item in service.agents if dataset in (item[0].datasets or ())), None)
    if place is None:
        return await _found_by_all(service)
    found: dict[str, Found] = {}
    for _ in range(MAX_DEPTH):  # nothing deeper can be granted
        agent, url = place
        found[agent.id] = await _read(agent, url, service)
        step = _completed_by(found[agent.id], dataset, capability)
        if step is None or step.agent not in places:
            break
        dataset, capability, place = step.dataset, step.capability, places[step.agent]
    return tuple(found.values())


def stranger(offer: Offer) -> NotGranted:
    return NotGranted(
        Reason.REMOTE_CARD_INVALID,
        f"{offer.agent_id} does not hand its extended card to this root agent; it may be asked through others only",
    )


async def _found_by_all(service: Service) -> Sequence[Found]:
    """In the order of the trust file. Once something can be asked, nobody waits longer for the others than the budget.

    Those are read to their end all the same: the next question has them, or knows that they are away.
    """
    reading = [(agent, _begun(_read(agent, url, service))) for agent, url in service.agents]
    done, late = await asyncio.wait({task for _, task in reading}, timeout=service.discovery_budget)
    while late and not any(offer.direct for task in done for offer in task.result().offers):
        more, late = await asyncio.wait(late, return_when=asyncio.FIRST_COMPLETED)
        done |= more
    return [task.result() if task in done else _late(agent, service) for agent, task in reading]


def _begun(reading: Coroutine[Any, Any, Found]) -> asyncio.Task[Found]:
    task = asyncio.ensure_future(reading)
    _READING.add(task)
    task.add_done_callback(_READING.discard)
    return task


def _late(agent: TrustedAgent, service: Service) -> Found:
    return _nothing(agent, NotGranted(Reason.REMOTE_TIMEOUT, f"{agent.id} did not answer in time"), service)


async def _read(agent: TrustedAgent, url: str, service: Service) -> Found:
    if agent.datasets is None and len(service.agents) > 1:
        why = f"name in trust.toml the datasets that {agent.id} serves: it is one of several agents that are asked"
        return _nothing(agent, NotGranted(Reason.REMOTE_CARD_INVALID, why), service)
    try:
        offers = await service.cards.offers(agent, url, service.clock())
    except NotGranted as problem:
        return _nothing(agent, problem, service)
    return Found(offers) if agent.datasets is None else _believed(agent, agent.datasets, offers, service)


def _nothing(agent: TrustedAgent, problem: NotGranted, service: Service) -> Found:
    return Found((), Unavailable(agent.id, problem.decision(service.world.policy_version), agent.datasets))


def _believed(agent: TrustedAgent, listed: frozenset[str], offers: tuple[Offer, ...], service: Service) -> Found:
    kept = tuple(offer for offer in offers if offer.dataset in listed)
    beyond = [offer for offer in offers if offer.dataset not in listed]
    if not beyond:
        return Found(kept)
    why = f"{agent.id} offers {_named(beyond)}, which trust.toml does not list for it"
    decision = NotGranted(Reason.REMOTE_CARD_INVALID, why).decision(service.world.policy_version)
    return Found(kept, Unavailable(agent.id, decision, frozenset(offer.dataset for offer in beyond)))


def _named(beyond: Sequence[Offer]) -> str:
    """A few datasets by name, as far as anybody may know of them: who asks is told this."""
    public = sorted({offer.dataset for offer in beyond if offer.public is not None})
    named = ", ".join(public[:_NAMED]) or "datasets"
    return f"{named} and {len(public) - _NAMED} more" if len(public) > _NAMED else named


def _completed_by(found: Found, dataset: str, capability: str) -> Delegation | None:
    for offer in found.offers:
        if offer.dataset == dataset and isinstance(offer.descriptor, DatasetDescriptor):
            told = offer.descriptor.capability(capability)
            return None if told is None else told.delegates
    return None
