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
from weakref import WeakKeyDictionary

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

    __slots__ = (
        *("_allowance", "_at", "_cancelling", "_is_over", "_loop", "_most", "_spent", "_steps", "_task", "_timer"),
        "is_fair",
    )

    def __init__(self, most: float) -> None:
        self._allowance = allowance = present()
        self._most = most if allowance is None else min(most, allowance.left)
        whole = most if allowance is None else min(most, allowance.whole)
        self.is_fair = self._most >= whole * _FAIR
        """Whether who does not answer within it is silent, and not only slow for a call that has waited before."""
        self._spent = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._is_over = False

    async def __aenter__(self) -> None:
        """In a task. Raises ``RuntimeError`` elsewhere."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("only a task can be stopped when its time is over")
        self._task, self._cancelling = task, task.cancelling()
        self._loop = loop = asyncio.get_running_loop()
        self._steps = _steps_of(loop)
        self._at = loop.time()
        if self._most > _STEP_S:
            self._steps.begin(self, loop)
        else:
            self.passed()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._steps.end(self)
        if self._timer is not None:
            self._timer.cancel()
        if self._allowance is not None:
            self._allowance.left -= self._spent + self._counted(self._loop.time())
        if self._is_over and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def passed(self) -> None:
        """Count what has passed. The end, once it is near, has a timer of its own."""
        now = self._loop.time()
        self._spent += self._counted(now)
        self._at, left = now, self._most - self._spent
        if left > _STEP_S:
            return
        self._steps.end(self)
        if left > _GRACE_S:
            self._timer = self._loop.call_at(now + left, self.passed)
        else:
            self._timer = self._loop.call_at(now + _GRACE_S, self._stop)

    def _stop(self) -> None:
        self._is_over = True
        self._task.cancel()

    def _counted(self, now: float) -> float:
        return min(now - self._at, _TURN_S)


class _Steps:
    """One timer for all limits of a loop, as long as there are any: one for each costs a lookup as much as its key."""

    __slots__ = ("__weakref__", "_goes_on", "_limits")

    def __init__(self) -> None:
        self._limits: set[Limit] = set()
        self._goes_on = False

    def begin(self, limit: Limit, loop: asyncio.AbstractEventLoop) -> None:
        self._limits.add(limit)
        if not self._goes_on:
            self._goes_on = True
            loop.call_later(_STEP_S, self._step)

    def end(self, limit: Limit) -> None:
        self._limits.discard(limit)

    def _step(self) -> None:
        for limit in tuple(self._limits):
            limit.passed()
        self._goes_on = bool(self._limits)
        if self._goes_on:
            asyncio.get_running_loop().call_later(_STEP_S, self._step)


_steps: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, _Steps]] = WeakKeyDictionary()


def _steps_of(loop: asyncio.AbstractEventLoop) -> _Steps:
    steps = _steps.get(loop)
    if steps is None:
        steps = _steps[loop] = _Steps()
    return steps
