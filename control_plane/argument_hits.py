"""Where a question holds something that a parameter with a shape could take."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import lru_cache
from typing import Any, Final
from zoneinfo import ZoneInfo

from contract.schema import Parameter, SqlType
from control_plane.calendar_days import today_in
from control_plane.confirm import NUMERIC, confirm_one, names_of
from control_plane.memo_terms import MOMENTS, SPANS, UNITS
from control_plane.memo_words import singular
from control_plane.reader_terms import GROUPING
from control_plane.words import STOP_WORDS, Word, is_function_word, stems

_CHUNK: Final = re.compile(r"[^\s,;()\[\]{}\"“”/]+")
_TRIM: Final = "'’‘.:!?*"
_CLOCK: Final = r"\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?"
_NUMBER: Final = re.compile(r"(?<![\w.,:/-])[-+]?\d{1,18}(?:\.\d{1,18})?(?![\w:/-]|[.,]\d)")
ISO: Final = {
    SqlType.DATE: re.compile(r"(?<![\w-])\d{4}-\d{2}-\d{2}(?![\w-])"),
    SqlType.TIMESTAMP: re.compile(rf"(?<![\w-])\d{{4}}-\d{{2}}-\d{{2}}[T ]{_CLOCK}(?:Z|[+-]\d{{2}}:\d{{2}})"),
    SqlType.DATETIME: re.compile(rf"(?<![\w-])\d{{4}}-\d{{2}}-\d{{2}}[T ]{_CLOCK}(?![\w:+-])"),
    SqlType.TIME: re.compile(rf"(?<![\w:-]){_CLOCK}(?![\w:])"),
}
_GAP: Final = re.compile(r"[\s_'’.-]{1,3}|/")
_BEFORE_VALUE_TEXT: Final = "of in on at for into to from with by and or between"
_BEFORE_VALUE: Final = frozenset(_BEFORE_VALUE_TEXT.split())
_DAYS: Final = {"today": 0, "yesterday": 1}
_GROUPING_TEXT: Final = "per by group grouped grouping grain granularity interval frequency"
_GROUPING_NAMES: Final = frozenset(_GROUPING_TEXT.split())
_GRAINS: Final = SPANS | MOMENTS
_COUNTED_TEXT: Final = "count counts number limit size top rows max_rows n"
_COUNTED: Final = frozenset(_COUNTED_TEXT.split())


@dataclass(frozen=True, slots=True)
class Hit:
    """A value, and the stretch of the question that says it.

    ``is_doubtful`` where it may as well say something else, or nothing: *of it*, *5 grades*, *in the month*.
    ``has_unit`` where a number has the unit of its parameter behind it.
    """

    value: Any
    start: int
    end: int
    is_doubtful: bool = False
    has_unit: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """A stretch of a question (character offsets) that is of the parameters ``names``: they could take what it says."""

    start: int
    end: int
    names: tuple[str, ...]


def hits_of(
    question: str,
    asked: Sequence[Word],
    parameter: Parameter,
    zone: ZoneInfo,
    now: float,
    phrases: Iterable[tuple[str, ...]] = (),
) -> list[Hit]:
    """In order. ``zone`` and ``now`` (POSIX seconds) give *today* its date.

    A value that is just a word of one of ``phrases`` (stems), which name the capability, is the
    parameter's only where nothing else is: of *step totals per site* the site.
    """
    if parameter.values:
        hits = _value_hits(question, asked, parameter)
        apart = [hit for hit in hits if not _is_within(hit, asked, phrases)]
        return apart or list(_of_name(parameter, hits))
    if parameter.pattern is not None:
        return _pattern_hits(question, parameter)
    if parameter.type in NUMERIC:
        return [
            _figure(question, asked, parameter, match) for match in _number_shape(parameter.unit).finditer(question)
        ]
    shape = ISO.get(parameter.type)
    if shape is None:
        return []
    hits = [Hit(match.group(), match.start(), match.end()) for match in shape.finditer(question)]
    if parameter.type is SqlType.DATE:
        hits.extend(_day_hits(asked, zone, now))
    return sorted(hits, key=lambda hit: hit.start)


def _of_name(parameter: Parameter, hits: Sequence[Hit]) -> Iterator[Hit]:
    """Values that are words of the capability's own name: said where one is needed, or where it is the default anyway."""
    for hit in hits:
        if parameter.required or hit.value == parameter.default:
            yield replace(hit, is_doubtful=False)
        elif not is_grain(hit.value):  # *rain days* are by no day
            yield replace(hit, is_doubtful=True)


