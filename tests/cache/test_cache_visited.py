"""Processes that open and close the cache file while an agent holds it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cache.sqlite_store import SqliteStore
from cache.store import StoreUnavailable

NOW = 1_800_000_000.0
HOUSE = Path(__file__).resolve().parents[2]
VISITOR = """
import asyncio, sys
from pathlib import Path
from cache.sqlite_store import SqliteStore
async def main():
    store = SqliteStore(Path(sys.argv[1]), max_bytes=2**20)
    await store.health()
    await store.delete(sys.argv[2:])
    print(sorted([entry.key async for entry in store.entries()]))
    await store.close()
asyncio.run(main())
"""


def visit(path: Path, *deleted: str) -> str:
    command = [sys.executable, "-c", VISITOR, str(path), *deleted]
    return subprocess.run(command, cwd=HOUSE, check=True, capture_output=True, text=True).stdout.strip()


async def put(store: SqliteStore, key: str) -> None:
    assert await store.put(key, b"entry", exp=NOW + 60, now=NOW)


async def test_what_a_later_visitor_deletes_is_gone_and_what_is_kept_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    store, second = SqliteStore(path, max_bytes=2**20), SqliteStore(path, max_bytes=2**20)
    await put(store, "a")
    await put(second, "b")
    assert await store.get("a", now=NOW) == b"entry"
    assert visit(path) == "['a', 'b']"
    await put(store, "c")
    assert visit(path, "a") == "['b', 'c']"
    assert await store.get("a", now=NOW) is None
    assert await second.get("c", now=NOW) == b"entry"
    await store.close()
    await second.close()


@pytest.mark.parametrize("taken", [["-wal"], ["-shm"], ["-wal", "-shm"], ["", "-wal", "-shm"]])
async def test_files_that_are_taken_away_are_opened_anew(tmp_path: Path, taken: list[str]) -> None:
    path = tmp_path / "cache.sqlite"
    store = SqliteStore(path, max_bytes=2**20)
    await put(store, "a")
    await store.get("a", now=NOW)
    for suffix in taken:
        Path(f"{path}{suffix}").unlink()
    with pytest.raises(StoreUnavailable, match="replaced"):
        await put(store, "b")
    await store.get("a", now=NOW)
    await put(store, "b")
    assert "'b'" in visit(path)
    visit(path, "b")
    assert await store.get("b", now=NOW) is None
    await store.close()
