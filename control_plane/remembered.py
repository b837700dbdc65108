"""What is made of words again and again is remembered, as long as these are as short as words are."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Final, TypeVar

LONGEST: Final = 48
"""Characters. Of longer words, which anybody may make up, a memory of many would be large."""
MOST: Final = 16_384
T = TypeVar("T")


def of_words(make: Callable[[str], T]) -> Callable[[str], T]:
    """``make``, a pure function of a word, called once for each that is short while it is remembered."""
    kept = lru_cache(maxsize=MOST)(make)

    @wraps(make)
    def remembered(word: str) -> T:
        return kept(word) if len(word) <= LONGEST else make(word)

    return remembered
