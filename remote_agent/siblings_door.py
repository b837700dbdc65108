"""How a request reaches the worker that has its task, and how the tasks of all workers become one list.

ASGI, before everything else of the application. Each worker serves the same application on a
private socket too, in a folder that only this user may enter. What comes there was handed over:
client, grant and owner are verified by the worker that has the task, from what the client sent,
so the socket gives nobody more than the port does. What comes there is handed on no further.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final, cast

import httpx
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from contract.errors import Category, Component, DatasetAgentError
from contract.problem import send_problem
from remote_agent.siblings import ARRIVED, Arrived, Elsewhere, Siblings

log = logging.getLogger(__name__)

CONNECT_S: Final = 2.0
_OF_ONE_CONNECTION: Final = frozenset(
    (b"connection", b"keep-alive", b"transfer-encoding", b"te", b"trailer", b"upgrade", b"expect", b"content-length")
)
_OF_THE_SERVER: Final = frozenset((b"connection", b"keep-alive", b"transfer-encoding", b"date", b"server"))


class WorkerGone(Exception):
    """Nobody listens for that worker: it has ended, and its tasks and results with it."""


class HandOver:
    """Passes on what the application says belongs to another worker, as it came, and its answer as it comes."""

    def __init__(self, app: ASGIApp, siblings: Siblings) -> None:
        self._app = app
        self._siblings = siblings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        before, arrived = dict(scope), Arrived(scope["headers"], stays=_is_private(scope))
        ARRIVED.set(arrived)  # each request has a context of its own

        async def take() -> Message:
            message = await receive()
            if message["type"] == "http.request":
                arrived.body.append(message.get("body", b""))
            return message

        try:
            await self._app(scope, take, send)
        except Elsewhere as elsewhere:
            worker = elsewhere.worker
        else:
            return
        try:
            await _while_there(self._pass_on(worker, before, arrived, send), receive)
        except WorkerGone:
            # The tasks went with it: this worker has none of that id either, and says so in the same words.
            arrived.stays = True
            await self._app(before, _again(b"".join(arrived.body), receive), send)

    async def _pass_on(self, worker: int, scope: Scope, arrived: Arrived, send: Send) -> None:
        """Raises ``WorkerGone`` while nothing was sent."""
        place = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
        begun = False
        try:
            async with asked(self._siblings, worker, scope["method"], place, arrived) as answer:
                headers = [pair for pair in answer.headers.raw if pair[0].lower() not in _OF_THE_SERVER]
                begun = True
                await send({"type": "http.response.start", "status": answer.status_code, "headers": headers})
                async for piece in cast(AsyncIterator[bytes], answer.stream):
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
                await send({"type": "http.response.body", "body": b""})
        except httpx.TransportError as error:
            log.error("worker %d did not answer to the end: %s", worker, type(error).__name__)
            if not begun:  # else the connection ends before its answer does, which is how the reader learns of it
                await send_problem(send, unanswered())


@asynccontextmanager
async def asked(
    siblings: Siblings, worker: int, method: str, place: bytes, arrived: Arrived
) -> AsyncIterator[httpx.Response]:
    """Another worker's answer to this request, with a connection of its own. Raises ``WorkerGone``, ``TransportError``."""
    headers = [pair for pair in arrived.headers if pair[0] not in _OF_ONE_CONNECTION]
    request = httpx.Request(
        method,
        httpx.URL(scheme="http", host="worker", raw_path=place),
        headers=headers,
        content=b"".join(arrived.body),
        extensions={"timeout": {"connect": CONNECT_S}},
    )
    transport = httpx.AsyncHTTPTransport(
        uds=str(siblings.socket_of(worker)), verify=False, limits=httpx.Limits(max_keepalive_connections=0)
    )
    async with transport:
        try:
            answer = await transport.handle_async_request(request)
        except httpx.ConnectError as error:
            if _is_nobody(error) and not siblings.leaving:
                raise WorkerGone from error
            raise
        try:
            yield answer
        finally:
            await answer.aclose()


def _is_private(scope: Scope) -> bool:
    """Whether it came by the private socket: a path has no port."""
    server = scope.get("server")
    return server is not None and server[1] is None


def _is_nobody(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ConnectionRefusedError | FileNotFoundError):
            return True
        error = error.__cause__ or error.__context__
    return False


async def _while_there(work: Coroutine[Any, Any, None], receive: Receive) -> None:
    """Run ``work``; when the client leaves before its end, it is stopped."""
    working, leaving = asyncio.create_task(work), asyncio.create_task(_left(receive))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        over = working.done()
        for task in (working, leaving):
            task.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)
    if over:
        working.result()


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _again(body: bytes, receive: Receive) -> Receive:
    sent = False

    async def again() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def unanswered() -> DatasetAgentError:
    return DatasetAgentError(
        Component.REMOTE_AGENT,
        Category.UNAVAILABLE,
        "remote_agent.worker.unanswered",
        "the worker that has the task did not answer: ask again; if it has ended, the task has too",
        retry_after=1.0,
    )
