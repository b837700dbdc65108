"""``cache keys|show|stats``: look inside the cache without being able to read anything in it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeVar

import typer

from cache import inspect
from cache.opening import open_store
from cache.store import CacheStore, StoreUnavailable
from contract.errors import Category, Component, DatasetAgentError
from contract.settings import Settings
from dataset_agent.console import EXIT_USAGE, AsJson, fail, print_json, say, table

T = TypeVar("T")
cache_app = typer.Typer(help="Inspect the semantic result cache.", no_args_is_help=True)


@cache_app.command("keys")
def keys(as_json: AsJson = False, limit: Annotated[int, typer.Option(help="Show at most so many.")] = 1_000) -> None:
    """List entries with their plain dimensions. No scope, argument or row is readable from them."""
    found = _with_store(lambda store: inspect.entries(store, now=time.time(), limit=limit))
    if as_json:
        print_json([entry.to_json() for entry in found])
        return
    if not found:
        say("The cache is empty.")
        return
    names = (
        "dataset",
        "dataset_version",
        "capability",
        "principal_class",
        "policy_version",
        "schema_version",
        "freshness",
    )
    table(
        f"{len(found)} entries",
        ("key", *names, "age s", "expires in s", "bytes", "hits"),
        [
            (
                entry.key,
                *(entry.dimensions.get(name, "") for name in names),
                _seconds(entry.age_s),
                _seconds(entry.expires_in_s),
                entry.size,
                entry.hits,
            )
            for entry in found
        ],
    )


@cache_app.command("show")
def show(key: str, as_json: AsJson = False) -> None:
    """Show one entry: its dimensions, age, expiry and size."""
    entry = _with_store(lambda store: inspect.show(store, key, now=time.time()))
    if entry is None:
        raise fail("no such entry: copy a key from `dataset-agent cache keys`", EXIT_USAGE)
    if as_json:
        print_json(entry.to_json())
        return
    table("Cache entry", ("field", "value"), [(name, _cell(value)) for name, value in entry.to_json().items()])


@cache_app.command("stats")
def stats(as_json: AsJson = False) -> None:
    """Entries, bytes, hits and misses of the store."""
    found = _with_store(inspect.stats)
    if as_json:
        print_json(found.to_json())
        return
    table("Cache", ("figure", "value"), [(name, _cell(value)) for name, value in found.to_json().items()])


def _with_store(work: Callable[[CacheStore], Awaitable[T]]) -> T:
    async def run() -> T:
        store = open_store(Settings())
        try:
            return await work(store)
        except StoreUnavailable as error:
            raise DatasetAgentError(
                Component.COMMAND,
                Category.UNAVAILABLE,
                "command.cache.unavailable",
                f"the cache cannot be reached ({error}): check DATASET_AGENT_CACHE_URL",
            ) from error
        finally:
            await store.close()

    return asyncio.run(run())


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.0f}"


def _cell(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}={item}" for name, item in value.items())
    return "" if value is None else str(value)
