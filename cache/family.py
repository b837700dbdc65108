"""Which results of a family of calls are stored: one sealed list per partition and family.

A family is a capability's template with the arguments that are not to differ. The list holds
the other arguments of at most ``MOST_SOURCES`` stored results, so that after a miss one more
round trip tells which of them may hold the answer. It is no result and serves none: a list
that was lost, altered, copied or written over by somebody else only makes a miss.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import orjson

from cache.breaker import Breaker
from cache.encoding import encode
from cache.entry import EntryError, Header, open_sealed, seal, split
from cache.keys import CacheKeys
from cache.partition import Partition, family_key
from cache.store import SKEW_S, CacheStore, StoreUnavailable
from contract.result import Execution, Intent, ResultDocument

MOST_SOURCES: Final = 16
MOST_BYTES: Final = 4_096
"""Of one source's arguments as JSON: one that has more is answered from nowhere but its own key."""
INDEX: Final = "index/"
"""What the template in the header of a list begins with; a result's is a digest."""
_log = logging.getLogger("dataset_agent.cache")


@dataclass(frozen=True, slots=True)
class Family:
    """A call as one of its family: ``intent`` with all arguments, ``roles`` the names of those that may differ."""

    intent: Intent
    roles: frozenset[str]

    @property
    def fixed(self) -> Mapping[str, Any]:
        """The arguments that all calls of the family share."""
        return {name: value for name, value in self.intent.arguments.items() if name not in self.roles}

    @property
    def own(self) -> Mapping[str, Any]:
        """The arguments that tell this call from the others."""
        return {name: value for name, value in self.intent.arguments.items() if name in self.roles}


@dataclass(frozen=True, slots=True)
class Source:
    """A stored result: what it was asked with, canonically, and its number of rows. Times are POSIX seconds."""

    arguments: Mapping[str, Any]
    rows: int
    started: float
    exp: float


class Families:
    """The lists over one store, under the same keys and rules as entries."""

    def __init__(self, store: CacheStore, breaker: Breaker) -> None:
        self._store = store
        self._breaker = breaker

    async def sources(self, partition: Partition, family: Family, *, keys: CacheKeys, now: float) -> tuple[Source, ...]:
        """Those that have not expired, fewest rows first. No fault of the store leaves."""
        key = family_key(partition, family.intent, family.fixed, family.roles, keys=keys)
        return tuple(sorted(await self._read(key, partition, keys, now), key=lambda source: source.rows))

    async def add(
        self,
        partition: Partition,
        family: Family,
        kept: Header,
        document: ResultDocument,
        *,
        keys: CacheKeys,
        now: float,
    ) -> None:
        """List what was stored under the header ``kept``.

        Two who list at once may forget one another's: that is a miss later, and nothing else.
        """
        source = Source(family.own, document.row_count, kept.started, kept.exp)
        if len(orjson.dumps(dict(source.arguments))) > MOST_BYTES:
            return
        key = family_key(partition, family.intent, family.fixed, family.roles, keys=keys)
        own = encode(source.arguments)
        others = [held for held in await self._read(key, partition, keys, now) if encode(held.arguments) != own]
        newest = sorted([source, *others], key=lambda held: held.exp, reverse=True)[:MOST_SOURCES]
        try:
            entry = _sealed(newest, kept, key, partition, keys)
            exp = max(held.exp for held in newest)
            await self._breaker.call(lambda: self._store.put(key, entry, exp=exp, now=now))
        except (EntryError, StoreUnavailable) as error:
            _log.warning("a result cannot be found by narrower calls: %s", error)

    async def _read(self, key: str, partition: Partition, keys: CacheKeys, now: float) -> list[Source]:
        try:
            entry = await self._breaker.call(lambda: self._store.get(key, now=now))
            return [] if entry is None else _opened(entry, key, partition, keys, now)
        except StoreUnavailable as error:
            _log.warning("cache lookup failed: %s", error)
        except EntryError as error:
            _log.error("cache entry %s failed its integrity check: %s", partition.named(key), error)
        return []


def _sealed(sources: Sequence[Source], kept: Header, key: str, partition: Partition, keys: CacheKeys) -> bytes:
    """An entry like any other, so that whoever inspects, verifies or purges a cache needs to know no second kind."""
    body = orjson.dumps([[dict(held.arguments), held.rows, held.started, held.exp] for held in sources])
    started = min(held.started for held in sources)
    header = Header(
        dimensions=kept.dimensions,
        template=INDEX + kept.template[:32],
        as_of=kept.as_of,
        started=started,
        exp=max(held.exp for held in sources),
        size=len(body),
    )
    document = ResultDocument(body, len(sources), truncated=False, as_of=kept.as_of)
    nothing_ran = Execution("none", "none", None, "LOCAL", started, started)
    return seal(header, document, nothing_ran, key=key, partition_id=partition.id, keys=keys)


def _opened(entry: bytes, key: str, partition: Partition, keys: CacheKeys, now: float) -> list[Source]:
    """The sources that may still be served. Raises ``EntryError``."""
    _, end = split(entry)
    document, _ = open_sealed(entry, end, key=key, partition_id=partition.id, keys=keys)
    listed = [
        Source(MappingProxyType(arguments), rows, started, exp)
        for arguments, rows, started, exp in orjson.loads(document.body)
    ]
    return [source for source in listed if source.started <= now + SKEW_S and now < source.exp]
