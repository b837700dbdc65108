"""The generated text means what was written: ZetaSQL, Google's own implementation, answers both alike."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from contract.schema import ResultColumn
from contract.verdict import NotGranted
from queries.bigquery_text import BigQueryTexts
from queries.bind import bind
from queries.duckdb_engine import DuckDbEngine
from queries.govern import Shape, govern
from queries.masks import MASK_KEY as MASK_PARAMETER
from queries.masks import dataset_mask_key
from tests.authority_builder import make_authority
from tests.bigquery.bigquery_world import AS_OF, STORED, stored_template
from tests.bigquery.test_bigquery_emulator import QUERIES
from tests.oracle.reference import Reference, ReferenceError
from tests.queries.oracle import AUTHORITIES
from tests.queries.world import DATASET, MASK_KEY, TABLES, rows, template, write

pytestmark = pytest.mark.bigquery
CASES = Path(__file__).resolve().parents[1] / "queries" / "googlesql_cases.json"


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


def answered(reference: Reference, sql: str, parameters: dict[str, Any] | None = None) -> Any:
    try:
        return reference.query(sql, parameters)
    except ReferenceError:
        return "an error"


def test_every_expression_of_the_corpus_means_what_was_written(reference: Reference) -> None:
    compared = 0
    for expression, kind, *_ in json.loads(CASES.read_text(encoding="utf-8")):
        loaded = stored_template(f"SELECT {expression} AS x", (ResultColumn.model_validate(declared(kind)),))
        text = BigQueryTexts().text(loaded, Shape((), ()))
        assert answered(reference, text) == answered(reference, f"SELECT {expression} AS x"), expression
        compared += 1
    print(f"{compared} expressions mean alike")
    assert compared >= 300


def declared(kind: str) -> dict[str, Any]:
    if kind.startswith("ARRAY<"):
        return {"name": "x", "type": kind[6:-1], "mode": "REPEATED"}
    return {"name": "x", "type": kind}


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
        for table in STORED:
            text = text.replace("`data-project`.`shop_data`.`" + table.name + "`", f"`{table.name}`")
        document, _ = await embedded.run(authority, here, bind(here, {}), max_rows=10_000, max_bytes=10**7, as_of=AS_OF)
        assert reference.query(text, given).rows == json.loads(document.body)["rows"]
        compared += 1
    assert compared
