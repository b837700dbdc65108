"""What is remembered of words: short ones, which everybody uses, and nothing of the questions that people ask."""

from __future__ import annotations

import gc
import tracemalloc

import pytest

from control_plane.interpret import hear
from control_plane.memo_likeness import _stems, _trigrams
from control_plane.memo_words import singular
from control_plane.remembered import LONGEST, MOST, of_words
from control_plane.words import stem
from tests.shipped_registry import shipped_registry

DESCRIPTOR = shipped_registry().datasets["purification-batches"]


@pytest.mark.parametrize(("size", "made"), [(1, 1), (LONGEST, 1), (LONGEST + 1, 3)])
def test_a_word_is_made_once_where_it_is_short_and_each_time_where_it_is_long(size: int, made: int) -> None:
    seen: list[str] = []

    @of_words
    def upper(word: str) -> str:
        seen.append(word)
        return word.upper()

    assert [upper("a" * size) for _ in range(3)] == ["A" * size] * 3
    assert len(seen) == made


@pytest.mark.parametrize("word", ["batches", "comparisons" * 10, "ies" * 40, "B001" * 30])
def test_a_long_word_has_the_stem_that_a_short_one_would_have(word: str) -> None:
    assert stem(word) == stem.__wrapped__(word)  # type: ignore[attr-defined]
    assert singular(word) == singular.__wrapped__(word)  # type: ignore[attr-defined]


def test_long_questions_leave_nothing_in_memory() -> None:
    def question(number: int) -> str:
        return f"compare the recovery of {chr(0x10400 + number % 40) * (3_900 - number)} {number}"

    hear(question(0), [DESCRIPTOR], now=1.8e9)
    tracemalloc.start()
    try:
        for number in range(1, 41):
            hear(question(number), [DESCRIPTOR], now=1.8e9)
        gc.collect()
        left = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert left < 100_000, "forty of them have 600 kB, and as much again in the stems of their words"


def test_what_is_remembered_to_compare_questions_with_one_another_is_bounded() -> None:
    for number in range(2_000):
        _trigrams(f"question {number}")
        _stems(f"question {number}")
    sizes = [made.cache_info().currsize for made in (_trigrams, _stems)]
    assert max(sizes) <= 512 < MOST
