"""The words that decide what a question means, beside its subject: closed lists, in English.

Only what stands in ``NEUTRAL`` or ``ASKING`` may be there in one question and missing in
another of equal meaning; whatever word no list knows tells something.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import Final

_NEUTRAL: Final = """
an the is are was were be been being does did of in on at for into please kindly can could would we me you want let
let's hi hello thanks thank that which what there whats what's
"""
_ASKING: Final = """
show list find get give display fetch look search see tell retrieve shows lists finds searching looking
showing listing finding
"""
_NEGATIONS: Final = """
no not never none nor neither without except excepting excluding exclude excludes excluded minus other otherwise
cannot but non lacking lacks missing absent free omit omitting omitted ignoring ignore instead rather unless
hardly barely
"""
_EXTREMES: Final = """
highest lowest most least maximum minimum max min largest smallest greatest biggest fewest top bottom best worst
first last earliest latest oldest newest longest shortest fastest slowest more less fewer greater higher lower
larger smaller bigger better worse earlier later longer shorter ascending descending increasing decreasing
rising falling up down
"""
_RESTRICTING: Final = "only just solely exclusively alone including include includes included even also"
_STRUCTURE: Final = """
and or to from by per between through with within over under above below against than as each every all any
some both either exceeding beyond during across around approximately roughly nearly almost exactly
"""
_LINKS: Final = "for about with containing contain mentioning mention mentions matching called named regarding in of on"
_UPPER_TIMES: Final = "before until till preceding ending"
_LOWER_TIMES: Final = "after since following starting"

NEUTRAL: Final = frozenset(_NEUTRAL.split())
ASKING: Final = frozenset(_ASKING.split())
PLACING: Final = frozenset({"of", "in", "on", "at", "for", "into"})
"""They tell nothing before one figure, and may tell which is which before two."""
DOING: Final = frozenset({"do", "does", "did"})
ASKING_WHO: Final = frozenset({"who", "whom", "which", "whose"})
ARTICLES: Final = frozenset({"a", "an", "the"})
BEING: Final = frozenset({"is", "are", "was", "were"})
AFTER_ASKING: Final = frozenset({"a", "i", "us"})
"""They tell nothing behind words of asking, and much elsewhere: *vitamin a*, *phase i*, *us sites*."""

NEGATIONS: Final = frozenset(_NEGATIONS.split())
EXTREMES: Final = frozenset(_EXTREMES.split())
RESTRICTING: Final = frozenset(_RESTRICTING.split())
STRUCTURE: Final = frozenset(_STRUCTURE.split())
LINKS: Final = frozenset(_LINKS.split())
"""Words that may stand before the text that a search looks for, and add nothing to it."""

TIMES: Final = MappingProxyType(
    dict.fromkeys(_UPPER_TIMES.split(), "upper") | dict.fromkeys(_LOWER_TIMES.split(), "lower")
)
_COMPARED: Final = """
ge: at least, no less than, not less than, no fewer than, no lower than, not below, not under, >=, ≥
le: at most, no more than, not more than, no greater than, no higher than, not above, not over, up to, <=, ≤
gt: more than, greater than, higher than, larger than, bigger than, above, over, exceeding, beyond, >
lt: less than, fewer than, lower than, smaller than, below, under, <
"""
COMPARISONS: Final = tuple(
    (line[:2], tuple(phrase.split())) for line in _COMPARED.strip().splitlines() for phrase in line[3:].split(",")
)
"""What they mean where a number follows. *Not above* comes before *above*: the first that fits counts."""
BOUNDS: Final = MappingProxyType({"gt": "lower", "ge": "lower", "lt": "upper", "le": "upper"})
"""Which bound the number behind a comparison is."""

PLURALS: Final = frozenset({"news", "goods", "arms", "customs", "works", "glasses", "means", "lows", "highs"})
"""Words that are not the plural of what they look like."""

_COUNTS: Final = "one two three four five six seven eight nine ten"
COUNTS: Final = MappingProxyType({word: n for n, word in enumerate(_COUNTS.split(), 1)} | {"both": 2})

_UNITS: Final = """
mg g kg µg ng pg L mL µL dL m cm mm µm nm km s ms min h d bar mbar psi Pa kPa MPa K C F °C °F M mM µM nM mol mmol
U kU mU IU EU ppm ppb CV cv rpm Hz kHz V mV A mA W kW J kJ Da kDa mS mAU AU %
"""
_SPELLINGS: Final = """
L: l litre litres liter liters; mL: ml millilitre millilitres milliliter milliliters; µL: ul uL µl; dL: dl
µg: ug microgram micrograms; µm: um; µM: uM; mg: milligram milligrams; g: gram grams; kg: kilogram kilograms
ng: nanogram nanograms; h: hr hrs hour hours; min: mins minute minutes; s: sec secs second seconds
%: pct percent; CV: cv
"""
_SPELT: Final = [entry.partition(":") for entry in re.split(r"[;\n]", _SPELLINGS) if entry.strip()]
UNITS: Final = MappingProxyType(
    {unit: unit for unit in _UNITS.split()}
    | {spelling: unit.strip() for unit, _, spellings in _SPELT for spelling in spellings.split()}
)
"""Written form to symbol. Case tells units apart (mM, MM), so it is kept."""

_SPANS: Final = "day days week weeks fortnight fortnights month months quarter quarters year years weekend weekends"
_MOMENTS: Final = "second seconds minute minutes hour hours moment"
_SHIFTS: Final = "this last past previous next current coming preceding following latest these"
_DAYS: Final = """
today yesterday tomorrow currently recently recent lately nowadays ytd mtd qtd monday tuesday wednesday thursday
friday saturday sunday
"""
_NOW: Final = "now tonight morning afternoon evening noon midnight moment just"
SPANS: Final = frozenset(_SPANS.split())
MOMENTS: Final = frozenset(_MOMENTS.split())
SHIFTS: Final = frozenset(_SHIFTS.split())
DAYS: Final = frozenset(_DAYS.split())
NOW: Final = frozenset(_NOW.split())

_MONTHS: Final = """
january,jan february,feb march,mar april,apr may june,jun july,jul august,aug september,sep,sept october,oct
november,nov december,dec
"""
MONTHS: Final = MappingProxyType(
    {name: number for number, names in enumerate(_MONTHS.split(), 1) for name in names.split(",")}
)

_LOWER: Final = "min minimum lower least above over from since after start begin first"
_UPPER: Final = "max maximum upper most below under until till before to end last"
_SIDES: Final = MappingProxyType(dict.fromkeys(_LOWER.split(), "lower") | dict.fromkeys(_UPPER.split(), "upper"))


def side(parameter: str) -> str:
    """Which bound a parameter's name says it is: ``lower``, ``upper``, or neither."""
    found = {_SIDES[part] for part in re.split(r"[_-]", parameter) if part in _SIDES}
    return found.pop() if len(found) == 1 else ""
