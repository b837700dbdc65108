"""Scopes only narrow, and constraints have one meaning."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.scope import (
    Constraint,
    Mask,
    Obligations,
    Scope,
    ScopeError,
    Sensitivity,
    meet_columns,
    parse_rows,
    widening,
)

VALUES = st.one_of(st.integers(-5, 5), st.sampled_from(["a", "b", "ab", "1", "2"]))
NUMBERS = st.one_of(st.integers(-50, 50), st.decimals(-50, 50, places=2).map(str))


@st.composite
def constraints(draw: st.DrawFn) -> Constraint:
    raw = {
        "one_of": draw(st.none() | st.lists(VALUES, max_size=4)),
        "not_one_of": draw(st.none() | st.lists(VALUES, min_size=1, max_size=4)),
        "max": draw(st.none() | NUMBERS),
        "min": draw(st.none() | NUMBERS),
        "prefix": draw(st.none() | st.sampled_from(["a", "ab", "b"])),
    }
    given_members = {kind: value for kind, value in raw.items() if value is not None}
    return Constraint.parse(given_members or {"prefix": "a"})


@given(constraints())
def test_a_constraint_survives_its_json(constraint: Constraint) -> None:
    assert Constraint.parse(constraint.to_json()) == constraint


@given(constraints())
def test_a_constraint_covers_itself(constraint: Constraint) -> None:
    assert constraint.covers(constraint)


@given(constraints(), constraints())
def test_both_sides_cover_their_conjunction(left: Constraint, right: Constraint) -> None:
    try:
        both = left.meet(right)
    except ScopeError:
        return
    assert left.covers(both)
    assert right.covers(both)


@given(constraints(), constraints(), constraints())
def test_covering_is_transitive(a: Constraint, b: Constraint, c: Constraint) -> None:
    if a.covers(b) and b.covers(c):
        assert a.covers(c)


def test_decimal_bounds_order_as_numbers_and_not_as_text() -> None:
    nine = Constraint.parse({"max": "9"})
    assert not nine.covers(Constraint.parse({"max": "10"}))
    assert nine.covers(Constraint.parse({"max": "8.5"}))
    assert nine.meet(Constraint.parse({"max": 10})).max == "9"


@pytest.mark.parametrize(
    "raw",
    [
        {},
        [],
        {"regex": "a"},
        {"one_of": "a"},
        {"one_of": [True]},
        {"one_of": [1.5]},
        {"max": "zebra"},
        {"max": 2**60},
        {"prefix": ""},
        {"one_of": [None]},
        {"one_of": ["x"] * 2_000},
    ],
)
def test_an_unknown_or_misshapen_constraint_is_refused(raw: object) -> None:
    with pytest.raises(ScopeError):
        Constraint.parse(raw)


@pytest.mark.parametrize("column", ["site", "a.b.c", ".b", "a."])
def test_row_constraints_are_keyed_by_table_and_column(column: str) -> None:
    with pytest.raises(ScopeError):
        parse_rows({column: {"one_of": ["x"]}})


def scope(**changes: object) -> Scope:
    members: dict[str, object] = {
        "dataset": "d",
        "dataset_version": "1",
        "revision": "r",
        "actions": frozenset({"a", "b"}),
        "locations": frozenset({"urn:x"}),
        "max_sensitivity": Sensitivity.CONFIDENTIAL,
        "columns": frozenset({"t.a", "t.b"}),
        "constraints": parse_rows({"t.a": {"one_of": ["x", "y"]}}),
    }
    return Scope(**(members | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("member", "change"),
    [
        ("identifier", {"dataset": "e"}),
        ("dataset_version", {"dataset_version": "2"}),
        ("revision", {"revision": "s"}),
        ("actions", {"actions": frozenset({"a", "c"})}),
        ("locations", {"locations": frozenset({"urn:x", "urn:y"})}),
        ("max_sensitivity", {"max_sensitivity": Sensitivity.RESTRICTED}),
        ("columns", {"columns": None}),
        ("columns", {"columns": frozenset({"t.c"})}),
        ("constraints", {"constraints": parse_rows({})}),
        ("constraints", {"constraints": parse_rows({"t.a": {"one_of": ["x", "z"]}})}),
        ("constraints", {"constraints": parse_rows({"t.a": {"prefix": "x"}})}),
    ],
)
def test_each_wider_member_is_named(member: str, change: dict[str, object]) -> None:
    assert scope().widening(scope(**change)) == member


def test_a_narrower_scope_widens_nothing() -> None:
    child = scope(
        actions=frozenset({"a"}),
        max_sensitivity=Sensitivity.PUBLIC,
        columns=frozenset({"t.a"}),
        constraints=parse_rows({"t.a": {"one_of": ["x"]}, "t.b": {"max": 3}}),
    )
    assert scope().widening(child) is None


def test_no_column_list_means_every_column() -> None:
    assert meet_columns(None, frozenset({"t.a"})) == frozenset({"t.a"})
    assert meet_columns(frozenset({"t.a"}), frozenset({"t.b"})) == frozenset()


def test_obligations_of_two_policies_hold_together() -> None:
    left = Obligations(masks={"t.a": Mask.TRUNCATE, "t.b": Mask.NULL})
    right = Obligations(masks={"t.a": Mask.HASH, "t.b": Mask.HASH})
    assert dict(left.meet(right).masks) == {"t.a": Mask.HASH, "t.b": Mask.NULL}


def test_each_fault_of_a_constraint_and_of_scopes_is_told_by_its_own_words() -> None:
    def told(make: Callable[[], object]) -> str:
        with pytest.raises(ScopeError) as fault:
            make()
        return str(fault.value)

    assert told(Constraint) == "a constraint must restrict something"
    assert told(lambda: Constraint.parse({})) == "a constraint is a non-empty object"
    assert told(lambda: Constraint.parse({"regex": ".*"})) == "unknown constraint 'regex'"
    assert told(lambda: Constraint(max=1).meet(Constraint(max="2026-01-31"))).startswith("bounds of different types")
    assert told(lambda: parse_rows([])) == "constraints must be an object"
    assert told(lambda: parse_rows({"t." + "x" * 255: {"max": 1}})).endswith("is not table.column")


def test_the_last_scope_is_not_dropped() -> None:
    scope = Scope("d", "1", "r", frozenset({"a"}), frozenset({"urn:a"}), Sensitivity.PUBLIC)
    assert widening([scope], []) == "authorization_details"
    assert widening([], []) is None
