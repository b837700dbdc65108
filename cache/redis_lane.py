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
from redis.exceptions import ResponseError

from cache.store import StoreUnavailable

CONCURRENT: Final = 16


class WrongType(StoreUnavailable):
    """The key holds a value of another type than the command works on; the server itself is well."""


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
        except Exception as error:
            # A client that reads what somebody else wrote may raise anything, such as ``ValueError``.
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


def unavailable(error: Exception) -> StoreUnavailable:
    """What callers of the store see of a client's error. Never its text: it may quote the server."""
    if is_wrong_type(error):
        return WrongType("the key holds a value of another type")
    return StoreUnavailable(f"the cache server cannot be used ({type(error).__name__})")


def is_wrong_type(answer: object) -> bool:
    """Whether an error or an answer in a pipeline says that the key is of another type."""
    return isinstance(answer, ResponseError) and str(answer).startswith("WRONGTYPE")
