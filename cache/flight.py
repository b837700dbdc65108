"""One execution for many equal calls at once: in this process, and over all that share the store.

The first caller leads under a lease with a heartbeat; the others wait and look again. A
leader that dies loses its lease within ``life_s`` and somebody else leads. A lease decides
who works and who writes, never who may see: every caller looks under its own authority. A
leader that was stopped for longer than its lease has an answer for its own caller; what it
would store is dropped by the store (``CacheStore.put``), for somebody may have led since.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeVar

from cache.breaker import Breaker
from cache.store import CacheStore, StoreUnavailable
from contract.ids import new_id

LIFE_S: Final = 1.0
POLL_S: Final = 0.02
T = TypeVar("T")
Run = Callable[[str | None], Awaitable[T]]
"""An execution; what it is given is the owner of the lease that it may store its result under."""


@dataclass(frozen=True, slots=True)
class _Lead:
    """Whether to work, and whether under a lease."""

    may_work: bool
    held: bool


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
        run: Run[T],
        patience_s: float,
    ) -> T:
        """What ``look`` finds, else what ``run`` returns; ``run`` once at a time per key.

        ``run`` is given the owner of the lease that it stores its result under, ``None`` for
        a caller that leads nobody, which stores nothing. A failing ``run`` raises for its own
        caller, and the next one tries. After ``patience_s`` seconds of waiting, or where a
        leader's result was not kept, a caller runs by itself. ``look`` must not return
        ``None`` for a result.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + patience_s
        while True:
            found = await look()
            if found is not None:
                return found
            running = self._running.get(key)
            if running is None:
                led = await self._lead(key, look, run, deadline)
                if led is not None:
                    return led
            elif await _ended_well(running, deadline - loop.time()):
                found = await look()
                return found if found is not None else await run(None)
            if loop.time() >= deadline:
                return await run(None)

    async def alone(self, key: str, run: Run[T]) -> T | None:
        """What ``run`` returns, or ``None`` at once where somebody else leads, or nobody can be asked."""
        return None if key in self._running else await self._lead(key, nothing, run, 0.0, certain=True)

    async def _lead(
        self,
        key: str,
        look: Callable[[], Awaitable[T | None]],
        run: Run[T],
        deadline: float,
        *,
        certain: bool = False,
    ) -> T | None:
        """The result, or ``None`` where another process led past ``deadline``; one waiter of a process asks for all."""
        loop = asyncio.get_running_loop()
        mine = self._running[key] = loop.create_future()
        owner = new_id("lease")
        ended_well = False
        try:
            while not (lead := await self._acquire(key, owner)).may_work:
                if loop.time() >= deadline:
                    return None
                await asyncio.sleep(self._poll_s)
                if (found := await look()) is not None:
                    ended_well = True
                    return found
            if certain and not lead.held:
                return None
            heartbeat = asyncio.create_task(self._beat(key, owner))
            held = False
            try:
                # Another leader may have ended between our look and our lease.
                found = await look()
                result = found if found is not None else await run(owner if lead.held else None)
                held = True
                return result
            finally:
                heartbeat.cancel()
                # Who waits for a leader that lost its lease, and so stored nothing, is to try again.
                ended_well = await self._release(key, owner) and held
        finally:
            del self._running[key]
            mine.set_result(ended_well)

    async def _acquire(self, key: str, owner: str) -> _Lead:
        try:
            held = await self._breaker.call(
                lambda: self._store.lease(key, owner, life_s=self._life_s, now=self._clock())
            )
        except StoreUnavailable:
            # Nobody can be asked: work, rather than wait for a store that is down.
            return _Lead(may_work=True, held=False)
        return _Lead(may_work=held, held=held)

    async def _beat(self, key: str, owner: str) -> None:
        while True:
            await asyncio.sleep(self._life_s / 3)
            with suppress(StoreUnavailable):
                await self._breaker.call(lambda: self._store.renew(key, owner, life_s=self._life_s, now=self._clock()))

    async def _release(self, key: str, owner: str) -> bool:
        try:
            return await self._breaker.call(lambda: self._store.release(key, owner))
        except StoreUnavailable:
            return True  # as far as anybody knows: nobody waits for a store that is down


async def nothing() -> None:
    """Looks nowhere."""


async def _ended_well(running: asyncio.Future[bool], patience_s: float) -> bool:
    done, _ = await asyncio.wait({running}, timeout=max(0.0, patience_s))
    return bool(done) and running.result()
