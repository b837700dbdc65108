from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from cache import inspect
from cache.inspect import EntryView
from cache.keys import CacheKeys
from cache.redis_store import RedisStore
from cache.result_cache import ResultCache
from cache.selection import Selection, one_of
from cache.sqlite_store import SqliteStore
from cache.store import CacheStore
from cache.verification import Purged, purge, verify
from contract.authority import Authority
from contract.scope import Sensitivity
from tests.authority_builder import NOW, make_authority
from tests.cache.cache_builder import (
    AS_OF,
    PATIENCE_S,
    SEEN,
    TEMPLATE,
    make_document,
    make_execution,
    make_intent,
    views,
)


async def keep(results: ResultCache, authority: Authority | None = None, **arguments: Any) -> str:
    authority = authority or make_authority()
    intent = make_intent(arguments or None)
    await results.keep(
        authority, intent, make_document(), make_execution(), freshness_class="standard", reuse_s=60, now=NOW
    )
    return results.locate(authority, intent, freshness_class="standard").key


async def test_an_entry_shows_its_dimensions_age_expiry_and_size(results: ResultCache, store: CacheStore) -> None:
    key = await keep(results)
    (entry,) = await views(store, now=NOW + 20)
    assert entry.key == key
    assert entry.dimensions["dataset"] == "purification-batches"
    assert entry.dimensions["principal_class"] == "process_engineer"
    assert (entry.template, entry.as_of, entry.age_s, entry.expires_in_s) == (TEMPLATE, AS_OF, 20, 40)
    assert entry.size == len(make_document().body)
    assert entry.stored_bytes > entry.size
    assert entry.problem is None
    assert not entry.expired


SECRETS = ["issuer-SECRET", "tenant-SECRET", "subject-SECRET", "name-SECRET", "scope-SECRET", "column-SECRET"]


@pytest.mark.parametrize("sensitivity", [Sensitivity.INTERNAL, Sensitivity.RESTRICTED])
async def test_no_scope_argument_principal_or_row_is_in_any_output(
    results: ResultCache, store: CacheStore, keys: CacheKeys, sensitivity: Sensitivity
) -> None:
    authority = make_authority(
        issuer="https://issuer-SECRET.example",
        tenant="tenant-SECRET",
        subject="subject-SECRET",
        name="name-SECRET",
        attributes={"site": "attribute-SECRET"},
        rows={"orders.region": {"one_of": ["scope-SECRET"]}},
        columns=["orders.column-SECRET"],
        masks={"orders.mask-SECRET": "hash"},
        sensitivity=sensitivity,
    )
    intent = make_intent({"argument-SECRET": "value-SECRET"})
    document = make_document(b'{"rows":[["ROW-SECRET"]]}')
    execution = replace(make_execution(execution_id="execution-SECRET"), job_id="job-SECRET")
    for _ in range(2):
        await results.find(authority, intent, freshness_class="standard", max_age_s=None, now=NOW)
        await results.keep(authority, intent, document, execution, freshness_class="standard", reuse_s=60, now=NOW)
    await results.flush()
    (entry,) = await views(store, now=NOW)
    shown, _ = await one_of(store, entry.key, SEEN, now=NOW)
    report = await verify(store, keys, now=NOW)
    other = replace(entry, partition="0" * 32)
    outputs = [entry.to_json(), shown and shown.to_json(), (await inspect.stats(store, SEEN, now=NOW)).to_json()]
    text = json.dumps(outputs) + repr((entry, shown, report, inspect.diff(entry, other), results.store, keys))
    assert "SECRET" not in text
    assert not re.search(r"\b(B001|job|exe-)\b", text)


async def test_no_file_of_the_sqlite_store_holds_what_must_not_be_read(tmp_path: Path, keys: CacheKeys) -> None:
    results = ResultCache(SqliteStore(tmp_path / "cache.sqlite", max_bytes=2**20), keys)
    authority = make_authority(tenant="t-SECRET", subject="s-SECRET", rows={"t.c": {"one_of": ["r-SECRET"]}})
    await keep(results, authority, batch="a-SECRET")
    assert all(b"SECRET" not in file.read_bytes() for file in tmp_path.iterdir())
    await results.close()


async def test_inspection_needs_no_secret_and_sees_entries_of_any(store: CacheStore) -> None:
    for secret in (bytes(32), bytes(range(32))):
        await keep(ResultCache(store, CacheKeys.from_secret(secret)))
    assert len(await views(store, now=NOW)) == 2


