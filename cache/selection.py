"""Which entries an operator means: by plain dimensions, age and state. What is listed and what is purged is chosen alike."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from cache.inspect import AtHand, EntryView, Withheld, told
from cache.partition import parse_key, plain
from cache.store import CacheStore

CHOSEN_BY: Final = {
    "dataset": "dataset",
    "capability": "capability",
    "class": "principal_class",
    "freshness": "freshness",
    "revision": "revision",
}
"""Words of an operator, and the dimension each is compared with."""
MAX_LISTED: Final = 1_000


class Sort(StrEnum):
    """In which order entries are listed: the oldest, largest, most used first, or those that end soonest."""

    KEY = "key"
    AGE = "age"
    SIZE = "size"
    HITS = "hits"
    EXPIRES = "expires"


@dataclass(frozen=True, slots=True)
class Selection:
    """All of what is given must hold. ``dimensions`` has words of ``CHOSEN_BY``.

    ``policy`` is the policy's version, its id, or ``id@version``. ``secret`` is the kid of the secret that
    sealed it, or ``current``, ``earlier`` or ``other`` (not at hand). ``older_than_s`` counts from when
    the execution began. ``problem`` are entries whose plain half does not read.
    """

    dimensions: Mapping[str, str] = field(default_factory=dict)
    policy: str | None = None
    secret: str | None = None
    older_than_s: float | None = None
    expired: bool = False
    problem: bool = False

    def takes(self, entry: EntryView) -> bool:
        held = entry.dimensions
        return (
            all(held.get(CHOSEN_BY[word]) == plain(value) for word, value in self.dimensions.items())
            and (self.policy is None or plain_policy(self.policy, held))
            and (self.secret is None or self.secret in (entry.kid, entry.secret))
            and (self.older_than_s is None or (entry.age_s is not None and entry.age_s > self.older_than_s))
            and (not self.expired or entry.expired)
            and (not self.problem or entry.problem is not None)
        )

    def may_take(self, key: str) -> bool:
        """Whether it would take what a call that is under way may store at ``key``: of a key that tells less, it may."""
        if self.expired or self.problem:
            return False
        parts = parse_key(key)
        held = {} if parts is None else parts.dimensions
        _, at, version = (self.policy or "").rpartition("@")
        return all(
            held.get(CHOSEN_BY[word], plain(value)) == plain(value) for word, value in self.dimensions.items()
        ) and (not at or held.get("policy_version", plain(version)) == plain(version))

    def takes_withheld(self, entry: Withheld) -> bool:
        """Of a restricted entry only dataset and capability are compared: whatever else was would be told by the number."""
        place = {"dataset": entry.dataset, "capability": entry.capability}
        return all(plain(self.dimensions[word]) == held for word, held in place.items() if word in self.dimensions)

    @property
    def is_everything(self) -> bool:
        return self == Selection()

    def told(self) -> str:
        """For a log line: what was chosen by, and no value that is not a plain dimension."""
        parts = [f"{word}={plain(value)}" for word, value in sorted(self.dimensions.items())]
        parts += [f"policy={'@'.join(plain(part) for part in self.policy.split('@'))}"] if self.policy else []
        parts += [f"secret={plain(self.secret)}"] if self.secret else []
        parts += [f"older_than={self.older_than_s:.0f}s"] if self.older_than_s is not None else []
        parts += [word for word in ("expired", "problem") if getattr(self, word)]
        return " ".join(parts) or "everything"


def plain_policy(policy: str, held: Mapping[str, str]) -> bool:
    """Whether the dimensions are of this policy: a version, an id, or ``id@version``."""
    name, at, version = policy.rpartition("@")
    if at:
        return (held.get("policy_id"), held.get("policy_version")) == (plain(name), plain(version))
    return plain(policy) in (held.get("policy_version"), held.get("policy_id"))


@dataclass(frozen=True, slots=True)
class Listing:
    """``entries`` are the first of ``matched``.

    Of restricted capabilities there are only numbers of results, by (dataset, capability).
    """

    entries: tuple[EntryView, ...]
    matched: int
    restricted: Mapping[tuple[str, str], int]

    def to_json(self) -> dict[str, Any]:
        counts = [
            {"dataset": dataset, "capability": capability, "entries": number}
            for (dataset, capability), number in sorted(self.restricted.items())
        ]
        entries = [entry.to_json() for entry in self.entries]
        return {"entries": entries, "matched": self.matched, "restricted": counts}


async def listing(
    store: CacheStore, chosen: Selection, at_hand: AtHand, *, now: float, sort: Sort, limit: int
) -> Listing:
    """The first ``limit`` entries in an order, in memory for no more than twice as many. Raises ``StoreUnavailable``."""
    rank, held, matched = _RANKS[sort], list[EntryView](), 0
    restricted: Counter[tuple[str, str]] = Counter()
    async for stored in store.entries():
        entry = told(stored, at_hand, now=now)
        if isinstance(entry, Withheld):
            if entry.is_result and chosen.takes_withheld(entry):
                restricted[entry.dataset, entry.capability] += 1
            continue
        if not chosen.takes(entry):
            continue
        matched += 1
        held.append(entry)
        if len(held) >= 2 * limit:
            held = heapq.nsmallest(limit, held, key=rank)
    return Listing(tuple(heapq.nsmallest(limit, held, key=rank)), matched, restricted)


async def one_of(store: CacheStore, end: str, at_hand: AtHand, *, now: float) -> tuple[EntryView | None, int]:
    """The entry of a key, or of the only key that ends with ``end``; and how many there are that end so.

    Those of restricted capabilities, and what is only mentioned, are not there. Raises ``StoreUnavailable``.
    """
    found, number = None, 0
    async for stored in store.entries():
        if not end or not stored.key.endswith(end):
            continue
        entry = told(stored, at_hand, now=now)
        if isinstance(entry, Withheld) or not entry.is_named:
            continue
        if stored.key == end:
            return entry, 1
        found, number = entry, number + 1
    return (found if number == 1 else None), number


def _first(value: Callable[[EntryView], float | int | None]) -> Callable[[EntryView], tuple[Any, ...]]:
    """The greatest value first, what is not known last, equals by key."""

    def rank(entry: EntryView) -> tuple[Any, ...]:
        known = value(entry)
        return (known is None, -(known or 0), entry.key)

    return rank


_RANKS: Final[Mapping[Sort, Callable[[EntryView], tuple[Any, ...]]]] = {
    Sort.KEY: lambda entry: (entry.key,),
    Sort.AGE: _first(lambda entry: entry.age_s),
    Sort.SIZE: _first(lambda entry: entry.size),
    Sort.HITS: _first(lambda entry: entry.hits),
    Sort.EXPIRES: _first(lambda entry: None if entry.expires_in_s is None else -entry.expires_in_s),
}
