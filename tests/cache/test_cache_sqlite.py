"""What only a file can do wrong: grow, be shared, be damaged, be read by others."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from cache.keys import CacheKeys
from cache.result_cache import Miss, ResultCache
from cache.sqlite_store import SqliteStore
from cache.store import StoreUnavailable
from tests.authority_builder import make_authority
from tests.cache.cache_builder import make_intent

NOW = 1_800_000_000.0
MIB = 2**20
REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "cache.sqlite"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    opened = SqliteStore(path, max_bytes=MIB)
    yield opened
    await opened.close()


async def put(store: SqliteStore, name: str, size: int = 50_000, *, life: float = 60, now: float = NOW) -> bool:
    return await store.put(f"dsc:1:{name}", os.urandom(size), exp=now + life, now=now)


async def held(store: SqliteStore) -> set[str]:
    return {entry.key.removeprefix("dsc:1:") async for entry in store.entries()}


async def test_only_its_owner_can_read_the_file_and_its_side_files(store: SqliteStore, path: Path) -> None:
    await put(store, "a")
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert len(modes) >= 2
    assert set(modes.values()) == {0o600}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("size", [300, 3_000, 100_000])
async def test_the_file_stays_within_its_bound(store: SqliteStore, path: Path, size: int) -> None:
    for number in range(3 * MIB // max(size, 1_500)):
        await put(store, f"{number:06}", size)
    await store.close()
    assert path.stat().st_size <= MIB
    assert (await store.stats()).bytes > MIB // 3


async def fill_until_something_goes(store: SqliteStore, *, now: float) -> None:
    for number in range(100):
        before = len(await held(store))
        await put(store, f"fill{number}", now=now)
        if len(await held(store)) <= before:
            return
    raise AssertionError("nothing was ever evicted")


async def test_expired_entries_go_before_the_least_recently_used(store: SqliteStore) -> None:
    await put(store, "old but alive", life=600, now=NOW)
    await put(store, "expired", life=1, now=NOW + 1)
    await fill_until_something_goes(store, now=NOW + 10)
    kept = await held(store)
    assert "old but alive" in kept
    assert "expired" not in kept


async def test_an_entry_in_use_outlives_one_that_is_not(store: SqliteStore) -> None:
    await put(store, "used", now=NOW)
    await put(store, "unused", now=NOW + 1)
    assert await store.get("dsc:1:used", now=NOW + 2)
    await fill_until_something_goes(store, now=NOW + 3)
    kept = await held(store)
    assert "used" in kept
    assert "unused" not in kept


async def test_use_does_not_lengthen_a_life(store: SqliteStore, path: Path) -> None:
    await put(store, "a", life=60)
    await store.get("dsc:1:a", now=NOW + 59)
    await store.close()
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT exp, used, hits FROM entries").fetchall() == [(NOW + 60, NOW + 59, 1)]
    db.close()


async def test_an_entry_of_a_quarter_of_the_bound_is_not_held(store: SqliteStore) -> None:
    assert not await put(store, "a", MIB // 4 + 1)
    assert await put(store, "b", MIB // 4)


async def test_leases_that_nobody_releases_are_swept_once_a_minute_and_others_stay(
    store: SqliteStore, path: Path
) -> None:
    def leases() -> set[str]:
        with closing(sqlite3.connect(path)) as db:
            return {key for (key,) in db.execute("SELECT key FROM leases")}

    async def lease(name: str, now: float) -> None:
        assert await store.lease(name, f"owner of {name}", life_s=10, now=now)

    await lease("killed", NOW)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("INSERT INTO leases VALUES ('foreign', 'o', 'soon'), ('far', 'o', ?)", (NOW + 1e9,))
    await lease("paused", NOW + 500)
    assert leases() == {"killed", "paused"}
    await lease("working", NOW + 555)
    assert await store.renew("working", "owner of working", life_s=100, now=NOW + 555)
    await lease("too soon", NOW + 559)
    assert leases() == {"killed", "paused", "working", "too soon"}
    await lease("last", NOW + 615)
    assert leases() == {"paused", "working", "too soon", "last"}
    assert await store.put("paused", b"entry", exp=NOW + 900, now=NOW + 615, owner="owner of paused")
    assert not await store.put("killed", b"entry", exp=NOW + 900, now=NOW + 615, owner="owner of killed")


async def test_hits_are_counted_per_entry(store: SqliteStore) -> None:
    await put(store, "a")
    for _ in range(3):
        await store.get("dsc:1:a", now=NOW)
        assert await store.get("dsc:1:a", now=NOW, peek=True) == await store.get("dsc:1:a", now=NOW, peek=True)
    await store.count({})
    assert [entry.hits async for entry in store.entries()] == [3]


WRITER = """
import asyncio, sys
from pathlib import Path
from cache.sqlite_store import SqliteStore
async def main():
    store = SqliteStore(Path(sys.argv[1]), max_bytes=2**23)
    for number in range(100):
        for _ in range(100):
            try:
                await store.put(f"dsc:1:{sys.argv[2]}-{number}", b"x" * 2000, exp=2e9, now=1.8e9)
                break
            except Exception:
                await asyncio.sleep(0.01)
        await store.get("dsc:1:0-0", now=1.8e9)
    await store.close()
asyncio.run(main())
"""


async def test_several_processes_share_one_file(path: Path) -> None:
    # They also create it at the same instant.
    workers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(number)], cwd=REPOSITORY, stderr=subprocess.PIPE)
        for number in range(3)
    ]
    outputs = [worker.communicate(timeout=60)[1] for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0, 0], outputs
    store = SqliteStore(path, max_bytes=2**23)
    assert len(await held(store)) == 300
    await store.close()


async def test_another_process_s_lock_is_a_fault_within_the_budget(store: SqliteStore, path: Path) -> None:
    await put(store, "a")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        with pytest.raises(StoreUnavailable, match="locked"):
            await put(store, "b")
        assert await store.get("dsc:1:a", now=NOW) is not None
    finally:
        other.execute("ROLLBACK")
        other.close()
    assert await put(store, "b")


async def test_a_damaged_file_is_a_miss_and_says_so_when_asked(path: Path, keys: CacheKeys) -> None:
    path.parent.mkdir()
    path.write_bytes(b"not a database, " * 1_000)
    store = SqliteStore(path, max_bytes=MIB)
    results = ResultCache(store, keys)
    found = await results.find(make_authority(), make_intent(), freshness_class="standard", max_age_s=None, now=NOW)
    assert isinstance(found, Miss)
    assert found.reason == "unavailable"
    with pytest.raises(StoreUnavailable, match="not a database"):
        await store.health()
    await results.close()


async def test_a_folder_that_cannot_be_made_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = SqliteStore(tmp_path / "file" / "cache.sqlite", max_bytes=MIB)
    with pytest.raises(StoreUnavailable):
        await store.health()
    await store.close()


async def test_it_can_be_used_again_after_closing(store: SqliteStore) -> None:
    await put(store, "a")
    await store.close()
    assert await store.get("dsc:1:a", now=NOW) is not None
