"""Many dataset agents: their cards are kept by validators, a few fetched at once, and the slow and the lost are named."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request
from fastapi.responses import Response
from google.protobuf.json_format import MessageToDict

from contract.settings import Settings
from contract.verdict import Verdict
from control_plane.descriptor import DatasetDescriptor
from delegation import card_memory, cards
from delegation.card_memory import LEAST_KEPT, fresh_for, kept_for
from delegation.cards import AT_ONCE, CardBook
from delegation.credentials import Assertions
from delegation.http import open_http
from grants.trust import TrustedAgent
from root_agent.answer_view import to_json
from root_agent.entry import RootAgent
from tests.root_agent.delegating_world import listed
from tests.root_agent.root_world import QUESTION, RootWorld
from tests.root_agent.scripted_remote import (
    AGENT_ID,
    AgentServer,
    ScriptedRemote,
    TestSigner,
    listening,
    shipped,
    signed,
)

NOW = 1_800_000_000.0
OTHER_ID = "urn:dataset-agent:other"
BATCHES, RUNS = "purification-batches", "chromatography-results"


@dataclass
class Shelf:
    """Public cards of any number of agents, each below a path of its own, on one loopback server."""

    port: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    bodies: dict[str, bytes] = field(default_factory=dict)
    asked: list[httpx.Headers] = field(default_factory=list)
    at_once: int = 0
    most: int = 0

    def put(self, name: str, descriptor: DatasetDescriptor) -> TrustedAgent:
        url, signer, agent_id = f"http://127.0.0.1:{self.port}/{name}", TestSigner(), f"urn:dataset-agent:{name}"
        card = ScriptedRemote(signer, [], url, loop=asyncio.get_running_loop()).unsigned(
            [descriptor], agent_id=agent_id
        )
        card.capabilities.extended_agent_card = False
        self.bodies[name] = json.dumps(MessageToDict(signed(card, signer))).encode()
        return TrustedAgent(agent_id, url, signer.public_key)

    async def answer(self, name: str, request: Request) -> Response:
        self.asked.append(httpx.Headers(request.headers.raw))
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        await asyncio.sleep(0.01)
        self.at_once -= 1
        known = {request.headers.get("if-none-match"), request.headers.get("if-modified-since")}
        if known & {self.headers.get("ETag"), self.headers.get("Last-Modified")} - {None}:
            return Response(status_code=304, headers=self.headers)
        return Response(self.bodies[name], media_type="application/json", headers=self.headers)


@pytest.fixture
async def shelf() -> AsyncIterator[Shelf]:
    app, held = FastAPI(), Shelf()
    app.get("/{name}/.well-known/agent-card.json")(held.answer)
    async with listening(app) as held.port:
        yield held


@asynccontextmanager
async def opened(ttl: float = 60) -> AsyncIterator[CardBook]:
    http = open_http(Settings(call_timeout=2.0))
    yield CardBook(http, Assertions(TestSigner(), "urn:dataset-agent:root"), private_network=False, ttl=ttl)
    await http.aclose()


@pytest.mark.parametrize(
    ("told", "condition"),
    [
        ({"ETag": '"one"'}, ("if-none-match", '"one"')),
        ({"Last-Modified": "Mon, 30 Nov 2026 10:00:00 GMT"}, ("if-modified-since", "Mon, 30 Nov 2026 10:00:00 GMT")),
    ],
)
async def test_a_card_is_asked_for_again_by_its_validator_and_not_read_again(
    shelf: Shelf, told: dict[str, str], condition: tuple[str, str]
) -> None:
    shelf.headers = told
    agent = shelf.put("a", shipped(BATCHES))
    async with opened() as book:
        first = await book.offers(agent, agent.url, NOW)
        shelf.bodies.clear()  # a server that said 200 would fail
        assert await book.offers(agent, agent.url, NOW + 61) is first
        assert await book.offers(agent, agent.url, NOW + 100) is first
    assert [asked.get(condition[0]) for asked in shelf.asked] == [None, condition[1]]


async def test_a_card_that_changed_is_read_whatever_its_validator_says(shelf: Shelf) -> None:
    shelf.headers = {"ETag": '"one"'}
    agent = shelf.put("a", shipped(BATCHES))
    async with opened() as book:
        await book.offers(agent, agent.url, NOW)
        fresh = replace(shelf.put("a", shipped(RUNS)), id=agent.id)
        (offer,) = await book.offers(fresh, agent.url, NOW + 61)  # another key is pinned: nothing that was kept counts
    assert (offer.dataset, shelf.asked[1].get("if-none-match")) == (RUNS, None)


async def test_what_a_card_says_unchanged_without_a_validator_is_offered_as_before(shelf: Shelf) -> None:
    agent = shelf.put("a", shipped(BATCHES))
    async with opened() as book:
        first = await book.offers(agent, agent.url, NOW)
        assert await book.offers(agent, agent.url, NOW + 61) is first
    assert len(shelf.asked) == 2


async def test_not_modified_is_no_card_where_none_was_kept(shelf: Shelf) -> None:
    agent = shelf.put("a", shipped(BATCHES))

    async def lying(request: Request) -> Response:
        return Response(status_code=304)

    app = FastAPI()
    app.get("/a/.well-known/agent-card.json")(lying)
    async with listening(app) as port, opened() as book:
        with pytest.raises(Exception, match="HTTP 304"):
            await book.offers(agent, f"http://127.0.0.1:{port}/a", NOW)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("public, max-age=30", 30.0),
        ("no-store", 0.0),
        ("max-age=30, no-cache", 0.0),
        ('max-age="7"', 7.0),
        ("max-age=-1", None),
        ("max-age=99999999999999999999", None),
        ("private=x, s-maxage=4", None),
    ],
)
def test_a_server_shortens_how_long_its_card_is_kept_and_no_more(header: str | None, seconds: float | None) -> None:
    assert fresh_for(header) == seconds
    assert kept_for(60, seconds) == (60 if seconds is None else max(seconds, LEAST_KEPT))
    assert kept_for(1, seconds) == 1


async def test_cards_of_many_agents_are_fetched_a_few_at_a_time(shelf: Shelf) -> None:
    agents = [shelf.put(f"a{number}", shipped(BATCHES)) for number in range(3 * AT_ONCE)]
    async with opened() as book:
        found = await asyncio.gather(*(book.offers(agent, agent.url, NOW) for agent in agents))
    assert [offers[0].agent_id for offers in found] == [agent.id for agent in agents]
    assert 1 < shelf.most <= AT_ONCE


@pytest.mark.parametrize(("number", "size"), [(3, 2**40), (512, 25_000)])
async def test_no_more_cards_are_kept_than_may_be(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch, number: int, size: int
) -> None:
    monkeypatch.setattr(cards, "MAX_KEPT", number)
    monkeypatch.setattr(cards, "MAX_KEPT_BYTES", size)
    agents = [shelf.put(f"a{n}", shipped(BATCHES)) for n in range(12)]
    async with opened() as book:
        for agent in agents:
            await book.offers(agent, agent.url, NOW)
        kept = [agent.id for agent in agents if book.verified(agent.id)]
        assert 0 < len(kept) <= 3
        assert kept == [agent.id for agent in agents[-len(kept) :]]
        assert (await book.offers(agents[0], agents[0].url, NOW))[0].agent_id == agents[0].id
    assert card_memory.MAX_KEPT_BYTES >= 2**20


@pytest.fixture(scope="module")
def other_server() -> Iterator[AgentServer]:
    server = AgentServer()
    server.start()
    yield server
    server.stop()


def two(world: RootWorld, other_server: AgentServer, *, url: str | None = None) -> ScriptedRemote:
    """The world's agent for batches, and another one, served on loopback too, for runs."""
    other = other_server.serve([])
    signer = TestSigner()
    other.card = other.extended = signed(other.unsigned([shipped(RUNS)], agent_id=OTHER_ID), signer)
    world.remote.descriptors = [shipped(BATCHES)]
    world.remote.publish()
    first = replace(world.service.trust.agents[AGENT_ID], datasets=frozenset({BATCHES}))
    listed(world, first, TrustedAgent(OTHER_ID, url or other.url, signer.public_key, datasets=frozenset({RUNS})))
    return other


