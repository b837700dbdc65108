"""Where the cache commands look: into the store that the settings name, or over the admin endpoint of an agent."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final, Protocol

import typer

from cache.keys import load_keys
from contract.settings import Settings
from dataset_agent.admin_client import AdminClient, Members
from dataset_agent.configuration import check_home
from remote_agent.admin_cache import CacheDesk, Progress
from remote_agent.admin_names import unknown_name
from remote_agent.admin_query import read_asked, read_key, read_listing, read_purge

if TYPE_CHECKING:
    from remote_agent.service import World

At = Annotated[str | None, typer.Option("--url", help="Ask the admin endpoint of the agent there instead.")]

_PATIENCE_S: Final = 600.0


class CacheSource(Protocol):
    """Each answer is one JSON object, the same from here and from there (``remote_agent.admin_cache``)."""

    def entries(self, members: Members) -> dict[str, Any]: ...

    def stats(self) -> dict[str, Any]: ...

    def show(self, key: str) -> dict[str, Any]: ...

    def diff(self, left: str, right: str) -> dict[str, Any]: ...

    def verify(self, progress: Progress | None) -> dict[str, Any]: ...

    def purge(self, members: Members, progress: Progress | None) -> dict[str, Any]: ...

    def explain(self, members: Members) -> dict[str, Any]: ...


def cache_source(settings: Settings, url: str | None) -> CacheSource:
    """Raises NOT_FOUND where there is no home to look into, CONFIGURATION without a token for ``url``."""
    if url is not None:
        return _There(settings, url)
    if settings.cache_url is None:
        check_home(settings)
    return _Here(settings)


class _Here:
    """The store itself, read beside whoever serves from it."""

    def __init__(self, settings: Settings) -> None:
        self._desk = CacheDesk(settings, lambda: load_keys(settings), self._world, time.time)
        self._settings = settings

    @asynccontextmanager
    async def _world(self, dataset: str) -> AsyncIterator[World]:
        from control_plane.registry import load_registry  # engines take a second to load
        from remote_agent.admin_world import described_world

        async with described_world(self._settings, dataset) as world:
            if dataset not in world.datasets and dataset not in world.invalid:
                raise unknown_name("dataset", dataset, load_registry(self._settings.datasets).datasets)
            yield world

    def entries(self, members: Members) -> dict[str, Any]:
        chosen, sort, limit = read_listing(members)
        return asyncio.run(self._desk.entries(chosen, sort=sort, limit=limit))

    def stats(self) -> dict[str, Any]:
        return asyncio.run(self._desk.stats())

    def show(self, key: str) -> dict[str, Any]:
        return asyncio.run(self._desk.show(read_key(key)))

    def diff(self, left: str, right: str) -> dict[str, Any]:
        return asyncio.run(self._desk.diff(read_key(left), read_key(right)))

    def verify(self, progress: Progress | None) -> dict[str, Any]:
        return asyncio.run(self._desk.verify(progress))

    def purge(self, members: Members, progress: Progress | None) -> dict[str, Any]:
        return asyncio.run(self._desk.purge(read_purge(members), progress))

    def explain(self, members: Members) -> dict[str, Any]:
        return asyncio.run(self._desk.explain(read_asked(members)))


class _There:
    """An agent's admin endpoint, which has the keys and the datasets that are served. It tells no progress."""

    def __init__(self, settings: Settings, url: str) -> None:
        self._ask = AdminClient(settings, url, "cache", patience_s=_PATIENCE_S).ask

    def entries(self, members: Members) -> dict[str, Any]:
        given = {name: str(value).lower() if isinstance(value, bool) else value for name, value in members.items()}
        if "older_than_s" in given:
            given["older_than_s"] = int(given["older_than_s"])
        return self._ask("GET", "keys", params=given)

    def stats(self) -> dict[str, Any]:
        return self._ask("GET", "stats")

    def show(self, key: str) -> dict[str, Any]:
        return self._ask("GET", "show", params={"key": key})

    def diff(self, left: str, right: str) -> dict[str, Any]:
        return self._ask("GET", "diff", params={"left": left, "right": right})

    def verify(self, progress: Progress | None) -> dict[str, Any]:
        return self._ask("GET", "verify")

    def purge(self, members: Members, progress: Progress | None) -> dict[str, Any]:
        return self._ask("POST", "purge", body=members)

    def explain(self, members: Members) -> dict[str, Any]:
        return self._ask("POST", "explain", body=members)
