"""A query that can be stopped from outside its thread."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Stopped(Exception):
    """The query was stopped before it ended: its time is over, or nobody waits for it any more."""


class Job:
    """One query as its thread and its waiter share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._interrupt: Callable[[], None] | None = None
        self._progress: Callable[[], float | None] | None = None
        self.stopped = False

    def start(self, interrupt: Callable[[], None], progress: Callable[[], float | None] | None = None) -> None:
        """From here on ``interrupt`` stops it; it is called again and again until the thread is done.

        Raises ``Stopped`` where it was stopped already.
        """
        with self._lock:
            if self.stopped:
                raise Stopped
            self._interrupt, self._progress = interrupt, progress

    def end(self) -> None:
        with self._lock:
            self._interrupt = self._progress = None

    def stop(self) -> None:
        """Interrupt the query; harmless before, between and after."""
        with self._lock:
            self.stopped = True
            if self._interrupt is not None:
                self._interrupt()

    def check(self) -> None:
        """Raise ``Stopped`` where it was stopped."""
        if self.stopped:
            raise Stopped

    def percent(self) -> float | None:
        """How far the query is, as the engine estimates it; ``None`` where it does not run, negative where unknown."""
        with self._lock:
            return None if self._progress is None else self._progress()
