"""Every entry is opened with the keys at hand, and what does not open is told apart."""

from __future__ import annotations

from typing import Any

import pytest

from cache.keys import CacheKeys
from cache.result_cache import ResultCache
from cache.selection import Selection
from cache.store import CacheStore
from cache.verification import Purged, State, purge, verify
from contract.scope import Sensitivity
from tests.authority_builder import NOW, make_authority
from tests.cache.cache_builder import SEEN, make_document, make_execution, make_intent

OTHER = CacheKeys.from_secret(bytes(32))


async def keep(results: ResultCache, number: int, **authority: Any) -> str:
    asked, intent = make_authority(**authority), make_intent({"n": number})
    await results.keep(
        asked, intent, make_document(), make_execution(), freshness_class="standard", reuse_s=60, now=NOW
    )
    return results.locate(asked, intent, freshness_class="standard").key


async def put(store: CacheStore, key: str, entry: bytes) -> None:
    await store.put(key, entry, exp=NOW + 60, now=NOW)


async def bytes_of(store: CacheStore, key: str) -> bytes:
    entry = await store.get(key, now=NOW)
    assert entry is not None
    return entry


@pytest.fixture
async def spoilt(results: ResultCache, store: CacheStore) -> dict[str, str]:
    """One entry of each kind, beside one that is whole."""
    whole = await keep(results, 1)
    edited, moved, cut, header = [await keep(results, number) for number in range(2, 6)]
    entry = await bytes_of(store, edited)
    await put(store, edited, entry[:-1] + bytes([entry[-1] ^ 1]))
    await put(store, moved, await bytes_of(store, whole))
    await put(store, cut, (await bytes_of(store, cut))[:40])
    await put(store, header, (await bytes_of(store, header)).replace(b'"size":', b'"sixe":'))
    foreign, strange = await keep(results, 6), "dsc:1:{x}:e:y"
    await put(store, foreign, b"somebody else's")
    await put(store, strange, b"anything")
    other = await keep(ResultCache(store, OTHER), 7)
    return {"edited": edited, "moved": moved, "cut": cut, "header": header, "foreign": foreign, "other": other}


async def test_damaged_foreign_and_of_another_secret_are_told_apart(
    store: CacheStore, keys: CacheKeys, spoilt: dict[str, str]
) -> None:
    report = await verify(store, keys, now=NOW)
    assert report.checked == 8
    assert dict(report.opened) == {keys.kid: 1}
    assert dict(report.other_secret) == {OTHER.kid: 1}
    mention = "(an entry of purification-batches batch_yield)"
    assert sorted(report.damaged) == sorted([spoilt["edited"], mention, mention, mention])
    assert set(report.foreign) == {mention, "(foreign key, 13 characters)"}
    assert report.to_json()["damaged"] == 4
    assert dict((await verify(store, keys, OTHER, now=NOW)).opened) == {keys.kid: 1, OTHER.kid: 1}


async def test_only_what_is_damaged_or_foreign_is_purged(
    store: CacheStore, keys: CacheKeys, spoilt: dict[str, str]
) -> None:
    by_kid = {keys.kid: keys}
    assert await purge(store, Selection(), SEEN, now=NOW, damaged_by=by_kid, dry_run=True) == Purged(6, 0)
    assert await purge(store, Selection(), SEEN, now=NOW, damaged_by=by_kid) == Purged(6, 6)
    report = await verify(store, keys, now=NOW)
    assert report.counts == {State.OPENED: 1, State.OTHER_SECRET: 1}


async def test_a_damaged_entry_of_a_restricted_capability_is_not_named(
    results: ResultCache, store: CacheStore, keys: CacheKeys
) -> None:
    key = await keep(results, 1, sensitivity=Sensitivity.RESTRICTED)
    entry = await bytes_of(store, key)
    await put(store, key, entry[:-1] + bytes([entry[-1] ^ 1]))
    report = await verify(store, keys, now=NOW)
    assert report.damaged == ("(an entry of purification-batches batch_yield, which is restricted)",)


async def test_who_verifies_is_told_how_far_it_is(results: ResultCache, store: CacheStore, keys: CacheKeys) -> None:
    for number in range(3):
        await keep(results, number)
    told: list[int] = []
    await verify(store, keys, now=NOW, tell=told.append)
    assert told == [1, 2, 3]


async def test_a_purge_without_anything_to_purge_writes_nothing(store: CacheStore) -> None:
    assert await purge(store, Selection({"dataset": "x"}), SEEN, now=NOW) == Purged(0, 0)
