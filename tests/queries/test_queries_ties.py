"""The same rows in another order give the same bytes, ties or not; where they cannot, no result may be stored."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import pytest
import pytest_asyncio
from sqlglot import exp

from contract.schema import Parameter
from queries import template as templates
from queries.template import Template
from tests.oracle import world
from tests.oracle.product import Product
from tests.queries.tied_queries import ALIKE, COMPLETED, OPEN
from tests.queries.world import parameter

SEEDS = (0, 1, 2)
# What becomes a list in DuckDB's text is ordered by its whole value there, nested or not.
ORDERED_BY_DUCKDB = (
    "an array of values",
    "an array of written structs",
    "an array of a query",
    "an array of a query's rows",
    "the first row of a query as a value",
)
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shuffled(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[list[Product]]:
    """The same shop three times, its rows stored in another order each time."""
    held = []
    for seed in SEEDS:
        rows = {name: list(table) for name, table in world.data().items()}
        for table in rows.values():
            random.Random(seed).shuffle(table)
        held.append(Product(world.write(tmp_path_factory.mktemp("shop"), rows), world.tables()))
    yield held
    for product in held:
        await product.engine.close()


async def answers(products: Sequence[Product], sql: str, columns: Mapping[str, str]) -> list[Any]:
    out, made = [], products[0].load(sql, columns)
    for product in products:
        outcome = await product.answer(made, {})
        assert outcome.kind == "rows", outcome.why
        out.append(outcome.rows)
    return out


def loaded(product: Product, sql: str, columns: Mapping[str, str], *parameters: Parameter) -> Template:
    return product.load(sql, columns, parameters)


def terms(template: Template) -> int:
    """How many terms order something inside the query."""
    tree = template.written()
    return len(list(tree.find_all(exp.Ordered))) - len(tree.args["order"].expressions if tree.args.get("order") else ())


@pytest.mark.parametrize("name", [*COMPLETED, *ALIKE])
async def test_the_order_in_which_rows_are_stored_does_not_show(shuffled: list[Product], name: str) -> None:
    sql, columns = (COMPLETED | ALIKE)[name]
    first, *others = await answers(shuffled, sql, columns)
    assert first and all(other == first for other in others)
    assert loaded(shuffled[0], sql, columns).deterministic


@pytest.mark.parametrize("name", [name for name in COMPLETED if name not in ORDERED_BY_DUCKDB])
async def test_without_what_breaks_ties_it_would_show(
    shuffled: list[Product], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(templates, "break_ties", lambda scopes: None)
    sql, columns = COMPLETED[name]
    # Another text, because an engine remembers what it made of one.
    first, *others = await answers(shuffled, f"{sql} -- as written", columns)
    assert any(other != first for other in others)


@pytest.mark.parametrize("name", OPEN)
async def test_what_cannot_be_completed_is_answered_and_not_stored(shuffled: list[Product], name: str) -> None:
    sql, columns = OPEN[name]
    await answers(shuffled, sql, columns)
    assert not loaded(shuffled[0], sql, columns).deterministic


async def test_both_texts_of_what_cannot_be_completed_are_ordered_as_written(shuffled: list[Product]) -> None:
    made = loaded(shuffled[0], *OPEN["an array beside the number"])
    for tree in (made.tree(), made.written()):
        window = next(tree.find_all(exp.Window))
        assert [item.this.name for item in window.args["order"].expressions] == ["region"]


async def test_groups_by_an_expression_of_a_parameter_have_one_order(shuffled: list[Product]) -> None:
    sql = "SELECT SUBSTR(note, @at, 1) AS s, ROW_NUMBER() OVER (ORDER BY COUNT(*) > 0) AS n FROM orders GROUP BY s ORDER BY 1"
    made = loaded(shuffled[0], sql, {"s": "STRING", "n": "INT64"}, parameter("at:INT64", minimum=1, maximum=3))
    assert made.deterministic
    first, *others = [(await product.answer(made, {"at": 1})).rows for product in shuffled]
    assert first and all(other == first for other in others)


@pytest.mark.parametrize("name", ALIKE)
async def test_where_ties_do_not_show_nothing_is_added(
    shuffled: list[Product], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    now = terms(loaded(shuffled[0], *ALIKE[name]))
    monkeypatch.setattr(templates, "break_ties", lambda scopes: None)
    assert terms(loaded(shuffled[0], *ALIKE[name])) == now


async def test_no_column_is_read_that_the_template_does_not_name(shuffled: list[Product]) -> None:
    sql = "SELECT region, ROW_NUMBER() OVER (PARTITION BY region ORDER BY day) AS n FROM orders ORDER BY 1, 2"
    assert loaded(shuffled[0], sql, {"region": "STRING", "n": "INT64"}).columns_read == {"orders.region", "orders.day"}
