"""The generated text means what was written: ZetaSQL, Google's own implementation, answers both alike."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from contract.schema import ResultColumn, Table
from contract.scope import Sensitivity
from contract.verdict import NotGranted
from queries.bigquery_dialect import ABSENT
from queries.bigquery_text import BigQueryTexts, absent_of
from queries.bind import bind
from queries.duckdb_engine import DuckDbEngine
from queries.errors import TemplateError
from queries.govern import Shape, govern
from queries.masks import MASK_KEY as MASK_PARAMETER
from queries.masks import dataset_mask_key
from queries.template import Template, load_template
from tests.authority_builder import make_authority
from tests.bigquery import emulated
from tests.bigquery.bigquery_world import AS_OF, STORED, stored_template
from tests.bigquery.test_bigquery_emulator import QUERIES
from tests.oracle import compare, corpus, world
from tests.oracle.product import Product, declared
from tests.oracle.reference import Reference, ReferenceError
from tests.queries.documents import run as run_whole
from tests.queries.oracle import AUTHORITIES
from tests.queries.tied_queries import ALIKE, COMPLETED
from tests.queries.world import DATASET, MASK_KEY, TABLES, rows, template, write

pytestmark = pytest.mark.bigquery
SHOP = tuple(
    Table(name=table.name, bigquery=f"data-project.shop.{table.name}", columns=table.columns)
    for table in world.tables()
)


@pytest.fixture(scope="module")
def reference() -> Reference:
    """ZetaSQL over the small dataset; it takes half a minute to start."""
    held = {
        table.name: ({column.name: column.type.value for column in table.columns}, rows()[table.name])
        for table in TABLES
    }
    return Reference(held)


@pytest.fixture(scope="module")
def shop() -> Reference:
    """ZetaSQL over the tables of the oracle's corpus, and over the same as ``turned_…`` from the last row to the first."""
    held = world.reference_tables()
    return Reference(held | {f"turned_{name}": (columns, rows[::-1]) for name, (columns, rows) in held.items()})


@pytest.fixture
async def embedded(tmp_path: Path) -> AsyncIterator[DuckDbEngine]:
    folder = write(tmp_path, rows())
    engine = DuckDbEngine.open(DATASET, "1.0.0", folder, TABLES, scratch=tmp_path / "scratch", mask_key=MASK_KEY)
    yield engine
    await engine.close()


def test_every_query_of_the_oracles_corpus_means_what_was_written(shop: Reference) -> None:
    """What ZetaSQL makes of the text for BigQuery, and of the template: expressions, columns, whole templates."""
    texts, alike = BigQueryTexts(), 0
    for item in (*corpus.expressions(), *corpus.columns(), *corpus.templates()):
        case = compare.ask(shop, item)
        loaded = None if case is None else loadable(case, SHOP)
        if case is None or loaded is None:
            continue
        given = corpus.reference_arguments(item)
        given |= {f"{ABSENT}{name}": ("BOOL", item.arguments[name] is None) for name in absent_of(loaded)}
        text = plainly_named(texts.text(loaded, Shape((), ())), SHOP)
        assert compare.exactly(rows_of(shop, text, given)) == compare.exactly(case.rows), item.name
        alike += 1
    print(f"{alike} queries mean alike")
    assert alike >= 1_500


async def test_queries_with_ties_answer_as_duckdb_does(shop: Reference, tmp_path: Path) -> None:
    """What completes an order is GoogleSQL, and gives tied rows the order that they have on DuckDB."""
    texts = BigQueryTexts()
    product = Product(world.write(tmp_path), world.tables())
    for name, (sql, columns) in (COMPLETED | ALIKE).items():
        text = texts.text(stored_in_bigquery(sql, columns), Shape((), ()))
        outcome = await product.run(sql, columns)
        assert compare.exactly(shop.query(plainly_named(text, SHOP)).rows) == compare.exactly(outcome.rows), name
    await product.engine.close()


def test_rows_that_differ_in_a_nested_column_alone_have_one_order(shop: Reference) -> None:
    """Their order as JSON, whichever table or alias has the column's name."""
    queries = {
        "SELECT region, tags FROM orders ORDER BY region": {"region": "STRING", "tags": "ARRAY<STRING>"},
        "SELECT paid, o.ship AS lines, o.lines AS ship FROM orders AS o ORDER BY paid DESC LIMIT 30": {
            "paid": "BOOL",
            "lines": "STRUCT<city STRING, zip STRING>",
            "ship": "ARRAY<STRUCT<sku STRING, qty INT64, price NUMERIC>>",
        },
        "SELECT l AS o, o.region AS l FROM orders AS o, UNNEST(o.lines) AS l ORDER BY 2": {
            "o": "STRUCT<sku STRING, qty INT64, price NUMERIC>",
            "l": "STRING",
        },
        "SELECT 1 AS n, tags FROM orders UNION ALL SELECT 1 AS n, ['x'] AS tags FROM customers ORDER BY n": {
            "n": "INT64",
            "tags": "ARRAY<STRING>",
        },
    }
    texts = BigQueryTexts()
    for sql, columns in queries.items():
        text = texts.text(stored_in_bigquery(sql, columns), Shape((), ()))
        assert shop.query(plainly_named(text, SHOP)).rows == shop.query(plainly_named(text, SHOP, "turned_")).rows, sql


