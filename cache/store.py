"""What a store must do. It sees sealed bytes, never a result.

A store raises ``StoreUnavailable`` for every fault of its own; the cache turns that into a
MISS. ``now`` and ``exp`` are POSIX seconds.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

MARK_CHARS: Final = 256
SKEW_S: Final = 5.0
"""By so much the clocks of two machines that share a store may differ."""


class StoreUnavailable(Exception):
    """The store cannot be reached in time, is damaged, or is full."""


class StoreSilent(StoreUnavailable):
    """It did not answer within its budget: whoever asks again waits as long again."""


class OutOfTime(StoreUnavailable):
    """The call has waited for the store as long as one call may; that tells nothing of the store."""


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """One stored entry for inspection: the bytes up to ``HEAD_BYTES`` and what the store knows.

    ``head`` is empty where ``get`` would not return the value, such as one that is not bytes. A key that is not UTF-8
    holds surrogates (PEP 383), so that it can be deleted. ``stored_bytes`` is what the entry takes; ``hits`` is
    ``None`` where the store does not count them.
    """

    key: str
    head: bytes
    stored_bytes: int
    hits: int | None


@dataclass(frozen=True, slots=True)
class StoreStats:
    """Totals over all processes. ``max_bytes`` is ``None`` where the server sets the bound."""

    kind: str
    entries: int
    bytes: int
    max_bytes: int | None
    counters: Mapping[str, int] = field(default_factory=dict)


class CacheStore(Protocol):
    """Keys to entries, shared by processes."""

    async def get(self, key: str, *, now: float, peek: bool = False) -> bytes | None:
        """The entry's bytes in one round trip. Reading never extends an entry's life; ``peek`` counts no use."""
        ...

    async def put(
        self,
        key: str,
        entry: bytes,
        *,
        exp: float,
        now: float,
        owner: str | None = None,
        over: str | None = None,
        beside: str | None = None,
    ) -> bool:
        """Store until ``exp``; whether it was stored (an entry may be too large to hold).

        With ``owner`` only while the lease on ``key`` is that one's, which is judged together
        with the write: who lost it, and so may come after a younger result, writes nothing. But
        where what stands there is ``over``, as ``holder`` told it, nobody holds it. With ``beside``, a key
        of the same partition, only while an entry stands there.
        """
        ...

    async def delete(self, keys: Sequence[str]) -> int:
        """Remove; how many there were."""
        ...

    def entries(self) -> AsyncIterator[StoredEntry]:
        """Every key of this cache, in no order. For inspection only: it walks the store."""
        ...

    async def count(self, deltas: Mapping[str, int]) -> None:
        """Add to the counters that all processes share."""
        ...

    async def lease(
        self, key: str, owner: str, *, life_s: float, now: float, mark: str | None = None, over: str | None = None
    ) -> bool:
        """Take or renew the lease on working for ``key``; ``False`` while another holds it.

        ``mark`` is what is written, ``owner`` itself or that with a dot and more behind it. One that
        does not end, or much later than ``life_s`` seconds from now, is not held, nor is one that
        is ``over``, as ``holder`` told it.
        """
        ...

    async def holder(self, key: str) -> str:
        """The mark of who holds the lease on ``key``, cut to ``MARK_CHARS``; empty where nobody does."""
        ...

    async def renew(self, key: str, owner: str, *, life_s: float, now: float, mark: str | None = None) -> bool:
        """Renew a lease that ``owner`` holds. One that was lost is not taken again: another may have worked since."""
        ...

    async def release(self, key: str, owner: str) -> bool:
        """Give a lease back; whether ``owner`` still held it."""
        ...

    async def revoke(self, chosen: Callable[[str], bool]) -> int:
        """Take away the leases on the keys that are ``chosen``, from whoever holds them; how many.

        Who worked under one writes nothing any more.
        """
        ...

    async def stats(self) -> StoreStats: ...

    async def health(self) -> None:
        """Raises ``StoreUnavailable`` with a line that says what is wrong."""
        ...

    async def close(self) -> None: ...
