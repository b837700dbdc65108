"""How much a question costs grows with its length and no faster: a long one keeps nobody else waiting."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_plane.interpret import hear
from control_plane.stretches import Stretches
from tests.shipped_registry import shipped_registry

NOW = 1_800_000_000.0
DESCRIPTORS = list(shipped_registry().datasets.values())
SAID = {
    "identifiers": ("", "B001 "),
    "numbers": ("calculate the yield for batch B001 ", "1 2 3 "),
    "values of a list": ("average resolution per column ", "site "),
    "values, numbers and signs": ("average resolution per column ", "site 1 >"),
    "words that lead to a text": ("find batches mentioning ", "for "),
    "times": ("compare the recovery of batches B001 and B002 ", "in 2024 "),
    "articles": ("compare the recovery of batches B001 and B002 ", "a "),
}


def calls(question: str) -> int:
    """Functions that are entered, and generators that are resumed, while a question is read."""
    entered = 0

    def count(frame: FrameType, event: str, _: Any) -> None:
        nonlocal entered
        entered += event == "call"

    sys.setprofile(count)
    try:
        hear(question, DESCRIPTORS, now=NOW)
    finally:
        sys.setprofile(None)
    return entered


@pytest.mark.parametrize("kind", SAID)
def test_a_question_of_twice_the_length_costs_no_more_than_twice_as_much(kind: str) -> None:
    begun, unit = SAID[kind]
    short, long = ((begun + unit * size)[:size] for size in (1_000, 2_000))
    hear(long, DESCRIPTORS, now=NOW)  # stems are remembered
    assert calls(long) <= 2.2 * calls(short)


@dataclass(frozen=True)
class Piece:
    start: int
    end: int


PLACES = st.integers(0, 12)
PIECES = st.builds(lambda start, size: Piece(start, start + size), PLACES, PLACES)


@given(st.lists(PIECES, max_size=8), PIECES)
def test_what_overlaps_a_stretch_is_found_and_nothing_else(held: list[Piece], asked: Piece) -> None:
    found = list(Stretches(held).over(asked.start, asked.end))
    wanted = [piece for piece in held if piece.start < asked.end and asked.start < piece.end]
    assert sorted(found, key=repr) == sorted(wanted, key=repr)
