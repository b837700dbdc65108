"""How alike two questions are written: a reason to look at one, never a reason to believe it."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from control_plane.words import content_stems

LEAST_LIKE: Final = 0.2
MAX_TRIED: Final = 16
_REMEMBERED: Final = 512
"""Questions: enough for those that one is held against, of a few people at once. They are long, and anybody's."""


def likeness(one: str, other: str) -> float:
    """0 to 1: the mean of what character trigrams and stems of the words share (Dice's coefficient)."""
    return (_dice(_trigrams(one), _trigrams(other)) + _dice(_stems(one), _stems(other))) / 2


def _dice(one: frozenset[str], other: frozenset[str]) -> float:
    total = len(one) + len(other)
    return 2 * len(one & other) / total if total else 0.0


@lru_cache(maxsize=_REMEMBERED)
def _trigrams(text: str) -> frozenset[str]:
    padded = f"  {text.casefold()} "
    return frozenset(padded[at : at + 3] for at in range(len(padded) - 2))


@lru_cache(maxsize=_REMEMBERED)
def _stems(text: str) -> frozenset[str]:
    return frozenset(content_stems(text))
