"""The words that decide what a question means, beside its subject: closed lists, in English.

Only what stands in ``NEUTRAL`` or ``ASKING`` may be there in one question and missing in
another of equal meaning; whatever word no list knows tells something.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import Final

NEUTRAL: Final = frozenset(
    [
        "a",
        "an",
        "the",
        "is",
        "are",
        "was",
        "were",
        "be",
        "been",
        "being",
        "do",
        "does",
        "did",
        "of",
        "in",
        "on",
        "at",
        "for",
        "about",
        "into",
        "please",
        "kindly",
        "can",
        "could",
        "would",
        "i",
        "we",
        "me",
        "us",
        "you",
        "want",
        "like",
        "need",
        "need's",
        "let",
        "let's",
        "hi",
        "hello",
        "thanks",
        "thank",
        "that",
        "which",
        "what",
        "there",
        "whats",
        "what's",
    ]
)
ASKING: Final = frozenset(
    [
        "show",
        "list",
        "find",
        "get",
        "give",
        "display",
        "fetch",
        "look",
        "search",
        "see",
        "tell",
        "retrieve",
        "shows",
        "lists",
        "finds",
        "searching",
        "looking",
        "showing",
        "listing",
        "finding",
    ]
)
NEGATIONS: Final = frozenset(
    [
        "no",
        "not",
        "never",
        "none",
        "nor",
        "neither",
        "without",
        "except",
        "excepting",
        "excluding",
        "exclude",
        "excludes",
        "excluded",
        "minus",
        "other",
        "otherwise",
        "cannot",
        "but",
        "non",
        "lacking",
        "lacks",
        "missing",
        "absent",
        "free",
        "omit",
        "omitting",
        "omitted",
        "ignoring",
        "ignore",
        "instead",
        "rather",
        "unless",
        "hardly",
        "barely",
    ]
)
EXTREMES: Final = frozenset(
    [
        "highest",
        "lowest",
        "most",
        "least",
        "maximum",
        "minimum",
        "max",
        "min",
        "largest",
        "smallest",
        "greatest",
        "biggest",
        "fewest",
        "top",
        "bottom",
        "best",
        "worst",
        "first",
        "last",
        "earliest",
        "latest",
        "oldest",
        "newest",
        "longest",
        "shortest",
        "fastest",
        "slowest",
        "more",
        "less",
        "fewer",
        "greater",
        "higher",
        "lower",
        "larger",
        "smaller",
        "bigger",
        "better",
        "worse",
        "earlier",
        "later",
        "longer",
        "shorter",
        "ascending",
        "descending",
        "increasing",
        "decreasing",
        "rising",
        "falling",
        "up",
        "down",
    ]
)
RESTRICTING: Final = frozenset(
    ["only", "just", "solely", "exclusively", "alone", "including", "include", "includes", "included", "even", "also"]
)
TIMES: Final = MappingProxyType(
    {
        **dict.fromkeys(("before", "until", "till", "preceding", "ending"), "upper"),
        **dict.fromkeys(("after", "since", "following", "starting"), "lower"),
    }
)
STRUCTURE: Final = frozenset(
    [
        "and",
        "or",
        "to",
        "from",
        "by",
        "per",
        "between",
        "through",
        "with",
        "within",
        "over",
        "under",
        "above",
        "below",
        "against",
        "than",
        "as",
        "each",
        "every",
        "all",
        "any",
        "some",
        "both",
        "either",
        "exceeding",
        "beyond",
        "during",
        "across",
        "around",
        "approximately",
        "roughly",
        "nearly",
        "almost",
        "exactly",
    ]
)
LINKS: Final = frozenset(
    [
        "for",
        "about",
        "with",
        "containing",
        "contain",
        "mentioning",
        "mention",
        "mentions",
        "matching",
        "called",
        "named",
        "regarding",
        "in",
        "of",
        "on",
    ]
)
"""Words that may stand before the text that a search looks for, and add nothing to it."""

COMPARISONS: Final = (
    ("ge", ("at", "least")),
    ("ge", ("no", "less", "than")),
    ("ge", ("not", "less", "than")),
    ("ge", ("no", "fewer", "than")),
    ("ge", ("no", "lower", "than")),
    ("ge", ("not", "below")),
    ("ge", ("not", "under")),
    ("le", ("at", "most")),
    ("le", ("no", "more", "than")),
    ("le", ("not", "more", "than")),
    ("le", ("no", "greater", "than")),
    ("le", ("no", "higher", "than")),
    ("le", ("not", "above")),
    ("le", ("not", "over")),
    ("le", ("up", "to")),
    *(("gt", (word, "than")) for word in ("more", "greater", "higher", "larger", "bigger")),
    *(("lt", (word, "than")) for word in ("less", "fewer", "lower", "smaller")),
    *(("gt", (word,)) for word in ("above", "over", "exceeding", "beyond", ">")),
    *(("lt", (word,)) for word in ("below", "under", "<")),
    *(("ge", (word,)) for word in (">=", "≥")),
    *(("le", (word,)) for word in ("<=", "≤")),
)
"""Before a number only; longer ones first."""

COUNTS: Final = MappingProxyType(
    {
        word: n
        for n, word in enumerate(["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"], 1)
    }
    | {"both": 2}
)
_UNITS: Final = """mg g kg µg ng pg L mL µL dL m cm mm µm nm km s ms min h d bar mbar psi Pa kPa MPa K C F °C °F M mM
    µM nM mol mmol U kU mU IU EU ppm ppb CV rpm Hz kHz V mV A mA W kW J kJ Da kDa mS mAU AU %"""
UNITS: Final = MappingProxyType(
    {unit: unit for unit in _UNITS.split()}
    | {"l": "L", "ml": "mL", "ul": "µL", "uL": "µL", "µl": "µL", "dl": "dL", "ug": "µg", "um": "µm", "uM": "µM"}
    | {"hr": "h", "hrs": "h", "mins": "min", "sec": "s", "secs": "s", "pct": "%", "percent": "%", "cv": "CV"}
    | {"minute": "min", "minutes": "min", "hour": "h", "hours": "h", "second": "s", "seconds": "s"}
    | {"milligram": "mg", "milligrams": "mg", "gram": "g", "grams": "g", "kilogram": "kg", "kilograms": "kg"}
    | {"microgram": "µg", "micrograms": "µg", "nanogram": "ng", "nanograms": "ng"}
    | {"litre": "L", "litres": "L", "liter": "L", "liters": "L", "millilitre": "mL", "millilitres": "mL"}
    | {"milliliter": "mL", "milliliters": "mL"}
)
"""Written form to symbol. Case tells units apart (mM, MM), so it is kept."""

SPANS: Final = frozenset(
    [
        "day",
        "days",
        "week",
        "weeks",
        "fortnight",
        "fortnights",
        "month",
        "months",
        "quarter",
        "quarters",
        "year",
        "years",
        "weekend",
        "weekends",
    ]
)
MOMENTS: Final = frozenset(["second", "seconds", "minute", "minutes", "hour", "hours", "moment"])
SHIFTS: Final = frozenset(
    ["this", "last", "past", "previous", "next", "current", "coming", "preceding", "following", "latest", "these"]
)
DAYS: Final = frozenset(
    [
        "today",
        "yesterday",
        "tomorrow",
        "currently",
        "recently",
        "recent",
        "lately",
        "nowadays",
        "ytd",
        "mtd",
        "qtd",
        "monday",
        "tuesday",
        "wednesday",
        "thursday",
        "friday",
        "saturday",
        "sunday",
    ]
)
NOW: Final = frozenset(["now", "tonight", "morning", "afternoon", "evening", "noon", "midnight", "moment", "just"])
MONTHS: Final = MappingProxyType(
    {
        name: number
        for number, names in enumerate(
            [
                "january,jan",
                "february,feb",
                "march,mar",
                "april,apr",
                "may",
                "june,jun",
                "july,jul",
                "august,aug",
                "september,sep,sept",
                "october,oct",
                "november,nov",
                "december,dec",
            ],
            1,
        )
        for name in names.split(",")
    }
)

_LOWER: Final = [
    "min",
    "minimum",
    "lower",
    "least",
    "above",
    "over",
    "from",
    "since",
    "after",
    "start",
    "begin",
    "first",
]
_UPPER: Final = ["max", "maximum", "upper", "most", "below", "under", "until", "till", "before", "to", "end", "last"]
_SIDES: Final = MappingProxyType(dict.fromkeys(_LOWER, "lower") | dict.fromkeys(_UPPER, "upper"))


def side(parameter: str) -> str:
    """Which bound a parameter's name says it is: ``lower``, ``upper``, or neither."""
    found = {_SIDES[part] for part in re.split(r"[_-]", parameter) if part in _SIDES}
    return found.pop() if len(found) == 1 else ""
