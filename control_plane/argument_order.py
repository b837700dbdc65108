"""Which of several parameters of one kind each value is for: by its name where one is said, else by its place.

*Link child L100 with parent L200* names both. Where names or words of direction stand beside the values and do
not settle which is which, nothing is assigned: who asks is asked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from contract.schema import Parameter
from control_plane.argument_hits import Hit
from control_plane.memo_terms import PLACING
from control_plane.reader_terms import IDLE, JOINING, RELATIONS
from control_plane.words import Word, stems, words

_APART: Final = re.compile(r"[),;.]")
_FROM_PLACES: Final = frozenset({"", "of", "in", "on", "at"})
_SHORT: Final = 2


@dataclass(frozen=True, slots=True)
class _Names:
    """The words (stems) that tell the parameters of a group apart, and those that all of them share."""

    own: Mapping[str, frozenset[str]]
    shared: frozenset[str]

    @classmethod
    def of(cls, group: Sequence[Parameter]) -> _Names:
        parts = {parameter.name: frozenset(stems(parameter.name)) for parameter in group}
        shared = frozenset.intersection(*parts.values())
        return cls({name: said - shared for name, said in parts.items()}, shared)

    @property
    def tell(self) -> bool:
        """Whether they say what a value is for: *source* and *target* do, *a* and *b* only number the values."""
        return any(len(part) > _SHORT for said in self.own.values() for part in said)

    def named(self, word: Word) -> str:
        """The parameter that a word names, or ``""``."""
        found = [name for name, said in self.own.items() if word.stem in said]
        return found[0] if len(found) == 1 else ""


def is_told_apart(group: Sequence[Parameter]) -> bool:
    """Whether the names of several parameters say what a value of each is for."""
    return len(group) > 1 and _Names.of(group).tell


def assigned(question: str, group: Sequence[Parameter], hits: Sequence[Hit]) -> dict[str, Any] | None:
    """The value of each parameter that is said: by name, or in declared order. ``None`` where that is not settled."""
    names = _Names.of(group)
    if len(group) < 2 or not hits:
        return _in_order(group, hits)
    *before, after = _gaps(words(question), hits)
    said = [_said(question, gap, hit, names) for gap, hit in zip(before, hits, strict=True)]
    if None in said or any(_is_name(word, at, after, names) and not _is_small(word) for at, word in enumerate(after)):
        return None
    if any(said):
        return _by_name(group, hits, [name or "" for name in said])
    if names.tell and not _is_ordered(group, before):
        return None
    return _in_order(group, hits)


def _gaps(asked: Sequence[Word], hits: Sequence[Hit]) -> list[list[Word]]:
    """The words before each value, and those after the last one."""
    gaps: list[list[Word]] = [[]]
    for word in asked:
        while len(gaps) <= len(hits) and word.start >= hits[len(gaps) - 1].end:
            gaps.append([])
        if len(gaps) > len(hits) or word.start < hits[len(gaps) - 1].start:
            gaps[-1].append(word)
    return gaps + [[] for _ in range(len(hits) + 1 - len(gaps))]


def _said(question: str, gap: Sequence[Word], hit: Hit, names: _Names) -> str | None:
    """The parameter that is named before a value; ``None`` where several are, or a name may be of what stands before it."""
    last = gap[-1] if gap else None
    found = [
        (names.named(word), word)
        for at, word in enumerate(gap)
        if _is_name(word, at, gap, names) and (word is last or not _is_small(word))
    ]
    if not found:
        return ""
    if len({name for name, _ in found}) > 1:
        return None
    name, word = found[-1]
    between = question[word.end : hit.start]
    joins = any(part.start > word.start and part.text.casefold() in JOINING for part in gap)
    return None if joins or _APART.search(between) else name


def _is_name(word: Word, at: int, gap: Sequence[Word], names: _Names) -> bool:
    """Whether a word tells one parameter from the others; a short one only behind what they share: *batch b*."""
    if not names.named(word):
        return False
    return len(word.stem) > _SHORT or (at > 0 and gap[at - 1].stem in names.shared)


def _is_small(word: Word) -> bool:
    """A word such as *from* may be a name, and mostly is none."""
    return len(word.stem) > _SHORT and word.text.casefold() in IDLE | RELATIONS


def _by_name(group: Sequence[Parameter], hits: Sequence[Hit], said: Sequence[str]) -> dict[str, Any] | None:
    found: dict[str, Any] = {}
    for name, hit in zip(said, hits, strict=True):
        if name and found.setdefault(name, hit.value) != hit.value:
            return None
    left = [parameter.name for parameter in group if parameter.name not in found]
    unnamed = list(dict.fromkeys(hit.value for name, hit in zip(said, hits, strict=True) if not name))
    if not unnamed:
        return found
    return {**found, left[0]: unnamed[0]} if len(left) == len(unnamed) == 1 else None


def _is_ordered(group: Sequence[Parameter], before: Sequence[Sequence[Word]]) -> bool:
    """Whether values stand for their parameters in declared order, for all that the words before them say."""
    if len(before) == 1:
        return sum(parameter.required for parameter in group) == 1 and group[0].required
    first, *others = [_placed(gap) for gap in before] or [""]
    if any(place not in ("", "into", first) for place in others):
        return False
    return first in _FROM_PLACES if "into" in others else first not in ("into", "for") or not others


def _placed(gap: Sequence[Word]) -> str:
    return next((word.text.casefold() for word in reversed(gap) if word.text.casefold() in PLACING), "")


def _in_order(group: Sequence[Parameter], hits: Sequence[Hit]) -> dict[str, Any] | None:
    values = list(dict.fromkeys(hit.value for hit in hits))
    if len(values) < len(group) == len(hits):
        values = [hit.value for hit in hits]
    if len(values) > len(group):
        return None
    return dict(zip((parameter.name for parameter in group), values, strict=False))
