"""What a question says of yes or no: *including rejected*, *without controls*."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from contract.schema import Parameter, SqlType
from control_plane.argument_hits import Hit, is_unbroken
from control_plane.memo_words import Token, singular, tokens
from control_plane.words import Word

WITHOUT: Final = frozenset({"without", "no", "excluding", "exclude", "excludes", "excluded", "except"})
WITH: Final = frozenset({"with", "including", "include", "includes", "included", "also"})
_FLAG_STEMS: Final = frozenset(
    map(singular, ("with", "include", "including", "is", "has", "have", "only", "show", "and"))
)
_FLIPPED: Final = frozenset(map(singular, ("without", "exclude", "excluding", "no", "not", "omit", "skip")))


def subject_of(parameter: Parameter) -> tuple[tuple[str, ...], bool]:
    """What a flag is about, as singular words, and whether its name denies it: ``exclude_controls`` is of controls."""
    parts = tuple(map(_spelt, tokens(parameter.name)))
    return tuple(part for part in parts if part not in _FLAG_STEMS | _FLIPPED), not _FLIPPED.isdisjoint(parts)


def flag_hits(question: str, asked: Sequence[Word], parameter: Parameter) -> list[Hit]:
    """Every stretch that says the one or the other of a BOOL parameter, in order."""
    if parameter.type is not SqlType.BOOL or parameter.repeated:
        return []
    subject, flipped = subject_of(parameter)
    text = [singular(word.text) for word in asked]
    size = 1 + len(subject)
    hits: list[Hit] = []
    for at in range(len(text) - size + 1 if subject else 0):
        said = asked[at].text.casefold()
        is_said = tuple(text[at + 1 : at + size]) == subject and is_unbroken(question, asked[at : at + size])
        if is_said and said in WITH | WITHOUT:
            hits.append(Hit((said in WITH) != flipped, asked[at].start, asked[at + size - 1].end))
    return hits


def _spelt(token: Token) -> str:
    return singular(token.raw)
