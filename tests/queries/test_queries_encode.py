"""Result JSON: nothing is lost on the way from Arrow."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.schema import ResultColumn
from queries.encode import ResultInvalid, check_schema
from tests.queries.documents import document_of

ARROW = {
    "STRING": pa.string(),
    "INT64": pa.int64(),
    "FLOAT64": pa.float64(),
    "NUMERIC": pa.decimal128(38, 9),
    "BOOL": pa.bool_(),
    "DATE": pa.date32(),
    "DATETIME": pa.timestamp("us"),
    "TIME": pa.time64("us"),
    "TIMESTAMP": pa.timestamp("us", tz="UTC"),
    "BYTES": pa.binary(),
}


def encoded(kind: str, values: list[Any], mode: str = "NULLABLE") -> list[Any]:
    column = ResultColumn.model_validate({"name": "x", "type": kind, "mode": mode})
    arrow = pa.list_(ARROW[kind]) if mode == "REPEATED" else ARROW[kind]
    batch = pa.RecordBatch.from_arrays([pa.array(values, type=arrow)], names=["x"])
    document = document_of([column], [batch], "2026-08-31T22:00:00Z")
    body = json.loads(document.body)
    assert body["row_count"] == document.row_count == len(values)
    assert body["schema"] == [{"name": "x", "type": kind, "mode": mode}]
    return [row[0] for row in body["rows"]]


@pytest.mark.parametrize(
    ("kind", "value", "shown"),
    [
        ("INT64", 9007199254740991, 9007199254740991),
        ("INT64", 9007199254740992, "9007199254740992"),
        ("INT64", 9007199254740993, "9007199254740993"),
        ("INT64", -9007199254740993, "-9007199254740993"),
        ("INT64", -(2**63), "-9223372036854775808"),
        ("NUMERIC", Decimal("12345678901234567890123456789.123456789"), "12345678901234567890123456789.123456789"),
        ("NUMERIC", Decimal("-0.000000001"), "-0.000000001"),
        ("NUMERIC", Decimal("1E-9"), "0.000000001"),
        ("NUMERIC", Decimal("100"), "100"),
        ("NUMERIC", Decimal("0"), "0"),
        ("NUMERIC", Decimal("1.500"), "1.5"),
        ("FLOAT64", 0.1, 0.1),
        ("FLOAT64", 1e300, 1e300),
        ("FLOAT64", float("nan"), "NaN"),
        ("FLOAT64", float("inf"), "Infinity"),
        ("FLOAT64", float("-inf"), "-Infinity"),
        ("DATE", dt.date(2024, 2, 29), "2024-02-29"),
        ("DATE", dt.date(1, 1, 1), "0001-01-01"),
        ("DATETIME", dt.datetime(2024, 2, 29, 1, 2, 3), "2024-02-29T01:02:03.000000"),
        ("TIME", dt.time(1, 2, 3, 4), "01:02:03.000004"),
        ("TIMESTAMP", dt.datetime(2024, 2, 29, 12, tzinfo=dt.timezone(dt.timedelta(hours=5, minutes=30))), "2024-02-29T06:30:00.000000Z"),
        ("TIMESTAMP", dt.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC), "9999-12-31T23:59:59.999999Z"),
        ("BYTES", b"\x00\xff", "AP8="),
        ("BOOL", False, False),
        ("STRING", 'quote " back \\ new\nline é 😀', 'quote " back \\ new\nline é 😀'),
        ("STRING", "", ""),
    ],
)  # fmt: skip
def test_a_value_keeps_its_meaning_and_null_stays_null(kind: str, value: Any, shown: Any) -> None:
    assert encoded(kind, [value]) == [shown]
    assert encoded(kind, [None, value, None]) == [None, shown, None]
    assert type(encoded(kind, [value])[0]) is type(shown)


def test_an_empty_result_has_its_schema_and_no_rows() -> None:
    column = ResultColumn.model_validate({"name": "x", "type": "INT64"})
    document = document_of([column], [], "2026-08-31T22:00:00Z")
    assert json.loads(document.body) == {
        "schema": [{"name": "x", "type": "INT64", "mode": "NULLABLE"}],
        "rows": [],
        "row_count": 0,
        "truncated": False,
        "as_of": "2026-08-31T22:00:00Z",
    }


def test_arrays_keep_order_and_a_null_array_is_empty() -> None:
    assert encoded("INT64", [[2, 1], [], None, [9007199254740993]], "REPEATED") == [
        [2, 1],
        [],
        [],
        ["9007199254740993"],
    ]


def test_a_null_element_or_a_null_in_a_required_column_is_invalid() -> None:
    with pytest.raises(ResultInvalid):
        encoded("INT64", [[1, None]], "REPEATED")
    with pytest.raises(ResultInvalid):
        encoded("INT64", [None], "REQUIRED")


def test_a_date_beyond_the_years_of_googlesql_is_invalid() -> None:
    with pytest.raises(ResultInvalid):
        encoded("DATE", [2_932_897])


def test_sliced_batches_are_encoded_from_their_own_rows() -> None:
    column = ResultColumn.model_validate({"name": "x", "type": "INT64", "mode": "REPEATED"})
    batch = pa.RecordBatch.from_arrays([pa.array([[1], [2, 3], [4]], type=pa.list_(pa.int64()))], names=["x"]).slice(
        1, 2
    )
    assert json.loads(document_of([column], [batch], "x").body)["rows"] == [[[2, 3]], [[4]]]


@pytest.mark.parametrize("kind", [name for name in ARROW if name != "STRING"])
def test_a_schema_unlike_the_declared_one_is_invalid(kind: str) -> None:
    declared = [ResultColumn.model_validate({"name": "x", "type": kind})]
    for schema in (
        pa.schema([("x", pa.string())]),
        pa.schema([("y", ARROW[kind])]),
        pa.schema([("x", ARROW[kind]), ("y", pa.string())]),
        pa.schema([]),
        pa.schema([("x", pa.list_(ARROW[kind]))]),
    ):
        with pytest.raises(ResultInvalid):
            check_schema(declared, schema)


@given(st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)), min_size=1))
def test_every_integer_comes_back(numbers: list[int | None]) -> None:
    assert [None if shown is None else int(shown) for shown in encoded("INT64", numbers)] == numbers


@given(st.lists(st.one_of(st.none(), st.decimals(min_value=-(10**28), max_value=10**28, places=9)), min_size=1))
def test_every_decimal_comes_back_without_an_exponent(numbers: list[Decimal | None]) -> None:
    shown = encoded("NUMERIC", numbers)
    assert [None if text is None else Decimal(text) for text in shown] == numbers
    assert not any(text and ("E" in text or (("." in text) and text.endswith("0"))) for text in shown)


@given(st.lists(st.floats(), min_size=1))
def test_every_float_comes_back(numbers: list[float]) -> None:
    for number, shown in zip(numbers, encoded("FLOAT64", numbers), strict=True):
        back = float(shown)
        assert back == number or (back != back and number != number)
