"""Quotas in Redis or Valkey (6.0 or newer), shared by machines: on the server of the state store, each step one script.

The account needs ``EVAL GET SET ZADD ZCARD ZREM ZREMRANGEBYSCORE ZSCORE PEXPIRE``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final, cast

from redis.exceptions import RedisError

from contract.errors import DatasetAgentError
from contract.redis_server import RedisServer
from quota.rate import Rate, Taken
from quota.store import BUDGET_S, Room, StoreUnavailable

_PREFIX: Final = "{dataset-agent}:quota:1:"
_FAULTS: Final = (RedisError, OSError, ValueError, TypeError, DatasetAgentError)  # TimeoutError is an OSError

_TAKE: Final = """
-- KEYS: the instant of a rate. ARGV: now, seconds a call, room in seconds, calls wanted. As quota.rate.take
local now, step, room, wanted = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local at = tonumber(redis.call('GET', KEYS[1]) or now)
local start = at <= now + room + 1e-6 and math.max(at, now) or now
local number = math.min(wanted, math.floor((now + room - start + 1e-6) / step))
if number <= 0 then return {0, string.format('%.9f', math.max(1e-6, start + step - now - room))} end
at = start + number * step
redis.call('SET', KEYS[1], string.format('%.6f', at), 'PX', math.ceil((at - now) * 1000) + 1000)
return {number, '0'}
"""
_ENTER: Final = """
-- KEYS: rooms. ARGV: holder, until, now, and how many each room takes
for at = 1, #KEYS do
  redis.call('ZREMRANGEBYSCORE', KEYS[at], '-inf', ARGV[3])
  if redis.call('ZCARD', KEYS[at]) >= tonumber(ARGV[at + 3]) then return at end
end
for at = 1, #KEYS do
  redis.call('ZADD', KEYS[at], ARGV[2], ARGV[1])
  redis.call('PEXPIRE', KEYS[at], math.ceil((tonumber(ARGV[2]) - tonumber(ARGV[3])) * 1000) + 60000)
end
return 0
"""
_STAY: Final = """
-- KEYS: rooms. ARGV: holder, until, for how many milliseconds a room is kept
for at = 1, #KEYS do
  if redis.call('ZSCORE', KEYS[at], ARGV[1]) then
    redis.call('ZADD', KEYS[at], ARGV[2], ARGV[1])
    redis.call('PEXPIRE', KEYS[at], ARGV[3])
  end
end
return 0
"""
_LEAVE: Final = """
for at = 1, #KEYS do redis.call('ZREM', KEYS[at], ARGV[1]) end
return 0
"""
_KEPT_MS: Final = 600_000


class RedisQuotas:
    """A ``QuotaStore``. Nothing is sent twice."""

    KEY: Final = _PREFIX + "key"
    """In the slot of a cluster where everything of it lies."""

    def __init__(self, server: RedisServer, *, budget: float = BUDGET_S) -> None:
        self._server = server
        self._budget = budget

    async def take(self, key: str, rate: Rate, wanted: int, *, now: float) -> Taken:
        told = await self._ask(_TAKE, [f"{_PREFIX}rate:{key}"], repr(now), repr(rate.step_s), repr(rate.room_s), wanted)
        number, retry_after = told
        return Taken(int(number), float(retry_after))

    async def enter(self, rooms: Sequence[Room], holder: str, *, until: float, now: float) -> int | None:
        full = await self._ask(_ENTER, _names(rooms), holder, repr(until), repr(now), *[room.most for room in rooms])
        return int(full) - 1 if full else None

    async def stay(self, rooms: Sequence[Room], holder: str, *, until: float) -> None:
        await self._ask(_STAY, _names(rooms), holder, repr(until), _KEPT_MS)

    async def leave(self, rooms: Sequence[Room], holder: str) -> None:
        await self._ask(_LEAVE, _names(rooms), holder)

    async def close(self) -> None:
        await self._server.close()

    async def _ask(self, script: str, keys: Sequence[str], *arguments: object) -> Any:
        asked = [*keys, *[str(argument) for argument in arguments]]
        try:
            async with asyncio.timeout(self._budget):
                return await self._server.ask(lambda server: cast(Any, server.eval(script, len(keys), *asked)))
        except _FAULTS as error:
            raise StoreUnavailable(f"the server of quotas: {type(error).__name__}") from error


def _names(rooms: Sequence[Room]) -> list[str]:
    return [f"{_PREFIX}room:{room.key}" for room in rooms]
