"""Formats of dates and times: the elements that mean the same on every engine, and what may stand beside them.

A format is written text. FORMAT_ functions accept what they can print alike; PARSE_ functions
only what one regular expression reads as GoogleSQL does, each field at most once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from contract.schema import SqlType
from queries.errors import Refused

S = SqlType
_ELEMENT: Final = re.compile(r"%(E\*S|E[0-9]S|E4Y|Ez|.)|([^%]+)|(%)", re.DOTALL)
_DATE: Final = frozenset("YmdFjybBhaAeDxGVuwUWQCgnt%") | {"E4Y"}
_TIME: Final = frozenset("HIMSpTRXnt%") | {"E*S", "E0S", "E3S", "E6S"}
_INSTANT: Final = frozenset("sz") | {"Ez"}
PRINTED: Final = {S.DATE: _DATE, S.DATETIME: _DATE | _TIME, S.TIME: _TIME, S.TIMESTAMP: _DATE | _TIME | _INSTANT}

_READ_DATE: Final = frozenset("YmdeybBhaAjDxnt%")
_READ_TIME: Final = frozenset("HIMSpTRnt%") | {"E*S", "E3S", "E6S"}
READ: Final = {
    S.DATE: _READ_DATE,
    S.DATETIME: _READ_DATE | _READ_TIME,
    S.TIME: _READ_TIME,
    S.TIMESTAMP: _READ_DATE | _READ_TIME | _INSTANT,
}
_EXPANDED: Final = {
    "T": "%H:%M:%S",
    "R": "%H:%M",
    "D": "%m/%d/%y",
    "x": "%m/%d/%y",
    "e": "%d",
    "B": "%b",
    "h": "%b",
    "A": "%a",
}
_MONTHS: Final = (
    "january|february|march|april|may|june|july|august|september|october|november|december|"
    "jan|feb|mar|apr|jun|jul|aug|sep|oct|nov|dec"
)
_DAYS: Final = "monday|tuesday|wednesday|thursday|friday|saturday|sunday|mon|tue|wed|thu|fri|sat|sun"
_BLANK: Final = " \t\n\x0b\f\r"
SPACE: Final = "[ \\t\\n\\x0b\\f\\r]"
# The fields of a text that was read, in the order in which an engine receives them.
FIELDS: Final = ("Y", "y", "m", "b", "d", "j", "H", "I", "p", "M", "S", "f", "z", "s")
_WIDTHS: Final = {"Y": 4, "y": 2, "m": 2, "d": 2, "j": 3, "H": 2, "I": 2, "M": 2, "S": 2}
_MAX_GROUPS: Final = 9


@dataclass(frozen=True, slots=True)
class Reading:
    """How PARSE_ reads a text: a regular expression, and its groups by field (``None`` where a field is absent)."""

    pattern: str
    groups: tuple[int | None, ...]


def elements(text: str, accepted: frozenset[str], function: str) -> list[tuple[str, bool]]:
    """The parts of a format: ``(element, True)`` or ``(literal text, False)``. Raises ``Refused``."""
    out = []
    if not text:
        raise Refused(f"{function} needs a format")
    for match in _ELEMENT.finditer(text):
        element, literal, bare = match.groups()
        if bare or (element is not None and element not in accepted):
            wanted = " ".join(f"%{one}" for one in sorted(accepted, key=lambda one: (len(one), one.lower(), one)))
            raise Refused(f"{function} does not accept %{element or ''} here; it accepts {wanted}")
        out.append((literal, False) if element is None else (element, True))
    return out


def reading(text: str, kind: SqlType) -> Reading:
    """How PARSE_ of ``kind`` reads by this format. Raises ``Refused``."""
    function = f"PARSE_{kind.value}"
    parts = []
    for element, special in elements(text, READ[kind], function):
        expanded = _EXPANDED.get(element) if special else None
        parts.extend(elements(expanded, READ[kind] | {"d", "b", "a"}, function) if expanded else [(element, special)])
    pattern, groups = "", dict.fromkeys(FIELDS, 0)
    for index, (element, special) in enumerate(parts):
        following = parts[index + 1] if index + 1 < len(parts) else None
        if special:
            pattern += _group(element, following, groups, function)
        else:
            before = parts[index - 1] if index else None
            pattern += _literal(element, after_year=before == ("Y", True) and not element.strip(_BLANK))
    _check_fields(groups, function)
    return Reading(f"^{SPACE}*{pattern}{SPACE}*$", tuple(groups[field] or None for field in FIELDS))


def _literal(text: str, *, after_year: bool) -> str:
    # A year takes a digit too many where there is one, so that space must follow it.
    return "".join(
        f"{SPACE}{'+' if after_year and index == 0 else '*'}" if char in _BLANK else re.escape(char)
        for index, char in enumerate(text)
    )


def _group(element: str, following: tuple[str, bool] | None, groups: dict[str, int], function: str) -> str:
    if element in "nt":
        return f"{SPACE}*"
    if element == "%":
        return "%"
    if element == "a":
        _check_following(following, str.isalpha, function)
        return f"(?i:{_DAYS})"
    field = {"E*S": "S", "E3S": "S", "E6S": "S", "Ez": "z"}.get(element, element)
    if groups[field]:
        raise Refused(f"{function} reads %{element} twice")
    groups[field] = max(groups.values()) + 1
    if element == "b":
        _check_following(following, str.isalpha, function)
        return f"(?i:({_MONTHS}))"
    if element == "p":
        return "(?i:(am|pm))"
    _check_following(following, lambda char: char.isdigit() or char in ".:+-" and field in "fzs", function)
    if element == "z":
        return "([+-][0-9]{2}(?:[0-9]{2})?)"
    if element == "Ez":
        return "([+-][0-9]{2}(?::?[0-9]{2})?|Z)"
    if element == "s":
        return "(-?[0-9]{1,12})"
    digits = following is not None and following[1] and following[0] not in "ntabp%" and following[0] not in ("z", "Ez")
    # Where digits follow, only the full width leaves one way to read them.
    group = f"([0-9]{{{_WIDTHS[field]}}})" if digits else f"([0-9]{{1,{_WIDTHS[field]}}})"
    if element in ("E*S", "E3S", "E6S"):
        groups["f"] = groups[field] + 1
        most = {"E3S": "1,3", "E6S": "1,6"}.get(element, "1,")
        group += f"(\\.[0-9]{{{most}}})?"
        if digits or (following is not None and not following[1] and following[0].startswith(".")):
            raise Refused(f"{function} reads nothing of digits right after %{element}")
    return group


def _check_following(following: tuple[str, bool] | None, clash: object, function: str) -> None:
    if following is not None and not following[1] and callable(clash) and clash(following[0][0]):
        raise Refused(f"{function} does not read {following[0][0]!r} right after an element that could take it")


def _check_fields(groups: dict[str, int], function: str) -> None:
    if max(groups.values()) > _MAX_GROUPS:
        raise Refused(f"{function} reads at most {_MAX_GROUPS} fields")
    if not any(groups[field] for field in FIELDS if field not in "bpf"):
        raise Refused(f"{function} needs a field of digits")
    for one, other in (("Y", "y"), ("m", "b"), ("j", "m"), ("j", "b"), ("j", "d"), ("H", "I"), ("H", "p")):
        if groups[one] and groups[other]:
            raise Refused(f"{function} does not read both %{one} and %{other}")
    if groups["p"] and not groups["I"]:
        raise Refused(f"{function} reads %p beside %I only")
    if groups["s"] and sum(map(bool, groups.values())) > 1:
        raise Refused(f"{function} reads %s alone")
