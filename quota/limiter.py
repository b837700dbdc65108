"""Holding callers to their limits: a call costs one look into a dictionary, and a store is asked for many calls at once."""

from __future__ import annotations

import asyncio
import math
import os
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final, Literal

from contract.ids import new_id
from quota.rate import Rate, Taken
from quota.store import Names, QuotaStore, Room, StoreUnavailable, key_of

Kind = Literal["agent", "person"]
KEPT_S: Final = 1.0
"""How long a process may use up calls that it took beforehand; what is left then counts as made."""
PLACE_S: Final = 30.0
"""How long a killed process holds its places."""
PAUSE_S: Final = 0.25
"""After so long is told who is over a rate: a line that asks again at once takes four answers a second, and not a core."""
_RENEW_S: Final = 10.0
_MOST_KNOWN: Final = 10_000
_BURST_SHARES: Final = 16
_SHARES_A_SECOND: Final = 10
_AGAIN_S: Final = 1.0
_LATER_S: Final = 1.0
"""When to try again where others execute: nobody knows when they end."""


class LimitExceeded(Exception):
    """Over a limit: of ``kind`` of caller, its calls a second or its executions at once."""

    def __init__(self, kind: Kind, what: Literal["rate", "running"], retry_after_s: float) -> None:
        super().__init__(f"{kind} {what}")
        self.kind = kind
        self.what = what
        self.retry_after_s = retry_after_s

    def __str__(self) -> str:
        """For people; it names nobody and no number, so that a limit is not read from it."""
        whose = "this agent" if self.kind == "agent" else "this person"
        of = "calls a second" if self.what == "rate" else "executions at once"
        return f"{whose} has had as many {of} as is allowed: try again in {max(1, math.ceil(self.retry_after_s))} s"


@dataclass(frozen=True, slots=True)
class Quota:
    """What each caller of a kind may: ``rate`` ``None`` and ``running`` 0 say that there is no limit."""

    rate: Rate | None = None
    running: int = 0


@dataclass(frozen=True, slots=True)
class Caller:
    """One whom a limit is for, ``at`` an agent, by whose id its counts are kept apart from those of others."""

    kind: Kind
    key: str

    @classmethod
    def agent(cls, agent_id: str, *, at: str) -> Caller:
        return cls("agent", key_of("agent", at, agent_id))

    @classmethod
    def person(cls, issuer: str, tenant: str, subject: str, *, at: str) -> Caller:
        return cls("person", key_of("person", at, issuer, tenant, subject))


@dataclass(slots=True)
class _Share:
    """Calls that this process took of a rate and has not made yet."""

    left: int = 0
    since: float = 0.0
    blocked_until: float = 0.0
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)

    def use(self, now: float) -> bool:
        """Whether one was there."""
        if not self.since <= now <= self.since + KEPT_S:
            self.left = 0
        if not self.left:
            return False
        self.left -= 1
        return True

    def wait_s(self, now: float) -> float:
        """Seconds for which it is known that there is none; 0 where it is to be asked."""
        return self.blocked_until - now if self.since <= now < self.blocked_until else 0.0


