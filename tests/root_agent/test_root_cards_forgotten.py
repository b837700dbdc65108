"""A card is believed by the keys that are pinned when it is asked for, not by those that were when its fetch began."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import httpx
import pytest

from contract.settings import Settings
from contract.verdict import NotGranted, Reason
from delegation.cards import CardBook
from delegation.credentials import Assertions
from delegation.http import open_http
from grants.trust import TrustedAgent
from tests.root_agent.scripted_remote import AGENT_ID, AgentServer, ScriptedRemote, TestSigner, shipped

NOW = 1_800_000_000.0
FORGET = pytest.mark.parametrize("forget", [lambda book: book.forget(AGENT_ID), lambda book: book.forget_all()])


class Held:
    """A client whose answers are held back until the gate is opened."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http
        self.gate = asyncio.Event()
        self.arrived = asyncio.Event()
        http.event_hooks = {"response": [self._hold]}

    async def _hold(self, response: httpx.Response) -> None:
        self.arrived.set()
        await self.gate.wait()


@pytest.fixture
async def remote(agent_server: AgentServer) -> ScriptedRemote:
    return agent_server.serve([shipped("purification-batches")])


@pytest.fixture
async def held() -> AsyncIterator[Held]:
    http = open_http(Settings(call_timeout=2.0, max_result_bytes=2**20))
    yield Held(http)
    await http.aclose()


@pytest.fixture
def book(held: Held) -> CardBook:
    return CardBook(held.http, Assertions(TestSigner(), "urn:dataset-agent:root"), private_network=False, ttl=60)


def pinned(remote: ScriptedRemote) -> TrustedAgent:
    return TrustedAgent(AGENT_ID, remote.url, remote.signer.public_key)


def rotated(remote: ScriptedRemote) -> TrustedAgent:
    """The agent as it is known when its key was retired."""
    return replace(pinned(remote), key=TestSigner().public_key, retired_keys=(remote.signer.public_key,))


async def reason_of(book: CardBook, agent: TrustedAgent, now: float = NOW) -> Reason | None:
    try:
        await book.card(agent, agent.url, now)
    except NotGranted as stop:
        return stop.reason
    return None


@FORGET
async def test_a_card_whose_fetch_began_before_is_not_kept(
    book: CardBook, held: Held, remote: ScriptedRemote, forget: Callable[[CardBook], None]
) -> None:
    fetching = asyncio.ensure_future(reason_of(book, pinned(remote)))
    await held.arrived.wait()
    forget(book)
    held.gate.set()
    assert await fetching is None
    assert remote.card_requests == 1
    assert await reason_of(book, pinned(remote)) is None
    assert remote.card_requests == 2
    assert await reason_of(book, pinned(remote)) is None
    assert remote.card_requests == 2


async def test_a_card_by_a_key_that_was_retired_meanwhile_is_believed_no_more(
    book: CardBook, held: Held, remote: ScriptedRemote
) -> None:
    fetching = asyncio.ensure_future(reason_of(book, pinned(remote)))
    await held.arrived.wait()
    book.forget_all()
    held.gate.set()
    assert await fetching is None
    assert await reason_of(book, rotated(remote), NOW + 30) is Reason.REMOTE_CARD_INVALID


async def test_a_card_that_somebody_fetched_for_older_pins_is_not_believed_for_the_newer(
    book: CardBook, held: Held, remote: ScriptedRemote
) -> None:
    held.gate.set()
    book.forget_all()
    assert await reason_of(book, pinned(remote)) is None  # an asking under way, which keeps what it began with
    assert await reason_of(book, rotated(remote)) is Reason.REMOTE_CARD_INVALID


@FORGET
async def test_a_fetch_that_began_before_and_failed_is_not_held_against_the_agent(
    book: CardBook, held: Held, remote: ScriptedRemote, forget: Callable[[CardBook], None]
) -> None:
    fetching = asyncio.ensure_future(reason_of(book, rotated(remote)))
    await held.arrived.wait()
    forget(book)
    held.gate.set()
    assert await fetching is Reason.REMOTE_CARD_INVALID
    assert await reason_of(book, pinned(remote)) is None
