"""Where processes meet that serve one agent: how much was taken of a rate, and who executes now.

Nothing in it is worth keeping: a store that lost everything lets a burst more through, and a
process that was killed holds its places until they end by themselves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Protocol

from quota.rate import Rate, Taken

BUDGET_S: Final = 1.0
"""Seconds that one answer of a store may take."""


class StoreUnavailable(Exception):
    """The store does not answer; ``str`` of it is safe to be logged."""


@dataclass(frozen=True, slots=True)
class Room:
    """Who executes, and how many of them at once at most."""

    key: str
    most: int


class QuotaStore(Protocol):
    """Keys are of ``key_of``. Every method raises ``StoreUnavailable``."""

    async def take(self, key: str, rate: Rate, wanted: int, *, now: float) -> Taken:
        """Up to ``wanted`` calls of a rate, in one step."""
        ...

    async def enter(self, rooms: Sequence[Room], holder: str, *, until: float, now: float) -> int | None:
        """A place in every room until then, or in none: ``None``, or the index of the first room that is full."""
        ...

    async def stay(self, rooms: Sequence[Room], holder: str, *, until: float) -> None:
        """Until then instead; nothing where the place has ended."""
        ...

    async def leave(self, rooms: Sequence[Room], holder: str) -> None: ...

    async def close(self) -> None: ...


@lru_cache(maxsize=4_096)
def key_of(kind: str, *identity: str) -> str:
    """A key that tells nobody's name: a digest over lengths and parts."""
    digest = hashlib.sha256(kind.encode())
    for part in identity:
        raw = part.encode("utf-8", "surrogatepass")
        digest.update(len(raw).to_bytes(8, "big") + raw)
    return digest.hexdigest()
