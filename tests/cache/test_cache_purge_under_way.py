"""What a call that is under way would store does not land behind a purge; what is asked after it is stored as ever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from cache.keys import CacheKeys
from cache.result_cache import Hit, ResultCache
from cache.selection import Selection
from cache.store import CacheStore, StoredEntry
from cache.verification import Purged, purge
from contract.authority import Authority
from contract.scope import Sensitivity
from tests.authority_builder import NOW, make_authority
from tests.cache.cache_builder import SEEN, make_document, make_execution, make_intent

WIDE, NARROW = make_intent({"n": 1}), make_intent({"n": 2})


class Call:
    """One call of an authority, which runs until it is told to go on."""

    def __init__(self, results: ResultCache, authority: Authority | None = None) -> None:
        self.results, self.authority = results, authority or make_authority()
        self.began, self.go = asyncio.Event(), asyncio.Event()
        self.runs = 0

    async def found(self) -> bytes | None:
        found = await self.results.look(self.authority, WIDE, freshness_class="standard", max_age_s=None, now=NOW)
        return found.document.body if isinstance(found, Hit) else None

    async def ask(self) -> bytes:
        async def run(owner: str | None) -> bytes:
            self.runs += 1
            body = b"run %d" % self.runs
            self.began.set()
            await self.go.wait()
            if owner is not None:
                await keep(self.results, self.authority, body=body, owner=owner)
            return body

        return await self.results.once(self.authority, WIDE, freshness_class="standard", look=self.found, run=run)


async def keep(results: ResultCache, authority: Authority, *, body: bytes = b"rows", **given: Any) -> None:
    intent = given.pop("intent", WIDE)
    await results.keep(
        authority, intent, make_document(body), make_execution(), freshness_class="standard", reuse_s=60, now=NOW, **given
    )  # fmt: skip


async def is_stored_after(results: ResultCache, store: CacheStore, chosen: Selection, **changes: Any) -> bool:
    call = Call(results, make_authority(**changes))
    asked = asyncio.create_task(call.ask())
    await call.began.wait()
    assert await purge(store, chosen, SEEN, now=NOW) == Purged(0, 0)
    call.go.set()
    assert await asked == b"run 1"
    return await call.found() is not None


@pytest.mark.parametrize(
    "chosen",
    [
        Selection(),
        Selection({"dataset": "purification-batches"}),
        Selection({"dataset": "purification-batches", "capability": "batch_yield"}),
        Selection({"class": "process_engineer"}),
        Selection({"revision": "r1"}),
        Selection(older_than_s=3_600),
        Selection(secret="earlier"),
    ],
    ids=lambda chosen: chosen.told(),
)
async def test_a_call_under_way_stores_nothing_that_a_purge_may_have_meant(
    results: ResultCache, store: CacheStore, chosen: Selection
) -> None:
    assert not await is_stored_after(results, store, chosen)


@pytest.mark.parametrize(
    "chosen",
    [
        Selection({"dataset": "other"}),
        Selection({"dataset": "purification-batches", "capability": "other"}),
        Selection({"freshness": "daily"}),
        Selection(policy="BPD-9@2020"),
        Selection(expired=True),
        Selection(problem=True),
    ],
    ids=lambda chosen: chosen.told(),
)
async def test_a_call_that_a_purge_did_not_mean_stores_its_result(
    results: ResultCache, store: CacheStore, chosen: Selection
) -> None:
    assert await is_stored_after(results, store, chosen)


async def test_a_restricted_call_under_way_stores_nothing_either(results: ResultCache, store: CacheStore) -> None:
    assert not await is_stored_after(results, store, Selection(), sensitivity=Sensitivity.RESTRICTED)


async def test_what_only_looks_or_removes_the_damaged_stops_no_call(
    results: ResultCache, store: CacheStore, keys: CacheKeys
) -> None:
    call = Call(results)
    asked = asyncio.create_task(call.ask())
    await call.began.wait()
    await purge(store, Selection(), SEEN, now=NOW, dry_run=True)
    await purge(store, Selection(), SEEN, now=NOW, damaged_by={keys.kid: keys})
    call.go.set()
    await asked
    assert await call.found() == b"run 1"


async def test_who_waits_for_a_call_that_a_purge_stopped_runs_anew_and_stores_that(
    results: ResultCache, store: CacheStore
) -> None:
    call = Call(results)
    asked = [asyncio.create_task(call.ask()) for _ in range(2)]
    await call.began.wait()
    await purge(store, Selection(), SEEN, now=NOW)
    call.go.set()
    assert sorted(await asyncio.gather(*asked)) == [b"run 1", b"run 2"]
    assert await call.found() == b"run 2"
    assert await Call(results).found() == b"run 2"


async def test_what_is_made_of_a_stored_result_is_stored_only_while_that_one_stands(
    results: ResultCache, store: CacheStore
) -> None:
    who = make_authority()
    await keep(results, who)
    await keep(results, who, intent=NARROW, made_of=WIDE)
    assert await purge(store, Selection(), SEEN, now=NOW) == Purged(2, 2)
    await keep(results, who, intent=NARROW, made_of=WIDE)
    assert (await store.stats()).entries == 0


class Behind:
    """A store in which something is made of an entry just before the walk of a purge is over."""

    def __init__(self, store: CacheStore, results: ResultCache) -> None:
        self._store, self._results = store, results

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def entries(self) -> AsyncIterator[StoredEntry]:
        seen = [entry async for entry in self._store.entries()]
        if len(seen) == 1:
            await keep(self._results, make_authority(), intent=NARROW, made_of=WIDE)
        for entry in seen:
            yield entry


async def test_what_was_made_of_an_entry_while_a_purge_walked_goes_with_it(
    results: ResultCache, store: CacheStore
) -> None:
    await keep(results, make_authority())
    behind: Any = Behind(store, results)
    assert await purge(behind, Selection(), SEEN, now=NOW) == Purged(2, 2)
    assert (await store.stats()).entries == 0
