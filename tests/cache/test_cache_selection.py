"""Which entries an operator means, in which order, and what is only counted."""

from __future__ import annotations

from typing import Any

import pytest

from cache.inspect import AtHand
from cache.keys import CacheKeys
from cache.result_cache import ResultCache
from cache.selection import Selection, Sort, listing, one_of
from cache.store import CacheStore
from cache.verification import purge
from tests.authority_builder import NOW, make_authority
from tests.cache.cache_builder import SEEN, make_document, make_execution, make_intent, views

LARGE = make_document(b"x" * 5_000)


async def keep(results: ResultCache, number: int = 0, *, age: float = 0, large: bool = False, **authority: Any) -> str:
    asked, intent = make_authority(**authority), make_intent({"n": number})
    await results.keep(
        asked,
        intent,
        LARGE if large else make_document(),
        make_execution(NOW - age),
        freshness_class="standard",
        reuse_s=60,
        now=NOW,
    )
    return results.locate(asked, intent, freshness_class="standard").key


async def keys_of(store: CacheStore, chosen: Selection, *, now: float = NOW) -> set[str]:
    return {entry.key for entry in (await listing(store, chosen, SEEN, now=now, sort=Sort.KEY, limit=100)).entries}


@pytest.mark.parametrize(
    ("chosen", "change"),
    [
        (Selection({"class": "analyst"}), {"principal_class": "analyst"}),
        (Selection({"revision": "r9"}), {"revision": "r9"}),
        (Selection({"freshness": "standard", "revision": "r9"}), {"revision": "r9"}),
        (Selection({"revision": "a {strange} one"}), {"revision": "a {strange} one"}),
        (Selection(policy="2026.2"), {"policy_version": "2026.2"}),
        (Selection(policy="OTHER-1"), {"policy_id": "OTHER-1"}),
        (Selection(policy="OTHER-1@2026.1"), {"policy_id": "OTHER-1"}),
        (Selection(older_than_s=30), {"age": 31}),
    ],
)
async def test_a_choice_takes_what_is_so_and_nothing_else(
    results: ResultCache, store: CacheStore, chosen: Selection, change: dict[str, Any]
) -> None:
    await keep(results, 1)
    meant = await keep(results, 2, **change)
    assert await keys_of(store, chosen) == {meant}
    assert (await purge(store, chosen, SEEN, now=NOW)).removed == 1
    assert meant not in await keys_of(store, Selection())


@pytest.mark.parametrize(
    "chosen", [Selection({"dataset": "x"}), Selection(policy="BPD-DATA-001@2026.9"), Selection(older_than_s=60)]
)
async def test_a_choice_of_nothing_takes_nothing(results: ResultCache, store: CacheStore, chosen: Selection) -> None:
    await keep(results)
    assert await keys_of(store, chosen) == set()


async def test_what_is_expired_or_does_not_read_is_chosen_by_that(results: ResultCache, store: CacheStore) -> None:
    old, young, broken = await keep(results, 1, age=30), await keep(results, 2), await keep(results, 3)
    await store.put(broken, b"dsce2", exp=NOW + 60, now=NOW)
    assert await keys_of(store, Selection(expired=True), now=NOW + 40) == {old}
    assert broken.startswith("dsc:1:{purification-batches:")
    assert await keys_of(store, Selection(problem=True)) == {"(an entry of purification-batches batch_yield)"}
    assert young in await keys_of(store, Selection())


@pytest.mark.parametrize(("sort", "first"), [(Sort.AGE, 1), (Sort.EXPIRES, 1), (Sort.SIZE, 2)])
async def test_the_oldest_the_next_to_end_and_the_largest_come_first(
    results: ResultCache, store: CacheStore, sort: Sort, first: int
) -> None:
    keys = [await keep(results), await keep(results, 1, age=20), await keep(results, 2, large=True)]
    found = await listing(store, Selection(), SEEN, now=NOW, sort=sort, limit=1)
    assert (found.matched, [entry.key for entry in found.entries]) == (3, [keys[first]])


async def test_a_listing_holds_no_more_than_was_asked_for_and_counts_all(
    results: ResultCache, store: CacheStore
) -> None:
    made = sorted([await keep(results, number) for number in range(30)])
    found = await listing(store, Selection(), SEEN, now=NOW, sort=Sort.KEY, limit=7)
    assert ([entry.key for entry in found.entries], found.matched) == (made[:7], 30)


async def test_hits_are_counted_or_not_known_and_never_made_up(results: ResultCache, store: CacheStore) -> None:
    await keep(results)
    found = await listing(store, Selection(), SEEN, now=NOW, sort=Sort.HITS, limit=1)
    kind = (await store.stats()).kind
    assert [entry.hits for entry in found.entries] == [{"sqlite": 0, "redis": None}[kind]]


async def test_the_end_of_a_key_names_an_entry_where_it_names_one(results: ResultCache, store: CacheStore) -> None:
    keys = [await keep(results, number) for number in range(2)]
    for key in keys:
        entry, number = await one_of(store, key[-16:], SEEN, now=NOW)
        assert (entry and entry.key, number) == (key, 1)
    assert await one_of(store, "nothing", SEEN, now=NOW) == (None, 0)
    assert await one_of(store, "", SEEN, now=NOW) == (None, 0)
    await store.put("x" + keys[0], b"x", exp=NOW + 60, now=NOW)
    exact, _ = await one_of(store, keys[0], SEEN, now=NOW)
    assert exact is not None
    assert exact.key == keys[0]


def test_what_a_log_line_tells_of_a_choice_is_plain() -> None:
    chosen = Selection({"dataset": "a\nb", "class": "analyst"}, policy="P-1@\x1b[31m", older_than_s=60, expired=True)
    told = chosen.told()
    assert told.isprintable()
    assert told.startswith("class=analyst dataset=~")
    assert told.endswith(" older_than=60s expired")
    assert Selection().told() == "everything"


async def test_a_listing_and_a_view_agree(results: ResultCache, store: CacheStore) -> None:
    await keep(results)
    found = await listing(store, Selection(), SEEN, now=NOW, sort=Sort.KEY, limit=1)
    assert list(found.entries) == await views(store, now=NOW)


async def test_an_entry_says_whether_its_secret_is_the_current_one_an_earlier_one_or_none_here(
    results: ResultCache, store: CacheStore, keys: CacheKeys
) -> None:
    newer = CacheKeys.from_secret(b"n" * 32)
    before = await keep(results)
    results.take_over(newer)
    after = await keep(results)

    async def chosen(secret: str, *at_hand: CacheKeys) -> set[str]:
        known = AtHand.of(at_hand, SEEN.known)
        found = await listing(store, Selection(secret=secret), known, now=NOW, sort=Sort.KEY, limit=9)
        return {entry.key for entry in found.entries}

    assert await chosen("current", newer, keys) == {after}
    assert await chosen("earlier", newer, keys) == {before}
    assert await chosen("other", newer) == {before}
    assert await chosen("other", newer, keys) == set()
    assert await chosen(keys.kid, newer) == await chosen(keys.kid, newer, keys) == {before}
    assert (await purge(store, Selection(secret="other"), AtHand.of([newer], SEEN.known), now=NOW)).removed == 1
    assert await keys_of(store, Selection()) == {after}
