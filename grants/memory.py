"""What is remembered between calls: bounded, by what was written, and only after a signature held.

Nothing in here is a decision. Whoever looks something up judges it again: whether its key
is trusted, whether it has expired, whom it is for, whether it was revoked.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Bounded(Generic[K, V]):
    """At most ``size`` values by key; the oldest makes room. Threads may share one."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._kept: dict[K, V] = {}
        self._lock = Lock()

    def get(self, key: K) -> V | None:
        return self._kept.get(key)

    def __contains__(self, key: K) -> bool:
        return key in self._kept

    def keep(self, key: K, value: V) -> None:
        with self._lock:
            if len(self._kept) >= self._size and key not in self._kept:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = value

    def __len__(self) -> int:
        return len(self._kept)


class Remembered(Generic[V]):
    """Tokens that were verified, by the digest of their text, until they expire; bounded.

    Only a token whose signature held is put here, so a stranger cannot fill it. The value
    names the key, so that its user asks again whether that key is trusted; time, issuer
    and audience are judged again at every use too.
    """

    def __init__(self, size: int) -> None:
        self._kept: Bounded[bytes, tuple[float, V]] = Bounded(size)

    @staticmethod
    def name(token: str) -> bytes:
        """What a token is found by: every bit of its text counts, those of its signature too."""
        return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()

    def find(self, name: bytes, now: float) -> V | None:
        kept = self._kept.get(name)
        return kept[1] if kept is not None and now < kept[0] else None

    def keep(self, name: bytes, value: V, *, until: float) -> None:
        self._kept.keep(name, (until, value))

    def __len__(self) -> int:
        return len(self._kept)
