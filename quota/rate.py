"""A rate of calls, held by the generic cell rate algorithm (ITU-T I.371, annex A): one instant is all its memory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

ROUNDING_S: Final = 1e-6
"""What an instant in seconds since 1970 loses as a double, and more."""
MOST_PER_SECOND: Final = 100_000.0


@dataclass(frozen=True, slots=True)
class Rate:
    """``per_second`` calls in the long run, and ``burst`` at once after a pause. Both are above 0."""

    per_second: float
    burst: int

    def __post_init__(self) -> None:
        if not (0 < self.per_second <= MOST_PER_SECOND and self.burst >= 1):
            raise ValueError("a rate has more than 0 calls a second, 100,000 at most, and a burst of 1 or more")

    @classmethod
    def of(cls, per_second: float, burst: int) -> Rate | None:
        """``None`` for 0 calls a second, which says that there is no limit."""
        return cls(per_second, burst) if per_second else None

    @property
    def step_s(self) -> float:
        """Seconds that one call costs."""
        return 1 / self.per_second

    @property
    def room_s(self) -> float:
        """Seconds by which the next call's instant may be ahead of now."""
        return self.step_s * self.burst


@dataclass(frozen=True, slots=True)
class Taken:
    """``number`` of the calls that were asked for; where it is 0, one may be had in ``retry_after_s``."""

    number: int
    retry_after_s: float = 0.0


def take(rate: Rate, at: float | None, wanted: int, *, now: float) -> tuple[Taken, float]:
    """What may be taken of ``wanted`` calls, and the instant to remember instead of ``at`` (``None``: nothing yet).

    An instant that is further ahead than a rate can bring it was written before a clock was put
    back; it says nothing any more.
    """
    known = at is not None and at <= now + rate.room_s + ROUNDING_S
    start = max(at, now) if known and at is not None else now
    number = min(wanted, math.floor((now + rate.room_s - start + ROUNDING_S) / rate.step_s))
    if number <= 0:
        return Taken(0, max(ROUNDING_S, start + rate.step_s - now - rate.room_s)), start
    return Taken(number), start + number * rate.step_s
