"""Whatever somebody else wrote into a store, of any type: a HIT becomes a MISS and nothing else happens."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from cache import inspect
from cache.breaker import Breaker
from cache.entry import split
from cache.flight import Flights, nothing
from cache.keys import CacheKeys
from cache.lead import mark
from cache.partition import KEY_PREFIX
from cache.redis_store import COUNTERS, RedisStore
from cache.result_cache import Hit, Miss, ResultCache
from cache.selection import Selection
from cache.sqlite_store import SqliteStore
from cache.store import CacheStore
from cache.verification import purge, verify
from tests.authority_builder import NOW, make_authority
from tests.cache.cache_builder import PATIENCE_S, SEEN, make_document, make_execution, make_intent, views

AUTHORITY, INTENT = make_authority(), make_intent()
LEASE = f"{KEY_PREFIX}{{p}}:l:i"
KEYS = CacheKeys.from_secret(bytes(32))
FLIGHT = f"{KEY_PREFIX}{{p}}:e:i"
Spoil = Callable[[Redis, str], object]


async def find(results: ResultCache) -> Hit | Miss:
    return await results.find(AUTHORITY, INTENT, freshness_class="standard", max_age_s=None, now=NOW)


async def keep(results: ResultCache) -> str:
    await results.keep(
        AUTHORITY, INTENT, make_document(), make_execution(), freshness_class="standard", reuse_s=60, now=NOW
    )
    return results.locate(AUTHORITY, INTENT, freshness_class="standard").key


async def spoilt(store: CacheStore, keys: CacheKeys) -> int:
    report = await verify(store, keys, now=NOW)
    return len(report.damaged) + len(report.foreign)


async def check_only_a_miss(results: ResultCache, keys: CacheKeys, *, listed: bool = True) -> None:
    """The poisoned key is a MISS that opens no breaker and heals; inspection names it and raises nothing."""
    store = results.store
    assert store is not None
    for _ in range(4):
        found = await find(results)
        assert isinstance(found, Miss)
        assert found.reason in ("absent", "integrity")
    if listed:
        (shown,) = await views(store, now=NOW)
        assert shown.problem is not None
        json.dumps(shown.to_json())
        assert await spoilt(store, keys) == 1
    assert (await inspect.stats(store, SEEN, now=NOW)).entries == int(listed)
    await keep(results)
    assert isinstance(await find(results), Hit)
    assert (await purge(store, Selection(), SEEN, now=NOW)).removed == 1
    assert [entry async for entry in store.entries()] == []


# --- Redis -----------------------------------------------------------------------------------------

OTHER_TYPES: dict[str, Spoil] = {
    "list": lambda db, key: db.rpush(key, "x"),
    "hash": lambda db, key: db.hset(key, "a", "b"),
    "set": lambda db, key: db.sadd(key, "x"),
    "sorted set": lambda db, key: db.zadd(key, {"x": 1.0}),
    "stream": lambda db, key: db.xadd(key, {"a": "b"}),
}
STRINGS: dict[str, Spoil] = {
    "text": lambda db, key: db.set(key, "x"),
    "a number": lambda db, key: db.set(key, 10**18),
    "a counter": lambda db, key: db.incr(key),
    "bits": lambda db, key: db.setbit(key, 100_000, 1),
    "a long text": lambda db, key: db.set(key, b"dsce2" + b"\xff" * 2_000_000),
}


@pytest.fixture
async def on_redis(valkey: Redis, valkey_url: str, keys: CacheKeys) -> AsyncIterator[ResultCache]:
    opened = ResultCache(RedisStore.connect(valkey_url, budget_s=PATIENCE_S), keys)
    yield opened
    await opened.close()


@pytest.mark.parametrize("name", [*OTHER_TYPES, *STRINGS])
async def test_a_redis_value_of_any_type_under_our_key_is_only_a_miss(
    on_redis: ResultCache, valkey: Redis, keys: CacheKeys, name: str
) -> None:
    (OTHER_TYPES | STRINGS)[name](valkey, on_redis.locate(AUTHORITY, INTENT, freshness_class="standard").key)
    await check_only_a_miss(on_redis, keys)


async def once(store: CacheStore) -> float:
    """Seconds that a call waits before it runs."""
    started = time.perf_counter()

    async def run(_: str | None) -> float:
        return time.perf_counter() - started

    breaker = Breaker()
    waited = await Flights(store, breaker).once(FLIGHT, look=nothing, run=run, patience_s=PATIENCE_S, keys=KEYS)
    assert not breaker.is_open
    return waited


LEASES: dict[str, Spoil] = OTHER_TYPES | {
    "without an end": lambda db, key: db.set(key, "somebody"),
    "with a late end": lambda db, key: db.set(key, "somebody", px=3_600_000),
    "empty": lambda db, key: db.set(key, ""),
    "bytes": lambda db, key: db.set(key, b"\xff\x00"),
    "a stranger's, in time": lambda db, key: db.set(key, "lease_0", px=900),
    "a stranger's, of bytes": lambda db, key: db.set(key, b"\xff\x00" * 400, px=900),
    "of another secret": lambda db, key: db.set(
        key, mark(FLIGHT, "a", keys=CacheKeys.from_secret(bytes(range(32))), now=time.time()), px=900
    ),
    "of another key": lambda db, key: db.set(key, mark(FLIGHT + "i", "a", keys=KEYS, now=time.time()), px=900),
    "of an hour ago": lambda db, key: db.set(key, mark(FLIGHT, "a", keys=KEYS, now=time.time() - 3_600), px=900),
}


@pytest.mark.parametrize("name", LEASES)
async def test_a_redis_lease_that_no_leader_holds_is_taken_over_at_once(
    on_redis: ResultCache, valkey: Redis, name: str
) -> None:
    LEASES[name](valkey, LEASE)
    assert on_redis.store is not None
    assert await once(on_redis.store) < PATIENCE_S / 2
    assert valkey.exists(LEASE) == 0


async def test_a_redis_lease_that_a_leader_holds_is_still_waited_for(on_redis: ResultCache, valkey: Redis) -> None:
    valkey.set(LEASE, mark(FLIGHT, "a-leader", keys=KEYS, now=time.time()), px=400)
    assert on_redis.store is not None
    assert await once(on_redis.store) >= 0.2


@pytest.mark.parametrize("name", OTHER_TYPES)
async def test_redis_counters_of_any_type_stop_nothing(on_redis: ResultCache, valkey: Redis, name: str) -> None:
    OTHER_TYPES[name](valkey, COUNTERS)
    await find(on_redis)
    await on_redis.flush()
    await keep(on_redis)
    assert isinstance(await find(on_redis), Hit)
    assert on_redis.store is not None
    stats = await inspect.stats(on_redis.store, SEEN, now=NOW)
    assert (stats.entries, stats.hits) == (1, 0)


@pytest.mark.parametrize("value", ["abc", "1.5", "-7", "", "9" * 40, "9223372036854775807", "1_0", " 1", b"\xff"])
async def test_a_redis_counter_that_does_not_count_spoils_no_other(
    on_redis: ResultCache, valkey: Redis, value: Any
) -> None:
    valkey.hset(COUNTERS, mapping={"hit": value, b"\xff": 1})
    for _ in range(3):
        await find(on_redis)
        await on_redis.flush()
        await on_redis.flush()
    assert on_redis.store is not None
    stats = await inspect.stats(on_redis.store, SEEN, now=NOW)
    assert (stats.hits, stats.miss_reasons["absent"]) == (0, 3)


@pytest.mark.parametrize("suffix", [b"\xff\xfe", b"\n\x1b[31m", b"a*?[", b""])
async def test_foreign_redis_keys_are_listed_unread_and_can_be_purged(
    on_redis: ResultCache, valkey: Redis, keys: CacheKeys, suffix: bytes
) -> None:
    valkey.rpush(b"dsc:1:{x}:e:" + suffix, "x")
    store = on_redis.store
    assert store is not None
    (shown,) = await views(store, now=NOW)
    assert shown.problem is not None
    assert shown.key.isprintable()
    assert await spoilt(store, keys) == 1
    assert (await purge(store, Selection(), SEEN, now=NOW)).removed == 1
    assert valkey.dbsize() == 0


@pytest.mark.parametrize(
    "answer",
    [b":abc\r\n", b"$abc\r\n", b"?\r\n", b"*-7\r\n", b"*1\r\n" * 3_000, b"+" + b"x" * 200_000, b"\r\n", b"*x\r\n", b""],
)
async def test_a_server_that_does_not_speak_redis_is_a_miss(keys: CacheKeys, answer: bytes) -> None:
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1_000)
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(speak, "127.0.0.1", 0)
    url = f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}/0"
    results = ResultCache(RedisStore.connect(url, budget_s=1.0), keys)
    found = await find(results)
    assert isinstance(found, Miss)
    assert found.reason in ("absent", "unavailable")
    await keep(results)
    assert results.store is not None
    assert await once(results.store) < PATIENCE_S / 2
    await results.flush()
    await results.close()
    server.close()


# --- SQLite ----------------------------------------------------------------------------------------


class File:
    """The cache's file, seen by somebody who may write into it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def run(self, sql: str, *values: Any) -> None:
        with closing(sqlite3.connect(self.path)) as db, db:
            db.execute(sql, values)

    def without_constraints(self) -> None:
        """Tables of the same names that accept NULL everywhere."""
        with closing(sqlite3.connect(self.path)) as db, db:
            for table in ("entries", "counters", "leases"):
                db.execute(f"DROP TABLE {table}")
            db.execute("CREATE TABLE entries (key TEXT PRIMARY KEY, exp, used, hits DEFAULT 0, entry)")
            db.execute("CREATE TABLE counters (name TEXT PRIMARY KEY, value)")
            db.execute("CREATE TABLE leases (key TEXT PRIMARY KEY, owner, exp)")


