"""How often what happened in this process, added to the counters of all processes beside the requests."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from cache.allowance import beside_calls
from cache.breaker import Breaker
from cache.store import CacheStore, StoreUnavailable
from contract.result import CacheOutcome

FLUSH_S: Final = 5.0


class Tally:
    """Counters by event. No fault of the store leaves: what could not be added is added the next time."""

    def __init__(self, store: CacheStore | None, breaker: Breaker) -> None:
        self._store = store
        self._breaker = breaker
        self._totals: Counter[str] = Counter()
        self._unflushed: Counter[str] = Counter()
        self._timer: asyncio.TimerHandle | None = None
        self._flushing: asyncio.Task[None] | None = None
        self.seen: Callable[[str], None] = _unseen

    @property
    def totals(self) -> Mapping[str, int]:
        """This process's events since start."""
        return dict(self._totals)

    def count(self, event: str, outcome: CacheOutcome) -> None:
        """``outcome`` is what the event comes to; one that may not be told is in ``totals`` alone, which nobody is told."""
        self._totals[event] += 1
        if outcome.outcome == "WITHHELD":
            return
        self.seen(event)
        self._unflushed[event] += 1
        if self._timer is None:
            # Beside the request, not in it: a lookup stays one round trip.
            self._timer = asyncio.get_running_loop().call_later(FLUSH_S, self._flush_soon)

    async def flush(self) -> None:
        """Add this process's counters to the store's."""
        deltas, self._unflushed = self._unflushed, Counter()
        store = self._store
        if store is None or not deltas:
            return
        try:
            # Its timer was set within a call, and what that one has left to wait is nothing to it.
            with beside_calls():
                await self._breaker.call(lambda: store.count(deltas))
        except StoreUnavailable:
            self._unflushed.update(deltas)

    async def close(self) -> None:
        """Flush, and count no more by itself."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._flushing is not None:
            await self._flushing
        await self.flush()

    def _flush_soon(self) -> None:
        self._timer = None
        self._flushing = asyncio.get_running_loop().create_task(self.flush())


def _unseen(_: str) -> None:
    """Nobody is told."""
