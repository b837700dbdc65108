"""One command, one answer, within a budget: the hot path of the Redis store.

The client's own pool probes a connection before each command and keeps statistics, which
costs as much as canonicalising a key. Here a connection is probed by using it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from redis.asyncio import ConnectionPool
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ConnectionError as Disconnected
from redis.exceptions import RedisError, ResponseError

from cache.store import StoreUnavailable

CONCURRENT: Final = 16
FAULTS: Final = (RedisError, OSError, TimeoutError)


class RedisLanes:
    """At most ``CONCURRENT`` connections; a burst waits its turn inside its budget (seconds)."""

    def __init__(self, pool: ConnectionPool, *, budget_s: float) -> None:
        self._connection: Callable[[], AbstractConnection] = pool.make_connection
        self._budget_s = budget_s
        self._turns = asyncio.Semaphore(CONCURRENT)
        self._idle: list[AbstractConnection] = []

    async def ask(self, *command: str | bytes | int) -> Any:
        """The answer to an idempotent command. Raises ``StoreUnavailable``.

        The budget holds for waiting, connecting, handshake and answer together.
        """
        try:
            async with asyncio.timeout(self._budget_s), self._turns:
                lane = self._idle.pop() if self._idle else self._connection()
                try:
                    return await self._ask(lane, command)
                finally:
                    self._idle.append(lane)
        except FAULTS as error:
            raise unavailable(error) from error

    async def close(self) -> None:
        idle, self._idle = self._idle, []
        for lane in idle:
            await lane.disconnect()

    async def _ask(self, lane: AbstractConnection, command: tuple[str | bytes | int, ...]) -> Any:
        reused = lane.is_connected
        try:
            return await _exchange(lane, command)
        except Disconnected:
            # A server that restarted closed its idle connections; that alone is no fault.
            if not reused:
                raise
        return await _exchange(lane, command)


async def _exchange(lane: AbstractConnection, command: tuple[str | bytes | int, ...]) -> Any:
    try:
        await lane.send_command(*command, check_health=False)
        return await lane.read_response()
    except ResponseError:
        raise
    except BaseException:
        # Cut short, it might hand its late answer to the next command.
        await lane.disconnect(nowait=True)
        raise


def unavailable(error: BaseException) -> StoreUnavailable:
    return StoreUnavailable(f"the cache server cannot be used ({type(error).__name__})")
