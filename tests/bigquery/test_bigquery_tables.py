"""Columns, revision and age of tables in BigQuery, from their metadata alone."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from contract.errors import Category, DatasetAgentError
from contract.ids import is_version
from contract.schema import Mode, SqlType
from queries.bigquery_tables import DescribedTable, describe_tables, state_of
from tests.bigquery.bigquery_world import options_for
from tests.bigquery.scripted_bigquery import serving

NAME = "data-project.shop.orders"
FIELDS: list[dict[str, Any]] = [
    {"name": "id", "type": "INTEGER", "mode": "REQUIRED"},
    {"name": "ratio", "type": "FLOAT"},
    {"name": "paid", "type": "BOOLEAN", "mode": "NULLABLE"},
    {"name": "tags", "type": "STRING", "mode": "REPEATED"},
    {
        "name": "ship",
        "type": "RECORD",
        "mode": "NULLABLE",
        "fields": [{"name": "city", "type": "STRING", "mode": "REQUIRED"}, {"name": "at", "type": "TIMESTAMP"}],
    },
    {"name": "place", "type": "GEOGRAPHY", "mode": "NULLABLE"},
    {"name": "big", "type": "BIGNUMERIC", "mode": "NULLABLE"},
    {"name": "raw", "type": "JSON", "mode": "NULLABLE"},
    {"name": "span", "type": "RANGE", "mode": "NULLABLE", "rangeElementType": {"type": "DATE"}},
    {"name": "odd", "type": "RECORD", "mode": "REPEATED", "fields": [{"name": "x", "type": "INTERVAL"}]},
    {"name": "fine", "type": "TIMESTAMP", "mode": "NULLABLE", "timestampPrecision": "12"},
]


def resource(**more: Any) -> dict[str, Any]:
    told = {
        "tableReference": {"projectId": "data-project", "datasetId": "shop", "tableId": "orders"},
        "schema": {"fields": FIELDS},
        "etag": "e1",
        "type": "TABLE",
        "numRows": "60",
        "numBytes": "9007199254740993",
        "lastModifiedTime": "1711846800123",
    }
    return told | more


def described(**more: Any) -> DescribedTable:
    with serving(tables={NAME: resource(**more)}) as service:
        (table,) = describe_tables(options_for(service.url), [NAME])
    assert len(service.asked) == 1
    return table


def test_columns_have_the_types_of_a_descriptor() -> None:
    columns = {column.name: column for column in described().columns}
    assert [(c.type, c.mode) for c in list(columns.values())[:5]] == [
        (SqlType.INT64, Mode.REQUIRED),
        (SqlType.FLOAT64, Mode.NULLABLE),
        (SqlType.BOOL, Mode.NULLABLE),
        (SqlType.STRING, Mode.REPEATED),
        (SqlType.STRUCT, Mode.NULLABLE),
    ]
    assert [(field.name, field.type, field.mode) for field in columns["ship"].fields] == [
        ("city", SqlType.STRING, Mode.NULLABLE),
        ("at", SqlType.TIMESTAMP, Mode.NULLABLE),
    ]


def test_a_type_without_a_form_here_is_named() -> None:
    why = {column.name: column.why for column in described().columns if column.type is None}
    assert list(why) == ["place", "big", "raw", "span", "odd", "fine"]
    assert why["place"] == "BigQuery's GEOGRAPHY has no type here"
    assert "BIGNUMERIC" in why["big"]
    assert "STRUCT" in why["odd"]


def test_age_and_size_come_from_the_metadata() -> None:
    table = described()
    assert table.modified == dt.datetime(2024, 3, 31, 1, 0, 0, 123_000, tzinfo=dt.UTC)
    assert (table.rows, table.size) == (60, 9007199254740993)


def test_a_view_cannot_tell_when_its_data_changed() -> None:
    assert described(type="VIEW").modified is None
    assert state_of([described(), described(type="VIEW")]).modified is None


@pytest.mark.parametrize(
    "change",
    [
        {"etag": "e2"},
        {"lastModifiedTime": "1711846800124"},
        {"numBytes": "1"},
        {"numRows": "61"},
        {"schema": {"fields": FIELDS[:3]}},
    ],
)
def test_a_change_of_a_table_is_another_revision(change: dict[str, Any]) -> None:
    before, after = state_of([described()]), state_of([described(**change)])
    assert before == state_of([described()])
    assert after.revision != before.revision
    assert is_version(after.revision)


def test_a_dataset_is_as_old_as_its_newest_table() -> None:
    older, newer = described(), described(lastModifiedTime="1711846900000")
    assert state_of([newer, older]).modified == newer.modified


def test_a_table_that_is_not_shown_and_a_service_that_is_not_there_are_faults() -> None:
    with serving() as service:
        options = options_for(service.url)
        with pytest.raises(DatasetAgentError, match=f"{NAME}: BigQuery does not show this table") as fault:
            describe_tables(options, [NAME])
    assert fault.value.category is Category.CONFIGURATION
    with pytest.raises(DatasetAgentError) as fault:
        describe_tables(options, [NAME], timeout=0.3)
    assert fault.value.category is Category.UNAVAILABLE
