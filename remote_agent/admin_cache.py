"""What an operator may do with a cache, each answer one JSON object: the commands and the admin endpoint are this.

No row, argument, principal or scope is in any answer. Of restricted capabilities there are only
numbers. Looking changes nothing: entries are read beside those who serve, and no use is counted.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn

from cache import inspect
from cache.inspect import AtHand, EntryView, Known
from cache.keys import CacheKeys
from cache.nearest import parts_of
from cache.opening import CACHE_FILE, open_look, open_store
from cache.partition import plain
from cache.selection import Selection, Sort, listing, one_of
from cache.store import CacheStore, StoreUnavailable
from cache.verification import Tell, purge, verify
from contract.errors import Category, Component, DatasetAgentError
from contract.settings import Settings
from control_plane.registry import load_registry
from remote_agent.admin_query import Asked, Purge

if TYPE_CHECKING:
    from remote_agent.service import World

log = logging.getLogger(__name__)

Worlds = Callable[[str], AbstractAsyncContextManager["World"]]
"""From a dataset's name to the world in which a call of it is explained."""
Progress = Callable[[int, int], None]
"""Told how many entries have been looked at, and how many there are."""


@dataclass(frozen=True, slots=True)
class CacheDesk:
    """One cache as its operator sees it. ``keys`` are those at hand, the current ones first."""

    settings: Settings
    keys: Callable[[], tuple[CacheKeys, ...]]
    worlds: Worlds
    clock: Callable[[], float] = time.time
    known: Callable[[], Known] | None = None
    """How sensitive what is served is; ``None`` for what the files of the datasets folder say."""

    async def entries(self, chosen: Selection, *, sort: Sort, limit: int) -> dict[str, Any]:
        """``entries`` (``limit`` at most), how many ``matched``, and numbers of ``restricted`` ones."""
        async with self._looking() as store:
            return (
                await listing(store, chosen, await self._at_hand(), now=self.clock(), sort=sort, limit=limit)
            ).to_json()

    async def stats(self) -> dict[str, Any]:
        async with self._looking() as store:
            return (await inspect.stats(store, await self._at_hand(), now=self.clock())).to_json()

    async def show(self, key: str) -> dict[str, Any]:
        """Raises NOT_FOUND where no or several entries have such a key."""
        async with self._looking() as store:
            return (await self._one(store, key)).to_json()

    async def diff(self, left: str, right: str) -> dict[str, Any]:
        """In which dimensions two entries differ; hidden ones by name where their secret is at hand."""
        async with self._looking() as store:
            views = (await self._one(store, left), await self._one(store, right))
            found = inspect.diff(*views, await self._parts(store, *views))
        differences = [
            {"dimension": difference.dimension, "left": difference.left, "right": difference.right}
            for difference in found
        ]
        return {"left": views[0].key, "right": views[1].key, "differences": differences}

    async def verify(self, progress: Progress | None = None) -> dict[str, Any]:
        """How many entries open, are damaged, foreign, or of a secret that is not at hand."""
        keys = self.keys()
        async with self._looking() as store:
            tell = await _telling(store, progress)
            report = await verify(store, *keys, now=self.clock(), known=await self._known(), tell=tell)
        return {**report.to_json(), "kids": [one.kid for one in keys]}

    async def purge(self, wanted: Purge, progress: Progress | None = None) -> dict[str, Any]:
        """Remove entries; ``matched`` and ``removed`` are exact. Raises INVALID_INPUT without any choice."""
        if wanted.chosen.is_everything and not wanted.damaged and not wanted.everything:
            raise _fault(Category.INVALID_INPUT, "purge", "say what to purge, or that it is all of it")
        by_kid = {one.kid: one for one in self.keys()} if wanted.damaged else None
        async with self._looking() if wanted.dry_run else self._writing() as store:
            found = await purge(
                store,
                wanted.chosen,
                await self._at_hand(),
                now=self.clock(),
                damaged_by=by_kid,
                dry_run=wanted.dry_run,
                tell=await _telling(store, progress),
            )
        if not wanted.dry_run:
            what = wanted.chosen.told() + (" damaged" if wanted.damaged else "")
            log.warning(
                "the cache was purged by an operator: %d of %d entries (%s)", found.removed, found.matched, what
            )
        return {"matched": found.matched, "removed": found.removed, "dry_run": wanted.dry_run}

    async def explain(self, asked: Asked) -> dict[str, Any]:
        """As ``admin_explain.explain``."""
        from remote_agent.admin_explain import explain  # the request path takes a second to load

        keys = self.keys()
        async with self._looking() as store, self.worlds(asked.dataset) as world:
            return await explain(
                asked,
                world,
                store,
                keys,
                settings=self.settings,
                now=self.clock(),
            )

    async def _one(self, store: CacheStore, key: str) -> EntryView:
        entry, number = await one_of(store, key, await self._at_hand(), now=self.clock())
        if entry is None:
            told = f"{number} keys end with that: give more of it" if number else "there is no such entry"
            raise _fault(Category.NOT_FOUND, "entry", f"{told}; dataset-agent cache keys lists them")
        return entry

    async def _at_hand(self) -> AtHand:
        """Who has no secret judges by descriptors alone, and who has no descriptors by what a secret proves."""
        try:
            keys = self.keys()
        except DatasetAgentError:
            keys = ()
        return AtHand.of(keys, await self._known())

    async def _known(self) -> Known:
        if self.known is not None:
            return self.known()
        return await asyncio.to_thread(_described, self.settings)

    async def _parts(
        self, store: CacheStore, left: EntryView, right: EntryView
    ) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """The digests sealed with two entries, where both are of one secret that is at hand."""
        nothing: tuple[Mapping[str, str], Mapping[str, str]] = ({}, {})
        if left.kid != right.kid:
            return nothing
        try:
            keys = next((one for one in self.keys() if one.kid == left.kid), None)
        except DatasetAgentError:  # who has no secret sees the plain dimensions
            return nothing
        if keys is None:
            return nothing
        parts = [await parts_of(store, entry, keys, now=self.clock()) for entry in (left, right)]
        return (parts[0] or {}, parts[1] or {}) if all(parts) else nothing

    @asynccontextmanager
    async def _looking(self) -> AsyncIterator[CacheStore]:
        store = open_look(self.settings)
        try:
            yield store
        except StoreUnavailable as error:
            _unavailable(error)
        finally:
            await _closed(store)

    @asynccontextmanager
    async def _writing(self) -> AsyncIterator[CacheStore]:
        nothing_yet = self.settings.cache_url is None and not (self.settings.home / CACHE_FILE).exists()
        store = open_look(self.settings) if nothing_yet else open_store(self.settings)
        try:
            yield store
        except StoreUnavailable as error:
            _unavailable(error)
        finally:
            await _closed(store)


def _described(settings: Settings) -> Known:
    """As the files say now; nothing of a folder that cannot be read."""
    try:
        registry = load_registry(settings.datasets)
    except DatasetAgentError:
        return {}
    return {
        (plain(name), plain(capability.name)): capability.sensitivity
        for name, manifest in registry.datasets.items()
        for capability in manifest.capabilities
    }


async def _telling(store: CacheStore, progress: Progress | None) -> Tell | None:
    if progress is None:
        return None
    total = (await store.stats()).entries
    return lambda done: progress(done, total)


async def _closed(store: CacheStore) -> None:
    try:
        await store.close()
    except StoreUnavailable:
        log.info("the store of the cache did not close")


_ADVICE: Final = "start it, or correct DATASET_AGENT_CACHE_URL"


def _unavailable(error: StoreUnavailable) -> NoReturn:
    raise _fault(Category.UNAVAILABLE, "unavailable", f"the cache cannot be reached ({error}): {_ADVICE}") from error


def _fault(category: Category, code: str, message: str) -> DatasetAgentError:
    return DatasetAgentError(Component.REMOTE_AGENT, category, f"remote_agent.admin.{code}", message)
