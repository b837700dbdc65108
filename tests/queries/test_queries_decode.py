"""Result JSON read back: what was encoded comes back as it was, and nothing else comes back at all."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contract.result import ResultDocument
from contract.schema import ResultColumn, schema_member
from queries.bind import bind
from queries.decode import _reader, decode
from queries.duckdb_engine import DuckDbEngine
from queries.encode import ResultInvalid, ResultTooLarge
from queries.supplied import SuppliedRelation
from queries.typed import Type
from tests.authority_builder import make_authority
from tests.queries.documents import run as run_whole
from tests.queries.supplied_world import AS_OF, document, supplied_template
from tests.queries.world import DATASET, MASK_KEY, TABLES, results, shop

YEARS = {"min_value": dt.datetime(1, 1, 1), "max_value": dt.datetime(9999, 12, 31, 23, 59, 59, 999999)}
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "STRING": TEXT,
    "INT64": st.integers(-(2**63), 2**63 - 1),
    "FLOAT64": st.floats(width=64),
    "NUMERIC": st.decimals(Decimal("-1e28"), Decimal("1e28"), places=9),
    "BOOL": st.booleans(),
    "DATE": st.dates(),
    "DATETIME": st.datetimes(**YEARS),
    "TIME": st.times(),
    "TIMESTAMP": st.datetimes(**YEARS, timezones=st.just(dt.UTC)),
    "BYTES": st.binary(),
}


def column(kind: str, mode: str = "NULLABLE", name: str = "x") -> ResultColumn:
    return ResultColumn.model_validate({"name": name, "type": kind, "mode": mode})


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[ResultColumn], list[dict[str, Any]]]:
    """Some columns of any type and mode, and rows that fit them."""
    kinds = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=6))
    columns = [
        column(kind, draw(st.sampled_from(["NULLABLE", "REQUIRED", "REPEATED"])), f"c{place}")
        for place, kind in enumerate(kinds)
    ]
    cells = {
        item.name: {
            "NULLABLE": st.none() | VALUES[item.type.value],
            "REQUIRED": VALUES[item.type.value],
            "REPEATED": st.lists(VALUES[item.type.value], max_size=3),
        }[item.mode.value]
        for item in columns
    }
    return columns, draw(st.lists(st.fixed_dictionaries(cells), max_size=5))


def same(one: Any, other: Any) -> bool:
    """Equal, of one type; NaN is itself, and 0.0 is not -0.0."""
    if type(one) is not type(other):
        return False
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float):
        return (
            math.isnan(other) if math.isnan(one) else (one, math.copysign(1, one)) == (other, math.copysign(1, other))
        )
    if isinstance(one, dt.datetime):
        return one == other and one.tzinfo == other.tzinfo
    return bool(one == other)


@given(tables())
def test_what_was_encoded_comes_back_exactly(made: tuple[list[ResultColumn], list[dict[str, Any]]]) -> None:
    columns, brought = made
    found = decode(document(columns, brought), columns, max_rows=5, max_bytes=10**6)
    assert len(found) == len(columns)
    for item, values in zip(columns, found, strict=True):
        assert same(values, [row[item.name] for row in brought])


ALL = " ".join(f"c{place}:{kind}" for place, kind in enumerate(VALUES))


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DuckDbEngine]:
    folder = shop(tmp_path_factory.mktemp("decode"))
    made = DuckDbEngine.open(DATASET, "1.0.0", folder, TABLES, scratch=folder / "scratch", mask_key=MASK_KEY)
    yield made
    asyncio.run(made.close())


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_supplied_rows_pass_through_a_query_to_the_same_bytes(engine: DuckDbEngine, data: st.DataObject) -> None:
    """A FLOAT64 that is not finite is left out: this engine refuses to read one."""
    finite = VALUES | {"FLOAT64": st.floats(allow_nan=False, allow_infinity=False)}
    cells = {f"c{place}": st.none() | finite[kind] for place, kind in enumerate(VALUES)}
    drawn = data.draw(st.lists(st.fixed_dictionaries(cells), max_size=4))
    brought = [{"place": place, **row} for place, row in enumerate(drawn)]
    relation = SuppliedRelation("peaks", results(f"place:INT64 {ALL}"))
    names = ", ".join(f"p.{item.name}" for item in relation.columns)
    loaded = supplied_template(f"SELECT {names} FROM peaks AS p ORDER BY 1", f"place:INT64 {ALL}", supplied=relation)
    sent = document(relation.columns, brought)
    authority = make_authority(dataset=DATASET, capability="c")
    found, _ = asyncio.run(
        run_whole(engine, authority, loaded, bind(loaded, {}), max_rows=9, max_bytes=10**6, as_of=AS_OF, supplied=sent)
    )
    assert found.body == sent.body


def sent(kind: str, cell: Any, mode: str = "NULLABLE") -> ResultDocument:
    body = {
        "schema": [{"name": "x", "type": kind, "mode": mode}],
        "rows": [[cell]],
        "row_count": 1,
        "truncated": False,
        "as_of": AS_OF,
    }
    return ResultDocument(json.dumps(body).encode(), 1, False, AS_OF)


@pytest.mark.parametrize(
    ("kind", "cell"),
    [
        *[(kind, cell) for kind in VALUES for cell in ({}, [], [[]])],
        *[(kind, True) for kind in VALUES if kind != "BOOL"],
        *[(kind, 1) for kind in VALUES if kind not in ("INT64", "FLOAT64")],
        *[(kind, "") for kind in VALUES if kind not in ("STRING", "BYTES")],
        ("BOOL", 0), ("BOOL", "true"),
        ("INT64", 1.0), ("INT64", 1.5), ("INT64", 2**53), ("INT64", -(2**53)), ("INT64", "1"), ("INT64", str(2**53 - 1)),
        ("INT64", str(2**63)), ("INT64", "09007199254740993"), ("INT64", "9007199254740993.0"), ("INT64", "1e18"),
        ("INT64", " 9007199254740993"), ("INT64", "9" * 5000),
        ("FLOAT64", "1"), ("FLOAT64", "nan"), ("FLOAT64", "inf"), ("FLOAT64", "+Infinity"), ("FLOAT64", 10**400),
        ("NUMERIC", 1.5), ("NUMERIC", "1e3"), ("NUMERIC", "0.0000000001"), ("NUMERIC", "1" * 30), ("NUMERIC", "NaN"),
        ("NUMERIC", "0" * 41), ("NUMERIC", "+1"), ("NUMERIC", "1."), ("NUMERIC", ".5"), ("NUMERIC", "1_0"), ("NUMERIC", "١"),
        ("DATE", "2024-02-30"), ("DATE", "0000-01-01"), ("DATE", "20240229"), ("DATE", "2024-02-29T00:00:00"), ("DATE", "10000-01-01"),
        ("DATETIME", "2024-02-29T01:02:03.000000Z"), ("DATETIME", "2024-02-29"), ("DATETIME", "2024-02-29T25:00:00"),
        ("TIME", "24:00:00"), ("TIME", "1:2:3"), ("TIME", "01:02:03.0000001"), ("TIME", "01:02:03+00:00"),
        ("TIMESTAMP", "2024-02-29T01:02:03.000000"), ("TIMESTAMP", "2024-02-29T01:02:03.000000+00:00"),
        ("TIMESTAMP", "2024-02-29T01:02:03Z"), ("TIMESTAMP", "2024-02-29 01:02:03.000000Z"), ("TIMESTAMP", "2024-02-30T01:02:03.000000Z"),
        ("BYTES", "AP8"), ("BYTES", "AP8=\n"), ("BYTES", "AP9="), ("BYTES", "_w=="), ("BYTES", "é"),
    ],
)  # fmt: skip
def test_a_cell_its_column_cannot_hold_is_invalid(kind: str, cell: Any) -> None:
    with pytest.raises(ResultInvalid) as invalid:
        decode(sent(kind, cell), [column(kind)], max_rows=1, max_bytes=10**6)
    assert str(invalid.value) == f"a supplied row holds a value that is no {kind}"
    with pytest.raises(ResultInvalid):
        decode(sent(kind, [cell], "REPEATED"), [column(kind, "REPEATED")], max_rows=1, max_bytes=10**6)


@pytest.mark.parametrize("kind", VALUES)
def test_null_is_a_value_of_a_nullable_column_only(kind: str) -> None:
    assert decode(sent(kind, None), [column(kind)], max_rows=1, max_bytes=10**6) == [[None]]
    for mode, cell in (("REQUIRED", None), ("REPEATED", None), ("REPEATED", [None])):
        with pytest.raises(ResultInvalid):
            decode(sent(kind, cell, mode), [column(kind, mode)], max_rows=1, max_bytes=10**6)


def test_a_whole_number_is_a_float_too() -> None:
    assert decode(sent("FLOAT64", 3), [column("FLOAT64")], max_rows=1, max_bytes=10**6) == [[3.0]]


def test_rows_and_bytes_are_bounded_before_anything_is_read() -> None:
    whole = sent("STRING", "x")
    for limits in ({"max_rows": 0, "max_bytes": 10**6}, {"max_rows": 1, "max_bytes": len(whole.body) - 1}):
        with pytest.raises(ResultTooLarge):
            decode(whole, [column("STRING")], **limits)
    unread = ResultDocument(b"\xff" * 100, 1, False, AS_OF)
    with pytest.raises(ResultTooLarge):
        decode(unread, [column("STRING")], max_rows=1, max_bytes=99)


def test_a_document_that_says_fewer_rows_than_it_has_is_invalid() -> None:
    whole = sent("STRING", "x")
    with pytest.raises(ResultInvalid):
        decode(ResultDocument(whole.body, 0, False, AS_OF), [column("STRING")], max_rows=0, max_bytes=10**6)


def test_no_rows_are_no_values_in_each_column() -> None:
    assert decode(document([column("INT64")], []), [column("INT64")], max_rows=0, max_bytes=1000) == [[]]


@pytest.mark.parametrize(
    "cell",
    [
        [],
        "x",
        None,
        {"b": "y", "a": 1},
        {"a": 1},
        {"a": 1, "b": "y", "c": 2},
        {"a": 1, "b": ["y", None]},
        {"a": "1", "b": []},
    ],
)
def test_a_struct_that_is_not_of_its_fields_in_order_is_invalid(cell: Any) -> None:
    fields = [{"name": "a", "type": "INT64", "mode": "NULLABLE"}, {"name": "b", "type": "STRING", "mode": "REPEATED"}]
    item = {"name": "x", "type": "STRUCT", "mode": "REQUIRED", "fields": fields}
    columns = [ResultColumn.model_validate(item)]

    def read(held: Any) -> list[list[Any]]:
        body = json.loads(sent("STRING", held).body) | {"schema": [schema_member(columns[0])]}
        return decode(ResultDocument(json.dumps(body).encode(), 1, False, AS_OF), columns, max_rows=1, max_bytes=10**6)

    assert read({"a": None, "b": ["y"]}) == [[{"a": None, "b": ["y"]}]]
    with pytest.raises(ResultInvalid):
        read(cell)


def test_a_column_without_a_type_reads_nothing() -> None:
    with pytest.raises(TypeError):
        _reader(Type(None))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"schema": []}, "other columns than declared"),
        ({"schema": [{"name": "y", "type": "STRING", "mode": "NULLABLE"}]}, "other columns than declared"),
        ({"truncated": True}, "cut short"),
        ({"truncated": None}, "cut short"),
        ({"rows": {"0": ["x"]}}, "another type"),
        ({"row_count": True}, "another type"),
        ({"row_count": 1.0}, "another type"),
        ({"row_count": 2}, "not as many as they say"),
        ({"rows": ["x"]}, "one cell a column"),
        ({"rows": [["x", "x"]]}, "one cell a column"),
        ({"rows": [[]]}, "one cell a column"),
        ({"more": 1}, "the members of a result"),
    ],
)
def test_a_document_that_is_no_result_of_these_columns_is_invalid(changes: dict[str, Any], said: str) -> None:
    body = json.loads(sent("STRING", "x").body) | changes
    document = ResultDocument(json.dumps(body).encode(), 1, False, AS_OF)
    with pytest.raises(ResultInvalid, match=said):
        decode(document, [column("STRING")], max_rows=1, max_bytes=10**6)


@pytest.mark.parametrize("body", [b"[]", b'"x"', b"{}", b"null", b"7"])
def test_what_is_no_object_of_the_members_of_a_result_is_invalid(body: bytes) -> None:
    with pytest.raises(ResultInvalid, match="the members of a result"):
        decode(ResultDocument(body, 0, False, AS_OF), [column("STRING")], max_rows=1, max_bytes=10**6)


def test_a_result_that_was_cut_short_is_invalid_whatever_its_body_says() -> None:
    whole = sent("STRING", "x")
    with pytest.raises(ResultInvalid, match="cut short"):
        decode(ResultDocument(whole.body, 1, True, AS_OF), [column("STRING")], max_rows=1, max_bytes=10**6)
