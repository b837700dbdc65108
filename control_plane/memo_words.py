"""A question's words, as a memo compares them: nothing that could tell something is lost.

Punctuation and quotes are dropped; numbers, dates, identifiers, units and signs stay what they are.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from typing import Final, Literal

from control_plane.memo_terms import DAYS, MOMENTS, MONTHS, NOW, PLURALS, SHIFTS, SPANS, UNITS
from control_plane.remembered import of_words
from control_plane.words import without_plural

Kind = Literal["word", "number", "unit", "date", "id", "sign", "relative", "relation", "argument", "cue", "asking"]

_MONTH: Final = "|".join(sorted(MONTHS, key=len, reverse=True))
_FIRST_TEXT: Final = """
please show list find get give display fetch search look retrieve tell what which how compare calculate compute
aggregate summarise summarize detect flag
"""
_FIRST: Final = frozenset(_FIRST_TEXT.split())
_TOKEN: Final = re.compile(
    rf"""
    (?P<moment>\d{{4}}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)?(?!\w))
  | (?P<day>\d{{4}}-\d\d-\d\d(?![\w-]))
  | (?P<d1>\d{{1,2}})(?:st|nd|rd|th)?[ ](?:of[ ])?(?P<m1>{_MONTH}),?[ ](?P<y1>\d{{4}})(?![\w-])
  | (?P<m2>{_MONTH})[ ](?P<d2>\d{{1,2}})(?:st|nd|rd|th)?,?[ ](?P<y2>\d{{4}})(?![\w-])
  | (?P<m3>{_MONTH})[ ](?:of[ ])?(?P<y3>\d{{4}})(?![\w-])
  | (?P<month>\d{{4}}-(?:0[1-9]|1[0-2])(?![\w-]))
  | (?P<quarter>\d{{4}}[- ]?Q[1-4](?!\w)|Q[1-4][ ](?:of[ ])?\d{{4}}(?![\w-]))
  | (?P<week>\d{{4}}-W\d\d(?![\w-]))
  | (?P<number>(?<![\w.,])[-+]?\d+(?:\.\d+)?(?![\w]|[.,]\d))
  | (?P<glued>(?<![\w.,])[-+]?\d+(?:\.\d+)?)(?P<unit>°?[^\W\d_]+(?:/[^\W\d_]+)?)(?![\w])
  | (?P<id>[^\W_]*\d[^\W_]*(?:[.,]\d+)*)
  | (?P<own>['’]s(?!\w))
  | (?P<degree>°[CFK](?!\w))
  | (?P<word>[^\W\d_]+(?:['’][^\W\d_]+)?)
  | (?P<sign>>=|<=|!=|[^\s\w,.;:?!()\[\]'"’‘“”_-])
  | (?P<dash>[-–—])
    """,
    re.VERBOSE | re.IGNORECASE,
)
_RELATIVE: Final = SHIFTS | SPANS | DAYS | NOW | MOMENTS | {"ago", "date", "far", "since"}
_NEAR: Final = 32
_QUOTES: Final = re.compile("[\"'’‘“”`]")
_SHIFTED: Final = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True, slots=True)
class Token:
    """``text`` is what is compared, ``raw`` as it was written. A date's ``text`` is its half-open span of ISO days.

    ``start`` and ``end`` are where it stands in ``spelt`` of its text.
    """

    kind: Kind
    text: str
    raw: str = ""
    start: int = field(default=0, compare=False)
    end: int = field(default=0, compare=False)


def normalised(question: str) -> str:
    """A question without what of its spelling tells nothing: form (NFC), blanks, a last mark, a first capital.

    Blanks and marks stay where something is quoted: they may belong to it.
    """
    text = unicodedata.normalize("NFC", question).strip()
    if not _QUOTES.search(text):
        text = " ".join(text.split()).rstrip(" ?")
    first, blank, rest = text.partition(" ")
    return f"{first.lower()}{blank}{rest}" if first.istitle() and first.lower() in _FIRST else text


@of_words
def singular(word: str) -> str:
    """A word in one case and number, and nothing else of it changed: a filtrate is no filtration."""
    text = re.sub(r"['’]s?$", "", word.casefold())
    if len(text) <= 3 or text in PLURALS or any(char.isdigit() for char in text):
        return text
    return without_plural(text)


def is_relative(question: str) -> bool:
    """Whether its words may mean another day tomorrow. In doubt they do."""
    return not _RELATIVE.isdisjoint(_SHIFTED.findall(question.lower()))


def is_momentary(question: str) -> bool:
    """Whether its words may mean something else within a day, so that nothing of it can be remembered."""
    said = set(_SHIFTED.findall(question.lower()))
    return not said.isdisjoint(NOW) or (not said.isdisjoint(MOMENTS) and not said.isdisjoint(SHIFTS | {"ago"}))


def tokens(text: str) -> tuple[Token, ...]:
    """The words, numbers, dates, identifiers, units and signs of a text, in order."""
    found: list[Token] = []
    text = spelt(text)
    for match in _TOKEN.finditer(text):
        found.extend(replace(token, start=match.start(), end=match.end()) for token in _made(match, text))
    return tuple(_with_units(found))


def spelt(text: str) -> str:
    """A text with single blanks, in NFC, with one micro sign and one minus."""
    return written(text).replace("μ", "µ").replace("−", "-")


def written(text: str) -> str:
    """A text with single blanks, in NFC: what stands where a token says, sign by sign."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def span(text: str) -> tuple[date, date]:
    """The days of a date token, half-open."""
    start, _, end = text.partition("..")
    return date.fromisoformat(start), date.fromisoformat(end)


def number(text: str) -> str:
    """One spelling of each decimal number, of any length: nothing is rounded."""
    whole, _, rest = text.lstrip("+-").partition(".")
    whole, rest = whole.lstrip("0") or "0", rest.rstrip("0")
    plain = f"{whole}.{rest}" if rest else whole
    return f"-{plain}" if text.startswith("-") and plain != "0" else plain


def _made(match: re.Match[str], text: str) -> list[Token]:
    kind, raw = match.lastgroup or "", match.group()
    if kind == "own":
        return []
    if kind == "number":
        return [Token("number", number(raw), raw)]
    if kind == "unit":
        unit = match["unit"]
        return [Token("number", number(match["glued"]), match["glued"]), Token("unit", UNITS.get(unit, unit), unit)]
    if kind == "dash":
        return [Token("sign", "-", raw)] if _joins_figures(match, text) else []
    if kind == "degree":
        return [Token("word", text[match.start() : match.end()], raw)]
    if kind in ("word", "sign", "id", "moment"):
        as_it_is: dict[str, Kind] = {"word": "word", "sign": "sign", "id": "id", "moment": "id"}
        return [Token(as_it_is[kind], raw.casefold(), raw)]
    return [_date(match, raw)]


def _joins_figures(match: re.Match[str], text: str) -> bool:
    """Whether a dash may be a range or a sign: where it stands beside a figure, or between blanks."""
    around = text[max(0, match.start() - 1) : match.end() + 1]
    before = re.search(r"[^\W_]*$", text[max(0, match.start() - _NEAR) : match.start()])
    after = re.match(r"[^\W_]*", text[match.end() : match.end() + _NEAR])
    beside = (before.group() if before else "") + (after.group() if after else "")
    return " " in around or any(char.isdigit() for char in beside)


def _date(match: re.Match[str], raw: str) -> Token:
    try:
        start, end = _days(match, raw.upper())
    except (ValueError, OverflowError):
        return Token("id", raw.casefold(), raw)
    return Token("date", f"{start.isoformat()}..{end.isoformat()}", raw)


def _days(match: re.Match[str], raw: str) -> tuple[date, date]:
    if match["day"]:
        return _day(date.fromisoformat(raw))
    for n in ("1", "2"):
        if match[f"y{n}"]:
            return _day(date(int(match[f"y{n}"]), MONTHS[match[f"m{n}"].lower()], int(match[f"d{n}"])))
    if match["m3"]:
        return _months(int(match["y3"]), MONTHS[match["m3"].lower()], 1)
    if match["month"]:
        return _months(int(raw[:4]), int(raw[5:]), 1)
    if match["week"]:
        first = date.fromisocalendar(int(raw[:4]), int(raw[6:]), 1)
        return first, first + timedelta(days=7)
    year = re.search(r"\d{4}", raw)
    quarter = re.search(r"Q([1-4])", raw)
    if year is None or quarter is None:
        raise ValueError("not a quarter")
    return _months(int(year.group()), 3 * int(quarter[1]) - 2, 3)


def _day(day: date) -> tuple[date, date]:
    return day, day + timedelta(days=1)


def _months(year: int, month: int, count: int) -> tuple[date, date]:
    last = month - 1 + count
    return date(year, month, 1), date(year + last // 12, last % 12 + 1, 1)


def _with_units(found: list[Token]) -> list[Token]:
    """A word or sign right after a number that is a unit's becomes one; ``g / L`` becomes ``g/L``."""
    out: list[Token] = []
    for token in found:
        before = out[-1] if out else None
        if before is not None and before.kind == "unit" and token.kind == "sign" and token.text == "/":
            out[-1] = Token("unit", before.text + "/", before.raw + "/", before.start, token.end)
        elif before is not None and before.kind == "unit" and before.text.endswith("/") and token.kind == "word":
            symbol, written = UNITS.get(token.raw, token.raw), before.raw + token.raw
            out[-1] = Token("unit", before.text + symbol, written, before.start, token.end)
        elif before is not None and before.kind == "number" and token.kind in ("word", "sign") and token.raw in UNITS:
            out.append(replace(token, kind="unit", text=UNITS[token.raw]))
        else:
            out.append(token)
    return out