@pytest.fixture
async def on_sqlite(tmp_path: Path, keys: CacheKeys) -> AsyncIterator[ResultCache]:
    opened = ResultCache(SqliteStore(tmp_path / "cache.sqlite", max_bytes=2**20), keys)
    yield opened
    await opened.close()


@pytest.fixture
async def file(on_sqlite: ResultCache, tmp_path: Path) -> File:
    assert on_sqlite.store is not None
    await on_sqlite.store.health()
    return File(tmp_path / "cache.sqlite")


ODD: dict[str, str] = {
    "text": "'x'",
    "an integer": "7",
    "a large integer": "1000000000000",
    "a negative integer": "-1",
    "a real": "1.5",
    "infinity": "9e999",
    "not UTF-8": "CAST(x'fffe00' AS TEXT)",
    "an empty blob": "x''",
    "a blob": "x'6473636531'",
    "a large blob": "zeroblob(300000)",
    "NULL": "NULL",
}


@pytest.mark.parametrize("name", ODD)
async def test_a_sqlite_entry_of_any_type_is_only_a_miss(
    on_sqlite: ResultCache, file: File, keys: CacheKeys, name: str
) -> None:
    file.without_constraints()
    key = await keep(on_sqlite)
    file.run(f"UPDATE entries SET entry = {ODD[name]} WHERE key = ?", key)
    await check_only_a_miss(on_sqlite, keys)


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("column", ["exp", "used", "hits"])
async def test_a_sqlite_column_of_any_type_neither_raises_nor_serves_longer(
    on_sqlite: ResultCache, file: File, column: str, name: str
) -> None:
    file.without_constraints()
    key = await keep(on_sqlite)
    file.run(f"UPDATE entries SET {column} = {ODD[name]} WHERE key = ?", key)
    store = on_sqlite.store
    assert store is not None
    assert isinstance(await find(on_sqlite), Hit)
    late = await on_sqlite.find(AUTHORITY, INTENT, freshness_class="standard", max_age_s=None, now=NOW + 61)
    assert isinstance(late, Miss)
    await store.count({})
    (shown,) = await views(store, now=NOW)
    assert shown.problem is None
    assert shown.hits is None or shown.hits >= 0
    await keep(on_sqlite)
    assert isinstance(await find(on_sqlite), Hit)