def is_grain(text: str) -> bool:
    """Whether a word is one of time such as *month*, which stands in many questions and seldom groups."""
    return text.casefold() in _GRAINS


def is_grouping(parameter: Parameter) -> bool:
    """Whether a closed list is of what an answer is by."""
    return not _GROUPING_NAMES.isdisjoint(re.split(r"[_-]", parameter.name)) or sum(map(is_grain, parameter.values)) > 1


def _figure(question: str, asked: Sequence[Word], parameter: Parameter, match: re.Match[str]) -> Hit:
    has_unit = parameter.unit is not None and _unit_shape(parameter.unit).match(question, match.end()) is not None
    is_counted = not has_unit and _is_counted(question, asked, parameter, match.start(), match.end())
    return Hit(match.group(), match.start(), match.end(), is_doubtful=is_counted, has_unit=has_unit)


def _is_counted(question: str, asked: Sequence[Word], parameter: Parameter, start: int, end: int) -> bool:
    """Whether a number says how many of something: *5 grades* is no grade 5, but *3 stops* are of ``min_stops``."""
    at = bisect_left(asked, end, key=lambda word: word.start)
    before = at - 2  # the number is a word itself
    parts = re.split(r"[_-]", parameter.name)
    is_named = before >= 0 and asked[before].stem in stems(parameter.name)
    if is_named or not _COUNTED.isdisjoint(parts):
        return False
    for word in asked[at:]:
        text = word.text.casefold()
        if not question[end : word.start].isspace() or text in STOP_WORDS:
            return False
        if singular(word.text) != text:
            return text not in parts
        end = word.end
    return False


@lru_cache(maxsize=256)
def _number_shape(unit: str | None) -> re.Pattern[str]:
    """A number that stands by itself, or is written together with its unit: *5mg*."""
    if unit is None:
        return _NUMBER
    glued = rf"(?<![\w.,:/-])[-+]?\d{{1,18}}(?:\.\d{{1,18}})?(?={_spelled(unit)}(?![\w/]))"
    return re.compile(rf"{_NUMBER.pattern}|{glued}")


@lru_cache(maxsize=256)
def _unit_shape(unit: str) -> re.Pattern[str]:
    return re.compile(rf"\s?{_spelled(unit)}(?![\w/])")


def _spelled(unit: str) -> str:
    parts = [
        {name for name, symbol in UNITS.items() if symbol == part.strip()} | {part.strip()} for part in unit.split("/")
    ]
    return "/".join(f"(?:{'|'.join(map(re.escape, sorted(names)))})" for names in parts)


def _is_within(hit: Hit, asked: Sequence[Word], phrases: Iterable[tuple[str, ...]]) -> bool:
    """Whether the words of a hit are some of a phrase that is said there."""
    first = bisect_left(asked, hit.start, key=lambda word: word.start)
    size = bisect_left(asked, hit.end, lo=first, key=lambda word: word.start) - first
    return any(
        tuple([word.stem for word in asked[at : at + len(phrase)]]) == phrase
        and hit.end <= asked[at + len(phrase) - 1].end
        for phrase in phrases
        if len(phrase) > size
        for at in range(max(0, first - len(phrase) + 1), first + 1)
    )


def _day_hits(asked: Sequence[Word], zone: ZoneInfo, now: float) -> list[Hit]:
    today = today_in(zone, now)
    return [
        Hit((today - timedelta(days=_DAYS[word.text.lower()])).isoformat(), word.start, word.end)
        for word in asked
        if word.text.lower() in _DAYS
    ]


