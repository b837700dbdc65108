"""One round trip of the state store (spend with its revocations, recheck) beside one plain read of the same store."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from redis.asyncio import Redis

from benchmarks.chains import Chains
from benchmarks.report import Figure, Section, Side, machine
from contract.grant import VerifiedGrant
from dataset_agent.process import settle_memory
from grants.state import StateStore
from grants.state_redis import RedisState
from grants.state_sqlite import SqliteState
from tests.valkey_server import ValkeyServer

READS: Final = {"Redis": "plain Redis GET", "SQLite": "plain SQLite read"}
POLICY: Final = "BPD-DATA-014@2026.09.01"


@dataclass(frozen=True, slots=True)
class Work:
    """One side: ``prepare`` makes what ``run`` is timed on."""

    name: str
    prepare: Callable[[], Any]
    run: Callable[[Any], Awaitable[object]]


def measure(blocks: int = 7, calls: int = 300) -> Section:
    """Every side in interleaved ``blocks`` of ``calls`` on one connection; times in microseconds.

    Every spend has a leaf of its own; both stores hold what the blocks before spent.
    """
    settle_memory()
    with tempfile.TemporaryDirectory(prefix="dataset-agent-bench-") as folder, _valkey(Path(folder)) as server:
        return asyncio.run(_measure(Path(folder), server, blocks, calls))


async def _measure(folder: Path, server: ValkeyServer, blocks: int, calls: int) -> Section:
    now = time.time() - 1
    redis = RedisState.open(server.connection_url, now=now)
    sqlite = SqliteState.open(folder / "home" / "state.sqlite3", now=now)
    plain = Redis.from_url(server.connection_url, decode_responses=True)
    with closing(_plain_file(folder / "plain.sqlite3")) as file:
        works = [_get(plain), *_works("Redis", redis), _read(file), *_works("SQLite", sqlite)]
        times: dict[str, list[tuple[float, ...]]] = {work.name: [] for work in works}
        await plain.set("key", "value")
        for block in range(blocks + 1):
            for work in works:
                taken = await _block(work, calls)
                if block:  # the first block warms every side
                    times[work.name].append(taken)
        version = (await plain.info("server")).get("valkey_version", "")
        for closer in (redis.close, sqlite.close, plain.aclose):
            await closer()
    sides = {name: Side(name, tuple(blocks)) for name, blocks in times.items()}
    facts = machine() | {"valkey": version, "sqlite": sqlite3.sqlite_version}
    return Section("State store", "us", list(sides.values()), list(_figures(sides)), facts)


async def _block(work: Work, calls: int) -> tuple[float, ...]:
    taken = []
    for item in [work.prepare() for _ in range(calls)]:
        started = time.perf_counter_ns()
        await work.run(item)
        taken.append((time.perf_counter_ns() - started) / 1_000)
    return tuple(taken)


def _works(kind: str, store: StateStore) -> Iterator[Work]:
    chains = Chains()

    def grant() -> VerifiedGrant:
        return chains.verify(chains.passed_on(2))

    yield Work(f"{kind} spend", grant, lambda leaf: store.spend(leaf, policy=POLICY, now=time.time()))
    yield Work(f"{kind} recheck", grant, lambda leaf: store.recheck(leaf, policy=POLICY, now=time.time()))


def _get(client: Redis) -> Work:
    return Work(READS["Redis"], lambda: "key", client.get)


def _read(connection: sqlite3.Connection) -> Work:
    async def read(key: str) -> object:
        return connection.execute("SELECT value FROM plain WHERE key = ?", (key,)).fetchone()

    return Work(READS["SQLite"], lambda: "key", read)


def _plain_file(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE plain (key TEXT PRIMARY KEY, value TEXT)")
    connection.execute("INSERT INTO plain VALUES ('key', 'value')")
    return connection


def _figures(sides: dict[str, Side]) -> Iterator[Figure]:
    for kind, read in READS.items():
        for step in ("spend", "recheck"):
            yield Figure(f"{kind} {step} / {read}", sides[f"{kind} {step}"].p50 / sides[read].p50)


@contextmanager
def _valkey(folder: Path) -> Iterator[ValkeyServer]:
    config = {"appendonly": "yes", "maxmemory-policy": "noeviction"}
    server = ValkeyServer(data_dir=folder / "valkey", config=config)
    server.start()
    try:
        yield server
    finally:
        server.stop()
