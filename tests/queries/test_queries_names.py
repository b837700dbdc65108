"""What a name means is settled once: nothing that reads the tree later may change it."""

from __future__ import annotations

import pytest
from sqlglot import exp

from queries.errors import Refused, TemplateError
from queries.grammar import parse
from queries.names import check_settled, settle_names
from tests.queries.world import TABLES, template

DECLARED = {table.name: table for table in TABLES}
JOINED = "SELECT o.id AS id FROM orders AS o JOIN customers AS c ON c.id = o.customer ORDER BY o.id"


@pytest.mark.parametrize(("part", "name"), [("table", "c"), ("this", "customer")])
def test_a_name_that_another_reading_changed_is_refused(part: str, name: str) -> None:
    tree = parse(JOINED)
    shared = settle_names(tree, DECLARED)
    check_settled(tree, shared)
    column = next(iter(tree.find_all(exp.Column)))
    column.set(part, exp.to_identifier(name))
    with pytest.raises(Refused, match="could be one column or another"):
        check_settled(tree, shared)


def test_a_name_of_a_table_and_of_a_column_is_written_with_its_table() -> None:
    with pytest.raises(TemplateError, match="region is both a table and a column here"):
        template("SELECT region AS x FROM orders AS region ORDER BY x", "x:STRING")
    with pytest.raises(TemplateError, match="o is a whole row here"):
        template("SELECT o AS x FROM orders AS o ORDER BY x", "x:STRING")


@pytest.mark.parametrize("shown", ["UPPER(o.note)", "o.note", "c.name"])
def test_an_alias_and_a_table_of_one_name_have_no_fields(shown: str) -> None:
    with pytest.raises(TemplateError, match="o could be the alias or the table here"):
        template(
            f"SELECT {shown} AS o FROM orders AS o JOIN customers AS c ON c.id = o.customer ORDER BY o.id", "o:STRING"
        )


def test_a_query_in_from_has_a_name() -> None:
    for source in ("(SELECT id FROM orders)", "lines AS l JOIN (SELECT id FROM orders) ON id = l.order_id"):
        with pytest.raises(TemplateError, match="a query in FROM needs an alias"):
            template(f"SELECT id FROM {source} ORDER BY id", "id:INT64")


def test_an_alias_with_the_name_of_another_column_is_no_operand() -> None:
    windowed = "SELECT amount AS id FROM orders QUALIFY ROW_NUMBER() OVER (ORDER BY id) = 1 ORDER BY 1"
    with pytest.raises(TemplateError, match="id could be the alias or a column here"):
        template(windowed, "id:NUMERIC")


@pytest.mark.parametrize("value", ["(SELECT id, note FROM orders LIMIT 1)", "id IN (SELECT id, note FROM orders)"])
def test_a_query_that_is_a_value_has_one_column(value: str) -> None:
    with pytest.raises(TemplateError, match="a query used as a value has one column"):
        template(f"SELECT id AS x FROM orders WHERE {value} IS NULL ORDER BY x", "x:INT64")
