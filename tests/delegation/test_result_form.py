"""A result's form: exactly the members of the design and the columns that the card declares."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from contract.schema import Mode, ResultColumn, SqlType, schema_member
from delegation.result_form import InvalidResult, read_result
from tests.root_agent.root_world import AS_OF

COLUMNS = (
    ResultColumn(name="batch", type=SqlType.STRING, mode=Mode.REQUIRED),
    ResultColumn(name="count", type=SqlType.INT64),
    ResultColumn(name="mass", type=SqlType.FLOAT64),
    ResultColumn(name="tags", type=SqlType.STRING, mode=Mode.REPEATED),
)
SCHEMA = [{"name": column.name, "type": column.type.value, "mode": column.mode.value} for column in COLUMNS]
ROWS: list[Any] = [["B001", 1, 1.5, ["a", "b"]], ["B002", None, None, []]]


def body(**changes: Any) -> bytes:
    members = {"schema": SCHEMA, "rows": ROWS, "row_count": 2, "truncated": False, "as_of": AS_OF}
    return json.dumps(members | changes).encode()


def one(place: int, cell: Any) -> bytes:
    row = list(ROWS[0])
    row[place] = cell
    return body(rows=[row], row_count=1)


def read(data: bytes) -> bytes:
    return read_result(data, COLUMNS, max_rows=2).body


def test_a_result_of_the_declared_columns_is_kept_byte_for_byte() -> None:
    document = read_result(body(), COLUMNS, max_rows=2)
    assert (document.body, document.row_count, document.truncated, document.as_of) == (body(), 2, False, AS_OF)


def test_a_result_without_rows_still_has_its_columns() -> None:
    assert read(body(rows=[], row_count=0))


@pytest.mark.parametrize(
    ("place", "cell"),
    [
        (1, 2**53 - 1),
        (1, "9007199254740993"),
        (2, 3),
        (2, "NaN"),
        (2, -1.7e308),
        (3, ["x"] * 50),
    ],
)
def test_every_form_of_a_cell_that_the_design_names_is_accepted(place: int, cell: Any) -> None:
    assert read(one(place, cell))


@pytest.mark.parametrize(
    "schema",
    [
        [],
        None,
        {},
        "schema",
        [{"nope": 1}],
        SCHEMA[:3],
        [*SCHEMA, SCHEMA[0]],
        [SCHEMA[1], SCHEMA[0], *SCHEMA[2:]],
        [SCHEMA[0] | {"name": "batch_id"}, *SCHEMA[1:]],
        [SCHEMA[0] | {"type": "BYTES"}, *SCHEMA[1:]],
        [SCHEMA[0] | {"type": 1}, *SCHEMA[1:]],
        [SCHEMA[0] | {"mode": "NULLABLE"}, *SCHEMA[1:]],
        [SCHEMA[0] | {"description": "more"}, *SCHEMA[1:]],
        [{"name": "batch", "type": "STRING"}, *SCHEMA[1:]],
        [["batch", "STRING", "REQUIRED"], *SCHEMA[1:]],
    ],
)
def test_columns_unlike_the_declared_ones_are_no_result(schema: Any) -> None:
    with pytest.raises(InvalidResult):
        read(body(schema=schema))


@pytest.mark.parametrize(
    "rows",
    [
        None,
        {},
        "rows",
        [1, 2],
        [None, ROWS[0]],
        ["abcd", "efgh"],
        [{"batch": "B001"}, {"batch": "B002"}],
        [ROWS[0], ROWS[1][:3]],
        [ROWS[0], [*ROWS[1], "more"]],
        [[], []],
        ROWS[:1],
        [*ROWS, ROWS[0]],
    ],
)
def test_rows_that_are_not_lists_of_the_declared_width_and_number_are_no_result(rows: Any) -> None:
    with pytest.raises(InvalidResult):
        read(body(rows=rows))


@pytest.mark.parametrize(
    ("place", "cell"),
    [
        (0, None),
        (0, 7),
        (0, {"nested": 1}),
        (0, ["B001"]),
        (1, 1.0),
        (1, True),
        (1, 2**53),
        (1, -(2**64)),
        (2, True),
        (2, [1.5]),
        (2, 10**400),
        (3, None),
        (3, "ab"),
        (3, [None]),
        (3, [["a"]]),
        (3, {"a": "b"}),
    ],
)
def test_a_cell_of_another_json_type_than_its_column_is_no_result(place: int, cell: Any) -> None:
    with pytest.raises(InvalidResult):
        read(one(place, cell))


@pytest.mark.parametrize(
    "changes",
    [
        {"row_count": 2.0},
        {"row_count": "2"},
        {"row_count": None},
        {"row_count": -2},
        {"truncated": 0},
        {"truncated": None},
        {"as_of": None},
        {"as_of": ""},
        {"as_of": "yesterday"},
        {"as_of": "2026-08-31"},
        {"as_of": "2026-08-31T22:00:00"},
        {"as_of": "2026-08-31T22:00:00+02:00"},
        {"as_of": "2026-13-31T22:00:00Z"},
        {"as_of": "0000-08-31T22:00:00Z"},
        {"as_of": "2026-08-31T22:00:00.Z"},
        {"as_of": 1},
        {"more": 1},
    ],
)
def test_members_of_another_type_or_name_are_no_result(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidResult):
        read(body(**changes))


def test_true_is_not_the_number_one() -> None:
    with pytest.raises(InvalidResult):
        read(body(rows=ROWS[:1], row_count=True))


def test_more_rows_than_the_card_allows_are_no_result() -> None:
    with pytest.raises(InvalidResult):
        read_result(body(), COLUMNS, max_rows=1)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[1,2]",
        b"not json",
        b"\xff" + body(),
        body() + b"x",
        body().replace(b'"row_count": 2', b'"row_count": 1, "row_count": 2'),
        body().replace(b"1.5", b"NaN"),
        body().replace(b"1.5", b"1e999"),
        body().replace(b"1.5", b"9" * 5_000),
        body().replace(b'"B001"', b'"\\ud800"'),
        body().replace(b'["a", "b"]', b"[" * 5_000 + b"]" * 5_000),
        b"[" * 500_000,
    ],
)
def test_what_is_not_strict_json_is_no_result(data: bytes) -> None:
    with pytest.raises(InvalidResult):
        read(data)


TEXTS: dict[SqlType, tuple[list[str], list[str]]] = {
    SqlType.INT64: (
        ["9007199254740992", "-9223372036854775808", "9223372036854775807"],
        ["", "7", "9007199254740991", "9223372036854775808", "-9223372036854775809", "9007199254740993.5"]
        + ["09007199254740993", "+9007199254740993", "9007199254740993 ", "\u0669" * 17],
    ),
    SqlType.FLOAT64: (["NaN", "Infinity", "-Infinity"], ["", "nan", "1.5", "inf", "+Infinity", "1e999"]),
    SqlType.NUMERIC: (
        ["0", "-2.25", "0.000000001", "9" * 38],
        ["", ".5", "1.", "1e9", "+1", "NaN", "0.0000000001", "9" * 39, "\u0661"],
    ),
    SqlType.DATE: (["2026-02-28", "0001-01-01"], ["", "2026-02-29", "2026-2-28", "20260228", "0000-01-01", "2026-W01"]),
    SqlType.TIME: (["00:00:00", "23:59:59.999999"], ["", "24:00:00", "12:00", "12:00:60", "12:00:00Z", "12:00:00."]),
    SqlType.DATETIME: (
        ["2026-02-28T12:00:00.000000", "2026-02-28T12:00:00"],
        ["", "2026-02-28", "2026-02-30T12:00:00", "2026-02-28T12:00:00Z", "2026-02-28 12:00:00"],
    ),
    SqlType.TIMESTAMP: (
        ["2026-02-28T12:00:00.000000Z", "2026-02-28T12:00:00Z"],
        ["", "2026-02-28T12:00:00", "2026-02-30T12:00:00Z", "2026-02-28T12:00:00+00:00"],
    ),
    SqlType.BYTES: (["", "AAE=", "/+8="], ["A", "AA", "AAE", "AB==", "_-8=", "AAE=\n", "\u00e9"]),
    SqlType.STRING: (["", "2026-02-30", "\u202e"], []),
}


@pytest.mark.parametrize("mode", [Mode.NULLABLE, Mode.REPEATED])
@pytest.mark.parametrize(
    ("kind", "text", "accepted"),
    [
        (kind, text, good)
        for kind, texts in TEXTS.items()
        for good, some in zip((True, False), texts, strict=True)
        for text in some
    ],
)
def test_a_text_that_stands_for_a_value_of_its_column_is_one(
    kind: SqlType, text: str, accepted: bool, mode: Mode
) -> None:
    column = ResultColumn(name="x", type=kind, mode=mode)
    schema = [{"name": "x", "type": kind.value, "mode": mode.value}]
    data = body(schema=schema, rows=[[[text] if mode is Mode.REPEATED else text]], row_count=1)
    if accepted:
        assert read_result(data, (column,), max_rows=1).row_count == 1
    else:
        with pytest.raises(InvalidResult):
            read_result(data, (column,), max_rows=1)


PLACED: Final = ResultColumn.model_validate(
    {
        "name": "place",
        "type": "STRUCT",
        "fields": [
            {"name": "site", "type": "STRING"},
            {"name": "floors", "type": "INT64", "mode": "REPEATED"},
            {"name": "at", "type": "STRUCT", "fields": [{"name": "day", "type": "DATE"}]},
        ],
    }
)
PLACE: Final[dict[str, Any]] = {"site": "Basel", "floors": [1, 2], "at": {"day": "2024-02-01"}}
NO_PLACES: Final[dict[str, Any]] = {
    "a text": "Basel",
    "a list": ["Basel", [], None],
    "a field less": {"site": "Basel", "floors": []},
    "a field more": PLACE | {"more": 1},
    "fields in another order": dict(reversed(PLACE.items())),
    "a number for a text": PLACE | {"site": 7},
    "a number for a list": PLACE | {"floors": 1},
    "NULL for a list": PLACE | {"floors": None},
    "a text in a list of numbers": PLACE | {"floors": [1, "x"]},
    "a text for fields": PLACE | {"at": "2024-02-01"},
    "a day that is none": PLACE | {"at": {"day": "2024-02-31"}},
}


def placed(cell: Any) -> bytes:
    told = {"schema": [schema_member(PLACED)], "rows": [[cell], [None]], "row_count": 2, "truncated": False}
    return json.dumps(told | {"as_of": "2024-02-01T00:00:00.000000Z"}).encode()


@pytest.mark.parametrize("cell", NO_PLACES.values(), ids=NO_PLACES)
def test_a_cell_of_fields_has_each_of_them_in_its_order_and_of_its_type(cell: Any) -> None:
    for fits in (PLACE, PLACE | {"site": None, "floors": [], "at": None}):
        assert read_result(placed(fits), [PLACED], max_rows=2).row_count == 2
    with pytest.raises(InvalidResult):
        read_result(placed(cell), [PLACED], max_rows=2)
