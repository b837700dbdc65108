"""The list of a family's stored results: sealed, bounded, and never more than a hint where to look."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cache.entry import split
from cache.family import MOST_BYTES, MOST_SOURCES, Family
from cache.keys import CacheKeys
from cache.nearest import Sought, nearest
from cache.partition import family_key
from cache.result_cache import Hit, ResultCache
from cache.store import CacheStore, StoreUnavailable
from contract.authority import Authority
from contract.scope import Sensitivity
from tests.authority_builder import NOW, make_authority
from tests.cache.cache_builder import make_document, make_execution, make_intent
from tests.cache.test_cache_results import OTHER_AUTHORITIES

AUTHORITY = make_authority()
ROLES = frozenset({"first", "last", "sites"})


def family(first: Any = 1, last: Any = 9, *, batch: str = "B001", **more: Any) -> Family:
    return Family(make_intent({"batch": batch, "first": first, "last": last, **more}), ROLES)


async def keep(
    results: ResultCache,
    held: Family,
    authority: Authority = AUTHORITY,
    *,
    started: float = NOW,
    reuse_s: float = 60,
    now: float = NOW,
) -> None:
    execution = make_execution(started, execution_id=f"exe-{held.own}")
    await results.keep(
        authority, held.intent, make_document(), execution, freshness_class="standard", reuse_s=reuse_s, now=now, family=held
    )  # fmt: skip


async def listed(
    results: ResultCache, asked: Family, authority: Authority = AUTHORITY, *, now: float = NOW
) -> list[dict[str, Any]]:
    found = await results.sources(authority, asked.intent, asked, freshness_class="standard", now=now)
    return [dict(source.arguments) for source in found]


async def test_what_was_kept_is_listed_for_every_call_of_its_family(results: ResultCache) -> None:
    await keep(results, family(1, 9))
    await keep(results, family(2, 3, sites=["a"]))
    wanted = [{"first": 1, "last": 9}, {"first": 2, "last": 3, "sites": ["a"]}]
    found = await listed(results, family(4, 5))
    assert sorted(found, key=str) == wanted


async def test_another_family_lists_nothing(results: ResultCache) -> None:
    await keep(results, family(1, 9))
    assert await listed(results, family(1, 9, batch="B002")) == []
    assert await listed(results, Family(family().intent, frozenset({"first", "last"}))) == []
    assert await listed(results, Family(family().intent, frozenset({"first"}))) == []


@pytest.mark.parametrize("fields", OTHER_AUTHORITIES.values(), ids=OTHER_AUTHORITIES)
async def test_another_authorization_lists_nothing(results: ResultCache, fields: dict[str, Any]) -> None:
    await keep(results, family(1, 9))
    assert await listed(results, family(2, 3), make_authority(**fields)) == []


async def test_in_a_restricted_partition_each_subject_has_a_list_of_its_own(results: ResultCache) -> None:
    own = make_authority(sensitivity=Sensitivity.RESTRICTED)
    await keep(results, family(1, 9), own)
    assert await listed(results, family(2, 3), make_authority(sensitivity=Sensitivity.RESTRICTED)) != []
    other = make_authority(sensitivity=Sensitivity.RESTRICTED, subject="u-eng-02", name="second")
    assert await listed(results, family(2, 3), other) == []


async def test_the_newest_sixteen_are_listed_each_once(results: ResultCache) -> None:
    for number in range(MOST_SOURCES + 3):
        await keep(results, family(number), started=NOW + number / 100, now=NOW + 1)
    await keep(results, family(5), started=NOW + 0.9, now=NOW + 1)
    found = await listed(results, family(99), now=NOW + 1)
    assert sorted(item["first"] for item in found) == [*range(3, MOST_SOURCES + 3)]


async def test_a_source_is_listed_until_it_expires(results: ResultCache) -> None:
    await keep(results, family(1), reuse_s=10)
    await keep(results, family(2), reuse_s=60)
    assert await listed(results, family(9), now=NOW + 10) == [{"first": 2, "last": 9}]
    assert await listed(results, family(9), now=NOW + 60) == []


async def test_the_list_ends_with_its_last_source(store: CacheStore, results: ResultCache) -> None:
    await keep(results, family(1), reuse_s=10)
    await keep(results, family(2), reuse_s=30)
    key = _key(results, family(1))
    entry = await store.get(key, now=NOW)
    assert entry is not None
    assert split(entry)[0].exp == NOW + 30


async def test_a_call_of_too_many_words_is_not_listed(results: ResultCache) -> None:
    await keep(results, family(1, sites=["x" * (MOST_BYTES - 40)]))
    await keep(results, family(2, sites=["x" * MOST_BYTES]))
    assert [item["first"] for item in await listed(results, family(9))] == [1]


async def test_a_list_that_was_altered_or_moved_lists_nothing(
    store: CacheStore, results: ResultCache, keys: CacheKeys, caplog: pytest.LogCaptureFixture
) -> None:
    await keep(results, family(1))
    await keep(results, family(2, batch="B002"))
    own, other = _key(results, family(1)), _key(results, family(1, batch="B002"))
    entry, foreign = await store.get(own, now=NOW), await store.get(other, now=NOW)
    assert entry is not None
    assert foreign is not None
    result = await store.get(results.locate(AUTHORITY, family(1).intent, freshness_class="standard").key, now=NOW)
    assert result is not None
    for planted in (foreign, result, entry[:-1], entry[:-1] + bytes([entry[-1] ^ 1]), b"", b"dsce2"):
        await store.put(own, planted, exp=NOW + 60, now=NOW)
        assert await listed(results, family(9)) == []
    assert "failed its integrity check" in caplog.text
    await store.put(own, entry, exp=NOW + 60, now=NOW)
    assert await listed(results, family(9)) != []


async def test_a_list_is_no_result(store: CacheStore, results: ResultCache) -> None:
    await keep(results, family(1))
    place = results.locate(AUTHORITY, family(3).intent, freshness_class="standard")
    entry = await store.get(_key(results, family(1)), now=NOW)
    assert entry is not None
    await store.put(place.key, entry, exp=NOW + 60, now=NOW)
    found = await results.find(AUTHORITY, family(3).intent, freshness_class="standard", max_age_s=None, now=NOW)
    assert not isinstance(found, Hit)


async def test_a_list_is_no_entry_that_comes_near_to_a_call(
    store: CacheStore, results: ResultCache, keys: CacheKeys
) -> None:
    await keep(results, family(1))
    place = results.locate(AUTHORITY, family(1).intent, freshness_class="standard")
    sought = Sought(
        AUTHORITY.dataset, AUTHORITY.capability, place.key, keys.kid, place.partition.dimensions, lambda _: {}
    )
    assert [near.entry.key for near in await nearest(store, sought, keys, now=NOW)] == [place.key]


async def test_a_store_shows_no_argument_of_a_list(store: CacheStore, results: ResultCache) -> None:
    await keep(results, family(1, sites=["ROW-SECRET-7"]))
    async for stored in store.entries():
        entry = await store.get(stored.key, now=NOW)
        assert b"ROW-SECRET-7" not in (entry or b"")
        assert b"ROW-SECRET-7" not in stored.key.encode() + stored.head


async def test_a_store_that_is_closed_lists_nothing_and_fails_nobody(store: CacheStore, keys: CacheKeys) -> None:
    broken = ResultCache(_Down(), keys)
    await keep(broken, family(1))
    assert await listed(broken, family(9)) == []
    assert await listed(ResultCache(None, keys), family(9)) == []


async def test_the_result_with_the_fewest_rows_is_tried_first(results: ResultCache) -> None:
    for number, rows in ((1, 9), (2, 3), (3, 5)):
        await results.keep(
            AUTHORITY,
            family(number).intent,
            replace(make_document(), row_count=rows),
            make_execution(),
            freshness_class="standard",
            reuse_s=60,
            now=NOW,
            family=family(number),
        )
    assert [item["first"] for item in await listed(results, family(9))] == [2, 3, 1]


def _key(results: ResultCache, held: Family) -> str:
    place = results.locate(AUTHORITY, held.intent, freshness_class="standard")
    return family_key(place.partition, held.intent, held.fixed, held.roles, keys=place.keys)


class _Down:
    """A store that answers nothing."""

    def __getattr__(self, name: str) -> Any:
        async def fail(*arguments: object, **named: object) -> None:
            raise StoreUnavailable("it is down")

        return fail
