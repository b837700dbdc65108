"""What the parser would read and GoogleSQL does not have is refused by name, and what GoogleSQL has is not."""

from __future__ import annotations

import pytest

from queries.template import TemplateError
from tests.queries.world import template

FOREIGN = {
    "id % 2": "% is not GoogleSQL; write MOD(a, b)",
    "day::STRING": ":: is not GoogleSQL; write CAST(… AS …)",
    "id == 1": "== is not GoogleSQL; write =",
    "id <=> 1": "<=> is not GoogleSQL; write IS NOT DISTINCT FROM",
    "note ~~ 'a'": "~~ is not GoogleSQL; write LIKE",
    "note !~~ 'a'": "! is not GoogleSQL; write NOT",
    "!paid": "! is not GoogleSQL; write NOT",
    "id NOTNULL": "NOTNULL is not GoogleSQL; write IS NOT NULL",
    "note -> 'a'": "-> is not GoogleSQL",
    "note ->> 'a'": "->> is not GoogleSQL",
    "paid && paid": "&& is not GoogleSQL",
    "IF paid THEN 1 ELSE 2 END": "IF is a function here: IF(condition, value, other)",
    "CAST(id AS TEXT)": "TEXT is no type of GoogleSQL",
    "CAST(id AS INTEGER)": "write INT64 for INTEGER",
    "CAST(id AS DOUBLE)": "DOUBLE is no type of GoogleSQL",
    "SAFE_CAST(note AS BINARY)": "BINARY is no type of GoogleSQL",
    "CAST(note AS TIMESTAMPTZ)": "TIMESTAMPTZ is no type of GoogleSQL",
    "CAST(at AS TIMESTAMP WITH TIME ZONE)": "the type TIMESTAMP WITH is not GoogleSQL's",
    "CAST([] AS ARRAY<TEXT>)": "TEXT is no type of GoogleSQL",
    "ARRAY<DOUBLE>[1.5][OFFSET(0)]": "DOUBLE is no type of GoogleSQL",
    "STRUCT<a INT64, b TEXT>(1, 'x').b": "TEXT is no type of GoogleSQL",
    "CAST([] AS ARRAY<STRUCT<a ARRAY<INT64>, b TEXT>>)": "TEXT is no type of GoogleSQL",
    "INT64 '1'": "INT64 before a text makes no literal; write CAST('…' AS …)",
    "STRING 'a'": "STRING before a text makes no literal; write CAST('…' AS …)",
    "FLOAT64 r'1'": "FLOAT64 before a text makes no literal; write CAST('…' AS …)",
    "BOOL 'true'": "BOOL before a text makes no literal; write CAST('…' AS …)",
    "TIMESTAMPTZ '2024-01-01'": "TIMESTAMPTZ before a text makes no literal; write CAST('…' AS …)",
    "SUBSTRING(note FROM 2)": "SUBSTRING takes its arguments between commas",
    "EXTRACT(YEAR, day)": "EXTRACT is written EXTRACT(part FROM value)",
    "EXTRACT('YEAR' FROM day)": "the part of EXTRACT is a word, not a text",
    "DATE_ADD(day, INTERVAL '1 day')": "an INTERVAL is a number and a part: INTERVAL 1 DAY",
    "DATE_DIFF(day, day, 'DAY')": "the part of DATE_DIFF is a word, not a text",
    "DATE_TRUNC(day, 'MONTH')": "the part of DATE_TRUNC is a word, not a text",
    "TIMESTAMP_TRUNC(at, 'DAY', 'UTC')": "the part of TIMESTAMP_TRUNC is a word, not a text",
    "TIMESTAMP_DIFF(at, at, 'SECOND')": "the part of TIMESTAMP_DIFF is a word, not a text",
    "LAST_DAY(day, 'MONTH')": "the part of LAST_DAY is a word, not a text",
}
# Of GoogleSQL, and near enough to one of those above.
OWN = {
    "MOD(id, 2)": "INT64",
    "id != 1 AND id <> 2": "BOOL",
    "'100% :: == ! <=> a'": "STRING",
    "IF(paid, 1, 2)": "INT64",
    "CAST(id AS BIGINT)": "INT64",
    "CAST(id AS DECIMAL)": "NUMERIC",
    "CAST(id > 1 AS BOOLEAN)": "BOOL",
    "CAST((SELECT MAX(o.day) AS text FROM orders AS o) AS STRING)": "STRING",
    "STRUCT<text INT64, double STRING>(1, 'x').double": "STRING",
    "ARRAY<STRUCT<a ARRAY<INT64>, text STRING>>[STRUCT([1], 'x')][OFFSET(0)].text": "STRING",
    "DATE '2024-01-01'": "DATE",
    "TIMESTAMP '2024-01-01 00:00:00+00'": "TIMESTAMP",
    "NUMERIC '1.5'": "NUMERIC",
    "DATE_DIFF('2024-01-02', '2024-01-01', DAY)": "INT64",
    "DATE_DIFF(day, DATE '2024-01-01', WEEK(MONDAY))": "INT64",
    "TIMESTAMP_TRUNC(at, DAY, 'Europe/Berlin')": "TIMESTAMP",
    "SUBSTR((SELECT MAX(o.note) FROM orders AS o), 2)": "STRING",
    "DATE_ADD(day, INTERVAL 1 DAY)": "DATE",
    "EXTRACT(YEAR FROM at AT TIME ZONE 'UTC')": "INT64",
    "id > 1 = (id < 2)": "BOOL",
}


