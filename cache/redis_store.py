"""The store of many machines: Redis or Valkey, one round trip a lookup, 50 ms at most.

Its server is one, the primary behind sentinels, or a cluster (``contract.redis_options``).
The commands used are GET, SET, GETRANGE, STRLEN, UNLINK, SCAN, HINCRBY, HGETALL, EVAL (with
GET, PTTL, STRLEN, SET and DEL in it), PING and INFO, on keys that begin with ``dsc:1:``; SELECT where
the URL has a database, CLUSTER SLOTS and ASKING where it has a cluster. Whatever type or bytes
such a key holds, the worst that follows is a MISS: an entry is absent, a lease is taken over,
a counter is zero.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cache.entry import HEAD_BYTES
from cache.partition import KEY_PREFIX
from cache.redis_lane import RedisLanes, WrongType, is_wrong_type
from cache.store import MARK_CHARS, StoredEntry, StoreStats, StoreUnavailable
from contract.errors import Category, Component, DatasetAgentError
from contract.redis_options import RedisPlace, read_place

BUDGET_S: Final = 0.05
INSPECT_S: Final = 5.0
COUNTERS: Final = f"{KEY_PREFIX}counters"
_PAGE: Final = 500
_FULL: Final = 0.95
_INFO: Final = ("memory", "stats")
_COUNTER: Final = re.compile(rb"[0-9]{1,18}")
# ``pcall`` answers with a table where the key is of another type; nobody holds such a lease, nor
# one that does not end or ends later than a lease can. A holder is an owner, or that and a dot and more.
_IS_OWNERS: Final = """
local holder = redis.pcall('GET', KEYS[1])
local held = type(holder) == 'string'
local own = held and (holder == ARGV[1] or string.sub(holder, 1, #ARGV[1] + 1) == ARGV[1] .. '.')
"""
_IS_OVER: Final = f"""
local over = held and ARGV[4] == '1' and string.sub(holder, 1, {MARK_CHARS}) == ARGV[5]
"""
_LEASE: Final = (
    _IS_OWNERS
    + _IS_OVER
    + """
local left = redis.call('PTTL', KEYS[1])
if held and not own and not over and left > 0 and left <= tonumber(ARGV[2]) then return 0 end
redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[2])
return 1
"""
)
_RENEW: Final = (
    _IS_OWNERS
    + """
if not own then return 0 end
redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[2])
return 1
"""
)
_RELEASE: Final = (
    _IS_OWNERS
    + """
if not own then return 0 end
redis.call('DEL', KEYS[1])
return 1
"""
)
# A third key is of an entry that has to stand.
_STANDS: Final = """
local stands = not KEYS[3] or redis.pcall('STRLEN', KEYS[3])
if stands ~= true and (type(stands) ~= 'number' or stands == 0) then return 0 end
"""
_PUT: Final = (
    _IS_OWNERS
    + _IS_OVER
    + """
if not own and not over then return 0 end
"""
    + _STANDS
    + """
redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3])
return 1
"""
)
_PUT_BESIDE: Final = (
    _STANDS
    + """
redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2])
return 1
"""
)


@dataclass(frozen=True, slots=True)
class ServerMemory:
    """What a server says of its memory, in bytes; ``limit`` is 0 where there is none."""

    used: int
    limit: int
    policy: str
    evicted: int

    @property
    def is_full(self) -> bool:
        return self.limit > 0 and self.used >= self.limit * _FULL


class RedisStore:
    """Entries with a TTL that reading never renews; the server bounds memory (``volatile-lfu``).

    An entry and its lease are in one hash slot, by the braces in their keys, and so is a whole
    partition: each command works on one server of a cluster.
    """

    def __init__(self, place: RedisPlace, *, budget_s: float = BUDGET_S) -> None:
        self._budget_s = budget_s
        self._lanes = RedisLanes(place, budget_s=budget_s)

    @classmethod
    def connect(cls, url: str, *, budget_s: float = BUDGET_S, setting: str = "DATASET_AGENT_CACHE_URL") -> RedisStore:
        """From a URL of ``contract.redis_options``; nothing is sent before the first lookup.

        Raises a CONFIGURATION fault for another URL, or files of TLS that cannot be used. It
        repeats nothing of the URL, which may hold a password.
        """
        try:
            place = read_place(url)
            place.check_files()
        except ValueError as error:
            raise DatasetAgentError(
                Component.CACHE, Category.CONFIGURATION, "cache.url.invalid", f"{setting} cannot be used: {error}"
            ) from None
        return cls(place, budget_s=budget_s)

    async def get(self, key: str, *, now: float, peek: bool = False) -> bytes | None:
        try:
            found = await self._lanes.ask("GET", key)
        except WrongType:
            return None
        return found if isinstance(found, bytes) else None

    async def put(
        self,
        key: str,
        entry: bytes,
        *,
        exp: float,
        now: float,
        owner: str | None = None,
        over: str | None = None,
        beside: str | None = None,
    ) -> bool:
        life_ms = int((exp - now) * 1_000)
        if life_ms < 1:
            return False
        if owner is None and beside is None:
            await self._lanes.ask("SET", key, entry, "PX", life_ms)
            return True
        keys = (_lease_key(key), key, *(() if beside is None else (beside,)))
        if owner is None:
            answer = await self._lanes.ask("EVAL", _PUT_BESIDE, len(keys), *keys, entry, life_ms)
        else:
            answer = await self._lanes.ask("EVAL", _PUT, len(keys), *keys, owner, entry, life_ms, *_over(over))
        return bool(answer == 1)

    async def delete(self, keys: Sequence[str]) -> int:
        answers = await self._lanes.ask_each([("UNLINK", _bytes(key)) for key in keys], within_s=INSPECT_S)
        return sum(_number(answer) for answer in answers)

    async def entries(self) -> AsyncIterator[StoredEntry]:
        async for keys in self._named(f"{KEY_PREFIX}{{*}}:e:*"):
            for entry in await self._heads(keys):
                yield entry

    async def _named(self, pattern: str) -> AsyncIterator[list[bytes]]:
        """The keys of a pattern in pages, each key once."""
        seen: set[bytes] = set()
        for server in await self._lanes.primaries(within_s=INSPECT_S):
            cursor: Any = b"0"
            while True:
                command = ("SCAN", cursor, "MATCH", pattern, "COUNT", _PAGE)
                cursor, keys = await self._lanes.ask_at(server, *command, within_s=INSPECT_S)
                # SCAN may name a key twice, and a slot that moves is on two servers.
                fresh = [key for key in keys if key not in seen]
                seen.update(fresh)
                yield fresh
                if cursor == b"0":
                    break

    async def count(self, deltas: Mapping[str, int]) -> None:
        # A counter that does not count is left alone: to try again would add to the others twice.
        commands = [("HINCRBY", COUNTERS, name, delta) for name, delta in deltas.items()]
        await self._lanes.ask_each(commands, within_s=self._budget_s)

    async def lease(
        self, key: str, owner: str, *, life_s: float, now: float, mark: str | None = None, over: str | None = None
    ) -> bool:
        told = (owner, int(life_s * 1_000), mark or owner, *_over(over))
        answer = await self._lanes.ask("EVAL", _LEASE, 1, _lease_key(key), *told)
        return bool(answer != 0)

    async def holder(self, key: str) -> str:
        try:
            found = await self._lanes.ask("GETRANGE", _lease_key(key), 0, MARK_CHARS - 1)
        except WrongType:
            return ""
        return _text(found) if isinstance(found, bytes) else ""

    async def renew(self, key: str, owner: str, *, life_s: float, now: float, mark: str | None = None) -> bool:
        told = (owner, int(life_s * 1_000), mark or owner)
        answer = await self._lanes.ask("EVAL", _RENEW, 1, _lease_key(key), *told)
        return bool(answer == 1)

    async def release(self, key: str, owner: str) -> bool:
        answer = await self._lanes.ask("EVAL", _RELEASE, 1, _lease_key(key), owner)
        return bool(answer == 1)

    async def revoke(self, chosen: Callable[[str], bool]) -> int:
        revoked = 0
        async for keys in self._named(f"{KEY_PREFIX}{{*}}:l:*"):
            revoked += await self.delete([lease for key in keys if chosen(_leased(lease := _text(key)))])
        return revoked

    async def stats(self) -> StoreStats:
        entries = size = 0
        async for entry in self.entries():
            entries += 1
            size += entry.stored_bytes
        return StoreStats("redis", entries, size, None, await self._counters())

    async def health(self) -> None:
        await self._lanes.ask("PING")

    async def memory(self) -> Sequence[ServerMemory]:
        """Of every server that holds entries; of none where the account may not run INFO, or it says something else."""
        found = []
        for server in await self._lanes.primaries(within_s=INSPECT_S):
            try:
                told = [await self._lanes.ask_at(server, "INFO", name, within_s=INSPECT_S) for name in _INFO]
                found.append(_memory(b"\r\n".join(told)))
            except (StoreUnavailable, ValueError, KeyError, TypeError):
                return ()
        return tuple(found)

    async def close(self) -> None:
        await self._lanes.close()

    async def _counters(self) -> dict[str, int]:
        try:
            (told,) = await self._lanes.ask_each([("HGETALL", COUNTERS)], within_s=INSPECT_S)
            found = zip(told[::2], told[1::2], strict=True) if isinstance(told, list) else ()
            return {name.decode("ascii", "replace"): int(value) for name, value in found if _COUNTER.fullmatch(value)}
        except WrongType:
            return {}

    async def _heads(self, keys: Sequence[bytes]) -> list[StoredEntry]:
        commands = [command for key in keys for command in (("GETRANGE", key, 0, HEAD_BYTES - 1), ("STRLEN", key))]
        answers = await self._lanes.ask_each(commands, within_s=INSPECT_S)
        return [
            StoredEntry(_text(key), b"" if is_wrong_type(head) else head, 0 if is_wrong_type(size) else size, None)
            for key, head, size in zip(keys, answers[::2], answers[1::2], strict=True)
            # An empty value is one that went away since it was named.
            if is_wrong_type(head) or (isinstance(head, bytes) and isinstance(size, int) and size)
        ]


def _memory(told: bytes) -> ServerMemory:
    """From INFO. Raises ``KeyError`` and ``ValueError`` for what says something else."""
    facts = dict(line.split(":", 1) for line in told.decode("utf-8", "replace").splitlines() if ":" in line)
    return ServerMemory(
        int(facts["used_memory"]), int(facts["maxmemory"]), facts["maxmemory_policy"], int(facts["evicted_keys"])
    )


def _number(answer: Any) -> int:
    """Raises ``StoreUnavailable`` for a fault."""
    if isinstance(answer, int):
        return answer
    raise StoreUnavailable(f"the cache server refused ({type(answer).__name__})")


def _text(key: bytes) -> str:
    """A key as text, without loss: what was listed can be deleted, whoever made it."""
    return key.decode("utf-8", "surrogateescape")


def _bytes(key: str) -> bytes:
    return key.encode("utf-8", "surrogateescape")


def _over(told: str | None) -> tuple[str, bytes]:
    """Whether there is one, and which, for a script."""
    return "0" if told is None else "1", _bytes(told or "")


def _leased(key: str) -> str:
    """The entry that a lease is on."""
    return key.replace("}:l:", "}:e:")


def _lease_key(key: str) -> str:
    """Beside the entry, in its hash slot."""
    return key.replace("}:e:", "}:l:")
