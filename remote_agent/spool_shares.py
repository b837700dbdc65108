"""Room that many share: who fills a part of it waits, and the others do not."""

from __future__ import annotations

from collections import Counter
from typing import Final

Owner = tuple[str, str, str, str]
"""Client agent, issuer, tenant, subject."""

_PARTS: Final = {0: 1, 1: 2, 4: 4}
"""Everybody has all of it, one client agent at most a half, one person who comes by it a quarter."""


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
        holders = [(owner[:length], self._bound(part)) for length, part in _PARTS.items()]
        if any(self._used[holder] + more > bound for holder, bound in holders):
            return False
        self._used.update({holder: more for holder, _ in holders})
        return True

    def give_back(self, owner: Owner, less: int) -> None:
        for length in _PARTS:
            holder = owner[:length]
            self._used[holder] -= less
            if not self._used[holder]:
                del self._used[holder]

    def _bound(self, part: int) -> int:
        return min(self.most, max(self._least, self.most // part))
