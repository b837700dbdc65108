"""Whether words that a call leaves over deny, limit, time or compare: then the call without them answers another question."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from control_plane.memo_terms import LINKS, MONTHS, UNITS
from control_plane.reader_terms import TELLING

_IDLE: Final = frozenset({"and", "as", "to"})
_LIMITING: Final = (TELLING | LINKS | MONTHS.keys() | frozenset({"if", "when", "where", "versus", "vs"})) - _IDLE
_SIGNS: Final = frozenset("<>=≤≥%")
_PART: Final = re.compile(r"[^\W_]+(?:['’][^\W\d_]+)?")
_LEAST_PARTICIPLE: Final = 4

LIMITED: Final = (
    "the question denies, limits, times or compares what the nearest call cannot: "
    "without these words it would be answered about everything"
)
LEAVE_OUT: Final = "the question says more than the nearest call takes: leave it out if it tells nothing"


def is_limiting(question: str, left: Sequence[str]) -> bool:
    """Whether one of the words ``left`` over is a denial, a filter, a time, a comparison, a figure, a unit or a name.

    A word that no list knows is told as one that may be left out, unless it is written as a name (*Basel*) or ends as
    what was done to something does (*rejected*).
    """
    return any(_limits(word, is_first=question.lstrip().startswith(word)) for word in left)


def _limits(word: str, *, is_first: bool) -> bool:
    if word in UNITS or not _SIGNS.isdisjoint(word) or any(char.isdigit() for char in word):
        return True
    parts = [part.casefold() for part in _PART.findall(word)]
    if any(part in _LIMITING or part.endswith(("n't", "n’t")) or is_participle(part) for part in parts):
        return True
    return word[:1].isupper() and not is_first


def is_participle(word: str) -> bool:
    """*Failed*, *rejected*: what is so, by the form of the word."""
    return len(word) > _LEAST_PARTICIPLE and word.casefold().endswith("ed") and not word.casefold().endswith("eed")