@pytest.mark.parametrize("key", ["x''", "x'fffe'", "CAST(x'fffe' AS TEXT)", "'a' || char(0) || 'b'", "'; DROP'", "5"])
async def test_sqlite_keys_of_any_type_are_listed_unread_and_can_be_purged(
    on_sqlite: ResultCache, file: File, keys: CacheKeys, key: str
) -> None:
    await keep(on_sqlite)
    file.run(f"INSERT INTO entries (key, exp, used, entry) VALUES ({key}, 9e9, 0, x'00')")
    store = on_sqlite.store
    assert store is not None
    shown = await views(store, now=NOW)
    assert sorted(entry.problem is None for entry in shown) == [False, True]
    assert all(entry.key.isprintable() for entry in shown)
    report = await verify(store, keys, now=NOW)
    assert (report.checked, len(report.foreign)) == (2, 1)
    assert (await purge(store, Selection(), SEEN, now=NOW)).removed == 2


@pytest.mark.parametrize("column", ["exp", "used"])
async def test_sqlite_rows_that_never_end_do_not_crowd_out_the_others(
    on_sqlite: ResultCache, file: File, column: str
) -> None:
    for number in range(60):
        values = {"exp": NOW + 60, "used": NOW + 1} | {column: "zzz"}
        file.run(
            "INSERT INTO entries (key, exp, used, entry) VALUES (?, ?, ?, zeroblob(16000))",
            f"foreign{number}",
            values["exp"],
            values["used"],
        )
    store = on_sqlite.store
    assert store is not None
    for number in range(4):
        await store.put(f"ours{number}", bytes(16_000), exp=NOW + 60, now=NOW)
    kept = {entry.key async for entry in store.entries()}
    assert {f"ours{number}" for number in range(4)} <= kept


