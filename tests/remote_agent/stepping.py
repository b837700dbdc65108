"""One agent in this process, and something that happens at a chosen moment of one request: whenever a part of it waits.

Every task that the request starts is driven step by step, and each await of a store gives way before
and after, as one of a slower store does. So every moment at which anything else may happen is one of
its numbered steps.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator
from contextlib import asynccontextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import httpx

from contract.settings import Settings
from evidence.row import Kind, LedgerRow
from remote_agent.app import create_app
from remote_agent.lifecycle import Lifecycle
from remote_agent.service import Service
from tests.database_files import keep, lend

PATIENCE_S = 60.0


@dataclass
class Steps:
    """The steps of one request. ``happens`` at step ``at``; ``judged`` is the last before its terminal row is written."""

    at: int = 0
    happens: Callable[[], object] = lambda: None
    taken: int = 0
    judged: int = 0

    def step(self) -> None:
        self.taken += 1
        if self.taken == self.at:
            self.happens()


_STEPS: ContextVar[Steps | None] = ContextVar("steps", default=None)


@types.coroutine
def _driven(inner: Coroutine[Any, Any, Any], steps: Steps) -> Generator[Any, Any, Any]:
    given: Any = None
    raised: BaseException | None = None
    while True:
        try:
            waits_for = inner.send(given) if raised is None else inner.throw(raised)
        except StopIteration as end:
            return end.value
        given, raised = None, None
        steps.step()
        try:
            given = yield waits_for
        except BaseException as stop:
            raised = stop


def _task(loop: asyncio.AbstractEventLoop, work: Any, **given: Any) -> asyncio.Task[Any]:
    steps = _STEPS.get()
    if steps is None:
        return asyncio.Task(work, loop=loop, **given)

    async def driven() -> Any:
        return await _driven(work, steps)

    return asyncio.Task(driven(), loop=loop, **given)


@dataclass
class Stepped:
    """The agent. What is sent with ``steps`` is driven by them."""

    lifecycle: Lifecycle
    http: httpx.AsyncClient = field(repr=False)
    rows: list[LedgerRow] = field(default_factory=list)

    @property
    def service(self) -> Service:
        return self.lifecycle.service

    async def send(self, steps: Steps, method: str, url: str, **given: Any) -> httpx.Response:
        self.rows.clear()
        context = copy_context()
        context.run(_STEPS.set, steps)
        asking = context.run(asyncio.create_task, self.http.request(method, url, **given))
        return await asyncio.wait_for(asking, PATIENCE_S)

    def row(self, kind: Kind = Kind.TERMINAL) -> LedgerRow:
        """The one row of this kind that the last request left."""
        (found,) = [row for row in self.rows if row.kind is kind]
        return found

    def append(self, inner: Callable[..., Any], row: LedgerRow) -> Awaitable[Any]:
        if (steps := _STEPS.get()) is not None and row.kind is Kind.TERMINAL:
            steps.judged = steps.taken
        return self._append(inner, row)

    async def _append(self, inner: Callable[..., Any], row: LedgerRow) -> Any:
        await asyncio.sleep(0)
        receipt = await inner(row)
        self.rows.append(row)
        await asyncio.sleep(0)
        return receipt


@asynccontextmanager
async def stepped(settings: Settings) -> AsyncIterator[Stepped]:
    """Serve without a socket until the block ends. Keys must exist."""
    lend(settings)
    lifecycle = await Lifecycle.open(settings, public_url="http://agent.test")
    keep(settings)
    loop, service = asyncio.get_running_loop(), lifecycle.service
    for store, names in (
        (service.state, ("spend", "recheck", "use")),
        (service.cache, ("find", "look", "keep")),
    ):
        for name in names:
            setattr(store, name, _giving_way(getattr(store, name)))
    transport = httpx.ASGITransport(create_app(lifecycle), raise_app_exceptions=False)
    loop.set_task_factory(_task)
    try:
        async with httpx.AsyncClient(transport=transport, base_url="http://agent.test") as http:
            agent = Stepped(lifecycle, http)
            ledger: Any = service.ledger
            ledger.append_async = partial(agent.append, ledger.append_async)
            yield agent
    finally:
        loop.set_task_factory(None)
        await lifecycle.close()


def _giving_way(inner: Callable[..., Any]) -> Callable[..., Any]:
    async def asked(*args: Any, **kwargs: Any) -> Any:
        await asyncio.sleep(0)
        try:
            return await inner(*args, **kwargs)
        finally:
            await asyncio.sleep(0)

    return asked
