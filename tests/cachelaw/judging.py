"""Pairs of requests, each kept and looked up through the real result cache over real stores, against the oracle."""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from redis import Redis

from cache.keys import CacheKeys
from cache.redis_store import RedisStore
from cache.result_cache import Hit, ResultCache
from cache.sqlite_store import SqliteStore
from contract.result import Execution, ResultDocument
from tests.authority_builder import NOW
from tests.cachelaw import oracle
from tests.cachelaw.requests import ARGUMENTS, DIMENSIONS, altered, request
from tests.cachelaw.spelling import Asked, write
from tests.valkey_server import ValkeyServer

AUTHORIZATION, QUESTION, SAME = "authorization", "question", "same meaning"
KINDS: Mapping[str, tuple[str, ...]] = {
    AUTHORIZATION: DIMENSIONS,
    QUESTION: tuple(f"argument {name}" for name in ARGUMENTS),
    SAME: ("nothing",),
}
STORES = ("sqlite", "redis")
# A store that is slow for once is no wrong hit, and no miss of the law either.
_PATIENCE_S = 30.0


@dataclass
class Count:
    """What was asked and found, for one kind and the dimension in which its pairs differ."""

    pairs: int = 0
    hits: Counter[str] = field(default_factory=Counter)
    own: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)

    def add(self, other: Count) -> None:
        self.pairs += other.pairs
        for name in ("hits", "own", "wrong"):
            getattr(self, name).update(getattr(other, name))

    def holds(self, kind: str, stores: tuple[str, ...] = STORES) -> bool:
        """Equal meaning always hits and another never; what was kept is found as it was; no other row is served."""
        expected = self.pairs if kind == SAME else 0
        return all(
            self.hits[store] == expected and self.own[store] == self.pairs and not self.wrong[store] for store in stores
        )


Tally = dict[tuple[str, str], Count]


@dataclass(frozen=True, slots=True)
class Pair:
    """``differs`` names the one dimension in which they do, and is ``nothing`` where they mean the same."""

    kind: str
    differs: str
    left: oracle.Request
    right: oracle.Request


def pairs(kind: str, count: int, rng: Random) -> Iterator[Pair]:
    """``count`` pairs, every dimension of the kind as often as any other."""
    for dimension in itertools.islice(itertools.cycle(KINDS[kind]), count):
        base = request(rng)
        left, right = (base, base) if kind == SAME else altered(rng, base, dimension)
        yield Pair(kind, dimension, left, right)


async def judge(pair: Pair, number: int, caches: Mapping[str, ResultCache], rng: Random, tally: Tally) -> None:
    """One pair in every store. ``number`` is its own, so that no other pair's entry can answer it."""
    if oracle.same(pair.left, pair.right) != (pair.kind == SAME):
        raise AssertionError(f"the generator made no pair of {pair.kind}: {pair}")
    left, right = (write(rng, side, f"t{number}") for side in (pair.left, pair.right))
    body = f"rows of pair {number}".encode()
    count = tally.setdefault((pair.kind, pair.differs), Count())
    count.pairs += 1
    for name, results in caches.items():
        await keep(results, left, body)
        own, found = await find(results, left), await find(results, right)
        count.own[name] += own == body
        count.hits[name] += found is not None
        count.wrong[name] += (own is not None and own != body) or (found is not None and found != body)


async def keep(results: ResultCache, asked: Asked, body: bytes) -> None:
    await results.keep(
        asked.authority,
        asked.intent,
        ResultDocument(body, 1, False, "2026-08-31T22:00:00Z"),
        Execution("exe-1", "duckdb", None, "LOCAL", NOW, NOW + 0.1),
        freshness_class=asked.freshness_class,
        media_type=asked.media_type,
        reuse_s=600,
        now=NOW,
    )


async def find(results: ResultCache, asked: Asked, *, now: float = NOW + 1) -> bytes | None:
    """The rows that are served, or ``None`` for a miss. Raises for a store that did not answer."""
    found = await results.find(
        asked.authority,
        asked.intent,
        freshness_class=asked.freshness_class,
        media_type=asked.media_type,
        max_age_s=None,
        now=now,
    )
    if isinstance(found, Hit):
        return found.document.body
    if found.reason != "absent":
        raise AssertionError(f"the store did not answer: {found.reason}")
    return None


def judged(kind: str, count: int, seed: str, url: str) -> Tally:
    """``count`` pairs of a kind in this process; ``url`` is a database of a server that nobody else uses meanwhile."""
    with tempfile.TemporaryDirectory(prefix="dataset-agent-cachelaw-") as folder:
        return asyncio.run(judge_chunk(kind, count, seed, Path(folder), url))


async def judge_chunk(kind: str, count: int, seed: str, folder: Path, url: str) -> Tally:
    """``count`` pairs of a kind in stores of their own."""
    rng, tally = Random(seed), Tally()
    async with stores(folder, url) as caches:
        for number, pair in enumerate(pairs(kind, count, rng)):
            await judge(pair, number, caches, rng, tally)
    return tally


@asynccontextmanager
async def stores(folder: Path, url: str) -> AsyncIterator[dict[str, ResultCache]]:
    """An empty cache in a file and one in an emptied database of a server, both under one secret."""
    keys = CacheKeys.from_secret(bytes(range(32)))
    with Redis.from_url(url) as client:
        client.flushdb()
    caches = {
        "sqlite": ResultCache(SqliteStore(folder / "cache.sqlite", max_bytes=256 * 2**20), keys),
        "redis": ResultCache(RedisStore.connect(url, budget_s=_PATIENCE_S), keys),
    }
    yield caches
    for results in caches.values():
        await results.close()


@contextmanager
def valkey() -> Iterator[str]:
    """A server of one's own, its address without a database."""
    server = ValkeyServer(save="")
    server.start()
    try:
        yield str(server.connection_url)
    finally:
        server.stop()
