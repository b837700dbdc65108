"""``make test-cache-bounds``: memory and disk while a million distinct entries are stored, on both stores."""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from cache.redis_store import RedisStore
from cache.sqlite_store import SqliteStore
from cache.store import CacheStore, StoreUnavailable
from tests.cache.valkey_world import Server, running

ENTRY: Final = 300
LIMIT: Final = 32 * 2**20
LOG: Final = 8 * 2**20
"""SQLite's write-ahead log comes beside the file: a few MiB."""
SLACK: Final = 2**20
"""A server evicts when a command comes, so it may be a little above its bound when it is asked."""
AT_ONCE: Final = 16
PAGE: Final = os.sysconf("SC_PAGE_SIZE")
NOW: Final = 1_000.0


def resident() -> int:
    """Bytes of memory that this process has (``/proc/self/statm``)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def keys(count: int) -> Iterator[str]:
    for number in range(count):
        yield f"dsc:1:{{{hashlib.sha256(b'%d' % number).hexdigest()[:32]}}}:e:i"


@asynccontextmanager
async def on_sqlite(folder: Path) -> AsyncIterator[tuple[CacheStore, Callable[[], dict[str, int]]]]:
    path = folder / "cache.sqlite"
    store = SqliteStore(path, max_bytes=LIMIT)

    def size(suffix: str) -> int:
        file = path.with_name(path.name + suffix)
        return file.stat().st_size if file.exists() else 0

    yield store, lambda: {"file_bytes": size(""), "wal_bytes": size("-wal"), "shm_bytes": size("-shm")}
    await store.close()


@asynccontextmanager
async def on_redis(folder: Path) -> AsyncIterator[tuple[CacheStore, Callable[[], dict[str, int]]]]:
    server = Server(folder / "server", {"maxmemory": str(LIMIT), "maxmemory-policy": "volatile-lfu"})
    with running(server), server.client() as client:
        store = RedisStore.connect(server.url, budget_s=5.0)

        def told() -> dict[str, int]:
            facts: Any = client.info()
            names = ("used_memory", "used_memory_rss", "evicted_keys")
            return {name: int(facts[name]) for name in names} | {"entries": client.dbsize()}

        yield store, told
        await store.close()


async def fill(store: CacheStore, told: Callable[[], dict[str, int]], marks: list[int]) -> list[dict[str, int]]:
    """What is told at each mark: distinct keys put so far, all of which are put once and looked up once."""
    rows: list[dict[str, int]] = []
    entry = os.urandom(ENTRY)
    highest: dict[str, int] = {}
    failed = 0
    began = time.monotonic()

    async def work(mine: Iterator[str]) -> int:
        lost = 0
        for key in mine:
            try:
                await store.put(key, entry, exp=NOW + 3_600, now=NOW)
                await store.get(key, now=NOW)
            except StoreUnavailable:
                lost += 1
        return lost

    distinct = keys(marks[-1])
    done = 0
    for mark in marks:
        while done < mark:
            step = min(10_000, mark - done)
            batch = iter([next(distinct) for _ in range(step)])
            failed += sum(await asyncio.gather(*(work(batch) for _ in range(AT_ONCE))))
            done += step
            for name, value in told().items():
                highest[f"highest_{name}"] = max(highest.get(f"highest_{name}", 0), value)
        row = {"keys": mark, "process_rss": resident(), "failed": failed, "seconds": int(time.monotonic() - began)}
        rows.append(row | told() | highest)
    return rows


STORES: Final = {"sqlite": on_sqlite, "redis": on_redis}


async def measured(kind: str, marks: list[int]) -> list[dict[str, int]]:
    with tempfile.TemporaryDirectory() as folder:
        async with STORES[kind](Path(folder)) as (store, told):
            return await fill(store, told, marks)


def main() -> int:
    options = argparse.ArgumentParser(prog="make test-cache-bounds", description=__doc__)
    options.add_argument("--keys", type=int, default=1_000_000, help="distinct keys (default 1,000,000)")
    options.add_argument("--store", choices=sorted(STORES), help="one store")
    options.add_argument("--json", action="store_true", help="print one object for programs")
    chosen = options.parse_args()
    marks = sorted({max(1, chosen.keys // 10), max(1, chosen.keys // 2), chosen.keys})
    report = {}
    for kind in [chosen.store] if chosen.store else sorted(STORES):
        with Console(stderr=True).status(f"{kind}: {chosen.keys:,} keys of {ENTRY} bytes, {LIMIT:,} bytes at most"):
            report[kind] = asyncio.run(measured(kind, marks))
    if chosen.json:
        print(json.dumps(report, indent=2))
    else:
        for kind, rows in report.items():
            Console().print(table(kind, rows))
    return 0 if all(held(row) for rows in report.values() for row in rows) else 1


def held(row: Mapping[str, int]) -> bool:
    """Whether every key was taken, entries are there, and neither file, log nor server outgrew what it may have."""
    size = row["highest_file_bytes"] if "highest_file_bytes" in row else row["highest_used_memory"] - SLACK
    return row["failed"] == 0 and row.get("entries", 1) > 0 and size <= LIMIT and row.get("highest_wal_bytes", 0) <= LOG


def table(kind: str, rows: list[dict[str, int]]) -> Table:
    made = Table(title=f"{kind}, bounded to {LIMIT:,} bytes: entries of {ENTRY} bytes")
    made.add_column("")
    for row in rows:
        made.add_column(f"{row['keys']:,} keys", justify="right")
    for name in list(rows[0])[1:]:
        made.add_row(name, *[f"{row[name]:,}" for row in rows])
    return made


if __name__ == "__main__":
    raise SystemExit(main())
