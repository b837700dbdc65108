"""Room that many share: who fills a part of it waits, and the others do not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final, Protocol

from remote_agent.owners import Owner

_PARTS: Final = {0: 1, 1: 2, 4: 4}
"""Everybody has all of it, one client agent at most a half, one person who comes by it a quarter."""


class Room(Protocol):
    """What of one thing is taken, and by whom."""

    @property
    def used(self) -> int:
        """By everybody, in this process."""
        ...

    def take(self, owner: Owner, more: int) -> bool:
        """Count ``more`` for ``owner``, or nothing where that is more than its part or than there is."""
        ...

    def give_back(self, owner: Owner, less: int) -> None: ...


MakeRoom = Callable[[str, int, int], Room]
"""For the thing of this name: how much there is, and what a part is at least."""


def holders_of(owner: Owner) -> dict[tuple[str, ...], int]:
    """For whom something of this owner's counts, and the part that each has of all."""
    return {owner[:length]: part for length, part in _PARTS.items()}


def bound_of(most: int, least: int, part: int) -> int:
    return min(most, max(least, most // part))


class Shares:
    """So much of one thing as ``most``. A part is never less than ``least``, so that one of the largest fits alone.

    Not for two threads at a time.
    """

    def __init__(self, most: int, *, least: int = 1) -> None:
        self.most = most
        self._least = least
        self._used: Counter[tuple[str, ...]] = Counter()

    @property
    def used(self) -> int:
        """By everybody."""
        return self._used[()]

    def take(self, owner: Owner, more: int) -> bool:
        """Count ``more`` for ``owner``, or nothing where that is more than its part or than there is."""
        holders = [(holder, self._bound(part)) for holder, part in holders_of(owner).items()]
        if any(self._used[holder] + more > bound for holder, bound in holders):
            return False
        self._used.update({holder: more for holder, _ in holders})
        return True

    def give_back(self, owner: Owner, less: int) -> None:
        for holder in holders_of(owner):
            self._used[holder] -= less
            if not self._used[holder]:
                del self._used[holder]

    def _bound(self, part: int) -> int:
        return bound_of(self.most, self._least, part)


def own_room(_: str, most: int, least: int) -> Shares:
    """Of one process alone."""
    return Shares(most, least=least)
