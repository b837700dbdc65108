"""Agents are asked apart: one that answers nobody keeps nobody from the others."""

from __future__ import annotations

import asyncio

import httpx

from contract.settings import Settings
from delegation.http import EACH, open_http

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


class Agent:
    """Takes requests and answers them, or none of them."""

    def __init__(self, *, answers: bool) -> None:
        self._answers = answers
        self.taken = 0
        self.all_taken = asyncio.Event()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        self.taken += 1
        if self.taken == EACH:
            self.all_taken.set()
        if self._answers:
            writer.write(ANSWER)
        else:
            await reader.read()  # until the client leaves
        writer.close()


async def test_an_agent_that_answers_nobody_keeps_no_call_from_another() -> None:
    silent, good = Agent(answers=False), Agent(answers=True)
    servers = [await asyncio.start_server(agent, "127.0.0.1", 0) for agent in (silent, good)]
    there, here = (f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/" for server in servers)
    async with servers[0], servers[1], open_http(Settings(call_timeout=60)) as client:
        waiting = [asyncio.create_task(client.get(there)) for _ in range(EACH + 10)]
        await asyncio.wait_for(silent.all_taken.wait(), 20)
        answer = await asyncio.wait_for(client.get(here), 20)
        for call in waiting:
            call.cancel()
        assert answer.status_code == httpx.codes.OK
        await asyncio.gather(*waiting, return_exceptions=True)
    assert silent.taken == EACH
