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
    before = {name: getattr(DuckDbEngine, name) for name in ("run", "stream")}

    def counted(inner: Callable[..., Any]) -> Callable[..., Any]:
        def executed(*args: Any, **kwargs: Any) -> Any:
            happened()
            return inner(*args, **kwargs)

        return executed

    def put(methods: dict[str, Callable[..., Any]]) -> None:
        for name, method in methods.items():
            setattr(DuckDbEngine, name, method)

    put({name: counted(inner) for name, inner in before.items()})
    return lambda: put(before)