QUERIES = {
    "SELECT id FROM orders ORDER BY 1 LIMIT 5, 10": "write LIMIT rows OFFSET rows",
    "SELECT id FROM orders ORDER BY 1 OFFSET 5": "OFFSET comes after LIMIT",
    "SELECT id FROM orders ORDER BY 1,": "after a comma something follows",
    "SELECT id FROM orders ORDER BY 0": "a number in GROUP BY or ORDER BY is that of an output column",
    "SELECT id FROM orders GROUP BY DISTINCT id ORDER BY 1": "DISTINCT is not accepted in GROUP BY",
    "SELECT DISTINCT id FROM orders ORDER BY region": "with DISTINCT, ORDER BY takes output columns",
    "SELECT o.id FROM orders AS o JOIN customers AS c USING id ORDER BY 1": "the columns of USING stand in parentheses",
    "SELECT id FROM orders UNION ALL SELECT id FROM customers UNION DISTINCT SELECT id FROM orders ORDER BY 1": "different set operations need parentheses",
    "SELECT id FROM orders UNION ALL SELECT id FROM customers INTERSECT DISTINCT SELECT id FROM orders ORDER BY 1": "different set operations need parentheses",
    "FROM orders SELECT id ORDER BY 1": "a query starts with SELECT or WITH",
    "SELECT x.id FROM (FROM orders SELECT id) AS x ORDER BY 1": "a query starts with SELECT or WITH",
    "SELECT 1 AS id WHERE TRUE": "a query without FROM has no WHERE",
    "SELECT 1 AS id ORDER BY 1": "a query without FROM has no ORDER",
    "SELECT id AS 'id' FROM orders ORDER BY 1": "a name is no text; write it in back-ticks",
    "SELECT id AS hash FROM orders ORDER BY 1": "HASH is a reserved word; write it in back-ticks",
    "SELECT rows.id FROM orders AS rows ORDER BY 1": "ROWS is a reserved word; write it in back-ticks",
    "WITH within AS (SELECT 1 AS id) SELECT id FROM within ORDER BY 1": "WITHIN is a reserved word; write it in back-ticks",
    "SELECT id FROM orders ORDER BY 1;;": "a template is one query, with one semicolon at most",
    "SELECT id FROM orders WHERE id IN [1] ORDER BY 1": "IN takes values in parentheses, or UNNEST of an array",
    "SELECT id FROM orders WHERE id NOT NULL ORDER BY 1": "write IS NOT NULL",
    "SELECT COUNT(ALL id) AS id FROM orders": "ALL is not accepted here; without DISTINCT it is meant anyway",
    "SELECT COUNT() AS id FROM orders": "COUNT takes one expression",
    "SELECT FIRST_VALUE(id) IGNORE NULLS OVER (ORDER BY id) AS id FROM orders ORDER BY 1": "IGNORE NULLS stands inside the parentheses of its function",
    "SELECT LENGTH(LTRIM(note, 'a', 'b')) AS id FROM orders ORDER BY 1": "LTRIM takes one or two arguments",
    "SELECT ARRAY_LENGTH([1, 2,]) AS id": "after a comma something follows",
    "SELECT {'a': 1}.a AS id": "{ is not GoogleSQL",
}
ACCEPTED = (
    "SELECT id, FROM orders ORDER BY 1",
    "SELECT id FROM orders ORDER BY 1 LIMIT 5 OFFSET 10",
    "SELECT id FROM orders ORDER BY 1;",
    "SELECT DISTINCT id FROM orders ORDER BY id",
    "SELECT `hash`.id AS id FROM orders AS `hash` ORDER BY 1",
    "SELECT STRUCT(1 AS `end`).end AS id",
    "SELECT id FROM orders UNION ALL SELECT id FROM customers UNION ALL SELECT id FROM orders ORDER BY 1",
    "(SELECT id FROM orders UNION ALL SELECT id FROM customers) INTERSECT DISTINCT SELECT id FROM orders ORDER BY 1",
    "SELECT id FROM orders WHERE id IS NOT NULL AND NOT (id IN (1)) ORDER BY 1",
    "SELECT id FROM orders WHERE id IN UNNEST([1]) ORDER BY 1",
)


@pytest.mark.parametrize("sql", QUERIES)
def test_a_query_that_googlesql_refuses_is_refused(sql: str) -> None:
    with pytest.raises(TemplateError) as refused:
        template(sql, "id:INT64")
    assert refused.value.reason == QUERIES[sql]


@pytest.mark.parametrize("sql", ACCEPTED)
def test_a_query_that_looks_like_one_is_not(sql: str) -> None:
    template(sql, "id:INT64")


@pytest.mark.parametrize("written", FOREIGN)
def test_a_spelling_of_another_dialect_is_refused(written: str) -> None:
    with pytest.raises(TemplateError) as refused:
        template(f"SELECT id,\n {written} AS x FROM orders ORDER BY id", "id:INT64 x:INT64")
    assert (refused.value.line, refused.value.reason) == (2, FOREIGN[written])


def test_an_interval_that_a_query_ends_with_has_no_part() -> None:
    with pytest.raises(TemplateError, match="an INTERVAL is a number and a part"):
        template("SELECT id FROM orders WHERE day > INTERVAL '1 day'", "id:INT64")


@pytest.mark.parametrize("written", OWN)
def test_googlesqls_own_is_not(written: str) -> None:
    template(f"SELECT id, {written} AS x FROM orders ORDER BY id", f"id:INT64 x:{OWN[written]}")


def test_a_name_in_back_ticks_is_no_mark() -> None:
    template(
        "SELECT id AS `notnull`, note AS text, day AS double FROM orders ORDER BY 1",
        "notnull:INT64 text:STRING double:DATE",
    )
