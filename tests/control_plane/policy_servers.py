"""Policy servers on loopback: real HTTP, with whatever answer a test needs."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import uvicorn

from control_plane.evaluator import DECISION_PATH

Answerer = Callable[[dict[str, Any]], Awaitable[tuple[int, bytes]]]


@asynccontextmanager
async def served(answer: Answerer) -> AsyncIterator[str]:
    """A real HTTP server on loopback that answers every POST with ``answer(body)``."""

    async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        if scope["path"] != DECISION_PATH or scope["method"] != "POST":
            status, reply = 404, b"{}"
        else:
            status, reply = await answer(json.loads(body))
        headers = [(b"content-type", b"application/json"), (b"location", b"/elsewhere")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": reply})

    async with listening(app) as url:
        yield url


@asynccontextmanager
async def listening(app: Any) -> AsyncIterator[str]:
    """An ASGI application on a free port of loopback."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, lifespan="off", log_level="critical", http="h11"))
    running = asyncio.create_task(server.serve(sockets=[listener]))
    while not server.started:
        await asyncio.sleep(0.005)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = server.force_exit = True
        await running