async def view_of(results: ResultCache, authority: Authority, **arguments: Any) -> EntryView:
    key = await keep(results, authority, **arguments)
    assert results.store is not None
    shown, _ = await one_of(results.store, key, SEEN, now=NOW)
    assert shown is not None
    return shown


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"policy_version": "2026.2"}, {"policy_version"}),
        ({"dataset_version": "2.0.0", "revision": "r9"}, {"dataset_version", "revision"}),
        ({"principal_class": "analyst"}, {"principal_class"}),
        ({"rows": {"orders.region": {"one_of": ["EU"]}}}, {"scope"}),
        ({"tenant": "other"}, {"scope"}),
    ],
)
async def test_a_difference_is_named(results: ResultCache, change: dict[str, Any], named: set[str]) -> None:
    left, right = await view_of(results, make_authority()), await view_of(results, make_authority(**change))
    assert {difference.dimension for difference in inspect.diff(left, right)} == named


async def test_two_questions_of_one_partition_differ_in_intent(results: ResultCache) -> None:
    left, right = await view_of(results, make_authority(), n=1), await view_of(results, make_authority(), n=2)
    assert [difference.dimension for difference in inspect.diff(left, right)] == ["intent"]


async def test_stats_add_up_all_processes(results: ResultCache, store: CacheStore, keys: CacheKeys) -> None:
    await keep(results)
    for cache in (results, ResultCache(store, keys)):
        for authority in (make_authority(), make_authority(), make_authority(tenant="t2")):
            await cache.find(authority, make_intent(), freshness_class="standard", max_age_s=None, now=NOW)
        await cache.flush()
    stats = await inspect.stats(store, SEEN, now=NOW)
    assert (stats.entries, stats.hits, stats.misses, stats.kept) == (1, 4, 2, 1)
    assert stats.miss_reasons["absent"] == 2
    assert stats.hit_ratio == pytest.approx(4 / 6)


async def test_a_purge_takes_what_matches_and_leaves_the_rest(results: ResultCache, store: CacheStore) -> None:
    await keep(results)
    await keep(results, make_authority(policy_version="2026.2"))
    assert await purge(store, Selection({"dataset": "other"}), SEEN, now=NOW) == Purged(0, 0)
    dry = await purge(store, Selection(policy="2026.2"), SEEN, now=NOW, dry_run=True)
    assert (dry, len(await views(store, now=NOW))) == (Purged(1, 0), 2)
    assert await purge(store, Selection(policy="2026.2"), SEEN, now=NOW) == Purged(1, 1)
    assert len(await views(store, now=NOW)) == 1
    assert await purge(store, Selection(), SEEN, now=NOW) == Purged(1, 1)
    assert await views(store, now=NOW) == []


async def test_verify_names_the_entries_that_do_not_open(
    results: ResultCache, store: CacheStore, keys: CacheKeys
) -> None:
    await keep(results, n=1)
    key = await keep(results, n=2)
    entry = await store.get(key, now=NOW)
    assert entry is not None
    await store.put(key, entry[:-1] + bytes([entry[-1] ^ 1]), exp=NOW + 60, now=NOW)
    report = await verify(store, keys, now=NOW)
    assert (report.checked, report.damaged) == (2, (key,))


@pytest.mark.parametrize(
    "head", [b"", b"\x1b[31mSECRET", b'dsce2\x00\x00\x00\x09{"a":1}\x1b', b"dsce2\xff\xff\xff\xff"]
)
async def test_what_somebody_else_wrote_is_reported_and_never_echoed(
    results: ResultCache, store: CacheStore, head: bytes
) -> None:
    key = await keep(results)
    await store.put(key, head or b"x", exp=NOW + 60, now=NOW)
    await store.put("dsc:1:{\x1b[31mSECRET}:e:x", b"x", exp=NOW + 60, now=NOW)
    listed = await views(store, now=NOW)
    assert all(entry.problem for entry in listed)
    assert len(listed) == 2
    text = "".join(f"{entry}" for entry in listed)
    assert "SECRET" not in text
    assert "\x1b" not in text


async def test_a_redis_listing_asks_only_for_heads(valkey: Redis, valkey_url: str, keys: CacheKeys) -> None:
    results = ResultCache(RedisStore.connect(valkey_url, budget_s=PATIENCE_S), keys)
    await keep(results)
    valkey.config_resetstat()
    assert results.store is not None
    await views(results.store, now=NOW)
    raw = valkey.info("commandstats")
    assert isinstance(raw, dict)
    assert {name.removeprefix("cmdstat_") for name in raw} - {"info", "config|resetstat"} == {
        "scan",
        "getrange",
        "strlen",
    }
    await results.close()
