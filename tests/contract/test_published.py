"""A document that is read seldom, by one attempt at a time, within bounds, from exactly one place."""

from __future__ import annotations

import asyncio
import gzip
import logging
import socket
from pathlib import Path

import httpx
import pytest

from contract.published import (
    FLOOR,
    LIFE,
    MAX_DOCUMENT_BYTES,
    MAX_MISSED,
    MISSED,
    STALE,
    Published,
    Unreadable,
    fetch,
    key_entries,
)
from tests.contract.loopback_server import Answer, LoopbackServer, certificate, loopback, reply

NOW = 1_800_000_000.0


class Door:
    """An issuer's door: the kids behind it, whether it answers, and how often it was asked."""

    def __init__(self, *kids: str) -> None:
        self.kids = frozenset(kids)
        self.asked = 0
        self.fault: Exception | None = None
        self.gate: asyncio.Event | None = None
        self.published = Published(self.read, holds=lambda kids, kid: kid in kids, name="https://idp.example")

    async def read(self) -> frozenset[str]:
        self.asked += 1
        if self.gate is not None:
            await self.gate.wait()
        if self.fault is not None:
            raise self.fault
        return self.kids

    async def look(self, kid: str | None, now: float) -> bool:
        """As its users do: whether the key is there, after waiting for what has to be waited for."""
        await self.published.look(kid, now)
        return kid is not None and self.published.knows(kid, now)


