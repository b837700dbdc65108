"""The state store in Redis or Valkey, shared by machines.

The server must not forget: it is refused at start unless ``maxmemory-policy`` is
``noeviction`` and the append-only file is on. What a crash or a failover loses all the
same (the last second of an ``everysec`` log) is seen by the server's ``run_id``: the armed
instant is written with it, and every new connection learns it anew.

The account needs ``GET``, ``SET``, ``HMGET``, ``HGETALL``, ``EVAL``, ``MULTI`` and ``INFO``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, cast

import redis
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry as SyncRetry

from contract.errors import Category
from contract.grant import VerifiedGrant
from grants.state import (
    BUDGET,
    Revocation,
    RevocationKind,
    armed_after_loss,
    armed_at_open,
    check_not_ended,
    check_value,
    fault,
    in_order,
    judge,
    names_of,
    replay_key,
    replayed,
    seconds_to_keep,
    unavailable,
)

# one hash tag: the keys of one transaction live in one slot of a cluster
_PREFIX: Final = "{dataset-agent}:state:1:"
_ARMED: Final = _PREFIX + "armed"
_REVOKED: Final = _PREFIX + "revoked"
_SPENT: Final = _PREFIX + "spent:"
_RAISE: Final = """
local held = redis.call('HGET', KEYS[1], ARGV[1])
if not held or tonumber(held) < tonumber(ARGV[2]) then redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) end
"""
_CONNECTIONS: Final = 32


class RedisState:
    """A ``grants.state.StateStore``. Every answer is one round trip within one budget, never retried."""

    def __init__(self, url: str, *, budget: float = BUDGET) -> None:
        self._budget = budget
        self._run_id = ""
        pool = BlockingConnectionPool.from_url(
            url,
            max_connections=_CONNECTIONS,
            timeout=budget,
            decode_responses=True,
            socket_timeout=budget,
            socket_connect_timeout=budget,
            retry=Retry(NoBackoff(), 0),
            redis_connect_func=self._on_connect,
        )
        self._redis: Redis = Redis.from_pool(pool)

    @classmethod
    def open(cls, url: str, *, now: float, budget: float = BUDGET) -> RedisState:
        """Check that the server remembers, and arm it.

        Raises ``grants.state.url``, ``grants.state.unavailable``, ``grants.state.evicting``
        or ``grants.state.not_durable``.
        """
        try:
            store = cls(url, budget=budget)
            client = redis.Redis.from_url(
                url,
                decode_responses=True,
                socket_timeout=budget,
                socket_connect_timeout=budget,
                retry=SyncRetry(NoBackoff(), 0),
            )
        except ValueError as error:
            raise fault("url", "DATASET_AGENT_STATE_URL must start with redis://, rediss:// or unix://") from error
        try:
            with client:
                info = cast(Mapping[str, Any], client.info())
                check_durable(info)
                held = cast(str | None, client.get(_ARMED))
                if _run_of(held) != info["run_id"]:
                    client.set(_ARMED, f"{max(armed_at_open(now), _armed_of(held) or 0)}:{info['run_id']}")
        except (RedisError, OSError) as error:
            raise fault(
                "unavailable",
                f"the state store does not answer ({type(error).__name__}); start it or correct DATASET_AGENT_STATE_URL",
                Category.UNAVAILABLE,
            ) from error
        return store

    async def spend(self, grant: VerifiedGrant, *, policy: str | None, now: float) -> None:
        names = names_of(grant, policy)
        async with self._answering():
            pipeline = self._redis.pipeline(transaction=True)
            pipeline.get(_ARMED)
            pipeline.hmget(_REVOKED, [_field(*name) for name in names])
            pipeline.set(_SPENT + replay_key(grant), "1", nx=True, px=int(1_000 * seconds_to_keep(grant, now)))
            held, marks, fresh = await pipeline.execute()
            armed = await self._armed(held, now)
        judge(grant, names, _instants(marks), armed=armed)
        if not fresh:
            raise replayed()

    async def recheck(self, grant: VerifiedGrant, *, policy: str | None, now: float) -> None:
        check_not_ended(grant, now)
        names = names_of(grant, policy)
        async with self._answering():
            pipeline = self._redis.pipeline(transaction=True)
            pipeline.get(_ARMED)
            pipeline.hmget(_REVOKED, [_field(*name) for name in names])
            held, marks = await pipeline.execute()
            armed = await self._armed(held, now)
        judge(grant, names, _instants(marks), armed=armed)

    async def revoke(self, kind: RevocationKind, value: str, *, not_before: float) -> None:
        check_value(kind, value)
        try:
            async with asyncio.timeout(self._budget):
                await cast(Any, self._redis.eval(_RAISE, 1, _REVOKED, _field(kind, value), repr(float(not_before))))
        except (RedisError, OSError) as error:
            raise fault("unavailable", "the state store does not take the revocation", Category.UNAVAILABLE) from error

    async def revocations(self) -> list[Revocation]:
        try:
            async with asyncio.timeout(self._budget):
                held = await cast(Any, self._redis.hgetall(_REVOKED))
        except (RedisError, OSError) as error:
            raise fault("unavailable", "the state store cannot be read", Category.UNAVAILABLE) from error
        return in_order({_name(field): float(instant) for field, instant in held.items()})

    async def health(self) -> None:
        try:
            async with asyncio.timeout(self._budget):
                check_durable(await self._redis.info())
        except (RedisError, OSError) as error:
            raise fault("unavailable", "the state store does not answer", Category.UNAVAILABLE) from error

    async def close(self) -> None:
        await self._redis.aclose()
        await self._redis.connection_pool.disconnect()

    @asynccontextmanager
    async def _answering(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._budget):
                yield
        except (RedisError, OSError) as error:  # TimeoutError is an OSError
            raise unavailable() from error

    async def _armed(self, held: str | None, now: float) -> int:
        """The armed instant; written anew where it is gone or is of another run of the server."""
        armed = _armed_of(held)
        if armed is None or _run_of(held) != self._run_id:
            armed = max(armed_after_loss(now), armed or 0)
            await self._redis.set(_ARMED, f"{armed}:{self._run_id}")
        return armed

    async def _on_connect(self, connection: AbstractConnection) -> None:
        await connection.on_connect()
        await connection.send_command("INFO", "server")
        lines = str(await connection.read_response()).splitlines()
        self._run_id = next((line[7:] for line in lines if line.startswith("run_id:")), "")


def check_durable(info: Mapping[str, Any]) -> None:
    """Raises where a server may forget a spent leaf or a revocation; ``info`` is its INFO."""
    policy = info.get("maxmemory_policy")
    if policy != "noeviction":
        raise fault(
            "evicting",
            f"the state store evicts keys (maxmemory-policy {policy}); run: CONFIG SET maxmemory-policy noeviction",
        )
    if not info.get("aof_enabled"):
        raise fault(
            "not_durable", "the state store keeps no append-only file; run: CONFIG SET appendonly yes, and persist it"
        )


def _armed_of(held: str | None) -> int | None:
    instant = (held or "").partition(":")[0]
    return int(instant) if instant.isdecimal() else None


def _run_of(held: str | None) -> str:
    return (held or "").partition(":")[2]


def _field(kind: RevocationKind, value: str) -> str:
    return f"{kind.value} {value}"


def _name(field: str) -> tuple[str, str]:
    kind, _, value = field.partition(" ")
    return kind, value


def _instants(marks: list[str | None]) -> list[float | None]:
    return [None if mark is None else float(mark) for mark in marks]
