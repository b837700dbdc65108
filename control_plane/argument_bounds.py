"""Bounds by their words: *above 95* is a least value, *until 2024-05-01* an end, and which of them take the figure itself in.

*More than 3* leaves 3 out, and ``min_stops`` takes its value in: of whole numbers and days the next one is the bound,
of other figures there is none, so who asks is asked, unless an example of the card says that it is meant so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Final

from contract.schema import Parameter, SqlType
from control_plane.argument_hits import Hit
from control_plane.confirm import NUMERIC, confirm_one
from control_plane.memo_terms import COMPARISONS, side
from control_plane.words import stems

Edge = str
"""``ge``, ``gt``, ``le`` or ``lt``; ``lower`` and ``upper`` do not say whether the figure itself counts, ``""`` says nothing."""

_WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ge": "least minimum min from since starting beginning between",
        "gt": "above over more greater exceeding after",
        "le": "most maximum max to through and",
        "lt": "below under less fewer before",
        "upper": "until till ending",
    }
)
_CUES: Final = {word: edge for edge, text in _WORDS.items() for word in text.split()}
_NAMED_STRICT: Final = frozenset({"above", "over", "after", "below", "under", "before"})
_NAMED_OPEN: Final = frozenset({"until", "till", "to", "end"})
_LOWER: Final = frozenset({"ge", "gt", "lower"})
_STRICTLY: Final[Mapping[str, Edge]] = MappingProxyType({"lower": "gt", "upper": "lt"})
_INCLUSIVELY: Final[Mapping[str, Edge]] = MappingProxyType({"lower": "ge", "upper": "le"})
_STRICT: Final = frozenset(_STRICTLY.values())
_INCLUDING: Final = frozenset(_INCLUSIVELY.values())
_OPEN: Final = frozenset({"lower", "upper"})
_TIMELY_TEXT: Final = "over from since after before until till to through between by starting beginning ending"
_TIMELY: Final = frozenset(_TIMELY_TEXT.split())
_YEAR: Final = re.compile(r"(19|20|21)[0-9]{2}")
_CUE_WINDOW: Final = 3
_NOUN: Final = 3
_LONG_NOUN: Final = 6


@dataclass(frozen=True, slots=True)
class Bounded:
    """``values`` by parameter, the figures ``said`` for them, and why nothing is filled where that can be told."""

    values: Mapping[str, Any] = field(default_factory=dict)
    said: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""


def is_bound(parameter: Parameter) -> bool:
    """Whether its name says that it is a least or a largest value."""
    return _edge_of(parameter) != ""


def bounded(question: str, group: Sequence[Parameter], hits: Sequence[Hit], examples: Iterable[str] = ()) -> Bounded:
    """The bounds that are said, each of the one parameter of its side. ``examples`` are those of the card."""
    values: dict[str, Any] = {}
    said: dict[str, str] = {}
    for hit in hits:
        edge = _edge(question[: hit.start])
        fitting = [item for item in group if edge and _is_lower(_edge_of(item)) == _is_lower(edge) and is_bound(item)]
        if len(fitting) != 1 or fitting[0].name in values:
            return Bounded()
        (parameter,) = fitting
        if parameter.type in NUMERIC and may_be_year(hit.value, question[: hit.start], has_unit=hit.has_unit):
            return Bounded(problem=f"“{hit.value}” may be a year or an amount")
        moved = _moved(parameter, edge, hit.value)
        if moved is None and not _is_shown(edge, examples):
            return Bounded(problem=_unequal(question, hit, parameter))
        value = confirm_one(parameter, hit.value if moved is None else moved)
        if value is None:
            return Bounded()
        values[parameter.name], said[parameter.name] = value, str(hit.value)
    if _is_empty(group, values):
        return Bounded(problem="the least value that is said is above the largest")
    return Bounded(values, said)


def unit_missing(question: str, group: Sequence[Parameter], hits: Sequence[Hit]) -> str:
    """Why numbers are none of a group's: each has a unit, and neither a unit nor what is measured is said."""
    units = {item.unit for item in group}
    if group[0].type not in NUMERIC or None in units or any(hit.has_unit for hit in hits):
        return ""
    said = stems(question)
    nouns = {part for item in group for part in stems(item.name) if not side(part)}
    if any(len(noun) >= _NOUN and word.startswith(noun[:_LONG_NOUN]) for noun in nouns for word in said):
        return ""
    return f"{' and '.join(str(hit.value) for hit in hits)} may be of anything: say the unit, {' or '.join(sorted(map(str, units)))}"


