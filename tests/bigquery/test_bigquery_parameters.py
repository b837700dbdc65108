"""Values reach BigQuery as they were bound, typed also where they are NULL or empty."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.schema import Parameter
from contract.verdict import NotGranted, Reason
from queries.bigquery_parameters import parameters
from queries.bind import bind
from queries.govern import Shape
from queries.template import Template
from tests.bigquery.bigquery_world import stored_template
from tests.queries.supplied_world import PEAKS
from tests.queries.world import parameter

UNLIMITED = Shape((), ())
PAIR: dict[str, Any] = {
    "type": "STRUCT",
    "description": "a pair",
    "nullable": True,
    "fields": [{"name": "a", "type": "INT64"}, {"name": "b", "type": "NUMERIC"}],
}


def sent(loaded: Template, arguments: dict[str, Any], rows: Any = None) -> dict[str, Any]:
    """Each parameter's type and value in the form of the API, by name."""
    made = parameters(loaded, UNLIMITED, bind(loaded, arguments).values, rows)
    return {item["name"]: (item["parameterType"], item["parameterValue"]) for item in (p.to_api_repr() for p in made)}


def of_one(kind: str, value: Any) -> Any:
    loaded = stored_template("SELECT @x AS x", f"x:{kind}", parameter(f"x:{kind}", nullable=True))
    told, held = sent(loaded, {"x": value})["x"]
    assert told == {"type": kind}
    return held["value"]


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("STRING", "é'; DROP--", "é'; DROP--"),
        ("INT64", "9007199254740993", "9007199254740993"),
        ("NUMERIC", "12345678901234567890123456789.123456789", "12345678901234567890123456789.123456789"),
        ("NUMERIC", "0.000000001", "0.000000001"),
        ("NUMERIC", 100000000000000000000, "100000000000000000000"),
        ("BOOL", False, "false"),
        ("DATE", "0001-01-01", "0001-01-01"),
        ("DATETIME", "0999-12-31T23:59:59.5", "0999-12-31T23:59:59.500000"),
        ("TIME", "12:00:00", "12:00:00.000000"),
        ("TIMESTAMP", "2024-10-27T02:30:00.000001+02:00", "2024-10-27 00:30:00.000001+00:00"),
        ("TIMESTAMP", "0001-01-01T00:00:00Z", "0001-01-01 00:00:00.000000+00:00"),
    ],
)
def test_a_value_travels_as_exact_text(kind: str, value: Any, text: str) -> None:
    assert of_one(kind, value) == text


@pytest.mark.parametrize(
    "kind", ["STRING", "INT64", "FLOAT64", "NUMERIC", "BOOL", "DATE", "DATETIME", "TIME", "TIMESTAMP"]
)
def test_a_null_keeps_its_type(kind: str) -> None:
    assert of_one(kind, None) is None


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_loses_no_bit(value: float) -> None:
    assert float(of_one("FLOAT64", value)) == value + 0.0


def structs(*more: Any) -> Template:
    loaded = Parameter.model_validate({"name": "p", **PAIR})
    return stored_template("SELECT @p.a AS a, @p.b AS b", "a:INT64 b:NUMERIC", loaded, *more)


def test_a_struct_travels_with_the_type_of_each_field() -> None:
    told, held = sent(structs(), {"p": {"a": "9007199254740993", "b": "1.5"}})["p"]
    assert [(field["name"], field["type"]) for field in told["structTypes"]] == [
        ("a", {"type": "INT64"}),
        ("b", {"type": "NUMERIC"}),
    ]
    assert held["structValues"] == {"a": {"value": "9007199254740993"}, "b": {"value": "1.5"}}


def test_a_struct_that_is_null_is_told_by_a_parameter_beside_it() -> None:
    absent = sent(structs(), {"p": None})
    assert absent["__n_p"] == ({"type": "BOOL"}, {"value": "true"})
    assert absent["p"][1]["structValues"] == {"a": {"value": None}, "b": {"value": None}}
    assert sent(structs(), {"p": {"a": 1, "b": None}})["__n_p"][1] == {"value": "false"}


def test_an_empty_list_keeps_the_type_of_its_elements() -> None:
    loaded = stored_template(
        "SELECT COUNT(*) AS n FROM orders WHERE id IN UNNEST(@i)", "n:INT64", parameter("i:INT64[]", nullable=True)
    )
    for value in ([], None):
        told, held = sent(loaded, {"i": value})["i"]
        assert told == {"type": "ARRAY", "arrayType": {"type": "INT64"}}
        assert held == {"arrayValues": []}


def joined() -> Template:
    return stored_template(
        "SELECT p.order_id AS x, p.price AS price, p.at AS at FROM peaks AS p ORDER BY x",
        "x:INT64 price:NUMERIC at:TIMESTAMP",
        supplied=PEAKS,
    )


def test_supplied_rows_are_one_array_of_structs_of_the_columns_that_are_read() -> None:
    moment = dt.datetime(2024, 3, 31, 1, 0, 0, 1, tzinfo=dt.UTC)
    told, held = sent(joined(), {}, [(1, Decimal("0.100000000"), moment), (None, None, None)])["__supplied"]
    assert told["type"] == "ARRAY"
    assert [field["name"] for field in told["arrayType"]["structTypes"]] == ["order_id", "price", "at"]
    assert [row["structValues"] for row in held["arrayValues"]] == [
        {
            "order_id": {"value": "1"},
            "price": {"value": "0.100000000"},
            "at": {"value": "2024-03-31 01:00:00.000001+00:00"},
        },
        {"order_id": {"value": None}, "price": {"value": None}, "at": {"value": None}},
    ]


def test_no_supplied_rows_keep_the_types_of_the_columns() -> None:
    told, held = sent(joined(), {}, [])["__supplied"]
    assert [field["type"] for field in told["arrayType"]["structTypes"]] == [
        {"type": "INT64"},
        {"type": "NUMERIC"},
        {"type": "TIMESTAMP"},
    ]
    assert held == {"arrayValues": []}


def test_a_null_inside_a_value_that_the_api_has_no_form_for_is_refused() -> None:
    inner = {**PAIR, "fields": [*PAIR["fields"], {"name": "c", "type": "STRING", "mode": "REPEATED"}]}
    loaded = stored_template(
        "SELECT @p.a AS a, ARRAY_LENGTH(@p.c) AS n", "a:INT64 n:INT64", Parameter.model_validate({"name": "p", **inner})
    )
    whole = parameters(loaded, UNLIMITED, {"p": {"a": 1, "b": None, "c": []}}, None)
    assert len(whole) == 2
    with pytest.raises(NotGranted) as refused:
        parameters(loaded, UNLIMITED, {"p": {"a": 1, "b": None, "c": None}}, None)
    assert refused.value.reason is Reason.ARGUMENTS_INVALID
