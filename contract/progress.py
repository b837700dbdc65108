"""How far one execution has come: a percentage and nothing else, from what runs it to whoever waits."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar, Token
from typing import Final

Watch = Callable[[int], None]
"""Told a percentage whenever there is a new one."""

_MOST: Final = 99  # what runs is not done


class Progress:
    """Read by whoever may know of an execution. An engine that can tell sets its source; others say nothing.

    The source is called in the event loop and answers at once: percent, or ``None`` where it cannot tell.
    """

    def __init__(self) -> None:
        self._source: Callable[[], float | None] | None = None
        self._highest: int | None = None

    def follow(self, source: Callable[[], float | None]) -> None:
        """Ask ``source`` from now on; what was told before is never taken back."""
        self._source = source

    def percent(self) -> int | None:
        """0 to 99 and never less than before; ``None`` while nobody can tell."""
        told = None if self._source is None else self._source()
        if told is not None and 0 <= told <= 100:  # not so for NaN, and for an engine's -1
            self._highest = max(self._highest or 0, min(int(told), _MOST))
        return self._highest


_WATCHED: ContextVar[Progress | None] = ContextVar("progress", default=None)


class Reported:
    """A block; a class, because every call opens one, and a generator is dear."""

    __slots__ = ("_progress", "_token")

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def __enter__(self) -> None:
        self._token: Token[Progress | None] = _WATCHED.set(self._progress)

    def __exit__(self, *_: object) -> None:
        _WATCHED.reset(self._token)


def reported_to(progress: Progress) -> Reported:
    """What runs inside tells ``progress``, whatever agent runtime lies between it and the engine."""
    return Reported(progress)


def report(source: Callable[[], float | None]) -> None:
    """Called by an engine where a query starts: from here on ``source`` can tell how far it is."""
    progress = _WATCHED.get()
    if progress is not None:
        progress.follow(source)
