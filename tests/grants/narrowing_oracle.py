"""An independent judge of narrowing, written from the profile's text alone, over claims as plain JSON.

It knows nothing of the code under test (a test looks at its imports). It answers two
questions. ``wider`` is about meaning: is there anything at all, out of a small universe of
rows, columns, capabilities, agents and instants, that the child lets pass and the parent does
not? ``legal`` is about form: is the child narrower by the profile's own rules, member by
member? What is legal must never be wider; what is wider must never be accepted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from fractions import Fraction
from typing import Any, Final

Json = Mapping[str, Any]

SENSITIVITIES: Final = ("public", "internal", "confidential", "restricted")
SETS: Final = ("one_of", "not_one_of")
BOUNDS: Final = ("max", "min")
KINDS: Final = (*SETS, *BOUNDS, "prefix")

# columns and their values


def _day(text: str) -> date:
    return date.fromisoformat(text)


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


TYPES: Final[Mapping[str, str]] = {
    "t.name": "text",
    "t.count": "integer",
    "t.amount": "decimal",
    "t.share": "float",
    "t.day": "day",
    "t.at": "moment",
    "t.flag": "boolean",
}
COLUMNS: Final = (*TYPES, "t.other")
"""Those that a grant may name; ``t.unlisted`` stands for all that none names."""
UNIVERSE: Final[Mapping[str, tuple[Any, ...]]] = {
    "text": (None, "", "a", "ab", "abc", "b", "ba", "9", "10", "100", "2024-01-01", "true", "\u00e9", "A"),
    "integer": (None, -11, -1, 0, 1, 8, 9, 10, 11, 100, 2**53 + 1),
    "decimal": (None, *map(Fraction, ("-10", "-0.5", "0", "9", "9.5", "9.75", "10", "10.000000001", "100"))),
    "float": (None, *map(Fraction, ("-10", "-0.5", "0", "9", "9.5", "9.75", "10", "100"))),
    "day": (None, *map(_day, ("2023-12-31", "2024-01-01", "2024-01-02", "2024-02-29", "2024-12-31"))),
    "moment": (
        None,
        *map(
            _moment,
            (
                "2023-12-31T23:59:59.999999Z",
                "2024-01-01T00:00:00.000000Z",
                "2024-01-01T00:00:00.000001Z",
                "2024-01-01T12:00:00.000000Z",
                "2024-01-02T00:00:00.000000Z",
            ),
        ),
    ),
    "boolean": (None, True, False),
}


# what a constraint means: on a column of its type, as the author of the grant understood it


def passing(kind: str, constraint: Json | None) -> frozenset[Any]:
    """The values of the universe that a constraint lets pass, all of them without one; a NULL never passes any.

    A receiver may refuse a call whose constraint does not fit its column, and so let pass
    less than this, never more (``fits`` says when).
    """
    if constraint is None:
        return frozenset(UNIVERSE[kind])
    tests = [_test(kind, name, value) for name, value in constraint.items()]
    return frozenset(v for v in UNIVERSE[kind] if v is not None and all(test(v) for test in tests))


def fits(kind: str, constraint: Json) -> bool:
    """Whether every value of a constraint is one that a column's type can hold."""
    for name, given in constraint.items():
        if name in SETS:
            if any(_value(kind, item) is None for item in given):
                return False
        elif name in BOUNDS:
            if kind not in ORDERED or _value(kind, given) is None:
                return False
        elif kind != "text":
            return False
    return True


def _test(kind: str, name: str, given: Any) -> Callable[[Any], bool]:
    if name in SETS:
        members = [value for value in (_value(kind, item) for item in given) if value is not None]
        return (lambda value: value in members) if name == "one_of" else (lambda value: value not in members)
    if name in BOUNDS:
        bound = _place(kind, given)
        if bound is None:
            return lambda value: False
        return (
            (lambda value: bool(_rank_of(value) <= bound))
            if name == "max"
            else (lambda value: bool(_rank_of(value) >= bound))
        )
    return lambda value: kind == "text" and value.startswith(given)


def _place(kind: str, bound: Any) -> Any:
    """Where a bound stands among a column's values, though it need be none of them; ``None`` where nowhere."""
    found = _order(bound)
    wanted = {"day": "day", "moment": "moment"}.get(kind, "number")
    return found[1] if kind in ORDERED and found is not None and found[0] == wanted else None


def _rank_of(value: Any) -> Any:
    if isinstance(value, datetime):
        at = value.astimezone(UTC)
        return (at.year, at.month, at.day, at.hour, at.minute, at.second, at.microsecond)
    return (value.year, value.month, value.day) if isinstance(value, date) else value


def _value(kind: str, given: Any) -> Any:
    """A constraint's value as a value of a column's type, ``None`` where it is none."""
    if not isinstance(given, (str, int)):
        return None
    if kind == "text":
        return given if isinstance(given, str) else None
    if kind == "boolean":
        return {"true": True, "false": False}.get(str(given))
    if kind == "integer":
        return _integer(given)
    text = str(given)
    if kind in ("decimal", "float"):
        return Fraction(text) if re.fullmatch(r"-?0*[0-9]{1,29}(\.[0-9]{1,9})?", text) else None
    form = r"[0-9]{4}-[0-9]{2}-[0-9]{2}" if kind == "day" else r"[0-9]{4}(-[0-9]{2}){2}T[0-9:.]+(Z|[+-][0-9:]{5})"
    try:
        return (_day if kind == "day" else _moment)(text) if re.fullmatch(form, text) else None
    except ValueError:
        return None


