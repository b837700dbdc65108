"""ASGI middleware: bounded bodies, and a verified client agent on every route that is not public."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from contract.canonical import InvalidJson, check_shape
from contract.errors import Category, Component, DatasetAgentError
from contract.problem import send_problem
from contract.trace_context import new_trace_id
from contract.tracing import take_in
from remote_agent.caller import Caller

MAX_VALUES: Final = 2_000
"""JSON values in a body. Parsing into protobuf costs per value, and happens before any authority."""

_SOON_S: Final = 0.1

PUBLIC: Final = frozenset({"/.well-known/agent-card.json", "/.well-known/jwks.json", "/healthz", "/readyz"})

BODY: Final = "dataset_agent.body"
"""Where the scope holds the whole body of a request."""
CALLER: Final = "dataset_agent.caller"
"""Where the scope holds the authenticated client agent, a ``Caller``."""

Count = Callable[[Caller], Awaitable[None]]
"""One request of a client; raises ``DatasetAgentError`` RATE_LIMITED where it is over its limit."""

Authenticate = Callable[[str | None], Caller]
"""From the Authorization header to the caller; raises ``DatasetAgentError`` UNAUTHENTICATED."""


class Gate:
    """Refuses before any route: 401 without a verified client, 429 over its limit, 413 for a body over ``max_body`` bytes.

    RFC 7523 (client assertions as bearer), RFC 9457 (problem details). What passes carries
    its ``Caller`` in the scope; the Authorization header does not travel further. ``refused`` is
    called for each 401.
    """

    def __init__(
        self,
        app: ASGIApp,
        authenticate: Authenticate,
        max_body: int,
        refused: Callable[[], None] = lambda: None,
        count: Count | None = None,
    ) -> None:
        self._refused = refused
        self._count = count
        self._app = app
        self._authenticate = authenticate
        self._soon = _Soon()
        self._max_body = max_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        public = scope["path"] in PUBLIC
        try:
            if not public:
                scope[CALLER] = caller = self._identify(scope)
                if self._count is not None:  # before its body is read
                    await self._count(caller)
                scope["headers"] = [pair for pair in scope["headers"] if pair[0] != b"authorization"]
            # Nothing reads the body of a public route, and nobody in particular may send one, as slowly as they like.
            scope[BODY] = body = await bounded_body(receive, self._max_body, kept=not public)
            if not public:
                _check_shape(body)
        except DatasetAgentError as error:
            if error.category is Category.UNAUTHENTICATED:
                self._refused()
            await send_problem(send, error)
            return
        await self._until_gone(scope, body, receive, send)

    async def _until_gone(self, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        """Run the application, and cancel it when the caller disconnects, so that no query outlives them."""
        request = asyncio.current_task()
        caller = _Waiting(receive, request)
        self._soon.add(caller)
        if scope["method"] != "POST":
            caller.look()  # what is fetched is sent piece by piece: how much was taken is recorded
        try:
            await self._app(scope, _replay(body, caller.look), send)
        except asyncio.CancelledError:
            if request is None or not caller.has_left:
                raise
            request.uncancel()
        finally:
            caller.answered()

    def _identify(self, scope: Scope) -> Caller:
        lines = [value for name, value in scope["headers"] if name == b"authorization"]
        if len(lines) > 1:
            raise _unauthenticated("send one Authorization header")
        caller = self._authenticate(lines[0].decode("latin-1") if lines else None)
        came = take_in(scope["headers"])  # of a verified client, and of nobody else
        return Caller(caller.agent, caller.person, came.trace_id if came else new_trace_id())


class _Waiting:
    """The caller of one request, who may leave before it is answered: then the request is cancelled.

    Nobody looks before ``_SOON_S`` have passed, unless the application asks: most answers are out by then.
    """

    def __init__(self, receive: Receive, request: asyncio.Task[object] | None) -> None:
        self._receive = receive
        self._request = request
        self._gone: asyncio.Future[Message] | None = None
        self.is_answered = False

    @property
    def has_left(self) -> bool:
        return self._gone is not None and self._gone.done()

    def look(self) -> asyncio.Future[Message]:
        """What the server says next of the caller, who has sent everything: only that they left."""
        if self._gone is None:
            self._gone = asyncio.ensure_future(self._receive())
            self._gone.add_done_callback(self._leave)
        return self._gone

    def answered(self) -> None:
        self.is_answered = True
        if self._gone is not None:
            self._gone.cancel()

    def _leave(self, gone: asyncio.Future[Message]) -> None:
        if self._request is not None and not self.is_answered and not gone.cancelled():
            self._request.cancel()


class _Soon:
    """Looks after callers whose answers take long, by one timer for all: most are answered when it comes."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[float, _Waiting]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def add(self, caller: _Waiting) -> None:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._timer = loop, None
            self._waiting.clear()
        due = loop.time() + _SOON_S
        self._waiting.append((due, caller))
        if self._timer is None:
            self._timer = loop.call_at(due, self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        now, waiting = loop.time(), self._waiting
        while waiting and (waiting[0][1].is_answered or waiting[0][0] <= now):
            caller = waiting.popleft()[1]
            if not caller.is_answered:
                caller.look()
        self._timer = loop.call_at(waiting[0][0], self._look, loop) if waiting else None


def bearer(header: str | None) -> str:
    """The token of an ``Authorization: Bearer`` header. Raises UNAUTHENTICATED."""
    scheme, _, token = (header or "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise _unauthenticated("send Authorization: Bearer with a client assertion for this agent")
    return token.strip()


def _unauthenticated(message: str) -> DatasetAgentError:
    return DatasetAgentError(Component.REMOTE_AGENT, Category.UNAUTHENTICATED, "remote_agent.client.missing", message)


async def bounded_body(receive: Receive, limit: int, *, kept: bool = True) -> bytes:
    """A request's whole body, empty where it is not ``kept``. Raises INVALID_INPUT (413) where it is over ``limit`` bytes."""
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            break
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            raise DatasetAgentError(
                Component.REMOTE_AGENT,
                Category.INVALID_INPUT,
                "remote_agent.body.too_large",
                f"the request body is over {limit} bytes",
            )
        if kept:
            chunks.append(chunk)
        if not message.get("more_body", False):
            break
    return b"".join(chunks)


def _check_shape(body: bytes) -> None:
    try:
        check_shape(body, max_values=MAX_VALUES)
    except InvalidJson as error:
        raise DatasetAgentError(
            Component.REMOTE_AGENT, Category.INVALID_INPUT, "remote_agent.body.shape", str(error)
        ) from error


def _replay(body: bytes, gone: Callable[[], asyncio.Future[Message]]) -> Receive:
    sent = False

    async def replay() -> Message:
        nonlocal sent
        if sent:
            return await asyncio.shield(gone())
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
