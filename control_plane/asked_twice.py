"""Where a question asks for a capability a second time: *totals of A, totals of B*, *the boss of the boss*."""

from __future__ import annotations

from collections.abc import Iterator

from control_plane.memo_terms import ARTICLES
from control_plane.spoken import Spoken
from control_plane.words import stem


def asked_twice(said: Spoken, named: frozenset[str]) -> Iterator[int]:
    """The tokens that say once more what is asked, of other arguments or of what comes out; ``named`` are the words for it.

    *The recovery of B001 with the recovery of B002* is compared, where one call takes both.
    """
    last: dict[str, int] = {}
    for at, token in enumerate(said.tokens):
        word = stem(token.raw)
        if token.kind != "word" or word not in named or said.is_named(at):
            continue
        before = last.get(word)
        last[word] = at
        if before is not None and (_is_nested(said, before, at) or _is_of_others(said, before, at)):
            yield at


def _is_nested(said: Spoken, one: int, other: int) -> bool:
    between = [said.text(at) for at in range(one + 1, other)]
    return between[:1] == ["of"] and set(between) <= ARTICLES | {"of"}


def _is_of_others(said: Spoken, one: int, other: int) -> bool:
    if not any(one < at < other for at in said.places):
        return False
    before, after = (
        {place.names for at, place in said.places.items() if (at < other) is first} for first in (True, False)
    )
    return not any(len(names) > 1 for names in before & after)
