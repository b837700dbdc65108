"""One execution for many equal calls at once: in this process, and over all that share the store.

The first caller leads under a lease with a heartbeat; the others wait and look again. A
leader that dies loses its lease within ``life_s`` and somebody else leads. A lease decides
who works, never who may see: every caller looks under its own authority, and results are
equal whoever made them, so a late writer needs no fence.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeVar

from cache.breaker import Breaker
from cache.store import CacheStore, StoreUnavailable
from contract.ids import new_id

LIFE_S: Final = 1.0
POLL_S: Final = 0.02
T = TypeVar("T")


class Flights:
    """The calls under way. ``clock`` is POSIX seconds, shared by the machines roughly."""

    def __init__(
        self,
        store: CacheStore,
        breaker: Breaker,
        *,
        life_s: float = LIFE_S,
        poll_s: float = POLL_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._breaker = breaker
        self._life_s = life_s
        self._poll_s = poll_s
        self._clock = clock
        self._running: dict[str, asyncio.Future[bool]] = {}

    async def once(
        self,
        key: str,
        *,
        look: Callable[[], Awaitable[T | None]],
        run: Callable[[], Awaitable[T]],
        patience_s: float,
    ) -> T:
        """What ``look`` finds, else what ``run`` returns; ``run`` once at a time per key.

        A failing ``run`` raises for its own caller, and the next one tries. After
        ``patience_s`` seconds of waiting, or where a leader's result was not kept, a caller
        runs by itself. ``look`` must not return ``None`` for a result.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + patience_s
        while True:
            found = await look()
            if found is not None:
                return found
            running = self._running.get(key)
            if running is None:
                led = await self._lead(key, look, run)
                if led is not None:
                    return led
            elif await _ended_well(running, deadline - loop.time()):
                found = await look()
                return found if found is not None else await run()
            if loop.time() >= deadline:
                return await run()

    async def _lead(
        self, key: str, look: Callable[[], Awaitable[T | None]], run: Callable[[], Awaitable[T]]
    ) -> T | None:
        """The result, or ``None`` after a pause where another process leads."""
        mine = self._running[key] = asyncio.get_running_loop().create_future()
        owner = new_id("lease")
        ran = False
        try:
            if not await self._acquire(key, owner):
                await asyncio.sleep(self._poll_s)
                return None
            heartbeat = asyncio.create_task(self._beat(key, owner))
            try:
                # Another leader may have ended between our look and our lease.
                found = await look()
                result = found if found is not None else await run()
                ran = True
                return result
            finally:
                heartbeat.cancel()
                await self._release(key, owner)
        finally:
            del self._running[key]
            mine.set_result(ran)

    async def _acquire(self, key: str, owner: str) -> bool:
        try:
            return await self._breaker.call(
                lambda: self._store.lease(key, owner, life_s=self._life_s, now=self._clock())
            )
        except StoreUnavailable:
            # Nobody can be asked: work, rather than wait for a store that is down.
            return True

    async def _beat(self, key: str, owner: str) -> None:
        while True:
            await asyncio.sleep(self._life_s / 3)
            await self._acquire(key, owner)

    async def _release(self, key: str, owner: str) -> None:
        with suppress(StoreUnavailable):
            await self._breaker.call(lambda: self._store.release(key, owner))


async def _ended_well(running: asyncio.Future[bool], patience_s: float) -> bool:
    done, _ = await asyncio.wait({running}, timeout=max(0.0, patience_s))
    return bool(done) and running.result()
