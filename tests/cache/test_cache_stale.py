"""Past the time that it may be reused for, a result may be answered for a while as STALE, where everybody allows it."""

from __future__ import annotations

import asyncio
import itertools

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache.entry import EntryError, Header, open_sealed, seal, split
from cache.inspect import stats
from cache.keys import CacheKeys
from cache.result_cache import Hit, Miss, ResultCache
from cache.selection import one_of
from cache.store import CacheStore
from contract.authority import Authority
from contract.scope import Sensitivity
from tests.authority_builder import NOW, make_authority
from tests.cache.cache_builder import SEEN, make_document, make_execution, make_intent

INTENT = make_intent()
REUSE_S, STALE_S = 60, 300


async def keep(results: ResultCache, *, authority: Authority | None = None, stale_s: int = STALE_S) -> None:
    await results.keep(
        authority or make_authority(),
        INTENT,
        make_document(),
        make_execution(),
        freshness_class="60s",
        reuse_s=REUSE_S,
        now=NOW,
        stale_s=stale_s,
    )


async def found(
    results: ResultCache,
    age: float,
    *,
    allowed_s: int = STALE_S,
    max_age_s: int | None = None,
    authority: Authority | None = None,
) -> str:
    """``HIT``, ``STALE``, ``WITHHELD`` or why not."""
    result = await results.find(
        authority or make_authority(),
        INTENT,
        freshness_class="60s",
        max_age_s=max_age_s,
        now=NOW + age,
        stale_s=allowed_s,
    )
    return result.reason if isinstance(result, Miss) else result.outcome.outcome


@pytest.mark.parametrize(
    ("age", "allowed_s", "expected"),
    [
        (0, 300, "HIT"),
        (59, 300, "HIT"),
        (60, 300, "STALE"),
        (359, 300, "STALE"),
        (360, 300, "expired"),
        (60, 0, "expired"),
        (69, 10, "STALE"),
        (70, 10, "expired"),
        (359, 1_000, "STALE"),
        (360, 1_000, "expired"),
    ],
)
async def test_fresh_stale_and_expired(results: ResultCache, age: float, allowed_s: int, expected: str) -> None:
    await keep(results)
    assert await found(results, age, allowed_s=allowed_s) == expected


async def test_what_was_not_stored_to_be_answered_past_its_time_is_not(results: ResultCache) -> None:
    await keep(results, stale_s=0)
    assert await found(results, 60) == "expired"


async def test_a_restricted_capability_has_no_time_but_its_own(store: CacheStore, results: ResultCache) -> None:
    authority = make_authority(sensitivity=Sensitivity.RESTRICTED)
    await keep(results, authority=authority)
    entry = await store.get(results.locate(authority, INTENT, freshness_class="60s").key, now=NOW)
    assert entry is not None
    header, _ = split(entry)
    assert (header.exp, header.end) == (NOW + 60, NOW + 60)
    assert [await found(results, age, authority=authority) for age in (59, 60)] == ["WITHHELD", "expired"]


async def test_the_capability_s_own_age_is_the_last_word(results: ResultCache) -> None:
    await keep(results)
    assert [await found(results, age, max_age_s=90) for age in (60, 90, 91)] == ["STALE", "STALE", "too_old"]


async def test_reading_it_lengthens_nothing(results: ResultCache) -> None:
    await keep(results)
    outcomes = [await found(results, age) for age in range(0, 400, 10)]
    assert [name for name, _ in itertools.groupby(outcomes)] == ["HIT", "STALE", "expired"]
    assert (outcomes.count("HIT"), outcomes.count("STALE")) == (6, 30)


