"""Where processes meet that serve one agent: how much was taken of a rate, and who executes now.

Nothing in it is worth keeping: a store that lost everything lets a burst more through, and a
process that was killed holds its places until they end by themselves.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Protocol

from quota.rate import Rate, Taken

_SECRET_BYTES: Final = 32
_INFO: Final = b"dataset-agent/quota/1"
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
    """Keys are of ``Names``. Every method raises ``StoreUnavailable``."""

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


class Names:
    """What callers are called in a store: nobody's name, and nobody's that could be tried out without the secret.

    Holds key material: never print, never pickle.
    """

    def __init__(self, secret: bytes) -> None:
        """From at least 32 bytes that all processes of the agent have; fewer raise ``ValueError``."""
        if len(secret) < _SECRET_BYTES:
            raise ValueError(f"callers are named under a secret of {_SECRET_BYTES} bytes or more")
        self._key = hmac.digest(secret, _INFO, hashlib.sha256)
        self.of = lru_cache(maxsize=4_096)(self._of)

    def _of(self, key: str) -> str:
        """Of a key of ``key_of``: 256 bits in hex of its HMAC-SHA256."""
        return hmac.digest(self._key, key.encode(), hashlib.sha256).hex()

    def __repr__(self) -> str:
        return "Names(…)"


@lru_cache(maxsize=4_096)
def key_of(kind: str, *identity: str) -> str:
    """A key of one process: a digest over lengths and parts, which no two identities share."""
    digest = hashlib.sha256(kind.encode())
    for part in identity:
        raw = part.encode("utf-8", "surrogatepass")
        digest.update(len(raw).to_bytes(8, "big") + raw)
    return digest.hexdigest()
