"""Nested values of base data and of results: stored, shown and read back without loss, or refused."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.result import ResultDocument
from contract.schema import Mode, ResultColumn, schema_member
from delegation.result_form import InvalidResult, read_result
from queries.decode import decode
from queries.duckdb_types import arrow_type, duckdb_type
from queries.encode import ResultInvalid, check_schema
from queries.errors import DataError
from queries.typed import Type, declared_type
from tests.queries.documents import document_of
from tests.queries.nested_world import DEEP, DEEP_ROWS, answer, columns, open_engine, reopen, template

AS_OF = "2026-08-31T22:00:00Z"
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
YEARS = {"min_value": dt.datetime(1, 1, 1), "max_value": dt.datetime(9999, 12, 31)}
SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "STRING": TEXT,
    "INT64": st.integers(-(2**63), 2**63 - 1),
    "FLOAT64": st.floats(allow_nan=False),
    "NUMERIC": st.decimals(Decimal("-1e28"), Decimal("1e28"), places=9),
    "BOOL": st.booleans(),
    "DATE": st.dates(),
    "DATETIME": st.datetimes(**YEARS),
    "TIME": st.times(),
    "TIMESTAMP": st.datetimes(**YEARS, timezones=st.just(dt.UTC)),
    "BYTES": st.binary(max_size=5),
}


@st.composite
def fields(draw: st.DrawFn, depth: int) -> list[dict[str, Any]]:
    made = []
    for place in range(draw(st.integers(1, 3))):
        kinds = [*SCALARS, *(["STRUCT"] * 4 if depth else [])]
        item: dict[str, Any] = {"name": f"f{place}", "type": draw(st.sampled_from(kinds))}
        item["mode"] = draw(st.sampled_from(["NULLABLE", "REPEATED"]))
        if item["type"] == "STRUCT":
            item["fields"] = draw(fields(depth - 1))
        made.append(item)
    return made


def values(item: dict[str, Any]) -> st.SearchStrategy[Any]:
    one = SCALARS.get(item["type"])
    if one is None:
        one = st.fixed_dictionaries({field["name"]: values(field) for field in item["fields"]})
    return st.lists(one, max_size=3) if item["mode"] == "REPEATED" else st.none() | one


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[ResultColumn], list[dict[str, Any]]]:
    """Columns of any depth, and rows that fit them."""
    items = draw(fields(4))
    rows = draw(st.lists(st.fixed_dictionaries({item["name"]: values(item) for item in items}), max_size=4))
    return [ResultColumn.model_validate(item) for item in items], rows


def encoded(held: list[ResultColumn], rows: list[dict[str, Any]]) -> ResultDocument:
    schema = pa.schema([(column.name, arrow_type(declared_type(column))) for column in held])
    batch = pa.RecordBatch.from_pylist(rows, schema=schema)
    return document_of(held, [batch], AS_OF)


@given(tables())
def test_a_nested_document_comes_back_exactly_and_has_the_form_of_one(
    made: tuple[list[ResultColumn], list[dict[str, Any]]],
) -> None:
    held, rows = made
    document = encoded(held, rows)
    found = decode(document, held, max_rows=10, max_bytes=10**6)
    assert found == [[row[column.name] for row in rows] for column in held]
    assert json.loads(document.body)["schema"] == [schema_member(column) for column in held]
    assert read_result(document.body, held, max_rows=10).body == document.body


def test_a_struct_is_an_object_in_order_and_its_schema_names_the_fields() -> None:
    held = list(columns({"s": "STRUCT<b INT64, a ARRAY<STRUCT<x STRING>>>"}))
    document = encoded(held, [{"s": {"b": 2**60, "a": [{"x": None}]}}, {"s": None}])
    assert b'"rows":[[{"b":"1152921504606846976","a":[{"x":null}]}],[null]]' in document.body
    assert json.loads(document.body)["schema"] == [
        {
            "name": "s",
            "type": "STRUCT",
            "mode": "NULLABLE",
            "fields": [
                {"name": "b", "type": "INT64", "mode": "NULLABLE"},
                {
                    "name": "a",
                    "type": "STRUCT",
                    "mode": "REPEATED",
                    "fields": [{"name": "x", "type": "STRING", "mode": "NULLABLE"}],
                },
            ],
        }
    ]


def test_a_null_array_is_empty_at_any_depth_and_a_null_element_is_invalid_at_any_depth() -> None:
    held = list(columns({"s": "STRUCT<a ARRAY<INT64>>", "l": "ARRAY<STRUCT<a ARRAY<INT64>>>"}))
    body = json.loads(encoded(held, [{"s": {"a": None}, "l": [{"a": None}]}, {"s": None, "l": None}]).body)
    assert body["rows"] == [[{"a": []}, [{"a": []}]], [None, []]]
    for row in ({"s": {"a": [1, None]}, "l": []}, {"s": None, "l": [None]}, {"s": None, "l": [{"a": [None]}]}):
        with pytest.raises(ResultInvalid):
            encoded(held, [row])


def test_a_slice_of_nested_batches_is_encoded_from_its_own_rows() -> None:
    held = list(columns({"s": "STRUCT<a ARRAY<INT64>, b STRING>"}))
    schema = pa.schema([("s", arrow_type(declared_type(held[0])))])
    rows = [{"s": {"a": [1], "b": "x"}}, {"s": None}, {"s": {"a": [2, 3], "b": None}}, {"s": {"a": [], "b": "z"}}]
    batch = pa.RecordBatch.from_pylist(rows, schema=schema).slice(1, 2)
    assert json.loads(document_of(held, [batch], AS_OF).body)["rows"] == [[None], [{"a": [2, 3], "b": None}]]


@pytest.mark.parametrize(
    "other",
    [
        "STRUCT<a INT64>",
        "STRUCT<b STRING, a INT64>",
        "STRUCT<a INT64, c STRING>",
        "STRUCT<a INT64, b STRING, c STRING>",
        "STRUCT<a FLOAT64, b STRING>",
        "STRUCT<a ARRAY<INT64>, b STRING>",
        "ARRAY<STRUCT<a INT64, b STRING>>",
        "STRING",
    ],
)
def test_a_batch_of_other_fields_is_invalid(other: str) -> None:
    declared = columns({"s": "STRUCT<a INT64, b STRING>"})
    with pytest.raises(ResultInvalid):
        check_schema(declared, pa.schema([("s", arrow_type(declared_type(columns({"s": other})[0])))]))


KIND = "STRUCT<a INT64, b STRUCT<c STRING>, d ARRAY<DATE>>"
CELL: dict[str, Any] = {"a": 1, "b": {"c": "x"}, "d": ["2024-02-29"]}
BROKEN: dict[str, Callable[[dict[str, Any]], Any]] = {
    "no object": lambda cell: [1, {"c": "x"}, []],
    "text": lambda cell: "x",
    "a field less": lambda cell: {name: cell[name] for name in ("a", "b")},
    "a field more": lambda cell: cell | {"e": 1},
    "another order": lambda cell: {name: cell[name] for name in ("b", "a", "d")},
    "another type": lambda cell: cell | {"a": "1"},
    "a number beyond": lambda cell: cell | {"a": 2**53},
    "a truth": lambda cell: cell | {"a": True},
    "an inner field more": lambda cell: cell | {"b": {"c": "x", "e": 1}},
    "an inner text": lambda cell: cell | {"b": "x"},
    "no list": lambda cell: cell | {"d": "2024-02-29"},
    "a null list": lambda cell: cell | {"d": None},
    "a null element": lambda cell: cell | {"d": [None]},
    "no date": lambda cell: cell | {"d": ["2024-02-30"]},
    "deeper": lambda cell: cell | {"d": [["2024-02-29"]]},
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_cell_that_is_not_of_its_columns_fields_is_refused_from_whoever_it_comes(name: str) -> None:
    held = columns({"s": KIND})
    body: dict[str, Any] = {
        "schema": [schema_member(held[0])],
        "rows": [[CELL], [None]],
        "row_count": 2,
        "truncated": False,
        "as_of": AS_OF,
    }
    read_result(json.dumps(body).encode(), held, max_rows=2)
    body["rows"][0] = [BROKEN[name](CELL)]
    raw = json.dumps(body).encode()
    with pytest.raises(InvalidResult):
        read_result(raw, held, max_rows=2)
    with pytest.raises(ResultInvalid):
        decode(ResultDocument(raw, 2, False, AS_OF), held, max_rows=2, max_bytes=10**4)


def test_a_schema_without_the_fields_is_refused() -> None:
    held = columns({"s": KIND})
    member = {name: value for name, value in schema_member(held[0]).items() if name != "fields"}
    body = {"schema": [member], "rows": [], "row_count": 0, "truncated": False, "as_of": AS_OF}
    with pytest.raises(InvalidResult):
        read_result(json.dumps(body).encode(), held, max_rows=2)


def test_a_type_has_one_name_on_the_engine_at_any_depth() -> None:
    kind = declared_type(columns({"s": "ARRAY<STRUCT<a INT64, b ARRAY<NUMERIC>, c STRUCT<d TIMESTAMP>>>"})[0])
    assert duckdb_type(kind) == 'STRUCT("a" BIGINT, "b" DECIMAL(38, 9)[], "c" STRUCT("d" TIMESTAMPTZ))[]'
    assert str(kind) == "ARRAY<STRUCT<a INT64, b ARRAY<NUMERIC>, c STRUCT<d TIMESTAMP>>>"
    assert str(Type(None)) == "NULL"


async def test_nested_base_data_is_stored_and_comes_back_as_it_was(tmp_path: Path) -> None:
    held = open_engine(tmp_path)
    try:
        names = ", ".join(f"d.{name} AS {name}" for name in DEEP)
        rows = await answer(held, template(f"SELECT {names} FROM deep AS d ORDER BY d.id", DEEP))
    finally:
        await held.close()
    assert rows[0] == [
        1, "a", ["b", "a"], [3, 1, 2], {"x": 5, "y": {"z": "zz", "w": ["2024-02-29"]}},
        [{"sku": "A", "qty": 2, "t": ["q", "r"]}, {"sku": "B", "qty": 1, "t": []}],
    ]  # fmt: skip
    assert [row[4] for row in rows] == [
        rows[0][4], None, {"x": None, "y": None}, {"x": 1, "y": {"z": None, "w": []}}, {"x": -2, "y": {"z": "a", "w": []}},
    ]  # fmt: skip


BAD: dict[str, tuple[str, Any, str]] = {
    "a null element": ("tags", ["a", None], "deep.tags: a list holds a NULL element"),
    "a null struct in a list": ("lines", [None], "deep.lines: a list holds a NULL element"),
    "a null element of a field": ("s", {"x": 1, "y": {"z": None, "w": [None]}}, "deep.s.y.w: a list holds a NULL element"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_base_data_that_no_engine_could_hold_alike_is_refused_by_column_and_field(name: str, tmp_path: Path) -> None:
    column, value, said = BAD[name]
    with pytest.raises(DataError, match=said):
        open_engine(tmp_path, [DEEP_ROWS[0] | {column: value}])


def test_a_file_without_a_declared_field_is_refused_and_one_with_more_fields_is_not(tmp_path: Path) -> None:
    asyncio.run(open_engine(tmp_path / "good").close())
    kinds = {name: arrow_type(declared_type(columns({name: kind})[0])) for name, kind in DEEP.items()}
    more = pa.struct([*kinds["s"], pa.field("more", pa.string())])
    less = pa.struct([kinds["s"].field("x")])
    for place, (kind, said) in enumerate(((more, None), (less, r"deep\.s\.y is declared and not in the file"))):
        folder = tmp_path / f"other{place}"
        asyncio.run(open_engine(folder).close())
        schema = pa.schema([(name, kind if name == "s" else held) for name, held in kinds.items()])
        pq.write_table(pa.Table.from_pylist([DEEP_ROWS[1]], schema=schema), folder / "data/deep.parquet")
        if said is None:
            asyncio.run(reopen(folder).close())
        else:
            with pytest.raises(DataError, match=said):
                reopen(folder)


def test_a_required_column_is_no_mode_of_a_field() -> None:
    assert Mode.REQUIRED not in {field.mode for column in columns({"s": KIND}) for field in column.fields}
