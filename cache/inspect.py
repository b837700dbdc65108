"""What an operator may see of a cache: plain dimensions, ages and sizes; no key is needed.

No scope, argument, principal or row is readable here, and what somebody else wrote into
the store is reported, never echoed. Of restricted capabilities there are only numbers, and what
is not proven to be of another one is no more than mentioned (``told``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from cache.entry import EntryError, Header, is_proven, read_header
from cache.family import INDEX
from cache.found import MISS_REASONS
from cache.keys import CacheKeys
from cache.partition import HIDDEN, parse_key
from cache.store import CacheStore, StoredEntry
from contract.scope import Sensitivity


@dataclass(frozen=True, slots=True)
class EntryView:
    """One entry. Durations are seconds; sizes are bytes (of the result, and as stored).

    It is ``fresh`` for ``fresh_for_s``, and gone in ``expires_in_s``, which is later where it may
    be answered as STALE meanwhile.
    ``partition`` is the digest of the whole authorization scope, ``intent`` of the call.
    ``kid`` names the secret that sealed it, and ``secret`` says whether it is the ``current`` one, an
    ``earlier`` one, which no call finds any more, or ``other``: not at hand. ``hits`` is ``None`` where the store
    does not count them. ``problem`` says why nothing else could be read.
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
    secret: Literal["current", "earlier", "other"] | None = None
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
    def is_named(self) -> bool:
        """Whether ``key`` is its key, and no mention that stands for it."""
        return self.partition != ""

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
    """Totals of a store over all processes, without restricted capabilities: of these ``restricted`` counts results.

    ``bytes`` is without what is only mentioned. ``hit_ratio`` is ``None`` before the first lookup.

    ``stale`` are those of ``hits`` that were past their time, ``derived`` those that were computed from another
    entry, ``refreshed`` and ``refresh_failed``
    what ran behind such answers.
    """

    kind: str
    entries: int
    bytes: int
    restricted: int
    max_bytes: int | None
    hits: int
    stale: int
    derived: int
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


class Withheld(NamedTuple):
    """An entry of a restricted capability: there is one, and nothing else of it is told.

    Where it is no result (``cache.family``) not even that.
    """

    dataset: str
    capability: str
    is_result: bool


Known = Mapping[tuple[str, str], Sensitivity]
"""How sensitive capabilities are as their descriptors here say, by (dataset, capability) as in a key."""


@dataclass(frozen=True, slots=True)
class AtHand:
    """What is at hand to judge what may be shown: secrets by their kid, the current one first, and descriptors."""

    keys: Mapping[str, CacheKeys] = field(default_factory=dict)
    known: Known = field(default_factory=dict)

    @classmethod
    def of(cls, keys: Iterable[CacheKeys], known: Known = MappingProxyType({})) -> AtHand:
        return cls({one.kid: one for one in keys}, known)

    def secret(self, kid: str) -> Literal["current", "earlier", "other"]:
        """What the secret of this kid is here."""
        if kid not in self.keys:
            return "other"
        return "current" if kid == next(iter(self.keys)) else "earlier"


def told(stored: StoredEntry, at_hand: AtHand, *, now: float) -> EntryView | Withheld:
    """What an operator may be told of one entry.

    It is withheld where the descriptor, or a header that is proven, says that it is restricted. It
    is shown where a proven header says that it is not; where its secret is not at hand, where
    descriptor and header both do. Of everything else there is a mention without any digest, so
    that who writes to the store can neither show nor hide an entry.
    """
    parts = parse_key(stored.key)
    if parts is None:
        problem = "the key is not one this cache makes"
        return EntryView(printable(stored.key), "", "", stored_bytes=stored.stored_bytes, problem=problem)
    place = parts.dimensions["dataset"], parts.dimensions["capability"]
    try:
        header = read_header(stored.head, key=stored.key)
    except EntryError as error:
        return _mention(place, str(error))
    keys, known = at_hand.keys.get(header.kid), at_hand.known.get(place)
    if keys is not None and not is_proven(header, key=stored.key, keys=keys):
        return _mention(place, "the header is not as it was sealed")
    says_restricted = header.dimensions["sensitivity"] == Sensitivity.RESTRICTED
    if known is Sensitivity.RESTRICTED or (keys is not None and says_restricted):
        return Withheld(*place, is_result=not header.template.startswith(INDEX))
    if keys is None and (known is None or says_restricted):
        return _mention(place, "nothing here proves what it is: neither its secret nor its capability is known")
    view = _view(stored, header, parts.partition_id, parts.intent_id, now)
    return replace(view, secret=at_hand.secret(header.kid))


def _mention(place: tuple[str, str], problem: str) -> EntryView:
    dataset, capability = place
    held = {"dataset": dataset, "capability": capability}
    return EntryView(f"(an entry of {dataset} {capability})", "", "", dimensions=held, problem=problem)


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


async def stats(store: CacheStore, at_hand: AtHand, *, now: float) -> CacheStats:
    """Entries, bytes and the counters of all processes. Raises ``StoreUnavailable``."""
    raw = await store.stats()
    entries = size = restricted = 0
    async for stored in store.entries():
        entry = told(stored, at_hand, now=now)
        if isinstance(entry, Withheld):
            restricted += entry.is_result
            continue
        entries += 1
        size += entry.stored_bytes
    reasons = {reason: raw.counters.get(reason, 0) for reason in MISS_REASONS}
    return CacheStats(
        kind=raw.kind,
        entries=entries,
        bytes=size,
        restricted=restricted,
        max_bytes=raw.max_bytes,
        hits=raw.counters.get("hit", 0),
        stale=raw.counters.get("stale", 0),
        derived=raw.counters.get("derived", 0),
        misses=sum(reasons.values()),
        kept=raw.counters.get("kept", 0),
        refreshed=raw.counters.get("refreshed", 0),
        refresh_failed=raw.counters.get("refresh_failed", 0),
        miss_reasons=reasons,
    )


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
