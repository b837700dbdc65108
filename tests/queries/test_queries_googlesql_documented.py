"""What Google's documentation of GoogleSQL states of its functions, in expressions of our own, against the product.

ZetaSQL is asked elsewhere (``test_queries_googlesql_vectors``). Here are the results that the
documentation of BigQuery names, also for what ZetaSQL cannot show: the clock, which stands
still within one query, and an array with a NULL element, which is no result.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.oracle import compare, world
from tests.oracle.product import Product

DOCUMENTED: dict[str, list[tuple[str, str, Any]]] = {
    "date functions": [
        ("DATE(TIMESTAMP '2016-12-25 05:30:00+07', 'America/Los_Angeles')", "DATE", "2016-12-24"),
        ("DATE_ADD(DATE '2008-12-25', INTERVAL 5 DAY)", "DATE", "2008-12-30"),
        ("DATE_DIFF(DATE '2010-07-07', DATE '2008-12-25', DAY)", "INT64", 559),
        ("DATE_DIFF(DATE '2017-10-15', DATE '2017-10-14', WEEK)", "INT64", 1),
        ("DATE_DIFF('2017-12-30', '2014-12-30', YEAR)", "INT64", 3),
        ("DATE_DIFF('2017-12-30', '2014-12-30', ISOYEAR)", "INT64", 2),
        ("DATE_DIFF('2017-12-18', '2017-12-17', WEEK)", "INT64", 0),
        ("DATE_DIFF('2017-12-18', '2017-12-17', WEEK(MONDAY))", "INT64", 1),
        ("DATE_DIFF('2017-12-18', '2017-12-17', ISOWEEK)", "INT64", 1),
        ("DATE_FROM_UNIX_DATE(14238)", "DATE", "2008-12-25"),
        ("DATE_TRUNC(DATE '2017-11-05', WEEK(MONDAY))", "DATE", "2017-10-30"),
        ("DATE_TRUNC('2015-06-15', ISOYEAR)", "DATE", "2014-12-29"),
        ("EXTRACT(ISOWEEK FROM DATE '2015-12-28')", "INT64", 53),
        ("EXTRACT(ISOYEAR FROM DATE '2016-01-03')", "INT64", 2015),
        ("EXTRACT(WEEK FROM DATE '2016-01-02')", "INT64", 0),
        ("EXTRACT(WEEK(SUNDAY) FROM DATE '2017-11-05')", "INT64", 45),
        ("EXTRACT(WEEK(MONDAY) FROM DATE '2017-11-05')", "INT64", 44),
        ("LAST_DAY(DATE '2008-11-10', WEEK(SUNDAY))", "DATE", "2008-11-15"),
        ("LAST_DAY(DATE '2008-11-10', WEEK(MONDAY))", "DATE", "2008-11-16"),
        ("FORMAT_DATE('%b-%d-%Y', DATE '2008-12-25')", "STRING", "Dec-25-2008"),
        ("PARSE_DATE('%Y%m%d', '20081225')", "DATE", "2008-12-25"),
        ("PARSE_DATE('%x', '12/25/08')", "DATE", "2008-12-25"),
    ],
    "datetime and time functions": [
        ("DATETIME_DIFF(DATETIME '2010-07-07 10:20:00', DATETIME '2008-12-25 15:30:00', DAY)", "INT64", 559),
        ("DATETIME_DIFF(DATETIME '2017-10-15 00:00:00', DATETIME '2017-10-14 00:00:00', WEEK)", "INT64", 1),
        ("DATETIME_TRUNC(DATETIME '2017-11-05 00:00:00', WEEK(MONDAY))", "DATETIME", "2017-10-30T00:00:00.000000"),
        ("EXTRACT(HOUR FROM DATETIME(2008, 12, 25, 15, 30, 0))", "INT64", 15),
        ("PARSE_DATETIME('%Y-%m-%d %H:%M:%S', '1998-10-18 13:45:55')", "DATETIME", "1998-10-18T13:45:55.000000"),
        ("PARSE_DATETIME('%m/%d/%Y %I:%M:%S %p', '8/30/2018 2:23:38 pm')", "DATETIME", "2018-08-30T14:23:38.000000"),
        ("TIME_ADD(TIME '15:30:00', INTERVAL 10 MINUTE)", "TIME", "15:40:00.000000"),
        ("TIME_DIFF(TIME '15:30:00', TIME '14:35:00', MINUTE)", "INT64", 55),
        ("TIME_TRUNC(TIME '15:30:00', HOUR)", "TIME", "15:00:00.000000"),
        ("FORMAT_TIME('%R', TIME '15:30:00')", "STRING", "15:30"),
        ("PARSE_TIME('%I:%M:%S %p', '2:23:38 pm')", "TIME", "14:23:38.000000"),
    ],
    "timestamp functions": [
        ("TIMESTAMP('2008-12-25 15:30:00', 'America/Los_Angeles')", "TIMESTAMP", "2008-12-25T23:30:00.000000Z"),
        ("TIMESTAMP_DIFF(TIMESTAMP '2010-07-07 10:20:00+00', TIMESTAMP '2008-12-25 15:30:00+00', HOUR)", "INT64", 13410),
        ("TIMESTAMP_DIFF(TIMESTAMP '2018-08-14', TIMESTAMP '2018-10-14', DAY)", "INT64", -61),
        ("TIMESTAMP_DIFF('2001-02-01 01:00:00', '2001-02-01 00:00:01', HOUR)", "INT64", 0),
        ("TIMESTAMP_TRUNC(TIMESTAMP '2017-11-06 00:00:00+12', WEEK(MONDAY), 'UTC')", "TIMESTAMP", "2017-10-30T00:00:00.000000Z"),
        (
            "TIMESTAMP_TRUNC(TIMESTAMP '2017-11-06 00:00:00+12', WEEK(MONDAY), 'Pacific/Auckland')",
            "TIMESTAMP",
            "2017-11-05T11:00:00.000000Z",
        ),
        ("EXTRACT(DAY FROM TIMESTAMP '2008-12-25 05:30:00+00' AT TIME ZONE 'America/Los_Angeles')", "INT64", 24),
        ("STRING(TIMESTAMP '2008-12-25 15:30:00+00', 'America/Los_Angeles')", "STRING", "2008-12-25 07:30:00-08"),
        ("UNIX_SECONDS(TIMESTAMP '1970-01-01 00:00:01.8+00')", "INT64", 1),
        ("TIMESTAMP_MILLIS(1230219000000)", "TIMESTAMP", "2008-12-25T15:30:00.000000Z"),
    ],
    "string functions": [
        ("CHAR_LENGTH('абвгд')", "INT64", 5),
        ("BYTE_LENGTH('абвгд')", "INT64", 10),
        ("LPAD('abc', 8, 'def')", "STRING", "defdeabc"),
        ("LPAD('例子', 6, '中文')", "STRING", "中文中文例子"),
        ("RPAD('abc', 2, 'def')", "STRING", "ab"),
        ("REPEAT('abc', 3)", "STRING", "abcabcabc"),
        ("SUBSTR('apple', -2)", "STRING", "le"),
        ("SUBSTR('apple', 123)", "STRING", ""),
        ("STRPOS('foo@example.com', '@')", "INT64", 4),
        ("REGEXP_EXTRACT('foo@example.com', r'^[a-zA-Z0-9_.+-]+')", "STRING", "foo"),
        (r"REGEXP_REPLACE('# Heading', r'^# ([a-zA-Z0-9\s]+$)', '<h1>\\1</h1>')", "STRING", "<h1>Heading</h1>"),
        ("FROM_HEX('0AF')", "BYTES", "AK8="),
        (r"TO_BASE64(b'\xff\xe0')", "STRING", "/+A="),
        ("ASCII('abcd')", "INT64", 97),
        ("UNICODE('âbcd')", "INT64", 226),
        ("MD5('Hello World')", "BYTES", "sQqNsWTgdUEFt6mb5y4/5Q=="),
        ("SHA1('Hello World')", "BYTES", "Ck1VqNd45QIvq3AZd8XYQLvEhtA="),
        ("SHA256('Hello World')", "BYTES", "pZGm1Av0IEBKARczz7exkNYsZb8LzaMrV7J32a2fFG4="),
        ("SPLIT('b,c,d')", "ARRAY<STRING>", ["b", "c", "d"]),
    ],
    "numbers and conversions": [
        ("CAST('0x87a' AS INT64)", "INT64", 2170),
        ("CAST('-0x123' AS INT64)", "INT64", -291),
        ("SAFE_CAST('apple' AS INT64)", "INT64", None),
        ("CAST(-1.5 AS INT64)", "INT64", -2),
        ("ROUND(2.5)", "FLOAT64", 3.0),
        ("ROUND(123.7, -1)", "FLOAT64", 120.0),
        ("ROUND(1.235, 2)", "FLOAT64", 1.24),
        ("MOD(25, 12)", "INT64", 1),
        ("DIV(20, 4)", "INT64", 5),
        ("SAFE_DIVIDE(20, 0)", "FLOAT64", None),
        ("SAFE_NEGATE(-1)", "INT64", 1),
        ("BIT_COUNT(-9223372036854775808)", "INT64", 1),
        ("CAST(TIMESTAMP '2016-12-25 00:00:00+00' AS STRING)", "STRING", "2016-12-25 00:00:00+00"),
    ],
}  # fmt: skip


@pytest.fixture
async def product(tmp_path: Path) -> AsyncIterator[Product]:
    held = Product(world.write(tmp_path), world.tables())
    yield held
    await held.engine.close()


@pytest.mark.parametrize("page", list(DOCUMENTED))
async def test_a_function_answers_what_its_documentation_states(product: Product, page: str) -> None:
    examples = DOCUMENTED[page]
    select = ", ".join(f"{expression} AS x{index}" for index, (expression, _, _) in enumerate(examples))
    outcome = await product.run(f"SELECT {select}", {f"x{index}": kind for index, (_, kind, _) in enumerate(examples)})
    assert outcome.rows is not None, outcome.why
    wrong = {
        expression: (value, wanted)
        for (expression, _, wanted), value in zip(examples, outcome.rows[0], strict=True)
        if compare.exactly(value) != compare.exactly(wanted)
    }
    assert wrong == {}


async def test_the_clock_stands_still_within_a_query_and_its_result_is_not_for_storing(product: Product) -> None:
    sql = (
        "SELECT CURRENT_TIMESTAMP() = CURRENT_TIMESTAMP() AS same, CURRENT_DATE() = DATE(CURRENT_TIMESTAMP()) AS day, "
        "CURRENT_DATETIME('Asia/Kolkata') = DATETIME(CURRENT_TIMESTAMP(), 'Asia/Kolkata') AS zone, "
        "CURRENT_TIME() = TIME(CURRENT_TIMESTAMP()) AS time"
    )
    template = product.load(sql, dict.fromkeys(("same", "day", "zone", "time"), "BOOL"))
    assert not template.deterministic
    assert (await product.answer(template, {})).rows == [[True, True, True, True]]


async def test_an_array_with_a_null_element_is_no_result_and_may_be_used_within_the_query(product: Product) -> None:
    outcome = await product.run("SELECT [1, CAST(NULL AS INT64)] AS x", {"x": "ARRAY<INT64>"})
    assert (outcome.kind, outcome.why.split(":")[0]) == ("error", "RESULT_INVALID")
    outcome = await product.run("SELECT ARRAY_LENGTH([1, CAST(NULL AS INT64)]) AS x", {"x": "INT64"})
    assert outcome.rows == [[2]]


async def test_what_may_differ_in_its_last_digit_is_refused_or_its_result_not_stored(product: Product) -> None:
    assert not product.load("SELECT STDDEV(score) AS x FROM orders", {"x": "FLOAT64"}).deterministic
    assert product.load("SELECT ROUND(STDDEV(score), 6) AS x FROM orders", {"x": "FLOAT64"}).deterministic
    for function in ("EXP(score)", "POW(score, 2)", "LOG10(score)", "SIN(score)"):
        sql = "SELECT {} AS x FROM orders ORDER BY x"
        assert (await product.run(sql.format(function), {"x": "FLOAT64"})).kind == "refused"
        assert product.load(sql.format(f"1 + ROUND(2 * {function}, 6)"), {"x": "FLOAT64"}).deterministic


async def test_an_answer_is_the_same_in_a_worker_as_in_the_engine(product: Product) -> None:
    """REPEAT may make large values, so that it runs in a process of its own."""
    sql = "SELECT k, {} AS x FROM edges ORDER BY k"
    alone = await product.run(sql.format("UPPER(s) || '-' || CAST(n AS STRING)"), {"k": "INT64", "x": "STRING"})
    beside = await product.run(
        sql.format("UPPER(s) || REPEAT('-', 1) || CAST(n AS STRING)"), {"k": "INT64", "x": "STRING"}
    )
    assert json.dumps(alone.rows) == json.dumps(beside.rows)
    assert alone.kind == "rows"
