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
_SHOWN_PATTERN: Final = 60
_STRAY: Final = re.compile(r"(?<![\w.-])(?=[A-Za-z_-]*\d)[A-Za-z0-9][A-Za-z0-9_-]{0,23}(?![\w-])")


@dataclass(frozen=True, slots=True)
class Found:
    """Arguments by parameter, and what else the words say of parameters.

    ``ambiguous`` are parameters for which the question holds something that does not settle them.
    ``problems`` say in a few words why a parameter is not filled, where that is known.
    ``used`` are the stems that arguments account for. ``named`` counts the distinct
    identifiers that match a pattern: a word without a digit is none, because a wide pattern
    fits any word.
    """

    values: Mapping[str, Any]
    ambiguous: frozenset[str]
    problems: Mapping[str, str]
    used: frozenset[str]
    named: int


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
    strays = _strays(question, [hit for hits in claims for hit in hits])
    values: dict[str, Any] = {}
    unsettled: set[str] = set()
    problems: dict[str, str] = {}
    for group, claimed, hits in zip(groups, claims, _uncontested(claims), strict=True):
        contested = len(hits) < len(claimed)
        filled = {} if contested else _assign(question, group, hits)
        left = [parameter.name for parameter in group if parameter.name not in filled]
        values.update(filled)
        if claimed and not filled:
            unsettled.update(left)
        problem = _problem(group, claimed, filled, contested, strays)
        if problem:
            problems.update(dict.fromkeys(left, problem))
    used = {stem for hits in claims for hit in hits for stem in stems(question[hit.start : hit.end])}
    named = {hit.value for group, hits in zip(groups, claims, strict=True) if group[0].pattern for hit in hits}
    identifiers = sum(any(char.isdigit() for char in str(value)) for value in named)
    return Found(values, frozenset(unsettled), problems, frozenset(used), identifiers)


def _problem(
    group: Sequence[Parameter], claimed: Sequence[_Hit], filled: Mapping[str, Any], contested: bool, strays: str
) -> str:
    """Why parameters of a group stay open, from what the descriptor declares of them."""
    wanted = group[0]
    if claimed and not filled:
        if contested:
            return "what is said could be this or another parameter"
        count = len({hit.value for hit in claimed})
        room = wanted.max_items if wanted.repeated else len(group)
        if count > room:
            shape = f"match {shown_pattern(wanted)}" if wanted.pattern else "would fit"
            return f"{count} values in the question {shape} and the call takes {room}"
        if wanted.type in NUMERIC or wanted.type in _ISO:
            return f"a {wanted.type.value} is said, but not for which bound, or it is out of bounds"
        return ""
    return f"{strays} does not match {shown_pattern(wanted)}" if wanted.pattern and strays else ""


def shown_pattern(parameter: Parameter) -> str:
    """A parameter's pattern as its descriptor writes it, where it is short enough to be read."""
    pattern = parameter.pattern or ""
    return pattern if len(pattern) <= _SHOWN_PATTERN and pattern.isprintable() else "the declared pattern"


def _strays(question: str, hits: Sequence[_Hit]) -> str:
    """The first word of the question that looks like an identifier and was taken for no parameter."""
    for match in _STRAY.finditer(question):
        if not any(hit.start < match.end() and match.start() < hit.end for hit in hits):
            return match.group()
    return ""


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
