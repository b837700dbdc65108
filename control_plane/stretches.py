"""Stretches of a text, asked which of them overlap another, without a look at all of them for each."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Generic, Protocol, TypeVar


class Stretch(Protocol):
    """From ``start`` until before ``end``, in characters."""

    @property
    def start(self) -> int: ...

    @property
    def end(self) -> int: ...


S = TypeVar("S", bound=Stretch)


class Stretches(Generic[S]):
    """Held by where they begin, each with how far it and those before it reach."""

    def __init__(self, held: Iterable[S]) -> None:
        self._held = sorted(held, key=lambda one: one.start)
        self._starts = [one.start for one in self._held]
        self._reach = list(accumulate((one.end for one in self._held), max))

    def over(self, start: int, end: int) -> Iterator[S]:
        """Those that overlap the stretch from ``start`` until before ``end``, the last one first."""
        at = bisect_left(self._starts, end) - 1
        while at >= 0 and self._reach[at] > start:
            if self._held[at].end > start:
                yield self._held[at]
            at -= 1
