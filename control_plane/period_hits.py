"""Where a question speaks of time: what is read of it as a period, and what is not and must be told."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from zoneinfo import ZoneInfo

from contract.schema import Period
from control_plane.descriptor import DatasetCapability
from control_plane.period_words import ATOM, BARE_YEAR, FLAGS, SAID
from control_plane.periods import Bounds, confirmed, period_type, read_period, told
from control_plane.reader_terms import STRETCHING
from control_plane.words import STOP_WORDS, stems

QUOTED: Final = re.compile(r"(?:(?<=\s)|^)(?:'([^']+)'|\"([^\"]+)\"|“([^”]+)”|‘([^’]+)’)(?=[\s.,;:!?)]|$)")
_YEAR: Final = re.compile(r"[12][0-9]{3}", FLAGS)
_ATOM: Final = re.compile(ATOM, FLAGS)
# A year after these is no amount; after others, or none, it may be one.
_YEAR_CUE: Final = re.compile(r"(?:in|during|since|throughout|(?:the )?year)\s", FLAGS)
_FILLER_TEXT: Final = "of the in at on during for over within throughout"
_FILLERS: Final = frozenset(_FILLER_TEXT.split())
_GRAIN_TEXT: Final = "day week month quarter year"
_GRAINS: Final = frozenset(_GRAIN_TEXT.split())
_DAYS: Final = "monday tuesday wednesday thursday friday saturday sunday"
_TURNED_TEXT: Final = f"""
not except excluding exclude excludes outside besides without never nor than but unlike end start beginning middle
mid early late half rest part days weeks weekend months years hour hours {_GRAIN_TEXT} {_DAYS}
"""
# What turns the time that follows into another one.
_TURNED_BY: Final = frozenset(_TURNED_TEXT.split())
_QUOTED_WITH: Final = STRETCHING | _TURNED_BY - _GRAINS
_BY: Final = frozenset(("by", "per", "each", "every"))
_TURNED_FROM: Final = frozenset({("apart", "from"), ("aside", "from")})
_TURNED_AFTER: Final = re.compile(
    r"[\s,]*(?:(?:or|and)\s+(?:later|earlier|before|after|newer|older|since|until|onwards?|beyond|up)\b"
    r"|(?:exclusive|exclusively|excluding|onwards?|forward|except)\b)",
    FLAGS,
)
_LONG: Final = "january february april june july august september october november december"
_SHORT: Final = "jan feb mar apr may jun jul aug sep sept oct nov dec march"
_BEFORE_MONTH: Final = "in since before after during until till by last this next early late mid through between"
# It may say a time. Where none of it is read, who asks is told, so that no filter is dropped unseen.
_TIMELY: Final = re.compile(
    rf"(?<![\w-])(?:[0-9]{{1,4}}[/.][0-9]{{1,2}}[/.][0-9]{{1,4}}|[0-9]{{1,2}}/[0-9]{{4}}"
    rf"|{_YEAR.pattern}-?(?:[0-9]{{1,2}}|[QW][0-9]{{1,2}})(?:-[0-9]{{1,2}})?(?:T[0-9:.]+(?:Z|[+-][0-9]{{2}}:?[0-9]{{2}})?)?"
    rf"|(?:19|20)[0-9]{{2}}|[QH][1-4]|(?:week|quarter|year)\s+[0-9]+"
    rf"|{_LONG.replace(' ', '|')}|{_DAYS.replace(' ', '|')}"
    rf"|(?:{_BEFORE_MONTH.replace(' ', '|')})\s+(?:{_SHORT.replace(' ', '|')})"
    r"|today|yesterday|tomorrow|tonight|(?:[\w-]+\s+){1,2}ago|recently|(?:first|second|1st|2nd)\s+half|lately|ytd|mtd|(?:year|month|quarter|week)\s+to\s+date"
    r"|(?:last|past|previous|next|coming|this|current|recent|these)\s+(?:[\w-]+\s+){0,2}"
    r"(?:hour|day|week|weekend|fortnight|month|quarter|year|decade|spring|summer|autumn|fall|winter)s?"
    r")(?![\w-]|[.,]?[0-9])",
    FLAGS,
)
_MONTH: Final = rf"(?:{_LONG.replace(' ', '|')}|{_SHORT.replace(' ', '|')})"
# *Between February and April 2024*: the year of the first month is not said.
_ONE_YEAR: Final = re.compile(
    rf"(?<![\w-])(?:(?P<link>between|from)\s+)?(?P<first>{_MONTH})\s+(?:and|to|through|till|until)\s+"
    rf"(?P<second>{_MONTH}),?\s+(?P<year>{_YEAR.pattern})(?![\w-])",
    FLAGS,
)
_BEFORE_TIME: Final = re.compile(r"(?:[^\W\d_]+\s+)+\Z")
_WORD: Final = re.compile(r"[^\W_]+")
_NEXT: Final = re.compile(r"\s*([^\W_]+|[^\w\s])?")
# Of a long question only what stands close by is looked at, so that reading it takes no longer than its length.
_NEAR_CHARS: Final = 80
_NAMED_WITHIN: Final = 3


@dataclass(frozen=True, slots=True)
class Said:
    """A stretch of a question that speaks of time, from ``start`` until before ``end`` (character offsets).

    ``is_weak`` where numbers in it may be years or amounts alike; ``is_clear`` where it has one reading and no word
    around it turns it into another time.
    """

    text: str
    start: int
    end: int
    is_weak: bool
    is_clear: bool

    @property
    def is_bare(self) -> bool:
        """Whether it is four digits and nothing else: a year only where it can be no amount, and then not read."""
        return _YEAR.fullmatch(self.text) is not None


@dataclass(frozen=True, slots=True)
class PeriodsFound:
    """Arguments by parameter, and why others that bound a period stay open.

    ``is_unsettled`` where the question says something of time that does not settle them;
    ``stray`` is what it says of time that has not the form of a period, ``places`` (character offsets) where.
    """

    values: dict[str, Any]
    problems: dict[str, str]
    is_unsettled: bool
    stray: str = ""
    places: tuple[tuple[int, int], ...] = ()


def said_of_time(question: str) -> tuple[Said, ...]:
    """Every stretch that has the form of a period, in order. What is quoted is text and no time."""
    open_ = _without(question, [(match.start(), match.end()) for match in QUOTED.finditer(question)])
    return tuple(_said(open_, match) for match in SAID.finditer(open_))


def without_time(question: str, said: Sequence[Said]) -> str:
    """The question with blanks where it speaks of time, so that nobody takes it for a text that is sought."""
    return _without(question, [(item.start, item.end) for item in said])


def unread_times(question: str, said: Sequence[Said]) -> list[tuple[int, int]]:
    """Where (character offsets) else a question seems to speak of time: what is not read, and is told."""
    left = _without(question, [(item.start, item.end) for item in said])
    left = _without(left, [match.span() for match in QUOTED.finditer(question)])
    return [match.span() for match in _TIMELY.finditer(left)]


def find_periods(
    question: str,
    capability: DatasetCapability,
    periods: Sequence[Period],
    said: Sequence[Said],
    claimed: Sequence[tuple[int, int]],
    *,
    zone: ZoneInfo,
    now: float,
) -> PeriodsFound:
    """What the question says of ``periods``. ``claimed`` are stretches that arguments of other kinds account for.

    Everything that speaks of time must be read, and be of exactly one period; else no period is filled.
    """
    half_said = _of_one_year(question)
    if half_said is not None:
        place, why = half_said
        return replace(_open(capability, periods, why), stray=question[slice(*place)], places=(place,))
    left = _without(question, [*claimed, *((item.start, item.end) for item in said)])
    left = _without(left, [(match.start(), match.end()) for match in QUOTED.finditer(question)])
    timely = list(_TIMELY.finditer(left))
    strays = [" ".join(match.group().split()) for match in timely]
    unclear = next((_as_turned(question, item) for item in said if not item.is_clear), strays[0] if strays else "")
    if unclear:
        unread = _open(capability, periods, f"“{' '.join(unclear.split())}” is no period that is read")
        return replace(unread, stray=" ".join(strays), places=tuple(match.span() for match in timely))
    found: dict[str, set[Bounds]] = {period.name: set() for period in periods}
    for item in said:
        period = _period_of(question, item, periods)
        if period is None:
            return _open(capability, periods, f"“{item.text}” could be of this or another period")
        bounds = read_period(item.text, period_type(capability, period), zone=zone, now=now)
        if bounds is None:
            return _open(capability, periods, f"“{item.text}” is no period that is read")
        found[period.name].add(bounds)
    values: dict[str, Any] = {}
    for period in periods:
        several = found[period.name]
        if len(several) > 1:
            return _open(capability, periods, f"{len(several)} periods are said and the call takes one")
        for bounds in several:
            made = confirmed(capability, period, bounds)
            if made is None:
                return _open(capability, periods, "the period is not within the bounds that the call takes")
            values |= made
    told_of = {
        name: told(capability, period)
        for period in periods
        if not found[period.name]
        for name in (period.from_, period.to)
    }
    return PeriodsFound(values, told_of, is_unsettled=False)


def _of_one_year(question: str) -> tuple[tuple[int, int], str] | None:
    """Where two months have one year, and what to say instead."""
    match = _ONE_YEAR.search(_without(question, [found.span() for found in QUOTED.finditer(question)]))
    if match is None:
        return None
    both = f"{match['first']} {match['year']} to {match['second']} {match['year']}"
    return (
        match.span(),
        f"“{' '.join(match.group().split())}” says the year of one month only: say it in both, as in {both}",
    )


def _as_turned(question: str, item: Said) -> str:
    """What is said with the words before it that turn it into another time: *first half of 2024*."""
    start = max(0, item.start - _NEAR_CHARS)
    before = _BEFORE_TIME.search(question[start : item.start])
    words = [] if before is None else before.group().split()
    kept = next((at for at in range(len(words), 0, -1) if words[at - 1].lower() not in _QUOTED_WITH), 0)
    words = words[kept:]
    while words and words[0].lower() in _FILLERS:
        del words[0]
    # Fillers alone turn nothing, and the year alone is what is told.
    return " ".join((*words, item.text)) if words else item.text


def _open(capability: DatasetCapability, periods: Sequence[Period], problem: str) -> PeriodsFound:
    problems = {name: told(capability, period, problem) for period in periods for name in (period.from_, period.to)}
    return PeriodsFound({}, problems, is_unsettled=True)


def _period_of(question: str, item: Said, periods: Sequence[Period]) -> Period | None:
    """The only period there is, or the one whose name stands just before."""
    if len(periods) == 1:
        return periods[0]
    near = set(stems(question[max(0, item.start - _NEAR_CHARS) : item.start])[-_NAMED_WITHIN:])
    named = [period for period in periods if near.issuperset(stems(period.name))]
    return named[0] if len(named) == 1 else None


def _said(question: str, match: re.Match[str]) -> Said:
    text = match.group()
    atoms = list(_ATOM.finditer(text))
    years = [atom for atom in atoms if BARE_YEAR.fullmatch(atom.group())]
    # *..., 2024* at the end is beside what was said, and counts nothing.
    is_apart = question[: match.start()].rstrip().endswith(",") and not question[match.end() :].strip(" .?!")
    alone = _YEAR.fullmatch(text) is not None and not is_apart
    is_amount = any(atom.end() == len(text) for atom in years) and not _ends(question, match.end())
    is_turned = _is_turned(question, match.start(), match.end())
    return Said(
        text,
        match.start(),
        match.end(),
        is_weak=bool(years) and _YEAR_CUE.match(text) is None,
        is_clear=match["unclear"] is None and not alone and not is_amount and not is_turned,
    )


def _ends(question: str, at: int) -> bool:
    """Whether what follows a year is no unit: nothing, a mark, or a word without a meaning of its own."""
    following = _NEXT.match(question, at)
    word = (following.group(1) or "") if following else ""
    return not word or not word[:1].isalnum() or word.lower() in STOP_WORDS or word.lower() in ("per", "vs", "s")


def _is_turned(question: str, start: int, end: int) -> bool:
    """Whether the words around turn the time into another: *not in*, *end of*, *or later*."""
    before = [word.lower() for word in _WORD.findall(question[max(0, start - _NEAR_CHARS) : start])]
    if tuple(before[-2:]) in _TURNED_FROM:
        return True
    while before and before[-1] in _FILLERS:
        before.pop()
    is_grain = len(before) > 1 and before[-1] in _GRAINS and before[-2] in _BY
    turned = bool(before) and before[-1] in _TURNED_BY and not is_grain
    return turned or _TURNED_AFTER.match(question, end) is not None


def _without(text: str, places: Sequence[tuple[int, int]]) -> str:
    chars = list(text)
    for start, end in places:
        chars[start:end] = " " * (end - start)
    return "".join(chars)
