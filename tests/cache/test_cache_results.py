"""The result cache over both stores: what hits, what never does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from cache.breaker import Breaker
from cache.keys import CacheKeys
from cache.result_cache import Hit, Miss, ResultCache
from cache.store import CacheStore, StoreUnavailable
from contract.authority import Authority
from contract.result import CacheOutcome, Execution, Intent, ResultDocument
from contract.scope import Sensitivity
from tests.authority_builder import NOW, make_authority
from tests.cache.cache_builder import AS_OF, make_document, make_execution, make_intent

AUTHORITY = make_authority()


async def keep(
    results: ResultCache,
    authority: Authority = AUTHORITY,
    intent: Intent | None = None,
    *,
    document: ResultDocument | None = None,
    execution: Execution | None = None,
    reuse_s: float = 60,
    now: float = NOW,
) -> None:
    await results.keep(
        authority,
        intent or make_intent(),
        document or make_document(),
        execution or make_execution(),
        freshness_class="standard",
        reuse_s=reuse_s,
        now=now,
    )


async def find(
    results: ResultCache,
    authority: Authority = AUTHORITY,
    intent: Intent | None = None,
    *,
    freshness_class: str = "standard",
    max_age_s: int | None = None,
    now: float = NOW,
    **options: Any,
) -> Hit | Miss:
    return await results.find(
        authority,
        intent or make_intent(),
        freshness_class=freshness_class,
        max_age_s=max_age_s,
        now=now,
        **options,
    )


def reason(found: Hit | Miss) -> str:
    return found.reason if isinstance(found, Miss) else "hit"


async def test_an_equal_call_gets_the_bytes_and_the_execution_that_were_kept(results: ResultCache) -> None:
    await keep(results)
    found = await find(results)
    assert isinstance(found, Hit)
    assert (found.document, found.execution) == (make_document(), make_execution())
    assert found.outcome == CacheOutcome(
        "HIT", results.locate(AUTHORITY, make_intent(), freshness_class="standard").key
    )


async def test_a_first_call_is_a_miss_that_names_its_key(results: ResultCache) -> None:
    found = await find(results)
    assert reason(found) == "absent"
    assert found.outcome.outcome == "MISS"
    assert found.key is not None


async def test_the_same_person_with_another_grant_and_another_class_member_hit(results: ResultCache) -> None:
    await keep(results)
    assert reason(await find(results, make_authority(leaf_jti="j2", txn="t2", now=NOW + 9))) == "hit"
    assert reason(await find(results, make_authority(subject="u-eng-02", name="second"))) == "hit"


OTHER_AUTHORITIES = {
    "tenant": {"tenant": "other"},
    "issuer": {"issuer": "https://other.example"},
    "principal class": {"principal_class": "analyst"},
    "dataset version": {"dataset_version": "1.0.1"},
    "revision": {"revision": "r2"},
    "schema version": {"schema_version": "2"},
    "policy": {"policy_id": "BPD-DATA-002"},
    "policy version": {"policy_version": "2026.2"},
    "row constraint": {"rows": {"orders.region": {"one_of": ["EU"]}}},
    "grant's row constraint": {"grant_rows": {"orders.region": {"one_of": ["US"]}}},
    "columns": {"columns": ["orders.id"]},
    "grant's columns": {"grant_columns": ["orders.id"]},
    "masks": {"masks": {"orders.id": "hash"}},
    "ceiling": {"max_sensitivity": Sensitivity.INTERNAL},
}


@pytest.mark.parametrize("fields", OTHER_AUTHORITIES.values(), ids=OTHER_AUTHORITIES)
async def test_another_authorization_never_hits(results: ResultCache, fields: dict[str, Any]) -> None:
    await keep(results)
    assert reason(await find(results, make_authority(**fields))) == "absent"


@pytest.mark.parametrize(
    "options",
    [
        {"intent": make_intent({"batch": "B002"})},
        {"intent": make_intent(template="cd" * 32)},
        {"freshness_class": "strict"},
        {"media_type": "application/vnd.apache.arrow.stream"},
    ],
)
async def test_another_question_never_hits(results: ResultCache, options: dict[str, Any]) -> None:
    await keep(results)
    assert reason(await find(results, **options)) == "absent"


async def test_after_a_revision_change_one_miss_then_hits_again(results: ResultCache) -> None:
    await keep(results)
    changed = make_authority(revision="r2")
    assert reason(await find(results, changed)) == "absent"
    await keep(results, changed)
    assert reason(await find(results, changed)) == "hit"


async def test_two_tenants_in_turn_get_their_own_rows(results: ResultCache) -> None:
    tenants = {name: make_authority(tenant=name) for name in ("acme", "borg")}
    for name, authority in tenants.items():
        await keep(results, authority, document=make_document(name.encode()))
    for name in ("acme", "borg") * 5:
        found = await find(results, tenants[name])
        assert isinstance(found, Hit)
        assert found.document.body == name.encode()


async def test_a_hit_does_not_lengthen_an_entry_s_life(results: ResultCache) -> None:
    await keep(results, reuse_s=60)
    for second in range(0, 60, 10):
        assert reason(await find(results, now=NOW + second)) == "hit"
    assert reason(await find(results, now=NOW + 60)) == "expired"


async def test_life_is_counted_from_the_execution_not_from_the_storing(results: ResultCache) -> None:
    await keep(results, execution=make_execution(NOW - 50), reuse_s=60)
    assert reason(await find(results, now=NOW + 9)) == "hit"
    assert reason(await find(results, now=NOW + 10)) == "expired"


async def test_a_result_older_than_its_reuse_is_not_kept(results: ResultCache) -> None:
    await keep(results, execution=make_execution(NOW - 61), reuse_s=60)
    assert reason(await find(results)) == "absent"


@pytest.mark.parametrize(("age", "expected"), [(0, "hit"), (30, "hit"), (31, "too_old")])
async def test_an_entry_older_than_the_age_asked_for_is_a_miss(results: ResultCache, age: int, expected: str) -> None:
    await keep(results)
    assert reason(await find(results, now=NOW + age, max_age_s=30)) == expected


@pytest.mark.parametrize(
    ("as_of", "expected"),
    [(None, "hit"), (AS_OF, "hit"), ("2026-08-31T22:00:01Z", "too_old"), ("2026-08-31T21:59:59Z", "hit")],
)
async def test_an_entry_whose_rows_are_as_of_an_earlier_instant_than_what_is_served_is_a_miss(
    results: ResultCache, as_of: str | None, expected: str
) -> None:
    """Of a later one it is not: machines whose copies of a file have other times share what is stored."""
    await keep(results)
    assert reason(await find(results, as_of=as_of)) == expected


async def test_an_entry_from_the_future_is_a_miss(results: ResultCache) -> None:
    await keep(results, execution=make_execution(NOW + 3_600), now=NOW + 3_600)
    assert reason(await find(results, now=NOW)) == "expired"


async def test_a_truncated_result_is_never_kept(results: ResultCache) -> None:
    await keep(results, document=make_document(truncated=True))
    assert reason(await find(results)) == "absent"


async def test_a_result_beyond_the_limit_is_not_kept(store: CacheStore, keys: CacheKeys) -> None:
    results = ResultCache(store, keys, max_result_bytes=100)
    await keep(results, make_authority(), make_intent({"n": 1}), document=make_document(b"x" * 100))
    await keep(results, make_authority(), make_intent({"n": 2}), document=make_document(b"x" * 101))
    assert reason(await find(results, intent=make_intent({"n": 1}))) == "hit"
    assert reason(await find(results, intent=make_intent({"n": 2}))) == "absent"


RESTRICTED = {"sensitivity": Sensitivity.RESTRICTED}


async def test_a_restricted_capability_hits_for_its_own_subject_only(results: ResultCache) -> None:
    await keep(results, make_authority(**RESTRICTED, subject="u-1"))
    assert reason(await find(results, make_authority(**RESTRICTED, subject="u-1"))) == "hit"
    assert reason(await find(results, make_authority(**RESTRICTED, subject="u-2"))) == "absent"


async def test_a_restricted_capability_never_tells_whether_it_hit(results: ResultCache) -> None:
    authority = make_authority(**RESTRICTED)
    before = await find(results, authority)
    await keep(results, authority)
    after = await find(results, authority)
    assert before.outcome == after.outcome == CacheOutcome("WITHHELD", None)
    assert before.key is None
    assert after.key is None


def _flip(entry: bytes) -> bytes:
    return entry[:-1] + bytes([entry[-1] ^ 1])


@pytest.mark.parametrize("damage", [_flip, lambda entry: entry[:40], lambda entry: b"", lambda entry: b"junk" * 99])
async def test_a_damaged_entry_is_a_counted_miss(
    results: ResultCache, store: CacheStore, damage: Callable[[bytes], bytes]
) -> None:
    await keep(results)
    key = results.locate(AUTHORITY, make_intent(), freshness_class="standard").key
    entry = await store.get(key, now=NOW)
    assert entry is not None
    await store.put(key, damage(entry), exp=NOW + 60, now=NOW)
    assert reason(await find(results)) == "integrity"
    assert results.counters["integrity"] == 1


async def test_a_damaged_entry_is_counted_where_its_answer_follows_from_another(
    results: ResultCache, store: CacheStore
) -> None:
    other = make_intent({"batch": "B009"})
    await keep(results, intent=other)
    wider = await find(results, intent=other)
    await keep(results)
    key = results.locate(AUTHORITY, make_intent(), freshness_class="standard").key
    await store.put(key, b"junk" * 99, exp=NOW + 60, now=NOW)

    async def derive() -> Hit | None:
        return wider if isinstance(wider, Hit) else None

    assert isinstance(await find(results, derive=derive), Hit)
    assert (results.counters["integrity"], results.counters["derived"]) == (1, 1)


async def test_an_entry_moved_to_another_tenant_s_key_is_a_counted_miss(
    results: ResultCache, store: CacheStore
) -> None:
    await keep(results)
    theirs = make_authority(tenant="borg")
    here, there = (results.locate(who, make_intent(), freshness_class="standard").key for who in (AUTHORITY, theirs))
    entry = await store.get(here, now=NOW)
    assert entry is not None
    await store.put(there, entry, exp=NOW + 60, now=NOW)
    assert reason(await find(results, theirs)) == "integrity"


async def test_a_damaged_entry_is_healed_by_the_next_result(results: ResultCache, store: CacheStore) -> None:
    key = results.locate(AUTHORITY, make_intent(), freshness_class="standard").key
    await store.put(key, b"junk", exp=NOW + 60, now=NOW)
    assert reason(await find(results)) == "integrity"
    await keep(results)
    assert reason(await find(results)) == "hit"


async def test_a_cache_of_another_secret_finds_nothing(results: ResultCache, store: CacheStore) -> None:
    await keep(results)
    assert reason(await find(ResultCache(store, CacheKeys.from_secret(bytes(32))))) == "absent"


async def test_events_are_counted_here_and_in_the_store(results: ResultCache, store: CacheStore) -> None:
    await find(results)
    await keep(results)
    await find(results)
    await find(results)
    await results.flush()
    expected = {"absent": 1, "kept": 1, "hit": 2}
    assert results.counters == expected
    assert (await store.stats()).counters == expected


async def test_concurrent_tenants_never_get_one_another_s_rows(results: ResultCache) -> None:
    async def ask(number: int) -> None:
        tenant = f"t{number % 8}"
        authority, intent = make_authority(tenant=tenant), make_intent({"n": number % 3})
        found = await find(results, authority, intent)
        if isinstance(found, Hit):
            assert found.document.body == f"{tenant}/{number % 3}".encode()
        else:
            await keep(results, authority, intent, document=make_document(f"{tenant}/{number % 3}".encode()))

    await asyncio.gather(*(ask(number) for number in range(200)))


async def test_its_standing_is_what_the_store_says_when_it_is_asked(
    results: ResultCache, store: CacheStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    async def down() -> None:
        asked.append(True)
        raise StoreUnavailable("down")

    assert await results.standing() == "ok"
    monkeypatch.setattr(store, "health", down)
    assert [await results.standing() for _ in range(5)] == ["unavailable"] * 5
    monkeypatch.undo()
    assert (await results.standing(), len(asked)) == ("ok", 5)


async def test_a_store_that_is_left_alone_is_not_asked_for_its_standing(store: CacheStore, keys: CacheKeys) -> None:
    breaker = Breaker()
    breaker.failed(silent=True)
    assert await ResultCache(store, keys, breaker=breaker).standing() == "unavailable"
    assert await ResultCache(None, keys).standing() == "off"


async def test_switched_off_it_says_so_and_keeps_nothing(keys: CacheKeys) -> None:
    results = ResultCache(None, keys)
    await keep(results)
    found = await find(results)
    await results.close()
    assert found.outcome == CacheOutcome("OFF", None)
