"""The generated text means what was written: ZetaSQL, Google's own implementation, answers both alike."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

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
from tests.bigquery.bigquery_world import AS_OF, STORED, stored_template
from tests.bigquery.test_bigquery_emulator import QUERIES
from tests.oracle import compare, corpus, world
from tests.oracle.product import declared
from tests.oracle.reference import Reference, ReferenceError
from tests.queries.oracle import AUTHORITIES
from tests.queries.world import DATASET, MASK_KEY, TABLES, rows, template, write

pytestmark = pytest.mark.bigquery


@pytest.fixture(scope="module")
def reference() -> Reference:
    """ZetaSQL over the small dataset; it takes half a minute to start."""
    held = {
        table.name: ({column.name: column.type.value for column in table.columns}, rows()[table.name])
        for table in TABLES
    }
    return Reference(held)


@pytest.fixture
async def embedded(tmp_path: Path) -> AsyncIterator[DuckDbEngine]:
    folder = write(tmp_path, rows())
    engine = DuckDbEngine.open(DATASET, "1.0.0", folder, TABLES, scratch=tmp_path / "scratch", mask_key=MASK_KEY)
    yield engine
    await engine.close()


def test_every_query_of_the_oracles_corpus_means_what_was_written() -> None:
    """What ZetaSQL makes of the text for BigQuery, and of the template: expressions, columns, whole templates."""
    over, texts, alike = Reference(world.reference_tables()), BigQueryTexts(), 0
    stored = tuple(
        Table(name=table.name, bigquery=f"data-project.shop.{table.name}", columns=table.columns)
        for table in world.tables()
    )
    for item in (*corpus.expressions(), *corpus.columns(), *corpus.templates()):
        case = compare.ask(over, item)
        loaded = None if case is None else loadable(case, stored)
        if case is None or loaded is None:
            continue
        given = corpus.reference_arguments(item)
        given |= {f"{ABSENT}{name}": ("BOOL", item.arguments[name] is None) for name in absent_of(loaded)}
        text = plainly_named(texts.text(loaded, Shape((), ())), stored)
        assert compare.exactly(rows_of(over, text, given)) == compare.exactly(case.rows), item.name
        alike += 1
    print(f"{alike} queries mean alike")
    assert alike >= 1_500


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


def plainly_named(text: str, stored: tuple[Table, ...]) -> str:
    """The text with tables as ZetaSQL's catalog has them: their own name alone."""
    for table in stored:
        text = text.replace(f"`{table.bigquery}`", f"`{table.name}`")
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
        document, _ = await embedded.run(authority, here, bind(here, {}), max_rows=10_000, max_bytes=10**7, as_of=AS_OF)
        assert reference.query(text, given).rows == json.loads(document.body)["rows"]
        compared += 1
    assert compared