@pytest.mark.parametrize("name", ODD)
async def test_sqlite_counters_of_any_type_stop_nothing(on_sqlite: ResultCache, file: File, name: str) -> None:
    file.without_constraints()
    file.run(f"INSERT INTO counters VALUES ('hit', {ODD[name]}), (x'ff', 1), (CAST(x'ff' AS TEXT), 2), (NULL, 3)")
    await find(on_sqlite)
    await on_sqlite.flush()
    assert on_sqlite.store is not None
    stats = await inspect.stats(on_sqlite.store, SEEN, now=NOW)
    assert stats.miss_reasons["absent"] == 1
    json.dumps(stats.to_json())


@pytest.mark.parametrize("name", [name for name in ODD if name != "NULL"])
@pytest.mark.parametrize("column", ["owner", "exp"])
async def test_a_sqlite_lease_that_no_leader_holds_is_taken_over_at_once(
    on_sqlite: ResultCache, file: File, column: str, name: str
) -> None:
    values = {"owner": "'somebody'", "exp": "9e12"} | {column: ODD[name]}
    file.run(f"INSERT INTO leases VALUES (?, {values['owner']}, {values['exp']})", FLIGHT)
    assert on_sqlite.store is not None
    assert await once(on_sqlite.store) < PATIENCE_S / 2


async def test_a_sqlite_lease_that_a_leader_holds_is_still_waited_for(on_sqlite: ResultCache, file: File) -> None:
    said = mark(FLIGHT, "a-leader", keys=KEYS, now=time.time())
    file.run("INSERT INTO leases VALUES (?, ?, ?)", FLIGHT, said, time.time() + 0.4)
    assert on_sqlite.store is not None
    assert await once(on_sqlite.store) >= 0.2


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE entries",
        "ALTER TABLE entries RENAME COLUMN entry TO other",
        "CREATE TRIGGER t BEFORE UPDATE ON entries BEGIN SELECT RAISE(ABORT, 'a\nb'); END",
        "CREATE TRIGGER t BEFORE INSERT ON entries BEGIN SELECT RAISE(ROLLBACK, 'no'); END",
        "DROP TABLE leases",
        "DROP TABLE counters",
    ],
)
async def test_a_sqlite_file_of_another_shape_is_only_a_miss(
    on_sqlite: ResultCache, file: File, statement: str, caplog: pytest.LogCaptureFixture
) -> None:
    await keep(on_sqlite)
    file.run(statement)
    await find(on_sqlite)
    await keep(on_sqlite)
    assert on_sqlite.store is not None
    assert await once(on_sqlite.store) < PATIENCE_S / 2
    await on_sqlite.flush()
    assert all(record.getMessage().isprintable() for record in caplog.records)


# --- The header of an entry ------------------------------------------------------------------------

NUMBERS = [None, True, "60", "nan", "NaN", "1e999", -1, -0.5, 1e300, 10**30, [], {}, [60], "9" * 3_000]


@pytest.mark.parametrize(
    "change",
    [
        *({"started": value} for value in NUMBERS),
        *({"exp": value} for value in NUMBERS),
        *({"size": value} for value in [*NUMBERS, 1.0, 2**53]),
        {"dimensions": None},
        {"dimensions": "text"},
        {"dimensions": {"a": {}}},
        {"template": None},
        {"template": 7},
        {"as_of": None},
        {"as_of": ["a"]},
        {"more": 1},
    ],
)
async def test_a_header_with_any_other_value_is_only_a_miss(
    store: CacheStore, results: ResultCache, keys: CacheKeys, change: dict[str, Any]
) -> None:
    key = await keep(results)
    entry = await store.get(key, now=NOW)
    assert entry is not None
    _, end = split(entry)
    data = json.dumps({**json.loads(entry[9:end]), **change}).encode()
    await store.put(key, entry[:5] + len(data).to_bytes(4, "big") + data + entry[end:], exp=NOW + 60, now=NOW)
    await check_only_a_miss(results, keys)


@pytest.mark.parametrize("data", [b"null", b"7", b'"text"', b"[]", b"{}", b"[" * 4_000, b"\xff", b"", b'{"exp":NaN}'])
async def test_a_header_that_is_no_object_is_only_a_miss(
    store: CacheStore, results: ResultCache, keys: CacheKeys, data: bytes
) -> None:
    key = await keep(results)
    await store.put(key, b"dsce2" + len(data).to_bytes(4, "big") + data + bytes(64), exp=NOW + 60, now=NOW)
    await check_only_a_miss(results, keys)
