"""Guards: a value of a forbidden size is refused before it is made, also when a query is only planned."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import Any

import duckdb
import pytest

from queries.duckdb_dialect import to_duckdb
from queries.duckdb_guards import MAX_ELEMENTS, MAX_TEXT
from queries.duckdb_macros import macro_statements
from queries.errors import TemplateError
from queries.govern import Shape, rewrite
from tests.queries.duckdb_world import opened, run
from tests.queries.world import shop, template

_MIN, _MAX = -(2**63), 2**63 - 1
_ARRAY = "gsql_generate_array({}::BIGINT, {}::BIGINT, {}::BIGINT)"


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(":memory:") as made:
        made.execute("SET TimeZone='UTC'")
        # Twice a value of the largest size, and far less than any of the refused ones.
        made.execute("SET memory_limit='64MB'")
        for statement in macro_statements():
            made.execute(statement)
        yield made


def value(connection: duckdb.DuckDBPyConnection, expression: str) -> Any:
    row = connection.execute(f"SELECT {expression}").fetchone()
    assert row is not None
    return row[0]


def array(connection: duckdb.DuckDBPyConnection, *bounds: int | str) -> Any:
    return value(connection, _ARRAY.format(*(f"({bound})" for bound in bounds)))


@pytest.mark.parametrize(
    "expression",
    [
        f"gsql_repeat('x', {MAX_TEXT + 1})",
        f"gsql_repeat('x', {_MAX})",
        f"gsql_repeat('é', {MAX_TEXT // 2 + 1})",
        "gsql_repeat(gsql_repeat('x', 1048576), 2)",
        "gsql_repeat('x', -1)",
        f"gsql_lpad('x', {MAX_TEXT + 1}, 'y')",
        f"gsql_rpad('x', {_MAX}, 'y')",
        "gsql_lpad('x', -1, 'y')",
        "gsql_rpad('x', 3, '')",
        "gsql_replace(gsql_repeat('a', 110000), 'a', '0123456789')",
        _ARRAY.format(1, MAX_ELEMENTS + 1, 1),
        _ARRAY.format(f"({_MIN})", _MAX, 1),
        _ARRAY.format(_MAX, f"({_MIN})", -1),
        _ARRAY.format(1, 5, 0),
        "gsql_generate_days(DATE '0001-01-01', DATE '9999-12-31', 1)",
        "gsql_generate_moments(TIMESTAMPTZ '0001-01-01 00:00:00+00', TIMESTAMPTZ '9999-12-31 00:00:00+00', 1)",
    ],
)
def test_a_size_beyond_the_bound_fails_with_a_fixed_text(
    connection: duckdb.DuckDBPyConnection, expression: str
) -> None:
    for sql in (expression, f"max(v) FROM (SELECT {expression} AS v FROM range(3))"):
        with pytest.raises(duckdb.InvalidInputException, match="text|array|REPEAT"):
            value(connection, sql)


def test_constant_arguments_are_planned_without_making_the_value(connection: duckdb.DuckDBPyConnection) -> None:
    for expression in (
        "gsql_repeat('x', 100000000000)",
        _ARRAY.format(1, 10**12, 1),
        "gsql_lpad('x', 2000000000, 'y')",
    ):
        connection.execute(f"EXPLAIN SELECT {expression}")


def test_the_largest_sizes_are_made(connection: duckdb.DuckDBPyConnection) -> None:
    assert value(connection, f"strlen(gsql_repeat('ab', {MAX_TEXT // 2}))") == MAX_TEXT
    assert value(connection, f"strlen(gsql_lpad('', {MAX_TEXT}, 'y'))") == MAX_TEXT
    assert value(connection, "strlen(gsql_replace(gsql_repeat('a', 100000), 'a', '0123456789'))") == 1_000_000
    # Many bytes could be made, few are: the occurrences are counted.
    assert value(connection, "strlen(gsql_replace(gsql_repeat('a', 100000), 'b', gsql_repeat('c', 1000)))") == 100_000
    assert value(connection, f"len({_ARRAY.format(1, MAX_ELEMENTS, 1)})") == MAX_ELEMENTS


def test_arrays_hold_both_ends_and_step_either_way(connection: duckdb.DuckDBPyConnection) -> None:
    assert array(connection, 1, 5, 2) == [1, 3, 5]
    assert array(connection, 5, 1, -2) == [5, 3, 1]
    assert array(connection, 5, 1, 1) == []
    assert array(connection, _MAX - 7, _MAX, 3) == [_MAX - 7, _MAX - 4, _MAX - 1]
    assert array(connection, _MIN, _MIN, -1) == [_MIN]
    assert array(connection, "NULL", 5, 1) is None


def test_months_are_counted_from_the_date_before(connection: duckdb.DuckDBPyConnection) -> None:
    found = value(connection, "gsql_generate_months(DATE '2024-01-31', DATE '2024-05-30', 1)")
    assert found == [dt.date(2024, month, day) for month, day in ((1, 31), (2, 29), (3, 29), (4, 29), (5, 29))]
    back = value(connection, "gsql_generate_months(DATE '2024-03-31', DATE '2024-02-29', -1)")
    assert back == [dt.date(2024, 3, 31), dt.date(2024, 2, 29)]
    days = value(connection, "gsql_generate_days(DATE '2024-02-27', DATE '2024-03-02', 2)")
    assert days == [dt.date(2024, 2, 27), dt.date(2024, 2, 29), dt.date(2024, 3, 2)]


def test_nulls_and_empty_texts_are_what_they_were(connection: duckdb.DuckDBPyConnection) -> None:
    for expression in (
        "gsql_repeat(NULL, 3)",
        "gsql_repeat('x', NULL)",
        "gsql_lpad(NULL, 3, 'x')",
        "gsql_rpad('x', NULL, 'x')",
        "gsql_replace('a', 'a', NULL)",
        "gsql_generate_days(NULL, DATE '2024-01-01', 1)",
    ):
        assert value(connection, expression) is None, expression
    assert value(connection, "gsql_repeat('', 1000000000000)") == ""
    assert value(connection, "gsql_replace('abc', '', 'x')") == "abc"


@pytest.mark.parametrize("function", ["SUBSTR({}, 2)", "UPPER({})", "LOWER({})"])
async def test_macros_inside_macros_that_copy_without_end_are_refused_before_the_engine_sees_them(
    tmp_path: Path, function: str
) -> None:
    engine = opened(shop(tmp_path))
    text = "note"
    for _ in range(3):
        text = function.format(text)
    await engine.check(template(f"SELECT {text} AS x FROM orders ORDER BY x", "x:STRING"))
    text = "note"
    for _ in range(15):
        text = function.format(text)
    with pytest.raises(TemplateError, match="nested too deeply"):
        await engine.check(template(f"SELECT {text} AS x FROM orders ORDER BY x", "x:STRING"))
    await engine.close()


@pytest.mark.parametrize(
    ("expression", "guard", "bare"),
    [
        ("LENGTH(REPEAT(note, id))", "gsql_repeat", "repeat"),
        ("LENGTH(LPAD(note, id))", "gsql_lpad", "lpad"),
        ("LENGTH(RPAD(note, id, region))", "gsql_rpad", "rpad"),
        ("LENGTH(REPLACE(note, region, note))", "gsql_replace", "replace"),
        ("ARRAY_LENGTH(GENERATE_ARRAY(1, id))", "gsql_generate_array", "generate_series|range"),
        ("ARRAY_LENGTH(GENERATE_ARRAY(id, 1, -2))", "gsql_generate_array", "generate_series|range"),
        ("ARRAY_LENGTH(GENERATE_DATE_ARRAY(day, '2030-01-01'))", "gsql_generate_days", "generate_series|range"),
        (
            "ARRAY_LENGTH(GENERATE_DATE_ARRAY(day, '2030-01-01', INTERVAL 1 QUARTER))",
            "gsql_generate_months",
            "generate_series|range",
        ),
    ],
)
def test_every_function_that_makes_a_value_of_any_size_goes_through_its_guard(
    expression: str, guard: str, bare: str
) -> None:
    loaded = template(f"SELECT {expression} AS x FROM orders ORDER BY x", "x:INT64")
    text = to_duckdb(rewrite(loaded, Shape((), ())))[0].lower()
    assert f"{guard}(" in text
    assert re.search(rf"(?<!gsql_)\b({bare})\(", text) is None
    assert loaded.growth.factor == inf


async def test_texts_may_be_cleaned_in_many_steps(tmp_path: Path) -> None:
    engine = opened(shop(tmp_path))
    text = "note"
    for letter in "abcdefghijklmnop":
        text = f"REPLACE({text}, '{letter}', '-')"
    loaded = template(f"SELECT {text} AS x FROM orders WHERE note = 'x' ORDER BY x LIMIT 1", "x:STRING")
    await engine.check(loaded)
    assert await run(engine, loaded) == [["x"]]
    await engine.close()
