"""What runs behind an answer, for nobody who waits: few at once, each once, and ended before the stores are closed."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Final

log = logging.getLogger(__name__)

MOST: Final = 8
"""At once. Beyond that none is begun: the next call that finds its result past its time tries again."""
MOST_OF_PERSON: Final = 4
"""Of these, so that what one person's answers leave to be refreshed keeps nobody else's from it."""

Person = tuple[str, ...]


class Refreshes:
    """The refreshes under way in this process, by the key of what they refresh."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._running: dict[str, asyncio.Task[None]] = {}
        self._of: Counter[Person] = Counter()
        self._closed = False

    def begin(self, key: str, person: Person, work: Callable[[], Coroutine[None, None, None]]) -> bool:
        """Begin ``work`` where nothing of ``key`` is under way, and there is room, also for ``person``; whether it was begun."""
        if self._closed or key in self._running or len(self._running) >= self._most:
            return False
        if self._of[person] >= MOST_OF_PERSON:
            return False
        self._of[person] += 1
        # Nothing of the request whose answer it follows goes on: who watches it, or what it is traced as.
        task = self._running[key] = asyncio.get_running_loop().create_task(work(), context=Context())
        task.add_done_callback(lambda done: self._ended(key, person, done))
        return True

    async def close(self) -> None:
        """Begin none any more, and cancel what runs; returns when it is recorded."""
        self._closed = True
        running = list(self._running.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _ended(self, key: str, person: Person, task: asyncio.Task[None]) -> None:
        del self._running[key]
        self._of -= Counter([person])  # which keeps nobody who has none
        if not task.cancelled() and (fault := task.exception()) is not None:
            log.error("a refresh failed with %s", type(fault).__name__)
