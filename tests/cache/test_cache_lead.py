"""Who leads is believed where the cache's secret says so; what a stranger writes into a store delays nobody for long."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis import Redis

from cache.breaker import Breaker
from cache.flight import Flights, nothing
from cache.keys import CacheKeys
from cache.lead import Mark, Watch, mark, read_mark
from cache.result_cache import Hit, ResultCache
from cache.sqlite_store import SqliteStore
from cache.store import SKEW_S, CacheStore
from tests.authority_builder import NOW, make_authority
from tests.cache.cache_builder import PATIENCE_S, make_document, make_execution, make_intent

KEYS, OTHER = (CacheKeys.from_secret(bytes([number]) * 32) for number in range(2))
KEY = "dsc:1:{p}:e:i"
Put = Callable[[str, str], object]


def said(beat: float, owner: str = "lease_a", key: str = KEY, keys: CacheKeys = KEYS) -> str:
    return mark(key, owner, keys=keys, now=beat)


@given(st.text(), st.floats(0, 4e9))
def test_a_mark_is_read_with_its_key_and_secret_alone(key: str, now: float) -> None:
    text = mark(key, "lease_a", keys=KEYS, now=now)
    assert read_mark(text, key, keys=KEYS) == Mark("lease_a", int(now * 1_000))
    assert read_mark(text, key + "x", keys=KEYS) is None
    assert read_mark(text, key, keys=OTHER) is None


@pytest.mark.parametrize("change", ["lease_b", "0", "extra", "cut"])
def test_a_mark_that_was_changed_is_none(change: str) -> None:
    owner, beat, tag = said(NOW).split(".")
    changed = {
        "lease_b": f"lease_b.{beat}.{tag}",
        "0": f"{owner}.{int(beat) + 1}.{tag}",
        "extra": f"{owner}.{beat}.{tag}0",
        "cut": f"{owner}.{beat}.{tag[:-1]}",
    }[change]
    assert read_mark(changed, KEY, keys=KEYS) is None


def test_a_leader_is_believed_while_it_goes_on_saying_that_it_leads() -> None:
    watch = Watch(KEY, KEYS, life_s=1.0)
    assert all(watch.believes(said(NOW + at), at=at, now=NOW + at) for at in (0, 0.5, 1.4, 2.3, 30))


def test_a_mark_that_stays_as_it_is_is_believed_for_as_long_as_a_leader_may_be_silent() -> None:
    watch = Watch(KEY, KEYS, life_s=1.0)
    assert [watch.believes(said(NOW), at=at, now=NOW) for at in (0, 0.9, 1.1)] == [True, True, False]


def test_marks_that_were_put_back_in_turns_are_not_believed() -> None:
    watch = Watch(KEY, KEYS, life_s=1.0)
    assert watch.believes(said(NOW), at=0, now=NOW)
    assert watch.believes(said(NOW, "lease_b"), at=0.5, now=NOW)
    assert not watch.believes(said(NOW), at=1.1, now=NOW)
    assert watch.believes(said(NOW + 1), at=1.2, now=NOW)
    assert not watch.believes(said(NOW), at=1.3, now=NOW)


def test_a_mark_of_long_ago_is_not_believed() -> None:
    old = said(NOW - 1 - SKEW_S - 0.1)
    assert not Watch(KEY, KEYS, life_s=1.0).believes(old, at=0, now=NOW)
    assert Watch(KEY, KEYS, life_s=1.0).believes(said(NOW - SKEW_S), at=0, now=NOW), "by another machine's clock"


@pytest.fixture
def put(store: CacheStore, request: pytest.FixtureRequest) -> Iterator[Put]:
    """As somebody who may write to the store, and has no secret: a lease on a key that ends in a second."""
    if not isinstance(store, SqliteStore):
        client: Redis = request.getfixturevalue("valkey")
        yield lambda key, text: client.set(key.replace("}:e:", "}:l:"), text, px=1_000)
        return
    file = sqlite3.connect(store._path, isolation_level=None, timeout=PATIENCE_S)
    yield lambda key, text: file.execute("INSERT OR REPLACE INTO leases VALUES (?, ?, ?)", (key, text, time.time() + 1))
    file.close()


@asynccontextmanager
async def written_again(put: Put, key: str, text: str) -> AsyncIterator[None]:
    async def again() -> None:
        while True:
            put(key, text)
            await asyncio.sleep(0.02)

    put(key, text)
    writing = asyncio.create_task(again())
    try:
        yield
    finally:
        writing.cancel()


async def test_a_strangers_lease_that_never_ends_delays_nobody_and_the_result_is_kept(
    store: CacheStore, keys: CacheKeys, put: Put
) -> None:
    results, authority, intent = ResultCache(store, keys), make_authority(), make_intent()
    key = results.locate(authority, intent, freshness_class="standard").key

    async def look() -> bytes | None:
        found = await results.find(authority, intent, freshness_class="standard", max_age_s=None, now=NOW)
        return found.document.body if isinstance(found, Hit) else None

    async def run(owner: str | None) -> bytes:
        await asyncio.sleep(0.1)  # the stranger writes over the lease of who leads
        await results.keep(
            authority,
            intent,
            make_document(),
            make_execution(),
            freshness_class="standard",
            reuse_s=60,
            now=NOW,
            owner=owner,
        )
        return b"run"

    await look()
    async with written_again(put, key, "evil"):
        asked = results.once(authority, intent, freshness_class="standard", look=look, run=run, patience_s=PATIENCE_S)
        assert await asyncio.wait_for(asked, PATIENCE_S / 2) == b"run"
        assert await look() == make_document().body


async def test_a_leaders_own_mark_that_is_put_back_is_waited_for_no_longer_than_its_silence(
    store: CacheStore, put: Put
) -> None:
    flights = Flights(store, Breaker(), life_s=0.3)
    await store.lease(KEY, "gone", life_s=0.3, now=time.time())

    async def run(_: str | None) -> str:
        return "led"

    async with written_again(put, KEY, said(time.time())):
        asked = flights.once(KEY, look=nothing, run=run, patience_s=PATIENCE_S, keys=KEYS)
        assert await asyncio.wait_for(asked, PATIENCE_S / 2) == "led"


async def test_a_lease_of_another_leader_is_not_taken_back(store: CacheStore) -> None:
    flights, now = Flights(store, Breaker()), time.time()
    assert await store.lease(KEY, "lease_b", life_s=60, now=now, mark=said(now, "lease_b"))
    assert await flights.stranger(KEY, keys=KEYS) is None
    assert await store.release(KEY, "lease_b")
    assert await flights.stranger(KEY, keys=KEYS) is None, "one that ended: somebody may have led since"
    assert await store.lease(KEY, "a stranger", life_s=1, now=now)
    assert await flights.stranger(KEY, keys=KEYS) == "a stranger"
    assert not await store.put(KEY, b"x", exp=NOW + 60, now=NOW, owner="lease_a", over="another")
    assert await store.put(KEY, b"x", exp=NOW + 60, now=NOW, owner="lease_a", over="a stranger")


async def test_an_owner_holds_what_begins_with_its_name_and_a_dot(store: CacheStore) -> None:
    assert await store.holder(KEY) == ""
    assert await store.lease(KEY, "one", life_s=60, now=NOW, mark="one.1.x")
    assert await store.holder(KEY) == "one.1.x"
    for other in ("on", "two", "one.1.x.y"):
        assert not await store.renew(KEY, other, life_s=60, now=NOW)
        assert not await store.put(KEY, b"x", exp=NOW + 60, now=NOW, owner=other)
        assert not await store.lease(KEY, other, life_s=60, now=NOW, over="one.1.y")
    assert await store.renew(KEY, "one", life_s=60, now=NOW, mark="one.2.x")
    assert await store.put(KEY, b"x", exp=NOW + 60, now=NOW, owner="one")
    assert await store.lease(KEY, "two", life_s=60, now=NOW, over="one.2.x")
    assert not await store.release(KEY, "one")
    assert await store.release(KEY, "two")
