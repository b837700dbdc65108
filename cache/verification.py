"""Opening every entry with the keys at hand, and removing entries that an operator chose.

What does not open is told apart: *damaged* was sealed with a secret that is at hand and was cut,
edited or moved since; *other secret* may be whole, and cannot be judged here; *foreign* is nothing
that this cache made.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

from cache.entry import MAGIC, EntryError, open_sealed, read_header, split
from cache.inspect import AtHand, EntryView, Known, Withheld, told
from cache.keys import CacheKeys
from cache.partition import parse_key
from cache.selection import Selection
from cache.store import CacheStore, StoredEntry

Tell = Callable[[int], None]
"""Told how many entries have been looked at."""
_BATCH: Final = 500
_MOST_NAMED: Final = 1_000
_MOST_WALKS: Final = 3
"""After the first: each is over what is left of what was made meanwhile."""


class State(StrEnum):
    """What opening an entry showed."""

    OPENED = "opened"
    DAMAGED = "damaged"
    """Its header does not read, or it does not open with the secret that it names."""
    OTHER_SECRET = "other_secret"  # noqa: S105 - a word
    """It names a secret that is not at hand."""
    FOREIGN = "foreign"
    """It is no entry of this cache."""


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """How many entries there are of each state. ``opened`` and ``other_secret`` count by the kid of the secret.

    ``damaged`` and ``foreign`` name up to a thousand each, as ``inspect.told`` does: where the header is not
    proven, and of restricted capabilities, by no more than dataset and capability.
    """

    checked: int
    opened: Mapping[str, int]
    other_secret: Mapping[str, int]
    damaged: tuple[str, ...]
    foreign: tuple[str, ...]
    counts: Mapping[State, int]

    def to_json(self) -> dict[str, Any]:
        return {
            "checked": self.checked,
            "opened": dict(self.opened),
            "other_secret": dict(self.other_secret),
            "damaged": self.counts.get(State.DAMAGED, 0),
            "foreign": self.counts.get(State.FOREIGN, 0),
            "damaged_keys": list(self.damaged),
            "foreign_keys": list(self.foreign),
        }


async def verify(
    store: CacheStore,
    *keys: CacheKeys,
    now: float,
    known: Known = MappingProxyType({}),
    tell: Tell | None = None,
) -> VerifyReport:
    """Open every entry; no row is handed out. Raises ``StoreUnavailable``."""
    at_hand = AtHand.of(keys, known)
    counts: Counter[State] = Counter()
    kids: dict[State, Counter[str]] = {State.OPENED: Counter(), State.OTHER_SECRET: Counter()}
    named: dict[State, list[str]] = {State.DAMAGED: [], State.FOREIGN: []}
    checked = 0
    async for stored in store.entries():
        found = await judge(store, stored, at_hand.keys, now=now)
        if found is None:
            continue
        state, kid = found
        checked += 1
        counts[state] += 1
        if state in kids:
            kids[state][kid] += 1
        elif len(named[state]) < _MOST_NAMED:
            named[state].append(_name(stored, at_hand, now))
        if tell is not None:
            tell(checked)
    return VerifyReport(
        checked,
        kids[State.OPENED],
        kids[State.OTHER_SECRET],
        tuple(sorted(named[State.DAMAGED])),
        tuple(sorted(named[State.FOREIGN])),
        counts,
    )


async def judge(
    store: CacheStore, stored: StoredEntry, keys: Mapping[str, CacheKeys], *, now: float
) -> tuple[State, str] | None:
    """The state of one entry and the kid in its header; ``None`` where it went away since it was listed."""
    parts = parse_key(stored.key)
    if parts is None or not (stored.head.startswith(MAGIC) or MAGIC.startswith(stored.head[: len(MAGIC)] or b"-")):
        return State.FOREIGN, ""
    try:
        header = read_header(stored.head, key=stored.key)
    except EntryError:
        return State.DAMAGED, ""
    at_hand = keys.get(header.kid)
    if at_hand is None:
        return State.OTHER_SECRET, header.kid
    entry = await store.get(stored.key, now=now)
    await asyncio.sleep(0)  # a file is read and opened in the loop's thread: others get their turn
    if entry is None:
        return None
    return (State.OPENED if _opens(entry, stored.key, parts.partition_id, at_hand) else State.DAMAGED), header.kid


@dataclass(frozen=True, slots=True)
class Purged:
    """How many entries were chosen, and how many of them were removed: none in a dry run.

    Of restricted capabilities these are results. ``touched`` says that a walk removed anything, counted or not.
    """

    matched: int
    removed: int
    touched: bool = field(default=False, compare=False)


async def purge(
    store: CacheStore,
    chosen: Selection,
    at_hand: AtHand,
    *,
    now: float,
    damaged_by: Mapping[str, CacheKeys] | None = None,
    dry_run: bool = False,
    tell: Tell | None = None,
) -> Purged:
    """Remove the entries that were chosen; with ``damaged_by``, of those only what is damaged or foreign to these keys.

    Else what calls that are under way would store of them is not stored either: their leases are taken away first,
    and what is made of a stored result lands only while that one stands. What lands meanwhile is counted too.

    Restricted ones are chosen by dataset and capability alone: by whatever else is asked for, all of these
    go, for a number would tell which have it; and none as expired, or as one that does not read.
    Raises ``StoreUnavailable``: what was removed until then stays so.
    """
    if dry_run or damaged_by is not None:
        return await _walked(store, chosen, at_hand, now=now, damaged_by=damaged_by, dry_run=dry_run, tell=tell)
    await store.revoke(chosen.may_take)
    found = last = await _walked(store, chosen, at_hand, now=now, tell=tell)
    for _ in range(_MOST_WALKS):
        if not last.touched:
            break
        # What was made of an entry before it went may lie where the walk had been.
        last = await _walked(store, chosen, at_hand, now=now)
        found = Purged(found.matched + last.removed, found.removed + last.removed)
    return found


async def _walked(
    store: CacheStore,
    chosen: Selection,
    at_hand: AtHand,
    *,
    now: float,
    damaged_by: Mapping[str, CacheKeys] | None = None,
    dry_run: bool = False,
    tell: Tell | None = None,
) -> Purged:
    """As ``purge``, in one walk over the store."""
    matched = removed = looked = 0
    touched = False
    doomed, uncounted = list[str](), list[str]()
    async for stored in store.entries():
        looked += 1
        if tell is not None:
            tell(looked)
        entry = told(stored, at_hand, now=now)
        if not _is_meant(chosen, entry):
            continue
        if damaged_by is not None:
            found = await judge(store, stored, damaged_by, now=now)
            if found is None or found[0] not in (State.DAMAGED, State.FOREIGN):
                continue
        counted = not isinstance(entry, Withheld) or entry.is_result
        matched += counted
        if not dry_run:
            touched = True
            (doomed if counted else uncounted).append(stored.key)
        if len(doomed) + len(uncounted) >= _BATCH:
            removed += await _deleted(store, doomed, uncounted)
    return Purged(matched, removed + await _deleted(store, doomed, uncounted), touched)


def _is_meant(chosen: Selection, entry: EntryView | Withheld) -> bool:
    if isinstance(entry, Withheld):
        return chosen.takes_withheld(entry) and not chosen.expired and not chosen.problem
    return chosen.takes(entry)


async def _deleted(store: CacheStore, counted: list[str], uncounted: list[str]) -> int:
    """How many of ``counted`` there were; both are empty afterwards."""
    if uncounted:
        await store.delete(uncounted)
    number = await store.delete(counted) if counted else 0
    counted.clear()
    uncounted.clear()
    return number


def _name(stored: StoredEntry, at_hand: AtHand, now: float) -> str:
    entry = told(stored, at_hand, now=now)
    if isinstance(entry, Withheld):
        return f"(an entry of {entry.dataset} {entry.capability}, which is restricted)"
    return entry.key


def _opens(entry: bytes, key: str, partition_id: str, keys: CacheKeys) -> bool:
    try:
        _, end = split(entry)
        open_sealed(entry, end, key=key, partition_id=partition_id, keys=keys)
    except EntryError:
        return False
    return True
