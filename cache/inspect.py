"""What an operator may see of a cache: plain dimensions, ages and sizes; no key is needed.

No scope, argument, principal or row is readable here, and what somebody else wrote into
the store is reported, never echoed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal

from cache.entry import EntryError, Header, read_header
from cache.partition import HIDDEN, parse_key
from cache.store import CacheStore, StoredEntry
from contract.scope import Sensitivity

MISS_REASONS: Final = ("absent", "expired", "too_old", "too_large", "integrity", "unavailable")


@dataclass(frozen=True, slots=True)
class EntryView:
    """One entry. Durations are seconds; sizes are bytes (of the result, and as stored).

    It is ``fresh`` for ``fresh_for_s``, and gone in ``expires_in_s``, which is later where it may
    be answered as STALE meanwhile.
    ``partition`` is the digest of the whole authorization scope, ``intent`` of the call.
    ``kid`` names the secret that sealed it. ``hits`` is ``None`` where the store does not count
    them. ``problem`` says why nothing else could be read.
    """

    key: str
    partition: str
    intent: str
    dimensions: Mapping[str, str] = field(default_factory=dict)
    template: str | None = None
    as_of: str | None = None
    age_s: float | None = None
    fresh_for_s: float | None = None
    expires_in_s: float | None = None
    size: int | None = None
    stored_bytes: int = 0
    hits: int | None = None
    kid: str | None = None
    problem: str | None = None

    @property
    def expired(self) -> bool:
        return self.expires_in_s is not None and self.expires_in_s <= 0

    @property
    def state(self) -> Literal["fresh", "stale", "expired"] | None:
        """``None`` where the header does not read."""
        if self.fresh_for_s is None:
            return None
        return "fresh" if self.fresh_for_s > 0 else "expired" if self.expired else "stale"

    @property
    def restricted(self) -> bool:
        """Of these nothing but their number may be shown."""
        return self.dimensions.get("sensitivity") == Sensitivity.RESTRICTED

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "state": self.state}


@dataclass(frozen=True, slots=True)
class Difference:
    """A dimension in which two entries differ; ``scope`` and ``intent`` are digests."""

    dimension: str
    left: str
    right: str


@dataclass(frozen=True, slots=True)
class CacheStats:
    """Totals of a store over all processes. ``hit_ratio`` is ``None`` before the first lookup.

    ``stale`` are those of ``hits`` that were past their time, ``refreshed`` and ``refresh_failed``
    what ran behind such answers.
    """

    kind: str
    entries: int
    bytes: int
    max_bytes: int | None
    hits: int
    stale: int
    misses: int
    kept: int
    refreshed: int
    refresh_failed: int
    miss_reasons: Mapping[str, int]

    @property
    def hit_ratio(self) -> float | None:
        lookups = self.hits + self.misses
        return self.hits / lookups if lookups else None

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "hit_ratio": self.hit_ratio}


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


def diff(
    left: EntryView, right: EntryView, parts: tuple[Mapping[str, str], Mapping[str, str]] = ({}, {})
) -> tuple[Difference, ...]:
    """The dimensions in which two entries differ.

    ``parts`` are what ``entry.sealed_parts`` tells of each, where both were sealed with one secret
    that is at hand: then tenant, rows, columns, masks and the like are named by themselves.
    Otherwise ``scope`` is named where the partitions differ and no plain dimension says why.
    """
    names = sorted({*left.dimensions, *right.dimensions})
    found = [Difference(name, left.dimensions.get(name, ""), right.dimensions.get(name, "")) for name in names]
    if left.template != right.template:
        found.append(Difference("template", left.template or "", right.template or ""))
    differing = [difference for difference in found if difference.left != difference.right]
    differing += _hidden(*parts)
    if left.partition != right.partition and not differing:
        differing.append(Difference("scope", left.partition, right.partition))
    if left.partition == right.partition and left.intent != right.intent and "arguments" not in parts[0]:
        differing.append(Difference("intent", left.intent, right.intent))
    return tuple(differing)


def _hidden(left: Mapping[str, str], right: Mapping[str, str]) -> list[Difference]:
    """Parts of the scope in which both differ, as digests; the template is a plain member already."""
    names = [name for name in (*HIDDEN, "arguments") if name in left and name in right and name != "template"]
    return [Difference(name, left[name], right[name]) for name in names if left[name] != right[name]]


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
        stale=raw.counters.get("stale", 0),
        misses=sum(reasons.values()),
        kept=raw.counters.get("kept", 0),
        refreshed=raw.counters.get("refreshed", 0),
        refresh_failed=raw.counters.get("refresh_failed", 0),
        miss_reasons=reasons,
    )


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
        fresh_for_s=header.exp - now,
        expires_in_s=header.end - now,
        size=header.size,
        stored_bytes=stored.stored_bytes,
        hits=stored.hits,
        kid=header.kid,
    )
