"""After some faults in a row, or one silence, leave a store alone for a while.

A store that refuses answers at once; one that is silent costs its whole budget each time it
is asked, and a call asks several times. So the first silence ends it: no call waits twice.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final, Literal, TypeVar

from cache.allowance import present
from cache.store import OutOfTime, StoreSilent, StoreUnavailable

T = TypeVar("T")
FAILURES: Final = 3
PAUSE_S: Final = 5.0
FIRST_PAUSE_S: Final = 0.5
Changed = Callable[[Literal["faults", "silence"] | None], None]
_log = logging.getLogger("dataset_agent.cache")


class LeftAlone(StoreUnavailable):
    """The store was not asked. That it fails was logged when it began to."""


class Breaker:
    """Closed, open, or letting one trial through. ``clock`` is monotonic seconds.

    The pause after one silence is ``FIRST_PAUSE_S``, and twice as long with each one that follows,
    up to ``pause_s``: a busy machine is silent now and then.
    """

    def __init__(
        self, *, failures: int = FAILURES, pause_s: float = PAUSE_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limit = failures
        self._pause = pause_s
        self._clock = clock
        self._failures = 0
        self._silences = 0
        self._trying = False
        self._retry_at = 0.0
        self.changed: Changed = _nobody
        """Called when it opens, with why, and when it closes, with ``None``."""

    @property
    def is_open(self) -> bool:
        return self._failures >= self._limit or self._silences > 0

    @property
    def is_resting(self) -> bool:
        """Whether nobody would be let through now."""
        return self.is_open and self._clock() < self._retry_at

    async def call(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """What ``attempt`` returns. Raises ``StoreUnavailable``, at once while the breaker is open.

        So it does for a call that has waited for the store as long as it may; that opens no breaker.
        """
        allowance = present()
        if allowance is not None and allowance.is_spent:
            raise LeftAlone("the call has waited for the store as long as it may")
        if not self.allows():
            raise LeftAlone("the store failed repeatedly and is left alone for a while")
        try:
            result = await attempt()
        except OutOfTime:
            raise
        except StoreUnavailable as error:
            self.failed(silent=isinstance(error, StoreSilent))
            raise
        self.succeeded()
        return result

    def allows(self) -> bool:
        """Whether to try the store now; an open breaker allows one trial after each pause."""
        if not self.is_open:
            return True
        now = self._clock()
        if now < self._retry_at:
            return False
        self._trying = True
        self._retry_at = now + self._pause_now()
        return True

    def succeeded(self) -> None:
        was_open = self.is_open
        self._failures = self._silences = 0
        if was_open:
            _log.warning("the cache store answers again")
            self.changed(None)

    def failed(self, *, silent: bool = False) -> None:
        was_open = self.is_open
        if was_open and not self._trying:
            return  # asked before it opened, and met by the same fault
        self._trying = False
        if silent:
            self._silences += 1
        else:
            self._failures += 1
        self._retry_at = self._clock() + self._pause_now()
        if self.is_open and not was_open:
            _log.warning("the cache store %s: calls go on without it", "is silent" if silent else "fails")
            self.changed("silence" if silent else "faults")

    def _pause_now(self) -> float:
        if self._failures >= self._limit:
            return self._pause
        return min(self._pause, FIRST_PAUSE_S * 2.0 ** min(max(0, self._silences - 1), 10))


def _nobody(_: Literal["faults", "silence"] | None) -> None:
    """Nobody is told."""
