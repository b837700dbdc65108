"""The store of a cache that nothing was kept in yet: who looks finds nothing, and nothing is made by looking."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from cache.store import StoredEntry, StoreStats


class NoStore:
    """A ``CacheStore`` that holds nothing and keeps nothing."""

    def __init__(self, kind: str, max_bytes: int | None) -> None:
        self._stats = StoreStats(kind, 0, 0, max_bytes)

    async def get(self, key: str, *, now: float, peek: bool = False) -> bytes | None:
        return None

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
        return False

    async def delete(self, keys: Sequence[str]) -> int:
        return 0

    async def entries(self) -> AsyncIterator[StoredEntry]:
        for nothing in tuple[StoredEntry, ...]():
            yield nothing

    async def count(self, deltas: Mapping[str, int]) -> None:
        return

    async def lease(
        self, key: str, owner: str, *, life_s: float, now: float, mark: str | None = None, over: str | None = None
    ) -> bool:
        return True

    async def holder(self, key: str) -> str:
        return ""

    async def renew(self, key: str, owner: str, *, life_s: float, now: float, mark: str | None = None) -> bool:
        return True

    async def release(self, key: str, owner: str) -> bool:
        return True

    async def revoke(self, chosen: Callable[[str], bool]) -> int:
        return 0

    async def stats(self) -> StoreStats:
        return self._stats

    async def health(self) -> None:
        return

    async def close(self) -> None:
        return
