"""Who is believed to serve what: a card proves who speaks, and the trust file says whose data an agent has."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from a2a.types.a2a_pb2 import Task

from contract.errors import DatasetAgentError
from contract.settings import Settings
from contract.verdict import Reason, Verdict
from control_plane.descriptor import DatasetDescriptor, Delegation
from delegation.cards import CardBook
from delegation.offer import Offer
from grants.keys import init_keys
from grants.trust import TrustedAgent, load_trust
from root_agent.asking import Answer
from root_agent.catalogue import found_for
from root_agent.entry import RootAgent
from root_agent.opening import dataset_agents
from tests.root_agent.delegating_world import delegate, delegating, listed
from tests.root_agent.root_world import QUESTION, RootWorld
from tests.root_agent.scripted_remote import (
    AGENT_ID,
    AgentServer,
    Arrived,
    ScriptedRemote,
    TestSigner,
    rejected,
    shipped,
    signed,
)

BATCHES, RUNS = "purification-batches", "chromatography-results"
OTHER_ID, THIRD_ID = "urn:dataset-agent:other", "urn:dataset-agent:third"
CALL = {"dataset": BATCHES, "capability": "compare_batches", "arguments": {"batch_a": "B001", "batch_b": "B002"}}
CLOSED = "http://127.0.0.1:9"


@dataclass
class Other:
    """A second dataset agent that the root knows, and that hands its extended card to it."""

    served: ScriptedRemote
    signer: TestSigner

    def publish(self, *descriptors: DatasetDescriptor) -> None:
        card = signed(self.served.unsigned(list(descriptors), agent_id=OTHER_ID), self.signer)
        self.served.card = self.served.extended = card

    def entry(self, *datasets: str, **changes: Any) -> TrustedAgent:
        pinned = TrustedAgent(OTHER_ID, self.served.url, self.signer.public_key, datasets=frozenset(datasets))
        return replace(pinned, **changes)


class NotedCards(CardBook):
    """A book that tells whose cards were asked for."""

    def __init__(self, inner: CardBook) -> None:
        super().__init__(inner.http, inner._assertions, private_network=False, ttl=60)
        self.asked: list[str] = []

    async def offers(self, agent: TrustedAgent, url: str, now: float) -> tuple[Offer, ...]:
        self.asked.append(agent.id)
        return await super().offers(agent, url, now)


@pytest.fixture(scope="module")
def other_server() -> Iterator[AgentServer]:
    server = AgentServer()
    server.start()
    yield server
    server.stop()


@pytest.fixture
async def other(world: RootWorld, other_server: AgentServer) -> Other:
    opened = Other(other_server.serve([]), TestSigner())
    opened.publish(shipped(RUNS))

    async def lying(arrived: Arrived) -> Task:
        return rejected("INSUFFICIENT_PRIVILEGE", "REFUSED")

    opened.served.script = lying
    return opened


@pytest.fixture
def cards(world: RootWorld) -> NotedCards:
    assert isinstance(world.service.cards, CardBook)
    world.service.cards = noted = NotedCards(world.service.cards)
    return noted


@pytest.fixture
async def root(world: RootWorld) -> AsyncIterator[RootAgent]:
    agent = RootAgent(world.service)
    yield agent
    await agent.close()


async def ask(root: RootAgent, world: RootWorld, **wanted: Any) -> Answer:
    return await root.ask(world.token("process_engineer"), **(wanted or {"call": CALL}))


def first(world: RootWorld, *datasets: str, **changes: Any) -> TrustedAgent:
    """The honest agent, as the trust file lists it."""
    pinned = replace(world.service.trust.agents[AGENT_ID], datasets=frozenset(datasets or (BATCHES,)))
    return replace(pinned, **changes)


def copies(count: int) -> list[DatasetDescriptor]:
    """The honest dataset and as many more that every question fits at least as well."""
    told = shipped(BATCHES)
    capabilities = tuple(item.model_copy(update={"examples": (QUESTION,)}) for item in told.capabilities)
    loud = told.model_copy(update={"capabilities": capabilities, "description": QUESTION})
    return [loud, *(loud.model_copy(update={"dataset": f"{BATCHES}-{n}", "endpoints": {}}) for n in range(count))]


@pytest.mark.parametrize("wanted", [{"call": CALL}, {"question": QUESTION}])
@pytest.mark.parametrize("honest_first", [True, False])
@pytest.mark.parametrize("count", [0, 6])
async def test_a_dataset_is_asked_of_the_agent_it_is_listed_for_whoever_else_offers_it(
    root: RootAgent, world: RootWorld, other: Other, wanted: dict[str, Any], honest_first: bool, count: int
) -> None:
    other.publish(*copies(count))
    agents = [first(world), other.entry(RUNS)]
    listed(world, *(agents if honest_first else reversed(agents)))
    answer = await ask(root, world, **wanted)
    assert (answer.verdict, answer.asking.target and answer.asking.target.agent_id) == (Verdict.GRANTED, AGENT_ID)
    assert other.served.arrived == []


@pytest.mark.parametrize("wanted", [{"call": CALL}, {"question": QUESTION}])
async def test_nobody_stands_in_for_an_agent_that_is_away(
    root: RootAgent, world: RootWorld, other: Other, wanted: dict[str, Any]
) -> None:
    other.publish(*copies(6))
    listed(world, first(world, url=CLOSED), other.entry(RUNS))
    answer = await ask(root, world, **wanted)
    assert answer.decision.reason is Reason.REMOTE_UNREACHABLE
    assert (answer.document, other.served.arrived, world.remote.arrived) == (None, [], [])


async def test_of_several_agents_one_without_a_list_is_believed_nothing_and_not_even_asked(
    root: RootAgent, world: RootWorld, other: Other, cards: NotedCards
) -> None:
    listed(world, first(world), other.entry(datasets=None))
    assert (await ask(root, world)).verdict is Verdict.GRANTED
    answer = await ask(root, world, call=CALL | {"dataset": "elsewhere"})
    assert answer.decision.reason is Reason.REMOTE_CARD_INVALID
    assert answer.decision.rationale.startswith(f"name in trust.toml the datasets that {OTHER_ID} serves")
    assert set(cards.asked) == {AGENT_ID}


async def test_without_any_list_several_agents_are_believed_nothing(
    root: RootAgent, world: RootWorld, other: Other
) -> None:
    listed(world, first(world, datasets=None), other.entry(datasets=None))
    answer = await ask(root, world, question=QUESTION)
    assert answer.decision.reason is Reason.REMOTE_CARD_INVALID
    assert AGENT_ID in answer.decision.rationale


async def test_what_a_lone_agent_offers_beyond_its_list_is_not_believed_either(
    root: RootAgent, world: RootWorld
) -> None:
    listed(world, first(world, RUNS))
    answer = await ask(root, world)
    assert (answer.decision.reason, world.remote.arrived) == (Reason.REMOTE_CARD_INVALID, [])
    assert f"{AGENT_ID} offers {BATCHES}, which trust.toml does not list" in answer.decision.rationale


async def test_what_is_not_believed_is_named_and_no_flood_of_it(
    root: RootAgent, world: RootWorld, other: Other
) -> None:
    other.publish(shipped(RUNS), *copies(6))
    listed(world, first(world), other.entry(RUNS))
    answer = await ask(root, world, question=QUESTION)
    (told,) = (away for away in answer.asking.unavailable if away.agent_id == OTHER_ID)
    assert told.decision.rationale == (
        f"{OTHER_ID} offers {BATCHES}, {BATCHES}-0, {BATCHES}-1 and 4 more, which trust.toml does not list for it"
    )


async def test_what_is_not_believed_and_on_no_public_card_is_not_named(
    root: RootAgent, world: RootWorld, other: Other
) -> None:
    other.publish(shipped(RUNS), *copies(2))
    other.served.card = signed(other.served.unsigned([], agent_id=OTHER_ID), other.signer)
    listed(world, first(world), other.entry(RUNS))
    answer = await ask(root, world, question=QUESTION)
    (told,) = (away for away in answer.asking.unavailable if away.agent_id == OTHER_ID)
    assert told.decision.rationale == f"{OTHER_ID} offers datasets, which trust.toml does not list for it"


async def test_a_call_waits_for_no_card_but_that_of_the_agent_its_dataset_is_listed_for(
    root: RootAgent, world: RootWorld, other: Other, cards: NotedCards
) -> None:
    listed(world, other.entry(RUNS, url=CLOSED), first(world))
    assert (await ask(root, world)).verdict is Verdict.GRANTED
    assert cards.asked == [AGENT_ID]
    assert (await ask(root, world, question=QUESTION)).verdict is Verdict.GRANTED
    assert cards.asked[1:] == [OTHER_ID, AGENT_ID]


async def test_a_call_waits_for_the_agents_that_complete_it_too(
    root: RootAgent, world: RootWorld, other: Other, cards: NotedCards
) -> None:
    away = TrustedAgent(THIRD_ID, CLOSED, TestSigner().public_key, datasets=frozenset({"third"}))
    further = Delegation(agent=THIRD_ID, dataset="third", capability="aggregate")
    other.publish(delegating(shipped(RUNS), "aggregate", further))
    delegate(world, Delegation(agent=OTHER_ID, dataset=RUNS, capability="aggregate"))
    listed(world, first(world), other.entry(RUNS), away)
    assert (await ask(root, world)).decision.reason is Reason.REMOTE_UNREACHABLE
    assert cards.asked == [AGENT_ID, OTHER_ID, THIRD_ID]


@pytest.mark.parametrize(
    ("datasets", "says"),
    [(("elsewhere",), f"{OTHER_ID} offers {RUNS}, which trust.toml does not list"), (None, "name in trust.toml")],
)
async def test_an_answer_is_completed_only_from_an_agent_that_is_believed_to_serve_what_completes_it(
    root: RootAgent, world: RootWorld, other: Other, datasets: tuple[str, ...] | None, says: str
) -> None:
    delegate(world, Delegation(agent=OTHER_ID, dataset=RUNS, capability="aggregate"))
    entry = other.entry(datasets=None) if datasets is None else other.entry(*datasets)
    listed(world, first(world), entry)
    answer = await ask(root, world)
    assert (answer.decision.reason, answer.asking.plan) == (Reason.REMOTE_CARD_INVALID, None)
    assert says in answer.decision.rationale


async def test_a_dataset_of_nobody_is_not_missing_because_of_an_agent_that_is_away(
    root: RootAgent, world: RootWorld, other: Other
) -> None:
    listed(world, first(world), other.entry(RUNS, url=CLOSED))
    elsewhere = CALL | {"dataset": "elsewhere"}
    assert (await ask(root, world, call=elsewhere)).decision.reason is Reason.MISSING_DESCRIPTOR


async def test_an_agent_that_is_away_does_not_hide_what_the_others_offer(
    root: RootAgent, world: RootWorld, other: Other
) -> None:
    listed(world, other.entry(RUNS, url=CLOSED), first(world))
    assert (await ask(root, world, question=QUESTION)).verdict is Verdict.GRANTED


async def test_arguments_are_read_as_the_agent_that_serves_the_dataset_declares_them(
    world: RootWorld, other: Other
) -> None:
    other.publish(*copies(0))
    listed(world, other.entry(RUNS), first(world))
    found = await found_for(BATCHES, "compare_batches", world.service)
    assert {offer.agent_id for item in found for offer in item.offers} == {AGENT_ID}


def pin(settings: Settings, name: str, datasets: list[str] | None) -> None:
    lines = ["[[agent]]", f'id = "{name}"', f'url = "{CLOSED}"', f'key = "{TestSigner().public_key.jwk()["x"]}"']
    lines += [] if datasets is None else [f"datasets = {json.dumps(datasets)}"]
    settings.trust_path.write_text(settings.trust_path.read_text() + "\n".join(lines) + "\n")


def test_an_agent_that_serves_nothing_is_asked_nothing_and_makes_no_second_one(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    init_keys(settings)
    pin(settings, THIRD_ID, [])
    assert [agent.id for agent, _ in dataset_agents(settings, load_trust(settings.trust_path))] == [settings.agent_id]


def test_a_root_agent_whose_agents_all_serve_nothing_does_not_start(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    init_keys(settings, roles=("issuer", "root"))
    pin(settings, THIRD_ID, [])
    with pytest.raises(DatasetAgentError, match="names no dataset agent"):
        dataset_agents(settings, load_trust(settings.trust_path))
