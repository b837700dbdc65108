"""The unit that an answer is asked in: *the step yield in percent* says what the column is in anyway."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from control_plane.descriptor import DatasetCapability
from control_plane.memo_terms import UNITS
from control_plane.memo_words import Token
from control_plane.words import stem, stems

_AFTER: Final = frozenset({"", "of", "for"})
_MARKS: Final = ".?!,"


def unit_of(text: str) -> str:
    """The symbol of a unit, however it is written: *grams/litre* is ``g/L``."""
    return "/".join(UNITS.get(part.strip(), part.strip()) for part in text.split("/"))


def is_asked_unit(tokens: Sequence[Token], at: int, capability: DatasetCapability) -> bool:
    """Whether the word at ``at`` is the unit of the columns that are asked for.

    It ends the question behind *in*, or stands before *of* and *for*. At least one result column in that unit has a
    word of its name in the question, and no column in another unit, or in none, has the same word.
    """
    if at == 0 or tokens[at - 1].text != "in" or not _is_last(tokens, at):
        return False
    unit = unit_of(tokens[at].raw)
    said = {stem(token.raw) for number, token in enumerate(tokens) if token.kind == "word" and number != at}
    inside, outside = set[str](), set[str]()
    for column in capability.results:
        is_in = column.unit is not None and unit_of(column.unit) == unit
        (inside if is_in else outside).update(stems(column.name))
    return bool(said & (inside - outside))


def _is_last(tokens: Sequence[Token], at: int) -> bool:
    after = tokens[at + 1] if at + 1 < len(tokens) else None
    return after is None or after.text in _AFTER or after.raw in _MARKS
