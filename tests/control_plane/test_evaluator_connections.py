"""One question has one connection: an answer that nobody asked for is nobody's, and what is beside a decision is known."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from control_plane.evaluator import EvaluatorUnavailable, HttpEvaluator
from control_plane.policy import Outcome
from tests.control_plane.control_plane_world import make_principal, make_question

PERMIT = {"outcome": "permit", "policy_id": "P-1", "policy_version": "1"}
NONE = {"outcome": "none", "policy_id": None, "policy_version": "1"}
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"


def answering(result: dict[str, Any], **beside: Any) -> bytes:
    body = json.dumps({"result": result} | beside).encode()
    return HEAD % len(body) + body


class Wire:
    """Writes ``pieces`` for every request, whatever the client said about the connection, and counts connections."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = pieces
        self.connections = 0

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
                await reader.readexactly(int(length.split(b":")[1]))
                for piece in self._pieces:
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0.01)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


@asynccontextmanager
async def wired(wire: Wire) -> AsyncIterator[HttpEvaluator]:
    server = await asyncio.start_server(wire.take, "127.0.0.1", 0)
    evaluator = HttpEvaluator(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", 5)
    async with server:
        yield evaluator
        await evaluator.close()


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([answering(NONE) + answering(PERMIT)], id="at once"),
        pytest.param([answering(NONE), answering(PERMIT)], id="a little later"),
    ],
)
async def test_a_second_answer_is_not_the_answer_to_the_next_question(pieces: list[bytes]) -> None:
    wire = Wire(pieces)
    async with wired(wire) as evaluator:
        for subject in ("u-1", "u-2", "u-3"):
            answer = await evaluator.evaluate(make_question(principal=make_principal(subject=subject)))
            assert answer.outcome is Outcome.NONE
            await asyncio.sleep(0.02)  # a second answer has come by then
    assert wire.connections == 3


async def test_a_connection_that_ends_without_an_answer_is_asked_once() -> None:
    asked: list[bytes] = []

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readline())
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    evaluator = HttpEvaluator(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", 5)
    async with server:
        with pytest.raises(EvaluatorUnavailable):
            await evaluator.evaluate(make_question())
        await evaluator.close()
    assert len(asked) == 1


@pytest.mark.parametrize("member", ["error", "errors", "code", "message", "warning", "allow", "Result"])
async def test_a_permit_beside_something_unknown_is_no_decision(member: str) -> None:
    async with wired(Wire([answering(PERMIT, **{member: "x"})])) as evaluator:
        with pytest.raises(EvaluatorUnavailable, match="beside its decision"):
            await evaluator.evaluate(make_question())


async def test_how_a_server_is_does_not_depend_on_how_much_it_says() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        with suppress(ConnectionError):
            while not writer.is_closing():
                writer.write(b"10000\r\n" + b"a" * 65_536 + b"\r\n")
                await writer.drain()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    evaluator = HttpEvaluator(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", 5)
    async with server:
        await asyncio.wait_for(evaluator.health(), 5)
        await evaluator.close()
