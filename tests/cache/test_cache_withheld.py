"""Of a restricted capability there are numbers of results, whatever is asked and whoever writes to the store."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from cache.entry import is_proven, read_header
from cache.family import Family
from cache.inspect import AtHand, EntryView, Withheld, stats, told
from cache.keys import CacheKeys
from cache.result_cache import ResultCache
from cache.selection import Selection, Sort, listing, one_of
from cache.store import CacheStore, StoredEntry
from cache.verification import Purged, purge, verify
from contract.scope import Sensitivity
from tests.authority_builder import NOW, make_authority
from tests.cache.cache_builder import make_document, make_execution, make_intent

PLACE = ("purification-batches", "batch_yield")
MENTION = "(an entry of purification-batches batch_yield)"
OTHER = CacheKeys.from_secret(bytes(32))
OPEN = {PLACE: Sensitivity.INTERNAL}
CLOSED = {PLACE: Sensitivity.RESTRICTED}


async def keep(results: ResultCache, number: int = 0, *, age: float = 0, rollup: bool = False, **authority: Any) -> str:
    asked, intent = make_authority(**authority), make_intent({"n": number})
    family = Family(intent, frozenset({"n"})) if rollup else None
    await results.keep(
        asked,
        intent,
        make_document(),
        make_execution(NOW - age),
        freshness_class="standard",
        reuse_s=60,
        now=NOW,
        family=family,
    )
    return results.locate(asked, intent, freshness_class="standard").key


async def hide(results: ResultCache, number: int = 0, **more: Any) -> str:
    return await keep(results, number, sensitivity=Sensitivity.RESTRICTED, subject=f"u-{number}", **more)


async def numbers(store: CacheStore, chosen: Selection, at_hand: AtHand) -> dict[str, Any]:
    return (await listing(store, chosen, at_hand, now=NOW, sort=Sort.KEY, limit=10)).to_json()


def counted(number: int) -> list[dict[str, Any]]:
    return [{"dataset": PLACE[0], "capability": PLACE[1], "entries": number}] if number else []


CHOICES = [
    Selection(),
    Selection(secret="current"),
    Selection(secret="x"),
    Selection({"class": "nobody"}),
    Selection({"class": "process_engineer"}),
    Selection({"revision": "x"}),
    Selection({"freshness": "standard"}),
    Selection(policy="x"),
    Selection(older_than_s=0),
    Selection(older_than_s=20),
    Selection(older_than_s=1e9),
    Selection(expired=True),
    Selection(problem=True),
]


@pytest.mark.parametrize("chosen", CHOICES, ids=lambda chosen: chosen.told())
async def test_no_choice_but_of_dataset_and_capability_changes_the_number(
    results: ResultCache, store: CacheStore, keys: CacheKeys, chosen: Selection
) -> None:
    hidden = [await hide(results, number, age=10 * number) for number in range(3)]
    at_hand = AtHand.of([keys])
    found = await numbers(store, chosen, at_hand)
    assert (found["matched"], found["restricted"]) == (0, counted(3))
    assert not any(key[-16:] in json.dumps(found) for key in hidden)
    both = {"dataset": PLACE[0], "capability": PLACE[1]}
    assert (await numbers(store, Selection({**chosen.dimensions, **both}), at_hand))["restricted"] == counted(3)
    elsewhere = Selection({**chosen.dimensions, "dataset": "other"})
    assert (await numbers(store, elsewhere, at_hand))["restricted"] == []


@pytest.mark.parametrize("chosen", CHOICES[:11], ids=lambda chosen: chosen.told())
async def test_a_purge_takes_all_of_them_whatever_else_is_chosen_by(
    results: ResultCache, store: CacheStore, keys: CacheKeys, chosen: Selection
) -> None:
    for number in range(3):
        await hide(results, number, age=10 * number, rollup=True)
    at_hand = AtHand.of([keys])
    assert await purge(store, chosen, at_hand, now=NOW, dry_run=True) == Purged(3, 0)
    assert await purge(store, chosen, at_hand, now=NOW) == Purged(3, 3)
    assert [entry async for entry in store.entries()] == []


@pytest.mark.parametrize("chosen", CHOICES[11:], ids=lambda chosen: chosen.told())
async def test_a_purge_of_what_is_over_or_does_not_read_takes_none(
    results: ResultCache, store: CacheStore, keys: CacheKeys, chosen: Selection
) -> None:
    await hide(results)
    for now in (NOW, NOW + 100):
        assert await purge(store, chosen, AtHand.of([keys]), now=now) == Purged(0, 0)


async def test_a_list_of_stored_results_is_not_one_of_them(
    results: ResultCache, store: CacheStore, keys: CacheKeys
) -> None:
    await hide(results, rollup=True)
    assert len([entry async for entry in store.entries()]) == 2
    assert (await numbers(store, Selection(), AtHand.of([keys])))["restricted"] == counted(1)
    figures = await stats(store, AtHand.of([keys]), now=NOW)
    assert (figures.entries, figures.bytes, figures.restricted) == (0, 0, 1)


async def test_no_counter_of_a_store_tells_of_them(results: ResultCache, store: CacheStore) -> None:
    await hide(results)
    authority = make_authority(sensitivity=Sensitivity.RESTRICTED, subject="u-0")
    for number in range(2):
        await results.find(authority, make_intent({"n": number}), freshness_class="standard", max_age_s=None, now=NOW)
    assert (results.counters["hit"], results.counters["absent"], results.counters["kept"]) == (1, 1, 1)
    await results.flush()
    assert (await store.stats()).counters == {}


def cut(entry: bytes) -> bytes:
    return entry[:60]


def says_internal(entry: bytes) -> bytes:
    return entry.replace(b'"sensitivity":"restricted"', b'"sensitivity":"internal"  ')


def says_another_class(entry: bytes) -> bytes:
    return entry.replace(b'"process_engineer"', b'"process_enginees"')


def garbage(entry: bytes) -> bytes:
    return b"somebody else's"


def other_kid(entry: bytes) -> bytes:
    at = entry.index(b'"kid":"') + 7
    return says_internal(entry[:at] + b"00000000" + entry[at + 8 :])


@pytest.mark.parametrize("spoil", [cut, says_internal, says_another_class, garbage, other_kid])
@pytest.mark.parametrize("known", [{}, OPEN, CLOSED], ids=["unknown", "open", "closed"])
async def test_who_writes_to_the_store_cannot_have_one_shown(
    results: ResultCache,
    store: CacheStore,
    keys: CacheKeys,
    spoil: Callable[[bytes], bytes],
    known: Mapping[tuple[str, str], Sensitivity],
) -> None:
    key = await hide(results)
    entry = await store.get(key, now=NOW)
    assert entry is not None
    await store.put(key, spoil(entry), exp=NOW + 60, now=NOW)
    if spoil is other_kid and known is OPEN:
        return  # the descriptor says that nothing of the capability is restricted
    at_hand = AtHand.of([keys], known)
    found = await numbers(store, Selection(), at_hand)
    texts = [
        json.dumps(found),
        repr(await verify(store, keys, now=NOW, known=known)),
        repr(await one_of(store, key, at_hand, now=NOW)),
    ]
    digests = key.replace("}", ":").split(":")
    assert not any(digest in text for text in texts for digest in (digests[8], digests[-1]))
    assert [(one["key"], one["age_s"], one["size"], one["hits"]) for one in found["entries"]] in (
        [(MENTION, None, None, None)],
        [],  # a header of no secret that is here, of what a descriptor says is restricted
    )
    assert await one_of(store, key, at_hand, now=NOW) == (None, 0)


async def test_who_writes_to_the_store_cannot_hide_one_that_is_not_restricted(
    results: ResultCache, store: CacheStore, keys: CacheKeys
) -> None:
    key = await keep(results)
    entry = await store.get(key, now=NOW)
    assert entry is not None
    edited = entry[:9] + entry[9:].replace(b'"sensitivity":"internal"', b'"sensitivity":"restrict"')
    await store.put(key, edited, exp=NOW + 60, now=NOW)
    found = await numbers(store, Selection(), AtHand.of([keys], OPEN))
    assert ([one["key"] for one in found["entries"]], found["restricted"]) == ([MENTION], [])


@pytest.mark.parametrize(
    ("at_hand", "hidden", "shown"),
    [
        ("secret", "withheld", "shown"),
        ("secret, open", "withheld", "shown"),
        ("secret, closed", "withheld", "withheld"),
        ("open", "mention", "shown"),
        ("closed", "withheld", "withheld"),
        ("other secret", "mention", "mention"),
        ("other secret, open", "mention", "shown"),
        ("", "mention", "mention"),
    ],
)
async def test_what_is_proven_by_nothing_is_no_more_than_mentioned(
    results: ResultCache, store: CacheStore, keys: CacheKeys, at_hand: str, hidden: str, shown: str
) -> None:
    secrets = {"secret": [keys], "other secret": [OTHER]}.get(at_hand.partition(",")[0], [])
    known = OPEN if "open" in at_hand else CLOSED if "closed" in at_hand else {}
    made = {await hide(results): hidden, await keep(results, 1): shown}
    async for stored in store.entries():
        entry = told(stored, AtHand.of(secrets, known), now=NOW)
        if isinstance(entry, Withheld):
            assert made[stored.key] == "withheld"
            continue
        assert made[stored.key] == ("shown" if entry.is_named else "mention")
        assert entry.key == (stored.key if entry.is_named else MENTION)


async def test_a_header_is_proven_under_its_key_and_secret_alone(
    results: ResultCache, store: CacheStore, keys: CacheKeys
) -> None:
    key = await keep(results)
    (stored,) = [stored async for stored in store.entries()]
    header = read_header(stored.head, key=key)
    assert is_proven(header, key=key, keys=keys)
    assert not is_proven(header, key=key, keys=OTHER)
    assert not is_proven(header, key=key[:-1] + "0", keys=keys) or key.endswith("0")
    for change in ({"size": 1}, {"started": NOW - 1.0}, {"exp": NOW + 1.0}, {"template": "x"}, {"stale_s": 9}):
        assert not is_proven(header._replace(**change), key=key, keys=keys)
    moved = told(StoredEntry(key[:-4] + "0000", stored.head, 1, None), AtHand.of([keys], OPEN), now=NOW)
    assert isinstance(moved, EntryView)
    assert moved.key == MENTION
