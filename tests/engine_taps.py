"""Something that happens at every execution of an engine: before it starts, or when its rows were read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from contract.authority import Authority
from queries.duckdb_engine import DuckDbEngine

Happens = Callable[[Authority], Awaitable[Any]]


async def _nothing(_: Authority) -> None:
    return None


def tap(engine: Any, *, before: Happens = _nothing, after: Happens = _nothing) -> Callable[[], None]:
    """Await ``before`` and ``after`` around every query; what is returned undoes that."""
    inner = engine.stream

    @asynccontextmanager
    async def stream(authority: Authority, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        await before(authority)
        async with inner(authority, *args, **kwargs) as rows:
            yield rows
        await after(authority)

    engine.stream = stream
    return lambda: setattr(engine, "stream", inner)


def count_all(happened: Callable[[], object]) -> Callable[[], None]:
    """Call ``happened`` whenever any DuckDB engine of this process executes anything; returned is what undoes that."""
    inner = DuckDbEngine.stream

    def counted(*args: Any, **kwargs: Any) -> Any:
        happened()
        return inner(*args, **kwargs)

    def put(method: Any) -> None:
        DuckDbEngine.stream = method  # type: ignore[method-assign]

    put(counted)
    return lambda: put(inner)


def hold_all(held: Callable[[], Awaitable[object]]) -> Callable[[], None]:
    """Await ``held`` before any DuckDB engine of this process executes anything; returned is what undoes that."""
    inner = DuckDbEngine.stream

    @asynccontextmanager
    async def stream(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        await held()
        async with inner(*args, **kwargs) as rows:
            yield rows

    def put(method: Any) -> None:
        DuckDbEngine.stream = method  # type: ignore[method-assign]

    put(stream)
    return lambda: put(inner)
