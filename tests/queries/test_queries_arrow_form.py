"""The Arrow form of a result: one schema, and only values that have a form in it."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from contract.schema import ResultColumn
from queries.arrow_form import arrow_schema, conform
from queries.encode import ResultInvalid


def column(kind: str, **more: Any) -> tuple[ResultColumn, ...]:
    return (ResultColumn.model_validate({"name": "x", "type": kind, **more}),)


def conformed(columns: tuple[ResultColumn, ...], array: pa.Array) -> list[Any]:
    schema = arrow_schema(columns)
    batch = conform(schema, columns, pa.RecordBatch.from_arrays([array], names=["x"]))
    batch.validate(full=True)
    assert batch.schema == schema
    return batch.column(0).to_pylist()


PAIR = {"fields": [{"name": "a", "type": "INT64"}, {"name": "b", "type": "STRING", "mode": "REPEATED"}]}


def test_a_value_of_every_type_keeps_its_value() -> None:
    moment = dt.datetime(2024, 3, 31, 1, 30, tzinfo=dt.UTC)
    cases: list[tuple[str, pa.Array, Any]] = [
        ("STRING", pa.array(["é"], pa.large_string()), "é"),
        ("INT64", pa.array([9007199254740993]), 9007199254740993),
        ("FLOAT64", pa.array([0.1]), 0.1),
        ("NUMERIC", pa.array([Decimal("1.5")], pa.decimal128(18, 3)), Decimal("1.500000000")),
        ("BOOL", pa.array([True]), True),
        ("DATE", pa.array([dt.date(2024, 2, 29)]), dt.date(2024, 2, 29)),
        ("TIMESTAMP", pa.array([moment], pa.timestamp("us", tz="Etc/UTC")), moment),
        ("DATETIME", pa.array([moment.replace(tzinfo=None)], pa.timestamp("us")), moment.replace(tzinfo=None)),
        ("TIME", pa.array([dt.time(1, 2, 3)], pa.time64("us")), dt.time(1, 2, 3)),
        ("BYTES", pa.array([b"\x00"]), b"\x00"),
    ]
    for kind, array, value in cases:
        assert conformed(column(kind), array) == [value], kind


def test_a_null_array_is_an_empty_one_also_after_a_slice() -> None:
    array = pa.array([[9], [1, 2], None, [], [3]]).slice(1)
    assert conformed(column("INT64", mode="REPEATED"), array) == [[1, 2], [], [], [3]]


def test_structs_keep_their_fields_and_their_nulls() -> None:
    kind = pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))])
    rows = [{"a": 1, "b": ["x"]}, None, {"a": None, "b": None}]
    assert conformed(column("STRUCT", **PAIR), pa.array(rows, kind)) == [rows[0], None, {"a": None, "b": []}]
    repeated = pa.array([[rows[0], rows[2]], None], pa.list_(kind))
    assert conformed(column("STRUCT", mode="REPEATED", **PAIR), repeated) == [
        [rows[0], {"a": None, "b": []}],
        [],
    ]


@pytest.mark.parametrize(
    ("columns", "array"),
    [
        (column("INT64", mode="REQUIRED"), pa.array([1, None])),
        (column("INT64", mode="REPEATED"), pa.array([[1, None]])),
        (column("INT64", mode="REPEATED"), pa.array([1])),
        (column("INT64"), pa.array([[1]])),
        (column("STRUCT", **PAIR), pa.array([1])),
        (column("DATE"), pa.array([4_000_000], pa.date32())),
        (column("TIMESTAMP"), pa.array([-(10**17)], pa.timestamp("us", tz="UTC"))),
    ],
)
def test_what_has_no_form_in_a_result_is_invalid(columns: tuple[ResultColumn, ...], array: pa.Array) -> None:
    with pytest.raises(ResultInvalid):
        conformed(columns, array)