def _integer(given: Any) -> int | None:
    """Beyond 2**53-1 an integer travels as text, and only then."""
    if isinstance(given, int):
        return given
    plain = re.fullmatch(r"-?(0|[1-9][0-9]{0,18})", given) is not None
    return int(given) if plain and abs(int(given)) >= 2**53 else None


ORDERED: Final = ("integer", "decimal", "float", "day", "moment")


# meaning


def wider(parent: Json, child: Json) -> list[str]:
    """The members in which the child lets anything pass that the parent does not."""
    found = [] if _details_of(child).keys() <= _details_of(parent).keys() else ["identifier"]
    for dataset, below in _details_of(child).items():
        above = _details_of(parent).get(dataset)
        if above is not None:
            found += _wider_detail(above, below)
    if child["exp"] > parent["exp"]:
        found.append("exp")
    if child["del_max_depth"] > parent["del_max_depth"]:
        found.append("del_max_depth")
    return found


def _wider_detail(above: Json, below: Json) -> list[str]:
    found = [name for name in ("dataset_version", "revision") if above[name] != below[name]]
    found += [name for name in ("actions", "locations") if set(below[name]) - set(above[name])]
    if _rank(below) > _rank(above):
        found.append("max_sensitivity")
    if _columns(below) - _columns(above):
        found.append("columns")
    rows_above, rows_below = above.get("constraints", {}), below.get("constraints", {})
    for column, kind in TYPES.items():
        if passing(kind, rows_below.get(column)) - passing(kind, rows_above.get(column)):
            found.append("constraints")
    return found


def _details_of(claims: Json) -> dict[str, Json]:
    return {detail["identifier"]: detail for detail in claims["authorization_details"]}


def _rank(detail: Json) -> int:
    return SENSITIVITIES.index(detail["max_sensitivity"])


def _columns(detail: Json) -> set[str]:
    listed = detail.get("columns")
    return {*COLUMNS, "t.unlisted"} if listed is None else set(listed)


# form


def legal(parent: Json, child: Json) -> bool:
    """Whether the child is narrower by the rules of the profile, member by member."""
    above = _details_of(parent)
    details: Sequence[Json] = child["authorization_details"]
    return (
        child["exp"] <= parent["exp"]
        and child["del_depth"] == parent["del_depth"] + 1
        and child["del_depth"] <= child["del_max_depth"] <= parent["del_max_depth"]
        and (bool(details) or not above)
        and len(details) == len({detail["identifier"] for detail in details})
        and all(d["identifier"] in above and _legal_detail(above[d["identifier"]], d) for d in details)
    )


def well_formed(claims: Json) -> bool:
    """Whether every constraint is in the vocabulary."""
    rows = [row for detail in claims["authorization_details"] for row in detail.get("constraints", {}).values()]
    return all(known(row) for row in rows)


def known(constraint: Json) -> bool:
    """Whether a constraint is in the vocabulary: its kinds, their forms, and bounds that have an order."""
    return (
        bool(constraint)
        and set(constraint) <= set(KINDS)
        and all(_order(constraint[name]) is not None for name in BOUNDS if name in constraint)
        and all(isinstance(item, (str, int)) for name in SETS for item in constraint.get(name, ()))
        and (constraint.get("prefix", "x") != "")
    )


def _legal_detail(above: Json, below: Json) -> bool:
    rows = below.get("constraints", {})
    return (
        below["dataset_version"] == above["dataset_version"]
        and below["revision"] == above["revision"]
        and set(below["actions"]) <= set(above["actions"])
        and set(below["locations"]) <= set(above["locations"])
        and _rank(below) <= _rank(above)
        and _columns(below) <= _columns(above)
        and all(name in rows and tighter(held, rows[name]) for name, held in above.get("constraints", {}).items())
    )


def tighter(above: Json, below: Json) -> bool:
    """Whether every kind of constraint that is held stays, at least as tight."""
    return all(name in below and _TIGHTER[name](value, below[name]) for name, value in above.items())


def _within(inner: Iterable[Any], outer: Iterable[Any]) -> bool:
    """Of equal type and equal value: ``1`` is not ``"1"``."""
    return {(type(v), v) for v in inner} <= {(type(v), v) for v in outer}


def _at_most(low: Any, high: Any) -> bool:
    left, right = _order(low), _order(high)
    return left is not None and right is not None and left[0] == right[0] and bool(left[1] <= right[1])


def _order(bound: Any) -> tuple[str, Any] | None:
    """The kind of a bound and its place in the order of that kind; a day that no calendar has is none."""
    text = str(bound)
    if isinstance(bound, int) or re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", text):
        return "number", Fraction(text)
    try:
        if re.fullmatch(r"[0-9]{4}(-[0-9]{2}){2}", text):
            return "day", _rank_of(_day(text))
        if re.fullmatch(r"[0-9]{4}(-[0-9]{2}){2}T([01][0-9]|2[0-3])(:[0-9]{2}){2}\.[0-9]{6}Z", text):
            return "moment", _rank_of(_moment(text))
    except ValueError:
        pass
    return None


def is_bound(value: Any) -> bool:
    """Whether a value may stand in ``max`` or ``min``."""
    return _order(value) is not None


_TIGHTER: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "one_of": lambda above, below: _within(below, above),
    "not_one_of": lambda above, below: _within(above, below),
    "max": lambda above, below: _at_most(below, above),
    "min": lambda above, below: _at_most(above, below),
    "prefix": lambda above, below: bool(below.startswith(above)),
}
