"""``cache keys|show|stats``: look inside the cache without being able to read anything in it."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import typer

from cache import inspect
from cache.inspect import EntryView
from cache.opening import CACHE_FILE, open_look, open_store
from cache.store import CacheStore, StoreUnavailable
from contract.errors import Category, Component, DatasetAgentError
from contract.settings import Settings
from dataset_agent.configuration import check_home, load_settings
from dataset_agent.console import AsJson, note, print_json, say, table

T = TypeVar("T")
cache_app = typer.Typer(help="Inspect the semantic result cache.", no_args_is_help=True)

_DIMENSIONS: Final = {
    "dataset": "dataset",
    "version": "dataset_version",
    "capability": "capability",
    "class": "principal_class",
    "policy": "policy_version",
    "schema": "schema_version",
    "freshness": "freshness",
}
_LEAD: Final = ("key", "age", "expires", "bytes", "hits")
_SHORTEST: Final = 8
_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "m"))


@cache_app.command("keys")
def keys(
    full: Annotated[bool, typer.Option("--full", help="Print whole keys, one a line.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="Show at most so many.")] = 1_000,
    as_json: AsJson = False,
) -> None:
    """List entries with their plain dimensions. No scope, argument or row is readable from them."""
    found = with_store(load_settings(), lambda store: inspect.entries(store, now=time.time(), limit=limit))
    if as_json:
        print_json([entry.to_json() for entry in found])
    elif full:
        for entry in found:
            say(entry.key)
    elif found:
        entry_table(found)
    else:
        _say_empty()


@cache_app.command("show")
def show(
    key: Annotated[str, typer.Argument(help="A key, or the end of one, as `cache keys` shows it.")],
    as_json: AsJson = False,
) -> None:
    """Show one entry: its dimensions, age, expiry and size."""
    found = with_store(load_settings(), lambda store: inspect.entries(store, now=time.time()))
    entry = _the_one(found, key)
    if as_json:
        print_json(entry.to_json())
        return
    members = entry.to_json()
    dimensions = members.pop("dimensions")
    members["age"] = _duration(members.pop("age_s"))
    members["expires_in"] = _duration(members.pop("expires_in_s"))
    rows = [(name, value) for name, value in (members | dimensions).items() if value not in (None, "")]
    table("Cache entry", ("field", "value"), rows)


@cache_app.command("stats")
def stats(as_json: AsJson = False) -> None:
    """Entries, bytes, hits and misses of the store."""
    found = with_store(load_settings(), inspect.stats).to_json()
    if as_json:
        print_json(found)
        return
    reasons = {f"misses: {reason}": count for reason, count in found.pop("miss_reasons").items()}
    table("Cache", ("figure", "value"), [(name, _figure(value)) for name, value in (found | reasons).items()])


def entry_table(entries: Sequence[EntryView]) -> None:
    """Entries by the shortest end of their keys that tells them apart."""
    length = _telling([entry.key for entry in entries])
    rows = [
        [
            entry.key[-length:] if entry.intent else entry.key,
            _duration(entry.age_s),
            _duration(entry.expires_in_s),
            entry.size,
            entry.hits,
            *(entry.dimensions.get(name, "") for name in _DIMENSIONS.values()),
            entry.problem,
        ]
        for entry in entries
    ]
    title = f"{len(rows)} {'entry' if len(rows) == 1 else 'entries'}"
    names = [*_LEAD, *_DIMENSIONS, "problem"]
    if not any(entry.problem for entry in entries):
        names, rows = names[:-1], [row[:-1] for row in rows]
    table(title, names, rows, lead=_LEAD, right={"bytes", "hits"})


def with_store(settings: Settings, work: Callable[[CacheStore], Awaitable[T]]) -> T:
    """Work with the store that the settings name, and make none. Raises UNAVAILABLE with what to check."""

    async def run(store: CacheStore) -> T:
        try:
            return await work(store)
        except StoreUnavailable as error:
            raise DatasetAgentError(
                Component.COMMAND,
                Category.UNAVAILABLE,
                "command.cache.unavailable",
                f"the cache cannot be reached ({error}): start it, or correct DATASET_AGENT_CACHE_URL",
            ) from error
        finally:
            await store.close()

    if settings.cache_url is None:
        check_home(settings)
    if settings.cache_url is not None or (settings.home / CACHE_FILE).exists():
        return asyncio.run(run(open_look(settings)))
    with tempfile.TemporaryDirectory(prefix="dataset-agent-no-cache-") as folder:
        return asyncio.run(run(open_store(settings.model_copy(update={"home": Path(folder)}))))


def _say_empty() -> None:
    settings = load_settings()
    say("The cache is empty.")
    if settings.cache_url is None and not (settings.home / CACHE_FILE).exists():
        note(f"nothing was ever stored in {settings.home}: ask something, or check DATASET_AGENT_HOME")


def _the_one(entries: Sequence[EntryView], key: str) -> EntryView:
    found = [entry for entry in entries if entry.key == key] or [e for e in entries if key and e.key.endswith(key)]
    if len(found) == 1:
        return found[0]
    message = f"{len(found)} keys end with that: give more of it" if found else "there is no such entry"
    raise DatasetAgentError(
        Component.COMMAND, Category.NOT_FOUND, "command.cache.entry", f"{message}; dataset-agent cache keys lists them"
    )


def _telling(keys: Sequence[str]) -> int:
    """How long an end of the keys must be to tell every two of them apart."""
    longest = max(len(key) for key in keys)
    return next((n for n in range(_SHORTEST, longest) if len({key[-n:] for key in keys}) == len(set(keys))), longest)


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return ""
    for size, unit in _UNITS:
        if seconds >= 2 * size:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds:.0f}s"


def _figure(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    return "" if value is None else str(value)
