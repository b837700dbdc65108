"""What no template is: not so large, not in parentheses alone, and not with such names. Read by the grammar itself."""

from __future__ import annotations

import pytest

from queries.errors import Refused
from queries.grammar import MAX_DEPTH, MAX_NODES, MAX_TEMPLATE_BYTES, parse


def refused(sql: str) -> str:
    with pytest.raises(Refused) as stop:
        parse(sql)
    return stop.value.message


def test_a_template_has_a_size() -> None:
    body = "SELECT 1 AS x -- "
    parse(body + "y" * (MAX_TEMPLATE_BYTES - len(body)))
    assert "at most" in refused(body + "y" * (MAX_TEMPLATE_BYTES - len(body) + 1))
    assert "at most" in refused(body + "ä" * (MAX_TEMPLATE_BYTES // 2))


def test_a_template_has_a_number_of_nodes() -> None:
    items = ", ".join(f"{number} AS c{number}" for number in range(MAX_NODES // 2))
    assert "too large" in refused(f"SELECT {items}")


def test_a_template_has_a_depth() -> None:
    parse(f"SELECT 1{' + 1' * (MAX_DEPTH - 10)} AS x")
    assert "too large" in refused(f"SELECT 1{' + 1' * MAX_DEPTH} AS x")


@pytest.mark.parametrize("sql", ["(SELECT 1 AS x)", "(SELECT 1 AS x) LIMIT 1", "(SELECT 1 AS x) AS t", "(1)"])
def test_a_query_in_parentheses_alone_is_none(sql: str) -> None:
    assert "only a query is accepted" in refused(sql)


@pytest.mark.parametrize("name", ["SAFE_OFFSET", "ORDINAL", "SAFE_ORDINAL"])
def test_a_word_that_stands_in_a_subscript_is_no_function(name: str) -> None:
    assert "not on the list" in refused(f"SELECT {name}(1) AS x")


@pytest.mark.parametrize("field", ["*", "'a'", "@p"])
def test_behind_the_dot_of_a_value_stands_a_name(field: str) -> None:
    assert "a dot is followed by the name of a field" in refused(f"SELECT STRUCT(1 AS a).{field} AS x")


@pytest.mark.parametrize("column", ["a.(b)", "o.a.(b)", "a.(SELECT 1)", "o.a.(SELECT MAX(c.b) FROM c)"])
def test_behind_the_dot_of_a_column_stands_a_name(column: str) -> None:
    """The parser takes anything in parentheses for the name of the column, and drops it later."""
    assert "a dot is followed by the name of a field" in refused(f"SELECT {column} AS x FROM o")


@pytest.mark.parametrize("name", ["a b", "ä", "1a", "a.b"])
def test_a_name_is_made_of_letters_and_digits(name: str) -> None:
    assert "is not made of" in refused(f"SELECT 1 AS `{name}`")


def test_a_name_has_a_length() -> None:
    parse(f"SELECT 1 AS {'a' * 64}")
    assert "is not made of" in refused(f"SELECT 1 AS {'a' * 65}")


@pytest.mark.parametrize(
    "source",
    ["orders AS abs(a)", "orders abs(a)", "(SELECT 1 AS a) AS abs(a)"],
)
def test_an_alias_that_is_named_like_a_function_names_no_columns(source: str) -> None:
    assert "a list of column names" in refused(f"SELECT a AS a FROM {source}")


def test_a_common_table_that_is_named_like_a_function_names_no_columns() -> None:
    assert "a list of column names" in refused("WITH abs (a) AS (SELECT 1 AS a) SELECT 1 AS x")


@pytest.mark.parametrize("alias", ["", "AS abs(a)", "AS abs(a, b)", "WITH OFFSET"])
def test_an_unnest_has_one_name(alias: str) -> None:
    assert any(
        said in refused(f"SELECT 1 AS a FROM UNNEST([1]) {alias}") for said in ("needs an alias", "extra column alias")
    )


@pytest.mark.parametrize("called", ["LENGTH(x)", "ACOS(x)", "IF(TRUE, x, y)", "ARRAY(SELECT 1)"])
def test_a_function_that_is_accepted_is_no_table(called: str) -> None:
    assert "only a table's name stands here" in refused(f"SELECT 1 AS a FROM orders, {called}")


@pytest.mark.parametrize("value", ["INTERVAL 1 DAY", "day + INTERVAL 1 DAY", "ABS(INTERVAL 1 DAY)"])
def test_an_interval_is_no_value(value: str) -> None:
    assert "INTERVAL is accepted in" in refused(f"SELECT {value} AS x FROM orders")