def _edge_of(parameter: Parameter) -> Edge:
    parts, of = set(re.split(r"[_-]", parameter.name)), side(parameter.name)
    if not of or parts & _NAMED_OPEN:
        return of
    return _STRICTLY[of] if parts & _NAMED_STRICT else _INCLUSIVELY[of]


def _edge(before: str) -> Edge:
    said = re.findall(r"[a-z]+|[<>=≤≥]+", before.lower())[-_CUE_WINDOW:]
    for meaning, phrase in COMPARISONS:  # *no more than* before *more than*
        if tuple(said[-len(phrase) :]) == phrase:
            return meaning
    if said[-1:] == ["and"] and "between" not in re.findall(r"[a-z]+", before.lower()):
        return ""
    return next((_CUES[word] for word in reversed(said) if word in _CUES), "")


def _is_lower(edge: str) -> bool:
    return edge in _LOWER


def _moved(parameter: Parameter, edge: Edge, value: Any) -> Any | None:
    """The bound that says the same of whole numbers and days, ``None`` where there is none."""
    own = _edge_of(parameter)
    if own in _OPEN or edge in _OPEN or own == edge:
        return value
    step = 1 if edge == "gt" or own == "lt" else -1
    if parameter.type is SqlType.INT64:
        number = Decimal(value)
        return str(int(number) + step) if number == number.to_integral_value() else None
    if parameter.type is SqlType.DATE:
        try:
            return (date.fromisoformat(value) + timedelta(days=step)).isoformat()
        except (ValueError, OverflowError):
            return value  # it is no date, which is found where it is confirmed
    return None


def _is_shown(edge: Edge, examples: Iterable[str]) -> bool:
    """Whether an example of the card has such a bound, so that its publisher takes *above* and *at least* for one."""
    alike = _STRICT if edge in _STRICT else _INCLUDING
    return any(_edge(text[: match.start()]) in alike for text in examples for match in re.finditer(r"-?\d+", text))


def _unequal(question: str, hit: Hit, parameter: Parameter) -> str:
    takes = _edge_of(parameter) in ("ge", "le")
    word = {"ge": "at least", "le": "at most", "gt": "above", "lt": "below"}[_edge_of(parameter)]
    out, in_ = ("leaves", "takes") if takes else ("takes", "leaves")
    which = ("out", "in") if takes else ("in", "out")
    return (
        f"what is said {out} {hit.value} itself {which[0]} and {parameter.name} {in_} it {which[1]}: "
        f"say {word} {hit.value}"
    )


def may_be_year(number: str, before: str, *, has_unit: bool) -> bool:
    """*From 2023*, *over 2024*: a time or an amount, where no unit says which. ``before`` are the words before it."""
    if has_unit or not _YEAR.fullmatch(number):
        return False
    return bool(_TIMELY.intersection(re.findall(r"[a-z]+", before.lower())[-2:]))


def _is_empty(group: Sequence[Parameter], values: Mapping[str, Any]) -> bool:
    """Whether no figure lies within the bounds: then they were meant in another way."""
    lower = [values[item.name] for item in group if item.name in values and _is_lower(_edge_of(item))]
    upper = [values[item.name] for item in group if item.name in values and not _is_lower(_edge_of(item))]
    if not lower or not upper:
        return False
    if group[0].type in NUMERIC:
        return Decimal(str(lower[0])) > Decimal(str(upper[0]))
    return group[0].type is SqlType.DATE and str(lower[0]) > str(upper[0])
