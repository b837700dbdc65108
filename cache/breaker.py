"""After some faults in a row, leave a store alone for a while."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from cache.store import StoreUnavailable

T = TypeVar("T")
FAILURES: Final = 3
PAUSE_S: Final = 5.0


class Breaker:
    """Closed, open, or letting one trial through. ``clock`` is monotonic seconds."""

    def __init__(
        self, *, failures: int = FAILURES, pause_s: float = PAUSE_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limit = failures
        self._pause = pause_s
        self._clock = clock
        self._failures = 0
        self._retry_at = 0.0

    @property
    def is_open(self) -> bool:
        return self._failures >= self._limit

    async def call(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """What ``attempt`` returns. Raises ``StoreUnavailable``, at once while the breaker is open."""
        if not self.allows():
            raise StoreUnavailable("the store failed repeatedly and is left alone for a while")
        try:
            result = await attempt()
        except StoreUnavailable:
            self.failed()
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
        self._retry_at = now + self._pause
        return True

    def succeeded(self) -> None:
        self._failures = 0

    def failed(self) -> None:
        self._failures += 1
        self._retry_at = self._clock() + self._pause
