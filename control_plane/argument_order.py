"""Which of several parameters of one kind each value is for: by its name, or by words such as *from* and *to*.

*Link child L100 with parent L200* names both, *from Basel to Cork* says which is the source. Places that are only
numbered, such as ``batch_a`` and ``batch_b``, are filled in order. Where neither names nor words settle which is
which, nothing is assigned: who asks is asked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from contract.schema import Parameter
from control_plane.argument_hits import Hit
from control_plane.reader_terms import IDLE, JOINING, RELATIONS
from control_plane.words import ASKING_STEMS, Word, stem, stems, words

_APART: Final = re.compile(r"[),;.]")
_SHORT: Final = 2
_NUMBERING_TEXT: Final = "first second third fourth one two three four left right"
_NUMBERING: Final = frozenset(map(stem, _NUMBERING_TEXT.split()))
"""They number parameters, as *a* and *b* do."""
_SOURCE_TEXT: Final = """
from source origin start begin departure sender seller giver donor supplier exporter old previous former before
"""
_SOURCES: Final = frozenset(map(stem, _SOURCE_TEXT.split()))
_TARGET_TEXT: Final = """
to into target destination dest end arrival receiver recipient buyer taker customer importer new next after
"""
_TARGETS: Final = frozenset(map(stem, _TARGET_TEXT.split()))
_WAYS: Final = {"from": "source", "to": "target", "into": "target"}
_LEADING: Final = frozenset({*_WAYS, "for"})
_ARTICLES: Final = frozenset({"the", "a", "an"})


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
        return any(len(part) > _SHORT and part not in _NUMBERING for said in self.own.values() for part in said)

    def named(self, word: Word) -> str:
        """The parameter that a word names, or ``""``."""
        found = [name for name, said in self.own.items() if word.stem in said]
        return found[0] if len(found) == 1 else ""


def is_told_apart(group: Sequence[Parameter]) -> bool:
    """Whether the names of several parameters say what a value of each is for."""
    return len(group) > 1 and _Names.of(group).tell


def assigned(question: str, group: Sequence[Parameter], hits: Sequence[Hit]) -> dict[str, Any] | None:
    """The value of each parameter that is said: by name, by direction, or in order. ``None`` where that is not settled."""
    if not hits:
        return _in_order(group, hits)
    *before, after = _gaps(words(question), hits)
    ways = [_way_of(gap) for gap in before]
    if len(group) < 2:
        return None if _goes_otherwise(group[0], ways) else _in_order(group, hits)
    names = _Names.of(group)
    said = [_said(question, gap, hit, names) for gap, hit in zip(before, hits, strict=True)]
    if None in said or any(_is_name(word, at, after, names) and not _is_small(word) for at, word in enumerate(after)):
        return None
    if any(said):
        return _by_name(group, hits, [name or "" for name in said])
    if names.tell:
        return _by_way(group, hits, ways, before[0])
    return None if ways[0] == "target" else _in_order(group, hits)


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


def _way_of(gap: Sequence[Word]) -> str:
    """Whether the words right before a value say that something comes from there, or goes there."""
    last = next((word for one in reversed(gap) if (word := one.text.casefold()) not in _ARTICLES), "")
    return _WAYS.get(last, "")


def _is_led(gap: Sequence[Word]) -> bool:
    """Whether words before a value may place it in a way that is not read: *to customer Oslo*, *for Oslo*."""
    following = [*gap[1:], None]
    return any(
        word.text.casefold() in _LEADING and (after is None or after.stem not in ASKING_STEMS)
        for word, after in zip(gap, following, strict=True)
    )


def way_of(word: str) -> str:
    """``source`` or ``target`` where a word says so: *from*, *to*."""
    return _WAYS.get(word, "")


def role_of(parameter: Parameter) -> str:
    """Which end of a way a parameter's name says that it is."""
    parts = set(stems(parameter.name))
    is_source, is_target = bool(parts & _SOURCES), bool(parts & _TARGETS)
    return "" if is_source == is_target else "source" if is_source else "target"


def _goes_otherwise(parameter: Parameter, ways: Sequence[str]) -> bool:
    """Whether the one value that is said is of the other end: *from Oslo* is no destination."""
    role = role_of(parameter)
    return bool(role) and any(way not in ("", role) for way in ways)


def _by_way(
    group: Sequence[Parameter], hits: Sequence[Hit], ways: Sequence[str], leading: Sequence[Word]
) -> dict[str, Any] | None:
    """*From Basel to Cork*, *to Cork from Basel*, *Basel to Cork*; one value that nothing places is of what is needed."""
    names = {role_of(parameter): parameter.name for parameter in group}
    if len(hits) == 1 and not ways[0]:
        needed = [parameter.name for parameter in group if parameter.required]
        return {needed[0]: hits[0].value} if needed == [group[0].name] else None
    if len(group) != 2 or names.keys() != {"source", "target"}:
        return None
    if ways == ["", "target"] and not _is_led(leading):
        ways = ["source", "target"]
    if "" in ways or len(set(ways)) < len(hits):
        return None
    return {names[way]: hit.value for way, hit in zip(ways, hits, strict=True)}


def _in_order(group: Sequence[Parameter], hits: Sequence[Hit]) -> dict[str, Any] | None:
    values = list(dict.fromkeys(hit.value for hit in hits))
    if len(values) < len(group) == len(hits):
        values = [hit.value for hit in hits]
    if len(values) > len(group):
        return None
    return dict(zip((parameter.name for parameter in group), values, strict=False))
