"""How large the values of a template may become, known before it runs."""

from __future__ import annotations

from math import inf

import pytest

from tests.queries.world import parameter, template

DOUBLE = "(SELECT id, CONCAT(note, note) AS note FROM {}) AS t"


def factor(expression: str, declared: str = "x:STRING", source: str = "orders") -> float:
    return template(f"SELECT {expression} AS x FROM {source} ORDER BY x", declared).growth.factor


def doubled(times: int) -> str:
    source = "orders"
    for _ in range(times):
        source = DOUBLE.format(source)
    return source


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("note", 1),
        ("SUBSTR(note, 2)", 1),
        ("CONCAT(note, '-', region)", 3),
        ("note || note || note", 3),
        ("IF(paid, CONCAT(note, note), note)", 2),
        ("CASE WHEN paid THEN note WHEN id = 1 THEN CONCAT(note, note) END", 2),
        ("COALESCE(note, CONCAT(note, region), '')", 2),
        ("CAST(id AS STRING)", 1),
        ("FORMAT_DATE('%Y-%m-%d', day)", 16),
        ("(SELECT MAX(CONCAT(c.name, c.name)) FROM customers AS c)", 2),
        ("CONCAT((SELECT MAX(CONCAT(c.name, c.name)) FROM customers AS c), note)", 3),
        ("TO_HEX(SHA256(note))", 2),
        ("REPLACE(REPLACE(note, '--', '-'), 'a', '')", 1),
        ("REPLACE(note, 'ab', '123456')", 3),
        ("LEFT(RIGHT(note, 3), 2)", 1),
        ("REVERSE(LEFT(note, 3))", 32),
        ("IF(REGEXP_CONTAINS(note, 'a+'), note, '')", 32),
        ("ARRAY_TO_STRING([note, region], ', ')", 6),
        ("[note, region][OFFSET(0)]", 2),
        ("STRUCT(note AS a, region AS b).a", 2),
    ],
)
def test_a_text_is_as_long_as_what_it_is_made_of(expression: str, expected: float) -> None:
    assert factor(expression) == expected


def test_what_is_read_of_an_inner_query_is_as_long_as_it_was_made_there() -> None:
    assert [factor("note", source=doubled(times)) for times in range(5)] == [1, 2, 4, 8, 16]
    common = (
        "WITH a AS (SELECT id, CONCAT(note, note) AS n FROM orders), b AS (SELECT id, CONCAT(n, n, n) AS n FROM a) "
    )
    assert template(f"{common}SELECT id FROM b WHERE n > 'x' ORDER BY id", "id:INT64").growth.factor == 6
    union = "SELECT note AS n FROM orders UNION ALL SELECT CONCAT(note, note) AS n FROM orders"
    assert template(f"SELECT CONCAT(n, n) AS x FROM ({union}) AS u ORDER BY x", "x:STRING").growth.factor == 4


def test_a_value_that_is_made_counts_also_where_it_is_not_returned() -> None:
    for clause in ("WHERE LENGTH({}) > 1", "QUALIFY ROW_NUMBER() OVER (ORDER BY {}) = 1"):
        sql = f"SELECT id FROM orders {clause.format('CONCAT(note, note, note)')} ORDER BY id"
        assert template(sql, "id:INT64").growth.factor == 3
    assert template("SELECT MAX(LENGTH(CONCAT(note, note))) AS x FROM orders", "x:INT64").growth.factor == 2
    joined = "SELECT o.id FROM orders AS o JOIN lines AS l ON CONCAT(o.note, l.sku) = l.sku ORDER BY o.id"
    assert template(joined, "id:INT64").growth.factor == 2


def test_a_text_of_all_rows_may_have_any_length() -> None:
    sql = "SELECT STRING_AGG(note, ',' ORDER BY id) AS x FROM orders"
    assert template(sql, "x:STRING").growth.factor == inf
    around = f"SELECT LENGTH(t.x) AS n FROM ({sql}) AS t ORDER BY n"
    assert template(around, "n:INT64").growth.factor == inf


@pytest.mark.parametrize(
    "expression",
    [
        "REPEAT(note, 2)",
        "LPAD(note, 2)",
        "REPLACE(note, 'a', region)",
        "REGEXP_REPLACE(note, 'a', 'b')",
        "ARRAY_TO_STRING([note], region)",
        "CAST(ARRAY_LENGTH(GENERATE_ARRAY(1, id)) AS STRING)",
        "CAST(ARRAY_LENGTH(ARRAY_AGG(note ORDER BY id)) AS STRING)",
        "CAST(ARRAY_LENGTH(ARRAY(SELECT name FROM customers AS c ORDER BY name)) AS STRING)",
    ],
)
def test_a_value_whose_size_is_decided_by_a_value_may_have_any_length(expression: str) -> None:
    assert factor(expression) == inf


def test_an_element_is_as_long_as_its_array() -> None:
    sql = "SELECT CONCAT(e, e) AS x FROM orders AS o, UNNEST([o.note, o.region]) AS e ORDER BY x"
    assert template(sql, "x:STRING").growth.factor == 4
    made = "SELECT x AS x FROM UNNEST(GENERATE_ARRAY(1, 3)) AS x ORDER BY x"
    assert template(made, "x:INT64").growth.factor == inf


def test_numbers_have_the_size_of_their_type() -> None:
    for expression, kind in (("id * 2", "INT64"), ("SUM(amount) OVER ()", "NUMERIC"), ("LENGTH(note)", "INT64")):
        assert factor(expression, f"x:{kind}") == 1


def test_the_longest_literal_and_argument_are_known() -> None:
    sql = "SELECT CONCAT(note, @p) AS x FROM orders WHERE note = '" + "y" * 500 + "' ORDER BY x"
    assert template(sql, "x:STRING", parameter("p:STRING", max_length=100)).growth.written == 500
    assert template(sql, "x:STRING", parameter("p:STRING", max_length=1000)).growth.written == 4000
    listed = template(sql, "x:STRING", parameter("p:STRING", max_length=1000, values=["é", "abc"])).growth
    assert (listed.written, listed.bytes(10), listed.bytes(10**6)) == (500, 1000, 2 * 10**6)
    looked_up = "SELECT id FROM orders WHERE region IN UNNEST(@p) ORDER BY id"
    assert template(looked_up, "id:INT64", parameter("p:STRING[]", max_items=1000)).growth.written == 0


def test_a_list_is_as_long_as_all_its_items() -> None:
    sql = "SELECT id FROM orders WHERE note = ARRAY_TO_STRING(@p, ',') ORDER BY id"
    listed = parameter("p:STRING[]", max_items=1000, max_length=100, ordered=True)
    assert template(sql, "id:INT64", listed).growth.written == 400_000
