"""The words and short forms of time that are read exactly, as regular expressions over plain ASCII.

What has two readings is none of them: ``03/04/2024``, *March* without a year, *until*, *from* without *to*.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from typing import Final

from control_plane import calendar_days as cal
from control_plane.calendar_days import Days
from control_plane.memo_terms import MONTHS

FLAGS: Final = re.ASCII | re.IGNORECASE
_ORDINALS: Final = {"first": 1, "second": 2, "third": 3, "fourth": 4, "1st": 1, "2nd": 2, "3rd": 3, "4th": 4}

_Y: Final = r"[12][0-9]{3}"
_M: Final = rf"(?:{'|'.join(sorted(MONTHS, key=len, reverse=True))})"
_D: Final = r"(?:3[01]|[12][0-9]|0?[1-9])(?:st|nd|rd|th)?"
_OF: Final = r"(?: of)?"
_DATE: Final = rf"{_Y}-[0-9]{{2}}-[0-9]{{2}}"
_UNIT: Final = "week|month|quarter|year"

_Read = Callable[[date, Sequence[str]], Days]

# Each atom: what it looks like, and what it means on a day that is today. Longer ones come first.
_ATOMS: Final[tuple[tuple[str, _Read], ...]] = (
    (rf"({_DATE})", lambda _, got: cal.day(date.fromisoformat(got[0]))),
    (rf"({_Y})-(0[1-9]|1[0-2])", lambda _, got: cal.month(int(got[1]), int(got[0]))),
    (rf"({_Y})[- ]?q([1-4])", lambda _, got: cal.quarter(int(got[1]), int(got[0]))),
    (rf"({_Y})-w([0-5][0-9])", lambda _, got: cal.week(int(got[1]), int(got[0]))),
    (rf"q([1-4]){_OF},? ({_Y})", lambda _, got: cal.quarter(int(got[0]), int(got[1]))),
    (
        rf"(?:the )?({'|'.join(_ORDINALS)}) quarter{_OF},? ({_Y})",
        lambda _, got: cal.quarter(_ORDINALS[got[0]], int(got[1])),
    ),
    (rf"week ([0-9]{{1,2}}){_OF},? ({_Y})", lambda _, got: cal.week(int(got[0]), int(got[1]))),
    (
        rf"(?:the )?({_D}){_OF} ({_M}),? ({_Y})",
        lambda _, got: cal.day(date(int(got[2]), MONTHS[got[1]], _number(got[0]))),
    ),
    (
        rf"({_M}) (?:the )?({_D}),? ({_Y})",
        lambda _, got: cal.day(date(int(got[2]), MONTHS[got[0]], _number(got[1]))),
    ),
    (rf"(?:the month of )?({_M}){_OF},? ({_Y})", lambda _, got: cal.month(MONTHS[got[0]], int(got[1]))),
    (rf"(?:the )?(?:this|current) ({_UNIT})", lambda today, got: cal.around(today, got[0])),
    # *The last month* may as well be the thirty days up to now.
    (rf"(?:(?<!the )last|(?:the )?previous) ({_UNIT})", lambda today, got: cal.before(today, got[0])),
    (r"today", lambda today, _: cal.day(today)),
    (r"yesterday", lambda today, _: cal.day(today - timedelta(days=1))),
    (rf"(?:the )?(?:year )?({_Y})", lambda _, got: cal.year(int(got[0]))),
)
_READERS: Final = tuple((re.compile(shape, FLAGS), read) for shape, read in _ATOMS)
_SHAPES: Final = tuple(re.sub(r"\((?!\?)", "(?:", shape) for shape, _ in _ATOMS)

ATOM: Final = f"(?:{'|'.join(_SHAPES)})"
BARE_YEAR: Final = re.compile(_SHAPES[-1], FLAGS)
# How many days together end with today.
_LAST_DAYS: Final = r"(?:the )?(?:last|past) ([0-9]{1,4}) days"
LAST_DAYS: Final = _LAST_DAYS.replace("([0-9]", "(?:[0-9]").replace("{1,4})", "{1,4})")

_IN: Final = r"in|during|on|for|of|within|throughout"
_SINCE: Final = r"since|on or after"
_AFTER: Final = r"after|later than"
_BEFORE: Final = r"before|earlier than|prior to"
_THROUGH: Final = r"through|on or before|up to and including"
# Each form: a pattern with the places of its atoms, and what those make together.
_FORMS: Final[tuple[tuple[str, Callable[..., Days]], ...]] = (
    (rf"between ({ATOM}) and ({ATOM})", lambda one, two: Days(one.start, two.end)),
    (rf"(?:from )?({ATOM}) (?:to|through) ({ATOM})", lambda one, two: Days(one.start, two.end)),
    (rf"({ATOM}) ?\.\. ?({ATOM})", lambda one, two: Days(one.start, two.end)),
    (rf"({ATOM}) ?\.\.", lambda one: Days(one.start, None)),
    (rf"\.\. ?({ATOM})", lambda one: Days(None, one.end)),
    (rf"(?:{_SINCE}) ({ATOM})", lambda one: Days(one.start, None)),
    (rf"(?:{_AFTER}) ({ATOM})", lambda one: Days(one.end, None)),
    (rf"(?:{_BEFORE}) ({ATOM})", lambda one: Days(None, one.start)),
    (rf"(?:{_THROUGH}) ({ATOM})", lambda one: Days(None, one.end)),
    (rf"(?:(?:{_IN}) )?({ATOM})", lambda one: one),
)
_FORM_READERS: Final = tuple((re.compile(shape, FLAGS), make) for shape, make in _FORMS)
_LAST: Final = re.compile(rf"(?:(?:{_IN}|over) )?{_LAST_DAYS}", FLAGS)

# Said of a time, and of no one range: they are told, never read.
_UNCLEAR: Final = (
    r"no(?:t)? (?:later|earlier) than|until|till|from|by|around|about|near|up to|as of|as at|circa|starting|beginning|"
    r"ending|next|mid|early|late|next to"
)
SAID: Final = re.compile(
    r"(?<![\w./:-])(?:"
    + "|".join(
        (
            rf"(?P<unclear>(?:{_UNCLEAR})(?: (?:on|in|at|with))? {ATOM}(?! (?:to|through) ))",
            *(re.sub(r"\((?!\?)", "(?:", shape) for shape, _ in _FORMS[:-1]),
            rf"(?:(?:{_IN}|over) )?{LAST_DAYS}",
            rf"(?:(?:{_IN}) )?{ATOM}",
        )
    )
    + r")(?![\w/-]|:\S|[.,][0-9]|\.\.| ?[0-9]{1,2}:[0-9])",
    FLAGS,
)


def read_days(text: str, today: date) -> Days | None:
    """The days that a text says, all of it, or ``None`` where it does not say exactly one range of them.

    ``text`` is in lower case with single blanks. A range without days is none.
    """
    for shape, make in _FORM_READERS:
        if (found := shape.fullmatch(text)) is not None:
            return _whole(make, [_atom(part, today) for part in found.groups()])
    if (found := _LAST.fullmatch(text)) is not None and (count := int(found[1])):
        return _whole(lambda one: Days(today - timedelta(days=count - 1), one.end), [cal.day(today)])
    return None


def _atom(text: str, today: date) -> Days | None:
    for shape, read in _READERS:
        if (found := shape.fullmatch(text)) is not None:
            try:
                return read(today, found.groups())
            except (ValueError, OverflowError):
                return None
    return None


def _whole(make: Callable[..., Days], atoms: Sequence[Days | None]) -> Days | None:
    if any(atom is None for atom in atoms):
        return None
    try:
        made = make(*atoms)
    except OverflowError:
        return None
    return None if made.start is not None and made.end is not None and made.start >= made.end else made


def _number(text: str) -> int:
    return int(text[:2] if text[:2].isdigit() else text[:1])