def _pattern_hits(question: str, parameter: Parameter) -> list[Hit]:
    hits: list[Hit] = []
    for match in _CHUNK.finditer(question):
        whole = _piece(parameter, match.group(), match.start())
        if whole is not None:
            hits.append(whole)
            continue
        parts = re.finditer(r"[^-–—_=&+]+", match.group())
        pieces = (_piece(parameter, part.group(), match.start() + part.start()) for part in parts)
        hits.extend(piece for piece in pieces if piece is not None)
    return hits


def _piece(parameter: Parameter, raw: str, start: int) -> Hit | None:
    start += len(raw) - len(raw.lstrip(_TRIM))
    text = re.sub(r"['’]s$", "", raw.strip(_TRIM))
    value = confirm_one(parameter, text)
    return None if value is None else Hit(value, start, start + len(text))


def is_unbroken(question: str, stretch: Sequence[Word]) -> bool:
    """Whether nothing that tells something, such as ``%`` or a comma, stands between the words of a phrase."""
    return all(
        _GAP.fullmatch(question, word.end, after.start) is not None
        for word, after in zip(stretch, stretch[1:], strict=False)
    )


def _value_hits(question: str, asked: Sequence[Word], parameter: Parameter) -> list[Hit]:
    """Values and synonyms as whole phrases; a longer phrase hides the shorter ones inside it."""
    text = tuple(word.stem for word in asked)
    phrases = {(phrase, value) for value in parameter.values for phrase in names_of(parameter, value) if phrase}
    taken: set[int] = set()
    hits: list[Hit] = []
    for phrase, value in sorted(phrases, key=lambda item: (-len(item[0]), item)):
        for at in range(len(text) - len(phrase) + 1):
            places = range(at, at + len(phrase))
            is_said = text[at : at + len(phrase)] == phrase and is_unbroken(question, asked[at : at + len(phrase)])
            if is_said and taken.isdisjoint(places):
                taken.update(places)
                hits.append(Hit(value, asked[at].start, asked[at + len(phrase) - 1].end))
    told = _told(question, asked, hits)
    return sorted(_grouped(asked, parameter, told) if is_grouping(parameter) else told, key=lambda hit: hit.start)


def _grouped(asked: Sequence[Word], parameter: Parameter, hits: Iterable[Hit]) -> Iterator[Hit]:
    """Of what an answer may be by, a value is said behind *by* or *per*; elsewhere *the month* and *all* are other words."""
    own = {phrase[0] for value in parameter.values if len(phrase := stems(value)) == 1}
    at = {word.start: number for number, word in enumerate(asked)}
    for hit in hits:
        number = at[hit.start]
        word, before = asked[number], asked[number - 1].text.casefold() if number else ""
        if hit.end > word.end or word.stem not in own or before in GROUPING:
            yield hit
        elif not word.is_stop:
            yield replace(hit, is_doubtful=True)


def _told(question: str, asked: Sequence[Word], hits: Iterable[Hit]) -> Iterator[Hit]:
    """The values without words of language that say nothing where they stand: the *in* of *in DE* is no India."""
    shouted = question.isupper()
    small = {
        word.start: at for at, word in enumerate(asked) if is_function_word(word.text, begins=at == 0, shouted=shouted)
    }
    for hit in hits:
        at = small.get(hit.start)
        if at is None or hit.end > asked[at].end:
            yield hit
        elif _stands_as_value(question, asked, at):
            yield replace(hit, is_doubtful=True)


def _stands_as_value(question: str, asked: Sequence[Word], at: int) -> bool:
    """Whether a word of language stands where a value would: *of it*, *it and de*."""
    before = asked[at - 1].text.casefold() if at else ""
    after = asked[at + 1].text.casefold() if at + 1 < len(asked) else ""
    start, end = asked[at - 1].end if at else 0, asked[at + 1].start if at + 1 < len(asked) else len(question)
    listed = re.search(r"[,:=]", question[start : asked[at].start]) or "," in question[asked[at].end : end]
    return before in _BEFORE_VALUE or after in ("and", "or") or not after or bool(listed)