async def test_both_stores_hold_it_to_its_end(store: CacheStore, results: ResultCache) -> None:
    """Redis forgets by its own clock: what is left there is the time until the end, not until it is fresh no more."""
    await results.keep(
        make_authority(),
        INTENT,
        make_document(),
        make_execution(),
        freshness_class="1s",
        reuse_s=1,
        now=NOW + 0.9,  # a tenth of a second is left of it
        stale_s=STALE_S,
    )
    await asyncio.sleep(0.2)
    late = await results.find(
        make_authority(), INTENT, freshness_class="1s", max_age_s=None, now=NOW + 1.1, stale_s=STALE_S
    )
    assert isinstance(late, Hit)
    assert late.is_stale


async def test_the_operator_sees_which_it_is_and_how_often(store: CacheStore, results: ResultCache) -> None:
    await keep(results)
    key = results.locate(make_authority(), INTENT, freshness_class="60s").key
    states = []
    for age in (0, 60, 360):
        entry, _ = await one_of(store, key, SEEN, now=NOW + age)
        assert entry is not None
        states.append((entry.state, entry.fresh_for_s, entry.expires_in_s, entry.expired))
    assert states == [("fresh", 60, 360, False), ("stale", 0, 300, False), ("expired", -300, 0, True)]
    for age in (0, 60, 61, 360):
        await found(results, age)
    results.refreshed(results.locate(make_authority(), INTENT, freshness_class="60s").told("MISS"), well=True)
    await results.flush()
    told = await stats(store, SEEN, now=NOW)
    assert (told.hits, told.stale, told.refreshed, told.refresh_failed) == (3, 2, 1, 0)
    assert told.miss_reasons["expired"] == 1


async def test_64_who_would_refresh_over_four_services_are_one(store: CacheStore, keys: CacheKeys) -> None:
    services = [ResultCache(store, keys) for _ in range(4)]
    runs, go = [], asyncio.Event()

    async def run(owner: str | None) -> str | None:
        runs.append(owner)
        await go.wait()
        return owner

    calls = [
        asyncio.create_task(services[number % 4].alone(make_authority(), INTENT, freshness_class="60s", run=run))
        for number in range(64)
    ]
    done, waiting = await asyncio.wait(calls, timeout=10, return_when=asyncio.FIRST_COMPLETED)
    while len(waiting) > 1:
        done, waiting = await asyncio.wait(waiting, timeout=10, return_when=asyncio.FIRST_COMPLETED)
    go.set()
    answers = await asyncio.gather(*calls)
    assert (len(runs), answers.count(None)) == (1, 63)
    assert runs[0] is not None


def header(stale_s: int) -> Header:
    return Header({}, "t" * 64, "2026-01-01T00:00:00Z", NOW, NOW + 60, 10, stale_s=stale_s)


@given(st.integers(min_value=0, max_value=86_400 * 7))
def test_the_header_says_it_only_where_there_is_some(stale_s: int) -> None:
    keys = CacheKeys.from_secret(bytes(32))
    entry = seal(header(stale_s), make_document(), make_execution(), key="k", partition_id="p", keys=keys)
    read, end = split(entry)
    assert (read.stale_s, read.end, b"stale_s" in entry[:end]) == (stale_s, NOW + 60 + stale_s, stale_s > 0)
    open_sealed(entry, end, key="k", partition_id="p", keys=keys)


def test_a_time_that_was_lengthened_does_not_open() -> None:
    keys = CacheKeys.from_secret(bytes(32))
    entry = seal(header(10), make_document(), make_execution(), key="k", partition_id="p", keys=keys)
    longer = entry.replace(b'"stale_s":10', b'"stale_s":99')
    with pytest.raises(EntryError):
        open_sealed(longer, split(longer)[1], key="k", partition_id="p", keys=keys)


@pytest.mark.parametrize("stale_s", [-1, 1.5, True, "60", None, 2**53, 253_402_300_800])
def test_a_time_that_is_none_is_no_header(stale_s: object) -> None:
    plain = orjson.loads(header(1).to_bytes()) | {"stale_s": stale_s, "kid": "00000000"}
    body = orjson.dumps(plain)
    with pytest.raises(EntryError):
        split(b"dsce2" + len(body).to_bytes(4, "big") + body + bytes(40))
