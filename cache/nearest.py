"""What is stored that comes nearest to a call, and in which parts of its key each differs from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from heapq import nsmallest
from types import MappingProxyType
from typing import Final

from cache.entry import EntryError, sealed_parts, split
from cache.family import INDEX
from cache.inspect import AtHand, EntryView, Withheld, told
from cache.keys import CacheKeys
from cache.partition import parse_key
from cache.store import CacheStore
from contract.scope import Sensitivity

SHOWN: Final = 3
_OPENED: Final = 16
Parts = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Sought:
    """A call's key in parts: plain ``dimensions``, and digests of the rest under each secret at hand."""

    dataset: str
    capability: str
    key: str
    kid: str
    dimensions: Mapping[str, str]
    parts: Callable[[CacheKeys], Parts]


@dataclass(frozen=True, slots=True)
class Near:
    """An entry of the same capability, and where it differs: names of plain dimensions, of hidden parts, ``secret``.

    ``parts`` are the entry's digests; there are none where its secret is not at hand. ``scope`` stands
    for what cannot be told then.
    """

    entry: EntryView
    differs: tuple[str, ...]
    parts: Parts = field(default_factory=lambda: MappingProxyType({}))


async def nearest(store: CacheStore, sought: Sought, *keys: CacheKeys, now: float) -> tuple[Near, ...]:
    """The entries that differ in least, the nearest first; nothing of a restricted one. Raises ``StoreUnavailable``.

    What is sought is of a capability that is not restricted.
    """
    place = sought.dimensions["dataset"], sought.dimensions["capability"]
    at_hand = AtHand.of(keys, {place: Sensitivity.INTERNAL})
    held: list[EntryView] = []

    partition = sought.key.rpartition(":")[0]

    def distance(entry: EntryView) -> tuple[bool, int, bool, str]:
        plain = len(_plain(entry, sought)) + (entry.kid != sought.kid)
        return entry.key != sought.key, plain, entry.key.rpartition(":")[0] != partition, entry.key

    async for stored in store.entries():
        entry = told(stored, at_hand, now=now)
        if isinstance(entry, Withheld) or entry.problem is not None or (entry.template or "").startswith(INDEX):
            continue
        if (entry.dimensions["dataset"], entry.dimensions["capability"]) != place:
            continue
        held.append(entry)
        if len(held) >= 2 * _OPENED:
            held = nsmallest(_OPENED, held, key=distance)
    found = [
        await _compared(store, entry, sought, at_hand.keys, now) for entry in nsmallest(_OPENED, held, key=distance)
    ]
    return tuple(nsmallest(SHOWN, found, key=lambda near: (len(near.differs), near.entry.key)))


async def _compared(
    store: CacheStore, entry: EntryView, sought: Sought, keys: Mapping[str, CacheKeys], now: float
) -> Near:
    differs = list(_plain(entry, sought))
    if entry.kid != sought.kid:
        differs.append("secret")
    at_hand = keys.get(entry.kid or "")
    there = None if at_hand is None else await parts_of(store, entry, at_hand, now=now)
    if at_hand is None or there is None:
        return Near(entry, (*differs, "scope"))
    here = sought.parts(at_hand)
    differs += [name for name in here if there.get(name) != here[name]]
    return Near(entry, tuple(differs), there)


async def parts_of(store: CacheStore, entry: EntryView, keys: CacheKeys, *, now: float) -> Parts | None:
    """The digests that were sealed with an entry; ``None`` where it is gone or does not open."""
    parsed = parse_key(entry.key)
    sealed = None if parsed is None else await store.get(entry.key, now=now)
    if parsed is None or sealed is None:
        return None
    try:
        _, end = split(sealed)
        return sealed_parts(sealed, end, key=entry.key, partition_id=parsed.partition_id, keys=keys)
    except EntryError:
        return None


def _plain(entry: EntryView, sought: Sought) -> list[str]:
    return [name for name, value in sought.dimensions.items() if entry.dimensions.get(name) != value]
