"""A result has one form for each media type, however its rows come: the bytes of JSON are those of a reply."""

from __future__ import annotations

import datetime as dt
import io
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contract.call import ARROW_MEDIA_TYPE, RESULT_MEDIA_TYPE
from contract.schema import ResultColumn
from queries.arrow_form import arrow_schema, conform
from queries.result_writer import result_writer

AS_OF = "2026-08-31T00:00:00.000000Z"
COLUMNS = tuple(
    ResultColumn.model_validate(column)
    for column in (
        {"name": "s", "type": "STRING"},
        {"name": "i", "type": "INT64", "mode": "REQUIRED"},
        {"name": "f", "type": "FLOAT64"},
        {"name": "n", "type": "NUMERIC"},
        {"name": "b", "type": "BOOL"},
        {"name": "d", "type": "DATE"},
        {"name": "dt", "type": "DATETIME"},
        {"name": "t", "type": "TIME"},
        {"name": "ts", "type": "TIMESTAMP"},
        {"name": "raw", "type": "BYTES"},
        {"name": "many", "type": "INT64", "mode": "REPEATED"},
        {
            "name": "pair",
            "type": "STRUCT",
            "fields": [{"name": "a", "type": "STRING"}, {"name": "l", "type": "DATE", "mode": "REPEATED"}],
        },
    )
)
SCHEMA = arrow_schema(COLUMNS)

_dates = st.dates(dt.date(1, 1, 1), dt.date(9999, 12, 31))
_moments = st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31))
_rows = st.fixed_dictionaries(
    {
        "s": st.none() | st.text(st.characters(codec="utf-8"), max_size=8),
        "i": st.integers(-(2**63), 2**63 - 1),
        "f": st.none() | st.floats(),
        "n": st.none() | st.decimals(-(10**20), 10**20, places=9),
        "b": st.none() | st.booleans(),
        "d": st.none() | _dates,
        "dt": st.none() | _moments,
        "t": st.none() | st.times(),
        "ts": st.none() | _moments.map(lambda moment: moment.replace(tzinfo=dt.UTC)),
        "raw": st.none() | st.binary(max_size=8),
        "many": st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3),
        "pair": st.none()
        | st.fixed_dictionaries({"a": st.none() | st.text(max_size=3), "l": st.lists(_dates, max_size=2)}),
    }
)


def batches(rows: list[dict[str, Any]], sizes: list[int]) -> list[pa.RecordBatch]:
    """The rows cut into batches of these sizes, over and over."""
    whole = pa.Table.from_pylist(rows, schema=SCHEMA)
    found, at = [], 0
    for size in [*sizes, len(rows)]:
        found += whole.slice(at, size).to_batches()
        at += size
    return [batch for batch in found if batch.num_rows]


def written(media_type: str, found: list[pa.RecordBatch], count: int) -> bytes:
    writer = result_writer(media_type, COLUMNS, AS_OF)
    pieces = [writer.start()]
    for batch in found:
        pieces += writer.add(conform(SCHEMA, COLUMNS, batch))
    return b"".join([*pieces, writer.finish(row_count=count, truncated=False)])


@settings(max_examples=60, deadline=None)
@given(st.lists(_rows, max_size=12), st.lists(st.integers(1, 5), max_size=4), st.lists(st.integers(1, 5), max_size=4))
def test_json_has_the_bytes_of_a_reply_however_its_rows_come(
    rows: list[dict[str, Any]], one: list[int], other: list[int]
) -> None:
    assert written(RESULT_MEDIA_TYPE, batches(rows, one), len(rows)) == written(
        RESULT_MEDIA_TYPE, batches(rows, other), len(rows)
    )


@settings(max_examples=30, deadline=None)
@given(st.lists(_rows, max_size=12), st.lists(st.integers(1, 5), max_size=4))
def test_arrow_gives_back_every_value(rows: list[dict[str, Any]], sizes: list[int]) -> None:
    with pa.ipc.open_stream(io.BytesIO(written(ARROW_MEDIA_TYPE, batches(rows, sizes), len(rows)))) as stream:
        table = stream.read_all()
    assert table.schema == SCHEMA
    assert table.equals(pa.Table.from_pylist(rows, schema=SCHEMA)) or any(row["f"] != row["f"] for row in rows)


def test_a_batch_is_written_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = (ResultColumn.model_validate({"name": "i", "type": "INT64"}),)
    monkeypatch.setattr("queries.result_writer._ROWS_AT_ONCE", 2)
    writer = result_writer(RESULT_MEDIA_TYPE, columns, AS_OF)
    batch = pa.record_batch([pa.array(range(5))], schema=arrow_schema(columns))
    assert list(writer.add(batch)) == [b"[0],[1]", b",[2],[3]", b",[4]"]
    assert list(writer.add(batch.slice(0, 1))) == [b",[0]"]


def test_what_was_cut_says_so() -> None:
    writer = result_writer(RESULT_MEDIA_TYPE, COLUMNS, AS_OF)
    assert writer.finish(row_count=7, truncated=True) == (
        b'],"row_count":7,"truncated":true,"as_of":"2026-08-31T00:00:00.000000Z"}'
    )


def test_there_is_no_third_form() -> None:
    with pytest.raises(ValueError, match="no such form"):
        result_writer("text/csv", COLUMNS, AS_OF)


def test_decimals_have_one_form() -> None:
    columns = (ResultColumn.model_validate({"name": "n", "type": "NUMERIC"}),)
    batch = pa.record_batch([pa.array([Decimal("1.500"), Decimal("0"), Decimal("1E-9")], pa.decimal128(38, 9))], ["n"])
    writer = result_writer(RESULT_MEDIA_TYPE, columns, AS_OF)
    assert b"".join(writer.add(batch)) == b'["1.5"],["0"],["0.000000001"]'
