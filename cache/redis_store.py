"""The store of many machines: Redis or Valkey, one round trip a lookup, 50 ms at most.

A client that retries turns a stopped server into seconds a lookup, so nothing is retried.
The commands used are GET, SET, GETRANGE, STRLEN, PTTL, UNLINK, DEL, SCAN, HINCRBY, HGETALL,
EVAL and PING, on keys that begin with ``dsc:1:``. Whatever type or bytes such a key holds, the
worst that follows is a MISS: an entry is absent, a lease is taken over, a counter is zero.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from cache.entry import HEAD_BYTES
from cache.partition import KEY_PREFIX
from cache.redis_lane import RedisLanes, WrongType, is_wrong_type, unavailable
from cache.store import StoredEntry, StoreStats
from contract.errors import Category, Component, DatasetAgentError

BUDGET_S: Final = 0.05
INSPECT_S: Final = 5.0
COUNTERS: Final = f"{KEY_PREFIX}counters"
_PAGE: Final = 500
_COUNTER: Final = re.compile(rb"[0-9]{1,18}")
# ``pcall`` answers with a table where the key is of another type; nobody holds such a lease, nor
# one that does not end or ends later than a lease can.
_LEASE: Final = """
local holder = redis.pcall('GET', KEYS[1])
local left = redis.call('PTTL', KEYS[1])
if type(holder) == 'string' and holder ~= ARGV[1] and left > 0 and left <= tonumber(ARGV[2]) then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
"""
_RELEASE: Final = "if redis.pcall('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end return 1"


class RedisStore:
    """Entries with a TTL that reading never renews; the server bounds memory (``volatile-lfu``)."""

    def __init__(self, client: Redis, *, budget_s: float = BUDGET_S) -> None:
        self._client = client
        self._budget_s = budget_s
        self._lanes = RedisLanes(client.connection_pool, budget_s=budget_s)

    @classmethod
    def connect(cls, url: str, *, budget_s: float = BUDGET_S) -> RedisStore:
        """From ``redis://``, ``rediss://`` or ``unix://``; nothing is sent before the first lookup.

        Raises a CONFIGURATION fault for another URL, which it does not repeat: it may hold
        a password.
        """
        try:
            client = Redis.from_url(
                url,
                # ``asyncio.timeout`` bounds connecting, handshake and answer together; the
                # client's own timer would bound each alone and cost a third of a lookup.
                socket_timeout=None,
                socket_connect_timeout=None,
                retry=Retry(NoBackoff(), 0),
                protocol=2,
                # CLIENT SETINFO is unknown to servers before 7.2 and to strict ACLs.
                driver_info=None,
            )
        except (ValueError, TypeError) as error:
            raise DatasetAgentError(
                Component.CACHE,
                Category.CONFIGURATION,
                "cache.url.invalid",
                "DATASET_AGENT_CACHE_URL must be redis://, rediss:// or unix://",
            ) from error
        return cls(client, budget_s=budget_s)

    async def get(self, key: str, *, now: float) -> bytes | None:
        try:
            found = await self._lanes.ask("GET", key)
        except WrongType:
            return None
        return found if isinstance(found, bytes) else None

    async def put(self, key: str, entry: bytes, *, exp: float, now: float) -> bool:
        life_ms = int((exp - now) * 1_000)
        if life_ms < 1:
            return False
        await self._lanes.ask("SET", key, entry, "PX", life_ms)
        return True

    async def delete(self, keys: Sequence[str]) -> int:
        async with _within(INSPECT_S):
            return int(await self._client.unlink(*map(_bytes, keys))) if keys else 0

    async def entries(self) -> AsyncIterator[StoredEntry]:
        seen: set[bytes] = set()
        cursor = 0
        while True:
            async with _within(INSPECT_S):
                cursor, keys = await self._client.scan(cursor, match=f"{KEY_PREFIX}{{*}}:e:*", count=_PAGE)
                # SCAN may name a key twice.
                fresh = [key for key in keys if isinstance(key, bytes) and key not in seen]
                found = await self._heads(fresh)
            seen.update(fresh)
            for entry in found:
                yield entry
            if cursor == 0:
                return

    async def count(self, deltas: Mapping[str, int]) -> None:
        async with _within(self._budget_s):
            pipe = self._client.pipeline(transaction=False)
            for name, delta in deltas.items():
                pipe.hincrby(COUNTERS, name, delta)
            # A counter that does not count is left alone: to try again would add to the others twice.
            await pipe.execute(raise_on_error=False)

    async def lease(self, key: str, owner: str, *, life_s: float, now: float) -> bool:
        answer = await self._lanes.ask("EVAL", _LEASE, 1, _lease_key(key), owner, int(life_s * 1_000))
        return bool(answer != 0)

    async def release(self, key: str, owner: str) -> None:
        await self._lanes.ask("EVAL", _RELEASE, 1, _lease_key(key), owner)

    async def stats(self) -> StoreStats:
        entries = size = 0
        async for entry in self.entries():
            entries += 1
            size += entry.stored_bytes
        return StoreStats("redis", entries, size, None, await self._counters())

    async def health(self) -> None:
        async with _within(self._budget_s):
            await self._client.ping()

    async def close(self) -> None:
        async with _within(INSPECT_S):
            await self._lanes.close()
            await self._client.aclose()

    async def _counters(self) -> dict[str, int]:
        try:
            async with _within(INSPECT_S):
                raw: Any = await self._client.hgetall(COUNTERS)
                found = [(name.decode("ascii", "replace"), value) for name, value in raw.items()]
                return {name: int(value) for name, value in found if _COUNTER.fullmatch(value)}
        except WrongType:
            return {}

    async def _heads(self, keys: Sequence[bytes]) -> list[StoredEntry]:
        pipe = self._client.pipeline(transaction=False)
        for key in keys:
            pipe.getrange(key, 0, HEAD_BYTES - 1)
            pipe.strlen(key)
        answers: list[Any] = await pipe.execute(raise_on_error=False) if keys else []
        return [
            StoredEntry(_text(key), b"" if is_wrong_type(head) else head, 0 if is_wrong_type(size) else size, None)
            for key, head, size in zip(keys, answers[::2], answers[1::2], strict=True)
            # An empty value is one that went away since it was named.
            if is_wrong_type(head) or (isinstance(head, bytes) and isinstance(size, int) and size)
        ]


def _text(key: bytes) -> str:
    """A key as text, without loss: what was listed can be deleted, whoever made it."""
    return key.decode("utf-8", "surrogateescape")


def _bytes(key: str) -> bytes:
    return key.encode("utf-8", "surrogateescape")


def _lease_key(key: str) -> str:
    """Beside the entry, in its hash slot."""
    return key.replace("}:e:", "}:l:")


@asynccontextmanager
async def _within(seconds: float) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(seconds):
            yield
    except Exception as error:
        raise unavailable(error) from error
