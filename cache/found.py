"""What a look into the cache comes to: a result, or why there is none; and the place it was looked for at."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from cache.entry import EntryError, open_sealed, split
from cache.keys import CacheKeys
from cache.partition import Partition
from cache.store import SKEW_S
from contract.result import CacheOutcome, Execution, Limits, ResultDocument

MissReason = Literal["absent", "expired", "too_old", "too_large", "integrity", "unavailable", "off"]
MISS_REASONS: Final[tuple[str, ...]] = tuple(reason for reason in get_args(MissReason) if reason != "off")
"""Those of a lookup that was made: what is counted, told and measured."""
_log = logging.getLogger("dataset_agent.cache")


@dataclass(frozen=True, slots=True)
class Hit:
    """A stored result and the execution that produced it."""

    document: ResultDocument
    execution: Execution
    outcome: CacheOutcome

    @property
    def key(self) -> str | None:
        """``None`` for restricted capabilities."""
        return self.outcome.key

    @property
    def reason(self) -> Literal["hit", "stale"]:
        return "stale" if self.is_stale else "hit"

    @property
    def is_stale(self) -> bool:
        """Whether it is past the time that it may be reused for, and is answered for once all the same."""
        return self.outcome.outcome == "STALE"


@dataclass(frozen=True, slots=True)
class Miss:
    """Nothing may be served. ``reason`` is for evidence and metrics, not for the answer."""

    reason: MissReason
    outcome: CacheOutcome

    @property
    def key(self) -> str | None:
        """``None`` for restricted capabilities."""
        return self.outcome.key


@dataclass(frozen=True, slots=True)
class Place:
    """Where a call's result lives. For this process and its operator, not for the caller."""

    partition: Partition
    key: str
    keys: CacheKeys = field(repr=False, compare=False)
    """Those that made the key: what is found or kept there is opened and sealed with them, whatever is taken over meanwhile."""

    def miss(self, reason: MissReason) -> Miss:
        return Miss(reason, self.told("OFF" if reason == "off" else "MISS"))

    def told(self, outcome: Literal["HIT", "STALE", "MISS", "OFF"], *, derived: bool = False) -> CacheOutcome:
        """Restricted capabilities never tell: whether an entry exists says that somebody asked."""
        if self.partition.restricted:
            return CacheOutcome("WITHHELD")
        return CacheOutcome(outcome, None if outcome == "OFF" else self.key, derived)


def judged(
    entry: bytes, place: Place, max_age_s: int | None, stale_s: int, now: float, limits: Limits, as_of: str | None
) -> Hit | Miss:
    """Whether what is stored at ``place`` may be served ``now``; ``ResultCache.look`` says when."""
    try:
        header, end = split(entry)
        document, execution = open_sealed(entry, end, key=place.key, partition_id=place.partition.id, keys=place.keys)
    except EntryError as error:
        _log.error("cache entry %s failed its integrity check: %s", place.partition.named(place.key), error)
        return place.miss("integrity")
    # Opened before it is judged: what somebody else wrote into a header is told as such, not as its age.
    # A header from the future comes from a clock that was wrong: its age means nothing.
    if header.started > now + SKEW_S:
        return place.miss("expired")
    is_stale = now >= header.exp
    if is_stale and (place.partition.restricted or now >= header.exp + min(stale_s, header.stale_s)):
        return place.miss("expired")
    if max_age_s is not None and now - header.started > max_age_s:
        return place.miss("too_old")
    if as_of is not None and document.as_of < as_of:  # what was decided about is served as of a later instant
        return place.miss("too_old")
    if not limits.hold(document):  # they were others when it was stored
        return place.miss("too_large")
    return Hit(document, execution, place.told("STALE" if is_stale else "HIT", derived=document.derived))
