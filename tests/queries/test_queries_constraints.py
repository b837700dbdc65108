"""Each kind of row constraint, and each mask, as an engine applies it: what is left of four rows."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from contract.schema import SqlType
from contract.verdict import NotGranted, Reason
from queries import conditions
from queries.conditions import Condition
from queries.duckdb_engine import DuckDbEngine
from queries.duckdb_text import Texts
from queries.govern import Shape, govern, rewrite
from tests.authority_builder import make_authority
from tests.queries.duckdb_world import opened, run
from tests.queries.supplied_world import supplied_template
from tests.queries.world import DATASET, ORDERS, rows, template, write

EMPTY: dict[str, Any] = dict.fromkeys(column.name for column in ORDERS.columns)
HELD = [
    {**EMPTY, "id": 1, "region": "EU", "note": "first"},
    {**EMPTY, "id": 2, "region": "US", "note": "first of all"},
    {**EMPTY, "id": 3, "region": "APAC", "note": "second"},
    {**EMPTY, "id": None, "region": None, "note": None},
]
LEFT: list[tuple[str, dict[str, Any], list[str | None]]] = [
    ("region", {"one_of": ["EU", "AU"]}, ["EU"]),
    ("region", {"one_of": []}, []),
    ("region", {"not_one_of": ["EU"]}, ["APAC", "US"]),
    ("region", {"not_one_of": []}, ["APAC", "EU", "US"]),
    ("id", {"max": 2}, ["EU", "US"]),
    ("id", {"min": 2}, ["APAC", "US"]),
    ("id", {"min": 2, "max": 2}, ["US"]),
    ("note", {"prefix": "first"}, ["EU", "US"]),
]
REGIONS = template("SELECT region FROM orders ORDER BY region", "region:STRING")


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DuckDbEngine]:
    made = opened(write(tmp_path_factory.mktemp("constraints"), {**rows(), "orders": HELD}))
    yield made
    asyncio.run(made.close())


@pytest.mark.parametrize(("column", "constraint", "left"), LEFT)
async def test_a_constraint_leaves_the_rows_that_meet_it_and_no_null(
    engine: DuckDbEngine, column: str, constraint: dict[str, Any], left: list[str]
) -> None:
    assert await run(engine, REGIONS, rows={f"orders.{column}": constraint}) == [[region] for region in left]
    assert len(await run(engine, REGIONS)) == 4


async def test_a_constraint_is_applied_wherever_its_table_is_read(engine: DuckDbEngine) -> None:
    twice = template(
        "SELECT o.region AS region, (SELECT COUNT(*) FROM orders AS p) AS n FROM orders AS o ORDER BY region",
        "region:STRING n:INT64",
    )
    assert await run(engine, twice, rows={"orders.region": {"one_of": ["EU"]}}) == [["EU", 1]]


@pytest.mark.parametrize(("mask", "shown"), [("null", None), ("truncate", "fi")])
async def test_a_mask_is_what_the_query_reads(engine: DuckDbEngine, mask: str, shown: str | None) -> None:
    notes = template("SELECT note, LENGTH(note) AS n FROM orders WHERE id = 1 ORDER BY note", "note:STRING n:INT64")
    (row,) = await run(engine, notes, masks={"orders.note": mask})
    assert row == [shown, None if shown is None else len(shown)]


async def test_a_short_text_is_shown_by_half_and_a_long_one_by_four_characters(engine: DuckDbEngine) -> None:
    notes = template("SELECT note FROM orders ORDER BY id", "note:STRING")
    shown = await run(engine, notes, masks={"orders.note": "truncate"})
    assert sorted(note for (note,) in shown if note is not None) == ["fi", "firs", "sec"]


async def test_what_the_query_does_not_read_is_not_in_its_text(engine: DuckDbEngine) -> None:
    with engine._cursors.one() as cursor:
        text = Texts().text(cursor, REGIONS, Shape((), ()))
    assert [column.name for column in ORDERS.columns if f'"{column.name}"' in text] == ["region"]


def test_a_mask_of_a_column_that_is_not_there_is_refused() -> None:
    with pytest.raises(NotGranted) as refused:
        govern(REGIONS, make_authority(dataset=DATASET, capability="c", masks={"orders.gone": "null"}))
    assert refused.value.reason is Reason.GRANT_CONSTRAINT_UNKNOWN


def test_a_condition_of_no_declared_column_has_no_text() -> None:
    gone = Condition("orders", "gone", "max", "__s0", SqlType.INT64, repeated=False)
    with pytest.raises(RuntimeError, match="declared column"):
        conditions.test_of(gone, ORDERS)


def test_rows_that_another_agent_governs_are_named_as_such() -> None:
    loaded = supplied_template(
        "SELECT p.order_id AS id FROM peaks AS p JOIN orders AS o ON o.id = p.order_id ORDER BY id", "id:INT64"
    )
    cases: list[dict[str, Any]] = [{"rows": {"peaks.region": {"one_of": ["EU"]}}}, {"masks": {"peaks.region": "null"}}]
    for case in cases:
        with pytest.raises(NotGranted, match="rows that another agent governs") as refused:
            govern(loaded, make_authority(dataset=DATASET, capability="c", **case))
        assert refused.value.reason is Reason.GRANT_CONSTRAINT_UNKNOWN


def test_a_shape_of_no_declared_table_has_no_text() -> None:
    with pytest.raises(RuntimeError, match="is declared"):
        rewrite(replace(REGIONS, tables=()), Shape((), ()))