class Limiter:
    """``store`` is where the processes of an agent meet; ``None`` where nothing is limited."""

    def __init__(
        self,
        store: QuotaStore | None,
        *,
        agent: Quota,
        person: Quota,
        names: Names,
        exceeded: Callable[[LimitExceeded], None] = lambda _: None,
        pause_s: float = PAUSE_S,
    ) -> None:
        """``exceeded`` is told of each call that was over a limit; one that is over a rate is told so after ``pause_s``."""
        self._pause_s = pause_s
        self._store = store
        self._names = names
        self._quotas = {"agent": agent, "person": person}
        self._shares: OrderedDict[str, _Share] = OrderedDict()
        self._away_since = -math.inf
        self._leaving: set[asyncio.Task[None]] = set()
        self.exceeded = exceeded

    @classmethod
    def unlimited(cls) -> Limiter:
        return cls(None, agent=Quota(), person=Quota(), names=Names(os.urandom(32)))

    def take_over(self, names: Names) -> None:
        """Under another secret from now on: what was counted under the former is not known any more, and ends by itself."""
        self._names = names

    async def count(self, caller: Caller, *, now: float) -> None:
        """One call of ``caller``. Raises ``LimitExceeded``, and ``StoreUnavailable``.

        The second also of a kind that has no rate, while the other kind's cannot be counted.
        """
        rate = self._quotas[caller.kind].rate
        if self._store is None:
            return
        if rate is None:
            self._check_counting()
            return
        share = self._share(caller.key)
        if share.use(now):
            return
        try:
            async with share.asking:
                if not share.use(now):
                    await self._take(self._store, caller, rate, share, now)
        except LimitExceeded:
            await asyncio.sleep(self._pause_s)
            raise

    @asynccontextmanager
    async def running(self, callers: Sequence[Caller], *, clock: Callable[[], float]) -> AsyncIterator[None]:
        """A place for one execution of all these callers. Raises ``LimitExceeded``, and ``StoreUnavailable``."""
        limited = [(caller, most) for caller in callers if (most := self._quotas[caller.kind].running)]
        if self._store is None or not limited:
            yield
            return
        rooms = [Room(self._names.of(caller.key), most) for caller, most in limited]
        holder, now = new_id("place"), clock()
        entering = asyncio.ensure_future(self._store.enter(rooms, holder, until=now + PLACE_S, now=now))
        try:
            full = await asyncio.shield(entering)
        except asyncio.CancelledError:
            self._depart(self._leave(self._store, rooms, holder, after=entering))
            raise
        if full is not None:
            raise self._told(LimitExceeded(limited[full][0].kind, "running", _LATER_S))
        staying = asyncio.ensure_future(self._stay(self._store, rooms, holder, clock))
        try:
            yield
        finally:
            staying.cancel()
            self._depart(self._leave(self._store, rooms, holder))

    async def close(self) -> None:
        await asyncio.gather(*self._leaving)
        if self._store is not None:
            await self._store.close()

    async def _take(self, store: QuotaStore, caller: Caller, rate: Rate, share: _Share, now: float) -> None:
        wait = share.wait_s(now)
        if not wait:
            taken = await self._asked(store, caller, rate, now)
            share.since, share.left = now, max(0, taken.number - 1)
            share.blocked_until = now + taken.retry_after_s
            if taken.number:
                return
            wait = taken.retry_after_s
        raise self._told(LimitExceeded(caller.kind, "rate", wait))

    async def _asked(self, store: QuotaStore, caller: Caller, rate: Rate, now: float) -> Taken:
        """What the store gives; one that did not answer is not waited for again within a second."""
        if self._away_since <= now < self._away_since + _AGAIN_S:
            raise StoreUnavailable("the store did not answer just now")
        try:
            taken = await store.take(self._names.of(caller.key), rate, _share_of(rate), now=now)
        except StoreUnavailable:
            self._away_since = now
            raise
        self._away_since = -math.inf
        return taken

    def _check_counting(self) -> None:
        if self._away_since > -math.inf:
            raise StoreUnavailable("the store has not answered since it was asked last")

    def _told(self, limit: LimitExceeded) -> LimitExceeded:
        self.exceeded(limit)
        return limit

    def _share(self, key: str) -> _Share:
        share = self._shares.get(key)
        if share is None:
            share = self._shares[key] = _Share()
            if len(self._shares) > _MOST_KNOWN:
                self._shares.popitem(last=False)
        else:
            self._shares.move_to_end(key)
        return share

    async def _stay(self, store: QuotaStore, rooms: Sequence[Room], holder: str, clock: Callable[[], float]) -> None:
        while True:
            await asyncio.sleep(_RENEW_S)
            with suppress(StoreUnavailable):
                await store.stay(rooms, holder, until=clock() + PLACE_S)

    def _depart(self, leaving: Coroutine[None, None, None]) -> None:
        """Nobody waits for it, and nobody's cancelling ends it."""
        task = asyncio.ensure_future(leaving)
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    async def _leave(
        self, store: QuotaStore, rooms: Sequence[Room], holder: str, *, after: asyncio.Future[int | None] | None = None
    ) -> None:
        with suppress(StoreUnavailable):  # it ends by itself
            if after is not None:
                await after  # whoever was cancelled while entering may have come in
            await store.leave(rooms, holder)


def _share_of(rate: Rate) -> int:
    """Calls to take at once: few enough that no process keeps many from the others."""
    return max(1, min(rate.burst // _BURST_SHARES, math.ceil(rate.per_second / _SHARES_A_SECOND)))
