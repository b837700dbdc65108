"""How long one call may wait for the cache: all that it asks of the store, together.

A store's own limit holds for one command, and a call asks several times: it looks, asks for the
lease, looks again, keeps. ``one_call`` bounds their sum, and whatever runs within it is counted,
in every task that it starts. What goes on beside a call (``beside_calls``) is not the call's.

Only time in which an answer could have been read is counted. While the loop is busy nobody waits
for the store, and a burst of calls, which a cache is there to bear, is not a store that is silent.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar, Token
from dataclasses import dataclass
from types import TracebackType
from typing import Final

CALL_S: Final = 0.045
"""Seconds; with the turn of the loop that ends a wait a call is late by less than 50 ms."""
_STEP_S: Final = 0.005
_TURN_S: Final = 0.007
"""What counts at most of a step: a little late is every timer, and much later only one of a loop that is busy."""
_GRACE_S: Final = 0.001
"""One more look of the loop at what has arrived."""
_FAIR: Final = 0.5


@dataclass(slots=True)
class Allowance:
    """Seconds that a call may wait for, in all, and what is left of them."""

    whole: float
    left: float

    @property
    def is_spent(self) -> bool:
        return self.left <= 0


_present: ContextVar[Allowance | None] = ContextVar("cache_allowance", default=None)


class Within:
    """A block; a class, because every call opens one, and a generator is dear."""

    __slots__ = ("_allowance", "_token")

    def __init__(self, allowance: Allowance | None) -> None:
        self._allowance = allowance

    def __enter__(self) -> None:
        self._token: Token[Allowance | None] = _present.set(self._allowance)

    def __exit__(self, *_: object) -> None:
        _present.reset(self._token)


def one_call(seconds: float = CALL_S) -> Within:
    """What is asked of a store in here is one call's."""
    return Within(Allowance(seconds, seconds))


def beside_calls() -> Within:
    """What is asked of a store in here delays no call."""
    return Within(None)


def present() -> Allowance | None:
    """That of the call which this is part of; ``None`` where it is part of none."""
    return _present.get()


class Limit:
    """As ``asyncio.timeout`` of at most ``most`` seconds, or of what the call has left; it takes from that.

    An answer that came while the loop did something else is read before it is too late.
    """

    __slots__ = ("_allowance", "_at", "_limit", "_loop", "_most", "_spent", "_timer", "is_fair")

    def __init__(self, most: float) -> None:
        self._allowance = allowance = present()
        self._most = most if allowance is None else min(most, allowance.left)
        whole = most if allowance is None else min(most, allowance.whole)
        self.is_fair = self._most >= whole * _FAIR
        """Whether who does not answer within it is silent, and not only slow for a call that has waited before."""
        self._spent = 0.0

    async def __aenter__(self) -> None:
        self._limit = asyncio.timeout(None)
        await self._limit.__aenter__()
        self._loop = asyncio.get_running_loop()
        self._wait()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        if self._allowance is not None:
            self._allowance.left -= self._spent + self._counted()
        await self._limit.__aexit__(kind, error, trace)

    def _wait(self) -> None:
        self._at = self._loop.time()
        self._timer = self._loop.call_at(self._at + min(_STEP_S, max(0.0, self._most - self._spent)), self._passed)

    def _passed(self) -> None:
        self._spent += self._counted()
        if self._spent < self._most - _GRACE_S:
            self._wait()
            return
        self._at = self._loop.time()
        self._limit.reschedule(self._at + _GRACE_S)

    def _counted(self) -> float:
        return min(self._loop.time() - self._at, _TURN_S)
