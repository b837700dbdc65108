"""What another agent's card may cost: time, tries, bytes, shape; and what is done before its signature held."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from fastapi import Request
from fastapi.responses import Response, StreamingResponse
from google.protobuf.json_format import MessageToDict

import delegation.card_reader
import delegation.cards
from contract.settings import Settings
from contract.verdict import NotGranted, Reason
from delegation.cards import PATIENCE, PAUSE, CardBook
from delegation.credentials import Assertions
from delegation.http import open_http
from grants.trust import TrustedAgent
from tests.root_agent.scripted_remote import AGENT_ID, AgentServer, ScriptedRemote, TestSigner, shipped, signed

NOW = 1_800_000_000.0
_STARTED = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 3000000\r\n\r\n{"


@pytest.fixture
async def remote(agent_server: AgentServer) -> ScriptedRemote:
    return agent_server.serve([shipped("purification-batches")])


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    client = open_http(Settings(call_timeout=60.0))
    yield client
    await client.aclose()


def open_book(http: httpx.AsyncClient, patience: float = PATIENCE) -> CardBook:
    assertions = Assertions(TestSigner(), "urn:dataset-agent:root")
    return CardBook(http, assertions, private_network=False, ttl=60, patience=patience)


@pytest.fixture
def book(http: httpx.AsyncClient) -> CardBook:
    return open_book(http)


async def end_of(book: CardBook, remote: ScriptedRemote, *, url: str = "", now: float = NOW) -> Reason | None:
    try:
        await book.card(TrustedAgent(AGENT_ID, remote.url, remote.signer.public_key), url or remote.url, now)
    except NotGranted as stop:
        return stop.reason
    return None


class Slow:
    """Takes connections, and after these first bytes sends one more every few milliseconds."""

    def __init__(self, first: bytes) -> None:
        self.first = first
        self.taken = 0
        self.url = ""

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.taken += 1
        writer.write(self.first)
        try:
            while True:
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.005)
        except (ConnectionError, asyncio.CancelledError):
            writer.close()


@asynccontextmanager
async def slow_agent(first: bytes = _STARTED) -> AsyncIterator[Slow]:
    slow = Slow(first)
    tasks: list[asyncio.Task[None]] = []
    server = await asyncio.start_server(lambda r, w: tasks.append(asyncio.ensure_future(slow(r, w))), "127.0.0.1", 0)
    slow.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield slow
    finally:
        server.close()
        for task in tasks:
            task.cancel()


@pytest.mark.parametrize("first", [b"HTTP/1.1 200 OK\r\nx: ", _STARTED], ids=["headers", "body"])
async def test_a_card_that_comes_drop_by_drop_is_late(
    http: httpx.AsyncClient, remote: ScriptedRemote, first: bytes
) -> None:
    async with slow_agent(first) as slow:
        assert await end_of(open_book(http, 0.2), remote, url=slow.url) is Reason.REMOTE_TIMEOUT


async def test_the_time_is_that_of_public_and_extended_card_together(
    http: httpx.AsyncClient, remote: ScriptedRemote
) -> None:
    async def drops() -> AsyncIterator[bytes]:
        for _ in range(400):
            yield b" "
            await asyncio.sleep(0.01)

    async def reply(_: Request) -> Response:
        return StreamingResponse(drops(), media_type="application/json")

    remote.raw_reply = reply
    assert await end_of(open_book(http, 0.5), remote) is Reason.REMOTE_TIMEOUT


async def test_an_agent_whose_card_could_not_be_had_is_left_alone_for_a_while(
    http: httpx.AsyncClient, remote: ScriptedRemote
) -> None:
    book = open_book(http, 0.1)
    async with slow_agent() as slow:
        for later in (0.0, 1.0, PAUSE - 1):
            assert await end_of(book, remote, url=slow.url, now=NOW + later) is Reason.REMOTE_TIMEOUT
        assert slow.taken == 1
        await end_of(book, remote, url=slow.url, now=NOW + PAUSE + 1)
        assert slow.taken == 2


async def test_whoever_waited_for_the_same_card_does_not_try_again(
    http: httpx.AsyncClient, remote: ScriptedRemote
) -> None:
    book = open_book(http, 0.1)
    async with slow_agent() as slow:
        ends = await asyncio.gather(*(end_of(book, remote, url=slow.url, now=NOW) for _ in range(5)))
        assert (ends, slow.taken) == ([Reason.REMOTE_TIMEOUT] * 5, 1)


async def test_a_clock_that_was_set_back_does_not_make_the_pause_longer(
    http: httpx.AsyncClient, remote: ScriptedRemote
) -> None:
    book = open_book(http, 0.1)
    async with slow_agent() as slow:
        await end_of(book, remote, url=slow.url, now=NOW)
        await end_of(book, remote, url=slow.url, now=NOW - 3_600)
        assert slow.taken == 2


@pytest.mark.parametrize("forget", [lambda book: book.forget(AGENT_ID), lambda book: book.forget_all()])
async def test_an_agent_that_is_forgotten_or_moved_is_tried_at_once(
    book: CardBook, remote: ScriptedRemote, forget: Callable[[CardBook], None]
) -> None:
    gone = "http://127.0.0.1:9"
    assert await end_of(book, remote, url=gone) is Reason.REMOTE_UNREACHABLE
    assert await end_of(book, remote) is None
    remote.raw_card = Response(status_code=500)
    book.forget(AGENT_ID)
    assert await end_of(book, remote) is Reason.REMOTE_CARD_INVALID
    remote.raw_card = None
    assert await end_of(book, remote) is Reason.REMOTE_CARD_INVALID
    forget(book)
    assert await end_of(book, remote) is None


# what a card costs before it is believed


def noting(monkeypatch: pytest.MonkeyPatch, module: Any, *names: str) -> list[tuple[Any, int]]:
    """The first argument of every call of these functions of a module, and the thread it was made in."""
    seen: list[tuple[Any, int]] = []

    def noted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(first: Any, *more: Any, **named: Any) -> Any:
            seen.append((first, threading.get_ident()))
            return function(first, *more, **named)

        return call

    for name in names:
        monkeypatch.setattr(module, name, noted(getattr(module, name)))
    return seen


def padded(remote: ScriptedRemote, padding: bytes) -> bytes:
    """The honest card with a member more among what the extension says."""
    return json.dumps(MessageToDict(remote.card)).encode().replace(b'"params": {', b'"params": {"zz": %b, ' % padding)


def serve(remote: ScriptedRemote, raw: bytes, *, extended: bool) -> None:
    async def reply(_: Request) -> Response:
        return Response(b'{"jsonrpc": "2.0", "id": "1", "result": %b}' % raw, media_type="application/json")

    if extended:
        remote.raw_reply = reply
    else:
        remote.raw_card = Response(raw, media_type="application/json")


@pytest.mark.parametrize("extended", [False, True])
@pytest.mark.parametrize(
    "padding",
    [
        b"[" + b",".join([b"[" * 20 + b"]" * 20] * 11_000) + b"]",
        b"[" + b",".join([b"1"] * 210_000) + b"]",
        b"[" * 40 + b"]" * 40,
    ],
    ids=["nested", "wide", "deep"],
)
async def test_a_card_of_a_hostile_shape_is_not_even_parsed(
    book: CardBook, remote: ScriptedRemote, monkeypatch: pytest.MonkeyPatch, padding: bytes, extended: bool
) -> None:
    serve(remote, padded(remote, padding), extended=extended)
    parsed = noting(monkeypatch, delegation.card_reader, "parse")
    assert await end_of(book, remote) is Reason.REMOTE_CARD_INVALID
    assert len(parsed) == (1 if extended else 0)  # the honest public card


async def test_nothing_is_made_of_a_card_that_nobody_known_says_to_have_signed(
    book: CardBook, remote: ScriptedRemote, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote.card = signed(remote.unsigned(remote.descriptors), TestSigner())
    reached = noting(monkeypatch, delegation.card_reader, "canonical_json", "ParseDict", "whole_numbers")
    assert await end_of(book, remote) is Reason.REMOTE_CARD_INVALID
    assert reached == []


@pytest.mark.parametrize("extended", [False, True])
async def test_no_message_and_no_descriptor_is_made_of_a_card_whose_signature_does_not_hold(
    book: CardBook, remote: ScriptedRemote, monkeypatch: pytest.MonkeyPatch, extended: bool
) -> None:
    serve(remote, padded(remote, b"[1]"), extended=extended)
    made = noting(monkeypatch, delegation.card_reader, "ParseDict")
    assert await end_of(book, remote) is Reason.REMOTE_CARD_INVALID
    assert len(made) == (1 if extended else 0)


async def test_protobuf_is_spared_what_the_extension_says(
    book: CardBook, remote: ScriptedRemote, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = noting(monkeypatch, delegation.card_reader, "ParseDict")
    assert await end_of(book, remote) is None
    assert len(made) == 2
    assert all(shipped("purification-batches").description not in json.dumps(value) for value, _ in made)


async def test_a_large_card_is_read_beside_the_event_loop(
    book: CardBook, remote: ScriptedRemote, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote.descriptors = [shipped("purification-batches"), shipped("chromatography-results")]
    remote.publish()
    read = noting(monkeypatch, delegation.cards, "read_card", "read_extended")
    serve(remote, json.dumps(MessageToDict(remote.card)).encode() + b" " * 20_000, extended=False)
    serve(remote, json.dumps(MessageToDict(remote.extended)).encode() + b" " * 20_000, extended=True)
    assert await end_of(book, remote) is None
    assert len(read) == 2 and all(thread != threading.get_ident() for _, thread in read)


async def test_an_extended_card_that_is_no_result_is_invalid(book: CardBook, remote: ScriptedRemote) -> None:
    for body in (b"[]", b"{}", b'{"error": {"code": -32603}}', b'{"error": {"code": 1}, "result": {}}', b"<html>"):

        async def reply(_: Request, body: bytes = body) -> Response:
            return Response(body, media_type="application/json")

        remote.raw_reply = reply
        book.forget_all()
        assert await end_of(book, remote) is Reason.REMOTE_CARD_INVALID
