"""``/admin/…``: an operator's bearer token instead of a client's assertion, and nothing of it by default.

Without a token there is no such path (404), with a wrong one nothing is told (401). Behind the
token one request at a time walks the store, bodies and answers are bounded, and a client that
goes away ends its walk. No answer holds a row, an argument, a principal or a scope.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import parse_qsl

from starlette.types import ASGIApp, Receive, Scope, Send

from contract.canonical import InvalidJson, parse_json
from contract.errors import Category, Component, DatasetAgentError
from contract.problem import send_problem
from remote_agent.admin_cache import CacheDesk
from remote_agent.admin_query import PREFIX, bad, read_asked, read_key, read_listing, read_purge
from remote_agent.admin_token import AdminToken
from remote_agent.authentication import bounded_body

log = logging.getLogger(__name__)

_MAX_BODY: Final = 64 * 1024
_MOST_WAITING: Final = 8
_BURST: Final = 40.0
_PER_SECOND: Final = 10.0
Members = Mapping[str, Any]
_FLAGS: Final = {"true": True, "false": False}


class AdminDoor:
    """ASGI middleware before the gate of clients: it answers below ``/admin`` and passes everything else on."""

    def __init__(
        self,
        app: ASGIApp,
        desk: CacheDesk,
        token: Callable[[], AdminToken | None],
        *,
        further: Mapping[tuple[str, str], Callable[[Members], Awaitable[dict[str, Any]]]] = MappingProxyType({}),
        burst: float = _BURST,
        refused: Callable[[], None] = lambda: None,
    ) -> None:
        self._refused = refused
        self._app = app
        self._token = token
        self._walking = asyncio.Lock()
        self._waiting = 0
        self._rate = _Rate(burst)
        self._routes: Mapping[tuple[str, str], Callable[[Members], Awaitable[dict[str, Any]]]] = {
            ("GET", "keys"): lambda asked: _keys(desk, asked),
            ("GET", "stats"): lambda asked: _bare(asked, desk.stats),
            ("GET", "show"): lambda asked: _show(desk, asked),
            ("GET", "diff"): lambda asked: _diff(desk, asked),
            ("GET", "verify"): lambda asked: _bare(asked, desk.verify),
            # Arguments stand in a body: what is in a URL is in the log of every proxy.
            ("POST", "explain"): lambda asked: desk.explain(read_asked(asked)),
            ("POST", "purge"): lambda asked: desk.purge(read_purge(asked)),
            **further,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if scope["type"] != "http" or not (path == "/admin" or path.startswith("/admin/")):
            await self._app(scope, receive, send)
            return
        try:
            answer = await self._answered(scope, receive)
        except DatasetAgentError as error:
            await send_problem(send, error, realm="dataset-agent-admin")
            return
        if answer is not None:  # else its client is gone
            await _reply(send, answer)

    async def _answered(self, scope: Scope, receive: Receive) -> dict[str, Any] | None:
        token = self._token()
        if token is None:
            raise _fault(Category.NOT_FOUND, "path", "there is no such path")
        if not token.is_of(scope["headers"]):
            self._refused()
            raise _fault(Category.UNAUTHENTICATED, "token", "send Authorization: Bearer with this agent's admin token")
        self._rate.take(asyncio.get_running_loop().time())
        body = await bounded_body(receive, _MAX_BODY)
        route = self._routes.get((scope["method"], scope["path"].removeprefix(PREFIX)))
        if route is None:
            raise _fault(Category.NOT_FOUND, "path", "there is no such path or method")
        members = _body(body) if scope["method"] == "POST" else _query(scope["query_string"])
        return await _while_there(self._one_by_one(route, members), receive)

    async def _one_by_one(
        self, route: Callable[[Members], Awaitable[dict[str, Any]]], members: Members
    ) -> dict[str, Any]:
        if self._waiting >= _MOST_WAITING:
            raise _fault(Category.RATE_LIMITED, "busy", "too many look into the cache at once: try again later")
        self._waiting += 1
        try:
            async with self._walking:
                return await route(members)
        except DatasetAgentError:
            raise
        except Exception as fault:  # its text may quote what somebody else wrote into the store
            log.error("the admin endpoint failed with %s", type(fault).__name__)
            raise _fault(Category.INTERNAL, "failed", "the dataset agent failed; its log says how") from fault
        finally:
            self._waiting -= 1


class _Rate:
    """So many requests at once, and so many a second after that: work behind the token is not free."""

    def __init__(self, burst: float) -> None:
        self._burst, self._left, self._at = burst, burst, 0.0

    def take(self, now: float) -> None:
        self._left = min(self._burst, self._left + (now - self._at) * _PER_SECOND)
        self._at = now
        if self._left < 1:
            raise _fault(Category.RATE_LIMITED, "rate", f"at most {_PER_SECOND:.0f} requests a second: try again later")
        self._left -= 1


async def _keys(desk: CacheDesk, asked: Members) -> dict[str, Any]:
    typed: dict[str, Any] = dict(asked)
    for name in ("expired", "problem"):
        if name in typed:
            typed[name] = _FLAGS.get(typed[name])
    for name in ("limit", "older_than_s"):
        if name in typed:
            typed[name] = _number(typed[name])
    chosen, sort, limit = read_listing(typed)
    return await desk.entries(chosen, sort=sort, limit=limit)


async def _bare(asked: Members, answer: Callable[[], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
    _exactly(asked)
    return await answer()


async def _show(desk: CacheDesk, asked: Members) -> dict[str, Any]:
    _exactly(asked, "key")
    return await desk.show(read_key(asked["key"]))


async def _diff(desk: CacheDesk, asked: Members) -> dict[str, Any]:
    _exactly(asked, "left", "right")
    return await desk.diff(read_key(asked["left"]), read_key(asked["right"]))


def _exactly(asked: Members, *names: str) -> None:
    if asked.keys() != set(names):
        raise bad(f"it takes {', '.join(names) or 'no parameter'}")


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 10 else None


def _query(raw: bytes) -> Members:
    try:
        pairs = parse_qsl(raw.decode("ascii"), keep_blank_values=True, strict_parsing=bool(raw), max_num_fields=16)
    except ValueError:
        raise bad("the query does not read") from None
    if len({name for name, _ in pairs}) != len(pairs):
        raise bad("a parameter is given twice")
    return dict(pairs)


def _body(body: bytes) -> Members:
    try:
        members = parse_json(body, limit=_MAX_BODY)
    except InvalidJson as error:
        raise bad(f"the body is not acceptable: {error}") from error
    if not isinstance(members, dict):
        raise bad("the body must be a JSON object")
    return members


async def _while_there(work: Awaitable[dict[str, Any]], receive: Receive) -> dict[str, Any] | None:
    """What ``work`` returns; ``None``, and its end, when the client disconnects before."""
    working, gone = asyncio.ensure_future(work), asyncio.ensure_future(receive())
    try:
        await asyncio.wait({working, gone}, return_when=asyncio.FIRST_COMPLETED)
        return await working if working.done() else None
    finally:
        for task in (working, gone):
            task.cancel()
        await asyncio.gather(working, gone, return_exceptions=True)


def _fault(category: Category, code: str, message: str) -> DatasetAgentError:
    retry = 1.0 if category is Category.RATE_LIMITED else None
    return DatasetAgentError(Component.REMOTE_AGENT, category, f"remote_agent.admin.{code}", message, retry_after=retry)


async def _reply(send: Send, value: Members) -> None:
    body = json.dumps(value).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"cache-control", b"no-store"),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