def stored_in_bigquery(sql: str, columns: dict[str, str]) -> Template:
    return load_template(
        sql,
        name="templates/t.sql",
        dataset=DATASET,
        tables=SHOP,
        parameters=(),
        results=[ResultColumn.model_validate(declared(name, kind)) for name, kind in columns.items()],
        ceiling=Sensitivity.RESTRICTED,
    )


def loadable(case: compare.Case, stored: tuple[Table, ...]) -> Template | None:
    """The query as a template over tables of BigQuery; ``None`` where it is refused."""
    for types in [case.types] if case.types else [[kind] for kind in ("INT64", "STRING", "FLOAT64", "NUMERIC", "DATE")]:
        columns = [declared(name, kind) for name, kind in zip(case.names, types, strict=True)]
        try:
            return load_template(
                case.item.sql,
                name="templates/t.sql",
                dataset=DATASET,
                tables=stored,
                parameters=case.item.declared(),
                results=[ResultColumn.model_validate(column) for column in columns],
                ceiling=Sensitivity.RESTRICTED,
            )
        except (TemplateError, ValueError):
            continue
    return None


def plainly_named(text: str, stored: tuple[Table, ...], before: str = "") -> str:
    """The text with tables as ZetaSQL's catalog has them: their own name alone."""
    for table in stored:
        text = text.replace(f"`{table.bigquery}`", f"`{before}{table.name}`")
    return text


def rows_of(reference: Reference, sql: str, parameters: dict[str, Any]) -> list[list[Any]] | None:
    """``None`` for an error."""
    try:
        return reference.query(sql, parameters).rows
    except ReferenceError:
        return None


@pytest.mark.parametrize("name", AUTHORITIES)
async def test_governed_text_answers_as_duckdb_does(reference: Reference, embedded: DuckDbEngine, name: str) -> None:
    """Rows and masks included: what ZetaSQL makes of the text for BigQuery, and DuckDB of its own."""
    authority, compared = make_authority(dataset=DATASET, capability="c", **AUTHORITIES[name]), 0
    for sql, columns in QUERIES:
        here, there = template(sql, columns), stored_template(sql, columns)
        try:
            governed = govern(there, authority)
        except NotGranted:  # it constrains what the query does not read
            continue
        text = BigQueryTexts().text(there, governed.shape)
        given = {
            c.parameter: (f"ARRAY<{c.type}>" if c.repeated else c.type.value, governed.values[c.parameter])
            for c in governed.shape.conditions
        }
        if f"@{MASK_PARAMETER}" in text:
            given[MASK_PARAMETER] = ("STRING", dataset_mask_key(MASK_KEY, DATASET))
        text = plainly_named(text, STORED)
        document, _ = await run_whole(
            embedded, authority, here, bind(here, {}), max_rows=10_000, max_bytes=10**7, as_of=AS_OF
        )
        assert reference.query(text, given).rows == json.loads(document.body)["rows"]
        compared += 1
    assert compared


@pytest.mark.parametrize("dataset", ["purification-batches", "chromatography-results"])
async def test_groups_made_by_a_parameter_are_those_of_duckdb(dataset: str, tmp_path: Path) -> None:
    """The shipped totals, which the emulator cannot show: what ZetaSQL makes of the text for BigQuery."""
    folder, manifest = next(item for item in emulated.manifests() if item[1].dataset == dataset)
    capability = next(item for item in manifest.capabilities if item.rollup is not None)
    stored = tuple(emulated.in_bigquery(table, "shop") for table in manifest.tables)
    there, here = (emulated.loaded(folder, manifest, capability, held) for held in (stored, manifest.tables))
    reference = Reference(
        {
            table.name: (
                {column.name: column.type.value for column in table.columns},
                pq.read_table(folder / str(table.file)).to_pylist(),
            )
            for table in manifest.tables
        }
    )
    text = plainly_named(BigQueryTexts().text(there, Shape((), ())), stored)
    engine = DuckDbEngine.open(dataset, "1.0.0", folder, manifest.tables, scratch=tmp_path, mask_key=MASK_KEY)
    authority = make_authority(dataset=dataset, capability=capability.name)
    try:
        for per in capability.parameter("per").values:
            bound = bind(here, {"per": per, "from_day": "2024-02-01", "to_day": "2027-01-01"})
            given = {
                item.name: (f"ARRAY<{item.type}>" if item.repeated else item.type.value, bound.values[item.name])
                for item in capability.parameters
            }
            document, _ = await run_whole(engine, authority, here, bound, max_rows=10_000, max_bytes=10**7, as_of=AS_OF)
            found = json.loads(document.body)["rows"]
            assert found
            assert reference.query(text, given).rows == found
    finally:
        await engine.close()
