"""What an operator may see of a cache: plain dimensions, ages and sizes; no key is needed.

No scope, argument, principal or row is readable here, and what somebody else wrote into
the store is reported, never echoed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from cache.entry import EntryError, Header, open_sealed, read_header, split
from cache.keys import CacheKeys
from cache.partition import parse_key
from cache.store import CacheStore, StoredEntry

MISS_REASONS: Final = ("absent", "expired", "stale", "integrity", "unavailable")


@dataclass(frozen=True, slots=True)
class EntryView:
    """One entry. Durations are seconds; sizes are bytes (of the result, and as stored).

    ``partition`` is the digest of the whole authorization scope, ``intent`` of the call.
    ``problem`` says why nothing else could be read.
    """

    key: str
    partition: str
    intent: str
    dimensions: Mapping[str, str] = field(default_factory=dict)
    template: str | None = None
    as_of: str | None = None
    age_s: float | None = None
    expires_in_s: float | None = None
    size: int | None = None
    stored_bytes: int = 0
    hits: int | None = None
    problem: str | None = None

    @property
    def expired(self) -> bool:
        return self.expires_in_s is not None and self.expires_in_s <= 0

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Difference:
    """A dimension in which two entries differ; ``scope`` and ``intent`` are digests."""

    dimension: str
    left: str
    right: str


@dataclass(frozen=True, slots=True)
class CacheStats:
    """Totals of a store over all processes. ``hit_ratio`` is ``None`` before the first lookup."""

    kind: str
    entries: int
    bytes: int
    max_bytes: int | None
    hits: int
    misses: int
    kept: int
    miss_reasons: Mapping[str, int]

    @property
    def hit_ratio(self) -> float | None:
        lookups = self.hits + self.misses
        return self.hits / lookups if lookups else None

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "hit_ratio": self.hit_ratio}


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """How many entries were opened, and the keys of those that do not open."""

    checked: int
    damaged: tuple[str, ...]


async def entries(store: CacheStore, *, now: float, limit: int | None = None) -> list[EntryView]:
    """Entries by key, ``limit`` at most. Raises ``StoreUnavailable``."""
    found: list[EntryView] = []
    async for stored in store.entries():
        if limit is not None and len(found) >= limit:
            break
        found.append(view(stored, now=now))
    return sorted(found, key=lambda entry: entry.key)


async def show(store: CacheStore, key: str, *, now: float) -> EntryView | None:
    """The entry of a key, or of the only key that ends with ``key``; ``None`` where there is none."""
    matches = [stored async for stored in store.entries() if stored.key == key or stored.key.endswith(key)]
    exact = [stored for stored in matches if stored.key == key] or matches
    return view(exact[0], now=now) if len(exact) == 1 else None


def diff(left: EntryView, right: EntryView) -> tuple[Difference, ...]:
    """The dimensions in which two entries differ.

    ``scope`` is named where the partitions differ and no plain dimension says why:
    tenant, rows, columns, masks or, for restricted capabilities, the subject.
    """
    names = sorted({*left.dimensions, *right.dimensions})
    found = [Difference(name, left.dimensions.get(name, ""), right.dimensions.get(name, "")) for name in names]
    if left.template != right.template:
        found.append(Difference("template", left.template or "", right.template or ""))
    differing = [difference for difference in found if difference.left != difference.right]
    if left.partition != right.partition and not differing:
        differing.append(Difference("scope", left.partition, right.partition))
    if left.partition == right.partition and left.intent != right.intent:
        differing.append(Difference("intent", left.intent, right.intent))
    return tuple(differing)


async def stats(store: CacheStore) -> CacheStats:
    """Entries, bytes and the counters of all processes. Raises ``StoreUnavailable``."""
    raw = await store.stats()
    reasons = {reason: raw.counters.get(reason, 0) for reason in MISS_REASONS}
    return CacheStats(
        kind=raw.kind,
        entries=raw.entries,
        bytes=raw.bytes,
        max_bytes=raw.max_bytes,
        hits=raw.counters.get("hit", 0),
        misses=sum(reasons.values()),
        kept=raw.counters.get("kept", 0),
        miss_reasons=reasons,
    )


async def purge(store: CacheStore, **dimensions: str) -> int:
    """Remove entries whose plain dimensions equal those given, all without any; how many."""
    doomed: list[str] = []
    async for stored in store.entries():
        parts = view(stored, now=0.0).dimensions
        if all(parts.get(name) == value for name, value in dimensions.items()):
            doomed.append(stored.key)
    removed = 0
    for start in range(0, len(doomed), 500):
        removed += await store.delete(doomed[start : start + 500])
    return removed


async def verify(store: CacheStore, keys: CacheKeys, *, now: float) -> VerifyReport:
    """Open every entry with the cache's secret. Raises ``StoreUnavailable``."""
    checked = 0
    damaged: list[str] = []
    async for stored in store.entries():
        parts = parse_key(stored.key)
        entry = None if parts is None else await store.get(stored.key, now=now)
        if entry is None and parts is not None and stored.head:
            continue  # it went away since it was listed
        checked += 1
        if parts is None or entry is None or not _opens(entry, stored.key, parts.partition_id, keys):
            damaged.append(printable(stored.key))
    return VerifyReport(checked, tuple(sorted(damaged)))


def view(stored: StoredEntry, *, now: float) -> EntryView:
    """One stored entry as it may be shown."""
    parts = parse_key(stored.key)
    if parts is None:
        problem = "the key is not one this cache makes"
        return EntryView(printable(stored.key), "", "", stored_bytes=stored.stored_bytes, problem=problem)
    try:
        header = read_header(stored.head, key=stored.key)
    except EntryError as error:
        return EntryView(
            stored.key,
            parts.partition_id,
            parts.intent_id,
            dimensions=dict(parts.dimensions),
            stored_bytes=stored.stored_bytes,
            problem=str(error),
        )
    return _view(stored, header, parts.partition_id, parts.intent_id, now)


def printable(key: str) -> str:
    """A key this cache made as it is; of any other, only its length."""
    return key if parse_key(key) is not None else f"(foreign key, {len(key)} characters)"


def _view(stored: StoredEntry, header: Header, partition_id: str, intent_id: str, now: float) -> EntryView:
    return EntryView(
        key=stored.key,
        partition=partition_id,
        intent=intent_id,
        dimensions=dict(header.dimensions),
        template=header.template,
        as_of=header.as_of,
        age_s=max(0.0, now - header.started),
        expires_in_s=header.exp - now,
        size=header.size,
        stored_bytes=stored.stored_bytes,
        hits=stored.hits,
    )


def _opens(entry: bytes, key: str, partition_id: str, keys: CacheKeys) -> bool:
    try:
        _, end = split(entry)
        open_sealed(entry, end, key=key, partition_id=partition_id, keys=keys)
    except EntryError:
        return False
    return True