async def test_a_question_is_found_over_the_descriptors_of_all_agents(
    world: RootWorld, other_server: AgentServer
) -> None:
    two(world, other_server)
    root = RootAgent(world.service)
    answer = await root.ask(world.token("process_engineer"), question=QUESTION)
    await root.close()
    assert [(offer.agent_id, offer.dataset) for offer in answer.asking.candidates] == [
        (AGENT_ID, BATCHES),
        (OTHER_ID, RUNS),
    ]
    told = to_json(answer)
    assert (answer.verdict, told["discovery"]["known"], told["unasked"]) == (Verdict.GRANTED, 2, [])


async def test_an_agent_that_cannot_be_reached_is_named_and_the_others_answer(
    world: RootWorld, other_server: AgentServer
) -> None:
    two(world, other_server, url="http://127.0.0.1:9")
    root = RootAgent(world.service)
    answer = await root.ask(world.token("process_engineer"), question=QUESTION)
    await root.close()
    assert answer.verdict is Verdict.GRANTED
    assert to_json(answer)["unasked"] == [{"agent": OTHER_ID, "reason": "REMOTE_UNREACHABLE"}]


@pytest.mark.parametrize(
    "asked",
    [
        {"question": QUESTION},
        {"call": {"dataset": "nobody-serves-it", "capability": "search", "arguments": {}}},
    ],
    ids=["question", "call"],
)
async def test_where_none_can_be_reached_each_is_named(
    world: RootWorld, other_server: AgentServer, asked: dict[str, Any]
) -> None:
    two(world, other_server, url="http://127.0.0.1:9")
    world.service.agents = tuple((agent, "http://127.0.0.1:9") for agent, _ in world.service.agents)
    root = RootAgent(world.service)
    answer = await root.ask(world.token("process_engineer"), **asked)
    await root.close()
    told = to_json(answer)
    assert (told["verdict"], told["reason"], told["discovery"]) == ("INDETERMINATE", "REMOTE_UNREACHABLE", {})
    assert told["unasked"] == [{"agent": name, "reason": "REMOTE_UNREACHABLE"} for name in (AGENT_ID, OTHER_ID)]
    assert world.service.ledger.size == 1


