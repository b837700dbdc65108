"""One execution for many equal calls at once: in this process, and over all that share the store.

The first caller leads under a lease with a heartbeat; the others wait and look again. A
leader that dies loses its lease within ``life_s`` and somebody else leads; what a stranger to
the cache's secret writes there is nobody's lease (``lead.py``). A lease decides
who works and who writes, never who may see: every caller looks under its own authority. A
leader that was stopped for longer than its lease has an answer for its own caller; what it
would store is dropped by the store (``CacheStore.put``), for somebody may have led since.

Where the store does not say who leads, nobody does: each caller works at once, and none waits
for a result that it could not look up. A leader has its answer before the store has its result:
what is kept under a lease is kept beside the call, and the lease given back after it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeVar

from cache.allowance import beside_calls, present
from cache.aside import Aside
from cache.breaker import Breaker
from cache.keys import CacheKeys
from cache.lead import Watch, mark, read_mark
from cache.store import CacheStore, OutOfTime, StoreSilent, StoreUnavailable
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


class _End(Enum):
    """What a leader leaves to those who wait for it in its process."""

    LOOK = "its result is where they look, if it was kept"
    TRY = "it has none, and the next one may lead"
    ALONE = "nobody leads: each works by itself"


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
        aside: Aside | None = None,
    ) -> None:
        self._store = store
        self._breaker = breaker
        self._aside = aside or Aside()
        self._life_s = life_s
        self._poll_s = poll_s
        self._clock = clock
        self._running: dict[str, asyncio.Future[_End]] = {}
        self._keeping: dict[str, asyncio.Task[None]] = {}

    async def once(
        self,
        key: str,
        *,
        look: Callable[[], Awaitable[T | None]],
        run: Run[T],
        patience_s: float,
        keys: CacheKeys,
    ) -> T:
        """What ``look`` finds, else what ``run`` returns; ``run`` once at a time per key.

        ``run`` is given the owner of the lease that it stores its result under, ``None`` for
        a caller that leads nobody, which stores nothing. A failing ``run`` raises for its own
        caller, and the next one tries. After ``patience_s`` seconds of waiting in all, or where
        a leader's result was not kept, a caller runs by itself. ``look`` must not return
        ``None`` for a result. ``keys`` are those that made ``key``.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + patience_s
        while True:
            found = await look()
            if found is not None:
                return found
            running = self._running.get(key)
            if running is None:
                led = await self._lead(key, look, run, deadline, keys)
                if led is not None:
                    return led
            else:
                end = await _ended(running, deadline - loop.time())
                found = await look() if end is _End.LOOK else None
                if found is not None:
                    return found
                if end in (_End.LOOK, _End.ALONE):
                    return await run(None)
            if loop.time() >= deadline:
                return await run(None)

    async def alone(self, key: str, run: Run[T], *, keys: CacheKeys) -> T | None:
        """What ``run`` returns, or ``None`` at once where somebody else leads, or nobody can be asked."""
        with beside_calls():
            return None if key in self._running else await self._lead(key, nothing, run, 0.0, keys, certain=True)

    def keeping(self, owner: str, task: asyncio.Task[None]) -> None:
        """``task`` stores the result of ``owner``, who gives its lease back after it."""
        self._keeping[owner] = task

    async def _lead(
        self,
        key: str,
        look: Callable[[], Awaitable[T | None]],
        run: Run[T],
        deadline: float,
        keys: CacheKeys,
        *,
        certain: bool = False,
    ) -> T | None:
        """The result, or ``None`` where another process led past ``deadline``; one waiter of a process asks for all."""
        loop = asyncio.get_running_loop()
        mine = self._running[key] = loop.create_future()
        owner = new_id("lease")
        watch = Watch(key, keys, life_s=self._life_s)
        lead: _Lead | None = None
        end = _End.TRY
        allowance = present()
        left = 0.0 if allowance is None else allowance.left
        try:
            while not (lead := await self._acquire(key, owner, keys, watch)).may_work:
                if loop.time() >= deadline:
                    return None
                if allowance is not None:
                    allowance.left = left  # the store answers: it is the other's work that is waited for
                await asyncio.sleep(self._poll_s)
                if (found := await look()) is not None:
                    end = _End.LOOK
                    return found
            if not lead.held:
                end = _End.ALONE
        finally:
            if lead is None or not lead.held:
                self._end(key, mine, end)
        if lead.held:
            return await self._work(key, owner, mine, look, run, keys)
        return None if certain else await run(None)

    async def _work(
        self,
        key: str,
        owner: str,
        mine: asyncio.Future[_End],
        look: Callable[[], Awaitable[T | None]],
        run: Run[T],
        keys: CacheKeys,
    ) -> T:
        with beside_calls():
            heartbeat = asyncio.create_task(self._beat(key, owner, keys))
        done = False
        try:
            # Another leader may have ended between our look and our lease.
            found = await look()
            result = found if found is not None else await run(owner)
            done = True
            return result
        finally:
            await self._aside.wait(self._aside.begin(self._give_back(key, owner, mine, heartbeat, done=done)))

    async def _give_back(
        self, key: str, owner: str, mine: asyncio.Future[_End], heartbeat: asyncio.Task[None], *, done: bool
    ) -> None:
        end = _End.TRY
        try:
            keeping = self._keeping.pop(owner, None)
            if keeping is not None:
                await asyncio.wait({keeping})
            heartbeat.cancel()
            # Who waits for a leader that lost its lease, and so stored nothing, is to try again.
            if await self._release(key, owner) and done:
                end = _End.LOOK
        finally:
            self._end(key, mine, end)

    def _end(self, key: str, mine: asyncio.Future[_End], end: _End) -> None:
        del self._running[key]
        mine.set_result(end)

    async def _acquire(self, key: str, owner: str, keys: CacheKeys, watch: Watch) -> _Lead:
        try:
            held = await self._take(key, owner, keys)
            if not held:
                seen = await self._breaker.call(lambda: self._store.holder(key))
                if not watch.believes(seen, at=asyncio.get_running_loop().time(), now=self._clock()):
                    held = await self._take(key, owner, keys, over=seen)
        except StoreUnavailable as error:
            if isinstance(error, OutOfTime | StoreSilent):  # it may have been given, and nobody is to wait for it
                self._aside.begin(self._let_go(key, owner))
            # Nobody can be asked: work, rather than wait for a store that is down.
            return _Lead(may_work=True, held=False)
        return _Lead(may_work=held, held=held)

    async def _take(self, key: str, owner: str, keys: CacheKeys, *, over: str | None = None) -> bool:
        now = self._clock()
        said = mark(key, owner, keys=keys, now=now)
        return await self._breaker.call(
            lambda: self._store.lease(key, owner, life_s=self._life_s, now=now, mark=said, over=over)
        )

    async def stranger(self, key: str, *, keys: CacheKeys) -> str | None:
        """What stands for a lease on ``key`` and is no leader's, as ``holder`` tells it. Raises ``StoreUnavailable``.

        Over it who led may go on; over nothing, or another's mark, it may not: a younger result may be stored.
        """
        seen = await self._breaker.call(lambda: self._store.holder(key))
        return None if not seen or read_mark(seen, key, keys=keys) is not None else seen

    async def _beat(self, key: str, owner: str, keys: CacheKeys) -> None:
        while True:
            await asyncio.sleep(self._life_s / 3)
            with suppress(StoreUnavailable):
                if await self._renewed(key, owner, keys):
                    continue
                if (over := await self.stranger(key, keys=keys)) is not None:
                    await self._take(key, owner, keys, over=over)

    async def _renewed(self, key: str, owner: str, keys: CacheKeys) -> bool:
        now = self._clock()
        said = mark(key, owner, keys=keys, now=now)
        return await self._breaker.call(lambda: self._store.renew(key, owner, life_s=self._life_s, now=now, mark=said))

    async def _let_go(self, key: str, owner: str) -> None:
        await self._release(key, owner)

    async def _release(self, key: str, owner: str) -> bool:
        try:
            return await self._breaker.call(lambda: self._store.release(key, owner))
        except StoreUnavailable:
            return True  # as far as anybody knows: nobody waits for a store that is down


async def nothing() -> None:
    """Looks nowhere."""


async def _ended(running: asyncio.Future[_End], patience_s: float) -> _End:
    done, _ = await asyncio.wait({running}, timeout=max(0.0, patience_s))
    return running.result() if done else _End.TRY
