"""Arguments: strict types, one canonical form, no value in a message."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.canonical import canonical_json
from contract.schema import Parameter
from contract.verdict import NotGranted, Reason
from queries.bind import ArgumentsMissing, Bound, bind
from tests.queries.world import parameter, template

COLUMNS = {
    "STRING": "note", "INT64": "id", "FLOAT64": "score", "NUMERIC": "amount", "BOOL": "paid", "DATE": "day",
    "TIMESTAMP": "at",
}  # fmt: skip


def bound(declared: Parameter, *value: Any) -> Bound:
    column = COLUMNS[declared.type.value]
    test = f"IN UNNEST(@{declared.name})" if declared.repeated else f"= @{declared.name}"
    loaded = template(f"SELECT id FROM orders WHERE `{column}` {test} ORDER BY id", "id:INT64", declared)
    return bind(loaded, {declared.name: value[0]} if value else {})


def value_of(declared: Parameter, *value: Any) -> tuple[Any, Any]:
    made = bound(declared, *value)
    return made.values[declared.name], made.canonical[declared.name]


@pytest.mark.parametrize(
    ("kind", "value", "python", "canonical"),
    [
        ("INT64", 5, 5, 5),
        ("INT64", "9007199254740993", 9007199254740993, "9007199254740993"),
        ("INT64", 9007199254740993, 9007199254740993, "9007199254740993"),
        ("INT64", -(2**63), -(2**63), "-9223372036854775808"),
        ("FLOAT64", 5, 5.0, 5.0),
        ("FLOAT64", -0.0, 0.0, 0.0),
        ("NUMERIC", "1.500", Decimal("1.5"), "1.5"),
        ("NUMERIC", "-0.0", Decimal(0), "0"),
        ("NUMERIC", 95.5, Decimal("95.5"), "95.5"),
        ("NUMERIC", 100, Decimal(100), "100"),
        ("NUMERIC", "12345678901234567890123456789.123456789", Decimal("12345678901234567890123456789.123456789"), "12345678901234567890123456789.123456789"),
        ("NUMERIC", "007.10", Decimal("7.1"), "7.1"),
        ("BOOL", True, True, True),
        ("DATE", "2024-02-29", dt.date(2024, 2, 29), "2024-02-29"),
        ("TIMESTAMP", "2024-02-29T12:00:00+02:00", dt.datetime(2024, 2, 29, 10, tzinfo=dt.UTC), "2024-02-29T10:00:00.000000Z"),
        ("TIMESTAMP", "2024-02-29 12:00:00.5Z", dt.datetime(2024, 2, 29, 12, 0, 0, 500000, tzinfo=dt.UTC), "2024-02-29T12:00:00.500000Z"),
        ("STRING", "e\u0301", "\u00e9", "\u00e9"),
    ],
)  # fmt: skip
def test_a_value_has_one_form(kind: str, value: Any, python: Any, canonical: Any) -> None:
    got, shown = value_of(parameter(f"x:{kind}"), value)
    assert (got, shown) == (python, canonical)
    assert type(got) is type(python)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("INT64", True), ("INT64", 1.0), ("INT64", "12"), ("INT64", 2**63), ("INT64", "0x10"), ("INT64", None), ("INT64", [1]),
        ("INT64", "99999999999999999999"), ("INT64", "٣"), ("FLOAT64", "1.5"), ("FLOAT64", True), ("FLOAT64", float("nan")),
        ("FLOAT64", float("inf")), ("FLOAT64", 2**60), ("NUMERIC", "1.0000000001"), ("NUMERIC", "1e5"), ("NUMERIC", "NaN"),
        ("NUMERIC", "1" * 30), ("NUMERIC", ""), ("NUMERIC", " 1"), ("NUMERIC", True), ("NUMERIC", 1e-12), ("BOOL", 1),
        ("BOOL", "TRUE"), ("DATE", "2023-02-29"), ("DATE", "20240229"), ("DATE", "2024-2-9"), ("DATE", 20240229),
        ("DATE", "2024-02-29T00:00:00Z"), ("TIMESTAMP", "2023-05-06T12:00:00"), ("TIMESTAMP", "2023-05-06"),
        ("TIMESTAMP", "2024-02-29T12:00:00.1234567Z"), ("TIMESTAMP", "2024-02-29T12:00:60Z"),
        ("TIMESTAMP", "0001-01-01T00:00:00+14:00"), ("STRING", 5), ("STRING", "a\x00b"), ("STRING", "\ud800"),
        ("STRING", "x" * 257), ("STRING", {"$ne": 1}), ("STRING", ["x"]),
    ],
)  # fmt: skip
def test_a_value_of_another_type_is_refused_without_being_shown(kind: str, value: Any) -> None:
    with pytest.raises(NotGranted) as refused:
        bound(parameter(f"secret:{kind}"), value)
    assert refused.value.reason is Reason.ARGUMENTS_INVALID
    assert refused.value.message.startswith("parameter secret ")
    if isinstance(value, str) and len(value) > 3:
        assert value not in refused.value.message


def test_an_argument_that_is_not_declared_is_refused() -> None:
    loaded = template("SELECT id FROM orders ORDER BY id", "id:INT64")
    with pytest.raises(NotGranted) as refused:
        bind(loaded, {"batch": 4_711, "id": 1})
    assert refused.value.reason is Reason.ARGUMENTS_INVALID
    assert refused.value.message == "the capability does not take argument batch"


@pytest.mark.parametrize("name", ["", "Batch", "x" * 65, "a b", "naïve", "1; DROP TABLE", "a\x1b[31m", "line\nbreak"])
def test_an_argument_whose_name_is_no_name_is_refused_without_it(name: str) -> None:
    loaded = template("SELECT id FROM orders ORDER BY id", "id:INT64")
    with pytest.raises(NotGranted) as refused:
        bind(loaded, {name: "secret"})
    assert refused.value.message == "the capability does not take an argument of the call"


def test_a_required_parameter_must_be_there_and_a_default_fills_the_gap() -> None:
    with pytest.raises(ArgumentsMissing, match="the call does not say: x"):
        bound(parameter("x:INT64"))
    assert bound(parameter("x:INT64", default=7)).canonical == {"x": 7}
    assert bound(parameter("x:INT64", nullable=True)).canonical == {"x": None}


def test_null_is_taken_only_where_it_is_declared() -> None:
    assert bound(parameter("x:INT64", nullable=True, default=7), None).canonical == {"x": None}
    with pytest.raises(NotGranted, match="must not be null"):
        bound(parameter("x:INT64", default=7), None)


def test_a_repeated_argument_is_a_sorted_set() -> None:
    declared = parameter("x:STRING[]", case="upper", max_items=4)
    assert value_of(declared, ["b", "A", "a", "B"])[1] == ["A", "B"]
    assert value_of(declared, [])[1] == []
    with pytest.raises(NotGranted, match="at most 4"):
        bound(declared, ["a", "a", "a", "a", "a"])
    with pytest.raises(NotGranted, match="must be a list"):
        bound(declared, "a")
    with pytest.raises(NotGranted):
        bound(declared, ["a", None])


def test_case_values_and_pattern_are_checked_on_the_form_that_is_bound() -> None:
    region = parameter("x:STRING", case="upper", values=("EU", "US"))
    assert value_of(region, "eu")[0] == "EU"
    with pytest.raises(NotGranted, match="declared values"):
        bound(region, "APAC")
    batch = parameter("x:STRING", pattern="B[0-9]{3}")
    assert value_of(batch, "B001")[0] == "B001"
    for text in ("B001\n", "xB001", "B0011", "b001"):
        with pytest.raises(NotGranted, match="declared pattern"):
            bound(batch, text)


def test_bounds_are_inclusive_and_of_the_type() -> None:
    day = parameter("x:DATE", minimum="2024-01-01", maximum="2024-12-31")
    assert value_of(day, "2024-12-31")[1] == "2024-12-31"
    with pytest.raises(NotGranted, match="maximum"):
        bound(day, "2025-01-01")
    amount = parameter("x:NUMERIC", minimum=0)
    with pytest.raises(NotGranted, match="minimum"):
        bound(amount, "-0.000000001")


@given(st.integers(-(2**63), 2**63 - 1))
def test_every_integer_has_a_canonical_json_form(number: int) -> None:
    made = bound(parameter("x:INT64"), number)
    canonical_json(dict(made.canonical))
    assert int(made.canonical["x"]) == number


@given(st.decimals(min_value=-(10**28), max_value=10**28, places=9))
def test_equal_decimals_have_equal_forms(number: Decimal) -> None:
    text = format(number, "f")
    padded = f"-00{text[1:]}" if text.startswith("-") else f"00{text}"
    first = bound(parameter("x:NUMERIC"), text).canonical
    assert Decimal(first["x"]) == number
    if len(padded.lstrip("-").split(".")[0].lstrip("0")) <= 29:
        assert bound(parameter("x:NUMERIC"), padded).canonical == first


def test_what_is_missing_is_told_in_declared_order_and_only_where_nothing_else_is_wrong() -> None:
    sql = "SELECT id FROM orders WHERE id = @b AND note = @a AND amount = @c ORDER BY id"
    declared = (parameter("b:INT64"), parameter("a:STRING"), parameter("c:NUMERIC"))
    loaded = template(sql, "id:INT64", *declared)
    with pytest.raises(ArgumentsMissing) as stopped:
        bind(loaded, {"c": "1.5"})
    assert (stopped.value.reason, stopped.value.parameters) == (Reason.ARGUMENTS_MISSING, declared[:2])
    with pytest.raises(NotGranted) as refused:
        bind(loaded, {"c": "many"})
    assert refused.value.reason is Reason.ARGUMENTS_INVALID