async def test_a_slow_agent_is_waited_for_within_the_budget_only_and_is_there_for_a_later_question(
    world: RootWorld, other_server: AgentServer
) -> None:
    other = two(world, other_server)
    world.service.discovery_budget = 0.2
    go, app = asyncio.Event(), FastAPI()

    @app.get("/.well-known/agent-card.json")
    async def slow() -> Response:
        await go.wait()
        return Response(json.dumps(MessageToDict(other.card)), media_type="application/json")

    async with listening(app) as port:
        url = f"http://127.0.0.1:{port}"
        first, second = world.service.trust.agents[AGENT_ID], world.service.trust.agents[OTHER_ID]
        signer = TestSigner()
        card = replace(other, url=url).unsigned([shipped(RUNS)], agent_id=OTHER_ID)
        card.capabilities.extended_agent_card = False
        other.card = signed(card, signer)
        listed(world, first, replace(second, url=url, key=signer.public_key))
        root = RootAgent(world.service)
        answer = await root.ask(world.token("process_engineer"), question=QUESTION)
        assert answer.verdict is Verdict.GRANTED
        assert to_json(answer)["unasked"] == [{"agent": OTHER_ID, "reason": "REMOTE_TIMEOUT"}]
        go.set()
        while world.service.cards.verified(OTHER_ID) is None:  # type: ignore[attr-defined]
            await asyncio.sleep(0.01)
        later = await root.ask(world.token("process_engineer"), question=QUESTION)
        await root.close()
    assert to_json(later)["unasked"] == []


async def test_a_lone_slow_agent_is_waited_for_longer_than_the_budget(world: RootWorld) -> None:
    world.service.discovery_budget = 0.001
    root = RootAgent(world.service)
    answer = await root.ask(world.token("process_engineer"), question=QUESTION)
    await root.close()
    assert answer.verdict is Verdict.GRANTED
