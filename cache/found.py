"""What a look into the cache comes to: a result, or why there is none; and the place it was looked for at."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from cache.keys import CacheKeys
from cache.partition import Partition
from contract.result import CacheOutcome, Execution, ResultDocument

MissReason = Literal["absent", "expired", "too_old", "integrity", "unavailable", "off"]


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
