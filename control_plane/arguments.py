"""Arguments found in a question: confirmed by code, never guessed.

A value that could belong to several parameters, or a parameter that several values could
fill, stays open and is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from contract.schema import Parameter, SqlType
from control_plane.confirm import NUMERIC, confirm_one, names_of
from control_plane.words import Word, stems, words

_CHUNK: Final = re.compile(r"[^\s,;()\[\]{}\"“”/]+")
_TRIM: Final = "'’‘.:!?*"
_CLOCK: Final = r"\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?"
_NUMBER: Final = re.compile(r"(?<![\w.,:/-])[-+]?\d{1,18}(?:\.\d{1,18})?(?![\w:/-]|[.,]\d)")
_ISO: Final = {
    SqlType.DATE: re.compile(r"(?<![\w-])\d{4}-\d{2}-\d{2}(?![\w-])"),
    SqlType.TIMESTAMP: re.compile(rf"(?<![\w-])\d{{4}}-\d{{2}}-\d{{2}}[T ]{_CLOCK}(?:Z|[+-]\d{{2}}:\d{{2}})"),
    SqlType.DATETIME: re.compile(rf"(?<![\w-])\d{{4}}-\d{{2}}-\d{{2}}[T ]{_CLOCK}(?![\w:+-])"),
    SqlType.TIME: re.compile(rf"(?<![\w:-]){_CLOCK}(?![\w:])"),
}
_DAYS: Final = {"today": 0, "yesterday": 1}
_LOWER: Final = "above over more greater exceeding least minimum min from since after starting beginning between"
_UPPER: Final = "below under less fewer most maximum max until till before to ending through and"
_CUES: Final = {**dict.fromkeys(_UPPER.split(), "upper"), **dict.fromkeys(_LOWER.split(), "lower")}
_LOWER_NAMES: Final = "min minimum lower least above over from since after start begin first"
_UPPER_NAMES: Final = "max maximum upper most below under until till before to end last"
_NAME_CUES: Final = {**dict.fromkeys(_UPPER_NAMES.split(), "upper"), **dict.fromkeys(_LOWER_NAMES.split(), "lower")}
_CUE_WINDOW: Final = 3


@dataclass(frozen=True, slots=True)
class Found:
    """Arguments by parameter; parameters left open because several values would fit; and
    the stems of the question that arguments account for."""

    values: Mapping[str, Any]
    ambiguous: frozenset[str]
    used: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Hit:
    value: Any
    start: int
    end: int


def find_arguments(question: str, parameters: Sequence[Parameter], now: float) -> Found:
    """What a question says about parameters that have a shape (pattern, values, number, time).

    ``now`` (POSIX seconds, read as UTC) gives *today* and *yesterday* their dates. Free
    text and BOOL are not looked for here.
    """
    asked = words(question)
    groups = _groups(parameters)
    claims = [_hits(question, asked, group[0], now) for group in groups]
    values: dict[str, Any] = {}
    ambiguous: set[str] = set()
    for group, claimed, hits in zip(groups, claims, _uncontested(claims), strict=True):
        filled = _assign(question, group, hits) if len(hits) == len(claimed) else {}
        values.update(filled)
        if claimed and not filled:
            ambiguous.update(parameter.name for parameter in group)
    used = {stem for hits in claims for hit in hits for stem in stems(question[hit.start : hit.end])}
    return Found(values, frozenset(ambiguous), frozenset(used))


def _groups(parameters: Sequence[Parameter]) -> list[list[Parameter]]:
    """Parameters that the same words could fill, in declared order."""
    groups: dict[tuple[Any, ...], list[Parameter]] = {}
    for item in parameters:
        kind = "number" if item.type in NUMERIC else item.type.value
        groups.setdefault((kind, item.pattern, item.values, item.case), []).append(item)
    return list(groups.values())


def _uncontested(claims: Sequence[list[_Hit]]) -> list[list[_Hit]]:
    """Hits that no other group claims with an equal or a longer stretch of the question."""

    def contested(hit: _Hit, others: Iterable[_Hit]) -> bool:
        size = hit.end - hit.start
        return any(o.start < hit.end and hit.start < o.end and o.end - o.start >= size for o in others)

    return [
        [
            hit
            for hit in hits
            if not contested(hit, (other for n, found in enumerate(claims) if n != number for other in found))
        ]
        for number, hits in enumerate(claims)
    ]


def _hits(question: str, asked: Sequence[Word], parameter: Parameter, now: float) -> list[_Hit]:
    if parameter.values:
        return _value_hits(asked, parameter)
    if parameter.pattern is not None:
        return _pattern_hits(question, parameter)
    if parameter.type in NUMERIC:
        return [_Hit(match.group(), match.start(), match.end()) for match in _NUMBER.finditer(question)]
    shape = _ISO.get(parameter.type)
    if shape is None:
        return []
    hits = [_Hit(match.group(), match.start(), match.end()) for match in shape.finditer(question)]
    if parameter.type is SqlType.DATE:
        hits.extend(_day_hits(asked, now))
    return sorted(hits, key=lambda hit: hit.start)


def _day_hits(asked: Sequence[Word], now: float) -> list[_Hit]:
    today = datetime.fromtimestamp(now, UTC).date()
    return [
        _Hit((today - timedelta(days=_DAYS[word.text.lower()])).isoformat(), word.start, word.end)
        for word in asked
        if word.text.lower() in _DAYS
    ]


def _pattern_hits(question: str, parameter: Parameter) -> list[_Hit]:
    hits: list[_Hit] = []
    for match in _CHUNK.finditer(question):
        whole = _piece(parameter, match.group(), match.start())
        if whole is not None:
            hits.append(whole)
            continue
        parts = re.finditer(r"[^-–—_=&+]+", match.group())
        pieces = (_piece(parameter, part.group(), match.start() + part.start()) for part in parts)
        hits.extend(piece for piece in pieces if piece is not None)
    return hits


def _piece(parameter: Parameter, raw: str, start: int) -> _Hit | None:
    start += len(raw) - len(raw.lstrip(_TRIM))
    text = re.sub(r"['’]s$", "", raw.strip(_TRIM))
    value = confirm_one(parameter, text)
    return None if value is None else _Hit(value, start, start + len(text))


def _value_hits(asked: Sequence[Word], parameter: Parameter) -> list[_Hit]:
    """Values and synonyms as whole phrases; a longer phrase hides the shorter ones inside it."""
    text = tuple(word.stem for word in asked)
    phrases = {(phrase, value) for value in parameter.values for phrase in names_of(parameter, value) if phrase}
    taken: set[int] = set()
    hits: list[_Hit] = []
    for phrase, value in sorted(phrases, key=lambda item: (-len(item[0]), item)):
        for at in range(len(text) - len(phrase) + 1):
            places = range(at, at + len(phrase))
            if text[at : at + len(phrase)] == phrase and taken.isdisjoint(places):
                taken.update(places)
                hits.append(_Hit(value, asked[at].start, asked[at + len(phrase) - 1].end))
    return sorted(hits, key=lambda hit: hit.start)


def _assign(question: str, group: Sequence[Parameter], hits: Sequence[_Hit]) -> dict[str, Any]:
    if len(group) == 1 and group[0].repeated:
        return _confirmed(group, [list(dict.fromkeys(hit.value for hit in hits))] if hits else [])
    if group[0].values or group[0].pattern is not None:
        return _in_order(group, hits)
    if any(_direction(parameter) for parameter in group):
        return _directed(question, group, hits)
    # Which of several plain numbers is which cannot be told from their order.
    if len(group) > 1 and group[0].type in NUMERIC:
        return {}
    return _in_order(group, hits)


def _in_order(group: Sequence[Parameter], hits: Sequence[_Hit]) -> dict[str, Any]:
    values = list(dict.fromkeys(hit.value for hit in hits))
    if len(values) < len(group) == len(hits):
        values = [hit.value for hit in hits]
    return _confirmed(group, values)


def _directed(question: str, group: Sequence[Parameter], hits: Sequence[_Hit]) -> dict[str, Any]:
    """Bounds by their words: *above 95* is a minimum, *until 2024-05-01* an end."""
    found: dict[str, Any] = {}
    for hit in hits:
        cue = _cue(question[: hit.start])
        fitting = [item for item in group if _direction(item) == cue and item.name not in found]
        if len(fitting) != 1:
            return {}
        value = confirm_one(fitting[0], hit.value)
        if value is None:
            return {}
        found[fitting[0].name] = value
    return found


def _confirmed(group: Sequence[Parameter], values: Sequence[Any]) -> dict[str, Any]:
    """All of the values, each confirmed for its parameter, or none of them."""
    if len(values) > len(group):
        return {}
    found: dict[str, Any] = {}
    for parameter, value in zip(group, values, strict=False):
        items = value if isinstance(value, list) else [value]
        good = [confirm_one(parameter, item) for item in items]
        if any(item is None for item in good) or len(good) > parameter.max_items:
            return {}
        found[parameter.name] = good if parameter.repeated else good[0]
    return found


def _direction(parameter: Parameter) -> str:
    cues = {_NAME_CUES[part] for part in re.split(r"[_-]", parameter.name) if part in _NAME_CUES}
    return cues.pop() if len(cues) == 1 else ""


def _cue(before: str) -> str:
    near = reversed(re.findall(r"[a-z]+", before.lower())[-_CUE_WINDOW:])
    return next((_CUES[word] for word in near if word in _CUES), "")