async def turns() -> None:
    """Let whatever can go on now do so."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_it_is_read_once_while_it_is_fresh() -> None:
    door = Door("a")
    assert [await door.look("a", NOW + later) for later in (0, 1, LIFE - 1)] == [True] * 3
    assert door.asked == 1


@pytest.mark.parametrize("age", [LIFE, LIFE + 1, STALE - 1])
async def test_an_old_document_is_read_again_before_its_keys_are_used(age: float) -> None:
    door = Door("a")
    await door.look("a", NOW)
    door.kids = frozenset({"b"})
    assert not await door.look("a", NOW + age)
    assert await door.look("b", NOW + age)
    assert door.asked == 2


async def test_many_who_find_the_document_old_wait_for_one_attempt_and_then_for_none() -> None:
    door = Door("a")
    await door.look("a", NOW)
    door.gate = asyncio.Event()
    looking = [asyncio.ensure_future(door.look("a", NOW + LIFE)) for _ in range(20)]
    await asyncio.sleep(0)
    assert not any(look.done() for look in looking)
    door.gate.set()
    assert await asyncio.gather(*looking) == [True] * 20
    assert await door.look("a", NOW + LIFE + 1)
    assert door.asked == 2


async def test_an_old_document_is_used_without_another_wait_where_reading_it_again_has_just_failed() -> None:
    door = Door("a")
    await door.look("a", NOW)
    door.fault = Unreadable("down")
    assert await door.look("a", NOW + LIFE)
    assert door.published.look_for("a", NOW + LIFE + FLOOR - 1) is None
    assert await door.look("a", NOW + LIFE + FLOOR - 1)
    assert door.asked == 2


async def test_a_key_that_somebody_else_gives_waits_for_no_attempt() -> None:
    door = Door("a")
    door.gate = asyncio.Event()
    for now in (NOW, NOW + LIFE):
        await door.published.look("x", now, elsewhere=True)
    assert door.asked == 0
    await asyncio.sleep(0)
    assert door.asked == 1
    await door.published.close()


async def test_what_is_forgotten_is_read_anew_at_once_before_it_is_believed() -> None:
    door = Door("a", "b")
    await door.look("a", NOW)
    door.kids = frozenset({"b"})
    door.published.forget()
    assert not await door.look("a", NOW + 1)
    assert await door.look("b", NOW + 1)
    assert door.asked == 2


async def test_what_is_forgotten_is_not_believed_while_its_issuer_is_silent() -> None:
    door = Door("a")
    await door.look("a", NOW)
    door.published.forget()
    door.fault = Unreadable("down")
    assert not await door.look("a", NOW + 1)
    assert (door.published.usable(NOW + 1), door.published.reached(NOW + 1)) == (None, False)


async def test_what_an_attempt_brings_that_began_before_is_forgotten_with_the_rest() -> None:
    door = Door("a")
    await door.look("b", NOW)
    gates = [asyncio.Event(), asyncio.Event()]
    door.gate = gates[0]
    waiting = [asyncio.ensure_future(door.look(kid, NOW + LIFE)) for kid in ("a", "b")]
    await turns()
    door.published.forget()
    door.gate = gates[1]
    late = asyncio.ensure_future(door.look("b", NOW + LIFE))
    await turns()
    assert door.asked == 3
    gates[0].set()
    await turns()
    assert not any(look.done() for look in (*waiting, late))
    door.kids = frozenset({"b"})
    gates[1].set()
    assert await asyncio.gather(*waiting, late) == [False, True, True]
    assert door.asked == 3


async def test_many_at_once_make_one_attempt() -> None:
    door = Door("a")
    door.gate = asyncio.Event()
    looking = [asyncio.ensure_future(door.look(f"k{number % 3}", NOW)) for number in range(50)]
    await asyncio.sleep(0)
    door.gate.set()
    await asyncio.gather(*looking)
    assert door.asked == 1


async def test_one_who_gives_up_waiting_takes_the_attempt_from_nobody() -> None:
    door = Door("a")
    door.gate = asyncio.Event()
    first, second = (asyncio.ensure_future(door.look("a", NOW)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait({first})
    door.gate.set()
    assert await second


async def test_a_known_key_waits_for_no_attempt() -> None:
    door = Door("a")
    await door.look("a", NOW)
    door.gate = asyncio.Event()
    unknown = asyncio.ensure_future(door.look("b", NOW + FLOOR))
    await asyncio.sleep(0)
    assert await door.look("a", NOW + FLOOR)
    assert not unknown.done()
    door.gate.set()
    assert not await unknown


@pytest.mark.parametrize("fault", [Unreadable("down"), ValueError("a bug"), OSError(), httpx.ReadError("x")])
async def test_a_failed_attempt_counts_against_the_floor_and_raises_nothing(fault: Exception) -> None:
    door = Door("a")
    door.fault = fault
    assert [await door.look("a", NOW + later) for later in (0, 1, FLOOR - 1)] == [False] * 3
    assert (door.asked, door.published.reached(NOW), door.published.retry_in(NOW + 1)) == (1, False, FLOOR - 1)
    door.fault = None
    assert await door.look("a", NOW + FLOOR)


async def test_what_failed_is_logged_without_the_text_of_an_unforeseen_fault(caplog: pytest.LogCaptureFixture) -> None:
    door = Door()
    door.fault = ValueError("secret")
    with caplog.at_level(logging.DEBUG):
        await door.look("a", NOW)
    assert "https://idp.example" in caplog.text and "ValueError" in caplog.text and "secret" not in caplog.text


async def test_a_silent_issuers_document_is_used_for_an_hour() -> None:
    door = Door("a")
    await door.look("a", NOW)
    door.fault = Unreadable("down")
    assert await door.look("a", NOW + STALE - 1)
    await asyncio.sleep(0)
    assert not door.published.reached(NOW + STALE - 1)
    assert not await door.look("a", NOW + STALE)


async def test_a_key_that_was_looked_for_in_vain_is_not_looked_for_again_for_a_while() -> None:
    door = Door("a")
    assert not await door.look("x", NOW)
    assert not await door.look("x", NOW + FLOOR)
    assert door.asked == 1
    assert not await door.look("y", NOW + FLOOR)
    assert door.asked == 2
    assert not await door.look("x", NOW + MISSED)
    assert door.asked == 3


async def test_a_missed_key_is_there_as_soon_as_anybody_brought_it() -> None:
    door = Door("a")
    await door.look("x", NOW)
    door.kids = frozenset({"a", "x"})
    await door.look("y", NOW + FLOOR)
    assert await door.look("x", NOW + FLOOR)


async def test_a_failed_attempt_makes_no_key_missed() -> None:
    door = Door("a")
    door.fault = Unreadable("down")
    await door.look("a", NOW)
    door.fault = None
    assert await door.look("a", NOW + FLOOR)


async def test_invented_keys_neither_knock_nor_fill_the_memory() -> None:
    door = Door("a")
    for number in range(10):
        attempts = [door.look(f"{number}-{kid}", NOW + number * FLOOR) for kid in range(200)]
        await asyncio.gather(*attempts)
    assert door.asked == 10
    assert len(door.published._missed) <= MAX_MISSED
    assert await door.look("a", NOW + 9 * FLOOR)


@pytest.mark.parametrize("back", [FLOOR, 86_400.0])
async def test_a_clock_that_is_set_back_does_not_block_attempts(back: float) -> None:
    door = Door("a")
    await door.look("a", NOW)
    door.kids = frozenset({"b"})
    assert await door.look("b", NOW - back)


async def test_close_ends_an_attempt_that_is_under_way() -> None:
    door = Door("a")
    door.gate = asyncio.Event()
    attempt = door.published.look_for("a", NOW)
    assert attempt is not None
    await door.published.close()
    await door.published.close()
    assert attempt.cancelled()


async def test_an_attempt_that_never_ends_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("contract.published.TIMEOUT", 0.01)
    door = Door("a")
    door.gate = asyncio.Event()
    assert not await door.look("a", NOW)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"keys": {}}',
        b'{"keys": [], "keys": []}',
        b'{"keys": [' + b"{}," * 16 + b"{}]}",
        b" " * (MAX_DOCUMENT_BYTES + 1),
        b"[" * 40_000,
        b'{"keys": [' + b"[" * 40 + b"]" * 40 + b"]}",
        b"\xff\xfe",
    ],
)
def test_a_key_set_is_read_strictly(data: bytes) -> None:
    with pytest.raises(Unreadable):
        key_entries(data)


# over HTTP


async def test_a_document_is_fetched() -> None:
    async with loopback(reply(b'{"keys": []}')) as server:
        assert await fetch(server.url("/jwks.json?p=1")) == b'{"keys": []}'
    (request,) = server.requests
    assert request.startswith("GET /jwks.json?p=1 HTTP/1.1\r\n")
    assert "accept-encoding: identity" in request.lower()


async def test_the_largest_document_is_fetched_and_one_byte_more_is_not() -> None:
    async with loopback(reply(b"x" * MAX_DOCUMENT_BYTES)) as server:
        assert len(await fetch(server.url())) == MAX_DOCUMENT_BYTES
        server.answer = reply(b"x" * (MAX_DOCUMENT_BYTES + 1))
        with pytest.raises(Unreadable, match="larger"):
            await fetch(server.url())


@pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified", "404 Not Found", "500 No"])
async def test_only_200_is_an_answer(status: str) -> None:
    async with loopback(reply(b"{}" if status[0] != "2" and status[:3] != "304" else b"", status=status)) as server:
        with pytest.raises(Unreadable, match=status[:3]):
            await fetch(server.url())


async def test_a_redirect_is_not_followed() -> None:
    async with loopback(reply(b"{}")) as other, loopback(reply(b"")) as server:
        server.answer = reply(b"", status="302 Found", head=f"Location: {other.url()}\r\n")
        with pytest.raises(Unreadable, match="302"):
            await fetch(server.url())
    assert other.requests == []


async def test_a_small_body_that_would_grow_is_not_expanded() -> None:
    bomb = gzip.compress(b"\0" * 50_000_000)
    assert len(bomb) < MAX_DOCUMENT_BYTES
    async with loopback(reply(bomb, head="Content-Encoding: gzip\r\n")) as server:
        with pytest.raises(Unreadable, match="encoded"):
            await fetch(server.url())


async def test_a_body_without_end_is_not_read_to_its_end() -> None:
    async def endless(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while not writer.is_closing():
            writer.write(b"1000\r\n" + b"x" * 4096 + b"\r\n")
            await writer.drain()

    async with loopback(endless) as server:
        with pytest.raises(Unreadable, match="larger"):
            await fetch(server.url())


def _drip(head: bytes) -> Answer:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        while not writer.is_closing():
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.01)

    return answer


@pytest.mark.parametrize(
    "head",
    [b"", b"HTTP/1.1 200 OK\r\nX-Slow: ", b"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n"],
    ids=["status line", "headers", "body"],
)
async def test_a_byte_now_and_then_is_no_answer(monkeypatch: pytest.MonkeyPatch, head: bytes) -> None:
    monkeypatch.setattr("contract.published.TIMEOUT", 0.3)
    async with loopback(_drip(head)) as server:
        with pytest.raises(Unreadable):
            await fetch(server.url())
    assert len(server.requests) == 1


async def test_a_server_that_takes_the_request_and_is_silent_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("contract.published.TIMEOUT", 0.2)

    async def silent(writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(5)

    async with loopback(silent) as server:
        with pytest.raises(Unreadable, match="TimeoutError|ReadTimeout"):
            await fetch(server.url())


@pytest.mark.parametrize(
    "garbage", [b"", b"\0" * 100, b"SSH-2.0-x\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"]
)
async def test_what_is_no_http_is_no_answer(garbage: bytes) -> None:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(garbage)

    async with loopback(answer) as server:
        with pytest.raises(Unreadable):
            await fetch(server.url())


async def test_nobody_at_the_address_is_no_answer() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(Unreadable):
            await fetch(f"http://127.0.0.1:{taken.getsockname()[1]}/")


async def test_a_name_that_does_not_resolve_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(*_: object, **__: object) -> object:
        raise socket.gaierror("no such name")

    monkeypatch.setattr(socket, "getaddrinfo", nowhere)
    with pytest.raises(Unreadable):
        await fetch("https://nowhere.invalid/")


@pytest.mark.parametrize("url", ["http://idp.example/", "ftp://127.0.0.1/", "https://u@idp.example/", "\x00", ""])
async def test_an_address_that_is_not_accepted_is_not_asked(url: str) -> None:
    with pytest.raises(Unreadable, match="not accepted"):
        await fetch(url)


async def test_a_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with loopback(reply(b"from the proxy")) as proxy, loopback(reply(b"from the issuer")) as server:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url("/"))
        assert await fetch(server.url()) == b"from the issuer"
    assert proxy.requests == []


async def _over_tls(server: LoopbackServer, authorities: Path | None) -> bytes:
    return await fetch(server.url(host="localhost"), authorities=authorities)


async def test_a_certificate_of_a_given_authority_for_this_host_is_believed(tmp_path: Path) -> None:
    context, authority = certificate(tmp_path, "localhost")
    async with loopback(reply(b"{}"), tls=context) as server:
        assert await _over_tls(server, authority) == b"{}"


async def test_a_certificate_of_another_authority_is_not_believed(tmp_path: Path) -> None:
    context, _ = certificate(tmp_path, "localhost")
    async with loopback(reply(b"{}"), tls=context) as server:
        with pytest.raises(Unreadable):
            await _over_tls(server, None)


async def test_a_certificate_for_another_host_is_not_believed(tmp_path: Path) -> None:
    context, authority = certificate(tmp_path, "idp.example")
    async with loopback(reply(b"{}"), tls=context) as server:
        with pytest.raises(Unreadable):
            await _over_tls(server, authority)
    assert server.requests == []


async def test_authorities_that_cannot_be_read_are_no_answer(tmp_path: Path) -> None:
    with pytest.raises(Unreadable):
        await fetch("https://127.0.0.1:1/", authorities=tmp_path / "nothing.pem")
