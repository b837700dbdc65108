"""What a library makes of a query's names is looked at again: what it added, took away or renamed is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlglot import exp
from sqlglot.optimizer.qualify import qualify

from queries import resolve as module
from queries.errors import Refused
from queries.grammar import parse
from queries.names import ALIAS
from queries.resolve import resolve
from tests.queries.world import TABLES

SQL = "SELECT o.id AS id, o.note AS note FROM orders AS o JOIN customers AS c USING (id) ORDER BY o.id"
Tamper = Callable[[exp.Query], None]


def _first(tree: exp.Query, name: str) -> exp.Table:
    return next(table for table in tree.find_all(exp.Table) if table.name == name)


def _without_a_table(tree: exp.Query) -> None:
    tree.append("expressions", exp.alias_(exp.column("id"), "more"))


def _a_table_in_no_from(tree: exp.Query) -> None:
    tree.append("expressions", exp.alias_(exp.Anonymous(this="f", expressions=[exp.to_table("customers")]), "more"))


def _another_table(tree: exp.Query) -> None:
    _first(tree, "customers").set("this", exp.to_identifier("secrets"))


def _another_dataset(tree: exp.Query) -> None:
    _first(tree, "customers").set("db", exp.to_identifier("other"))


def _another_column(tree: exp.Query) -> None:
    more = exp.column("hidden", table="o")
    more.meta[ALIAS] = "id"
    tree.append("expressions", exp.alias_(more, "more"))


def _a_column_less(tree: exp.Query) -> None:
    tree.set("expressions", tree.expressions[:1])


def test_an_alias_inside_what_is_grouped_by_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    sql = "SELECT o.region AS r, COUNT(*) AS n FROM orders AS o GROUP BY o.region ORDER BY r"

    def left_alone(tree: exp.Query, **more: Any) -> Any:
        made = qualify(tree, **more)
        alias = exp.column("r")
        alias.meta[ALIAS] = "r"
        made.args["group"].append("expressions", exp.Lower(this=alias))
        return made

    monkeypatch.setattr(module, "qualify", left_alone)
    with pytest.raises(Refused, match="r could be the alias or a column here"):
        resolve(parse(sql), TABLES)


@pytest.mark.parametrize(
    ("tamper", "said"),
    [
        (_without_a_table, "neither a column nor an output alias"),
        (_a_table_in_no_from, "table customers is not accounted for"),
        (_another_table, "table secrets is not declared"),
        (_another_dataset, "table customers is not declared"),
        (_another_column, "table orders has no column hidden"),
        (_a_column_less, "a column of table orders is not accounted for"),
    ],
)
def test_what_became_of_a_query_is_what_was_written(monkeypatch: pytest.MonkeyPatch, tamper: Tamper, said: str) -> None:
    assert resolve(parse(SQL), TABLES).tables == {"orders", "customers"}

    def tampered(tree: exp.Query, **more: Any) -> Any:
        made = qualify(tree, **more)
        tamper(made)
        return made

    monkeypatch.setattr(module, "qualify", tampered)
    with pytest.raises(Refused) as refused:
        resolve(parse(SQL), TABLES)
    assert said in refused.value.message
