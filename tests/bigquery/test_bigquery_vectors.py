"""The bytes of a result are the same from DuckDB, from BigQuery's REST answers and from its Arrow streams."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from queries.arrow_form import arrow_schema, conform
from queries.bind import bind
from queries.duckdb_engine import DuckDbEngine
from tests.authority_builder import make_authority
from tests.bigquery.bigquery_world import AS_OF, engine_for
from tests.bigquery.scripted_bigquery import serving
from tests.bigquery.scripted_storage import ScriptedStorage
from tests.bigquery.vectors import Vector, vectors
from tests.queries.documents import document_of
from tests.queries.documents import run as run_whole
from tests.queries.world import DATASET, MASK_KEY

EVERY = pytest.mark.parametrize("vector", vectors(), ids=lambda vector: vector.name)
STORED = {"bigquery": "data-project.shop_data.v"}


def sent_as_arrow(vector: Vector) -> pa.Table:
    """The rows in the types of the Storage Read API."""
    schema = arrow_schema(vector.results)
    batches = [conform(schema, vector.results, batch) for batch in vector.arrow().to_batches() if batch.num_rows]
    return pa.Table.from_batches(batches, schema=schema)


def encoded(vector: Vector, batches: list[pa.RecordBatch]) -> str:
    return document_of(vector.results, batches, AS_OF).body.decode()


@EVERY
def test_duckdbs_arrow_is_encoded_as_the_committed_bytes(vector: Vector) -> None:
    assert encoded(vector, vector.arrow().to_batches()) == vector.body


async def test_the_duckdb_engine_returns_the_committed_bytes(tmp_path: Path) -> None:
    finite = [vector for vector in vectors() if vector.finite]
    for vector in finite:
        pq.write_table(vector.arrow(), tmp_path / f"{vector.table_name}.parquet")
    tables = [vector.table(file=f"{vector.table_name}.parquet") for vector in finite]
    engine = DuckDbEngine.open(DATASET, "1.0.0", tmp_path, tables, scratch=tmp_path / "scratch", mask_key=MASK_KEY)
    authority = make_authority(dataset=DATASET, capability="c")
    try:
        for vector, table in zip(finite, tables, strict=True):
            loaded = vector.template(file=table.file)
            document, _ = await run_whole(
                engine, authority, loaded, bind(loaded, {}), max_rows=100, max_bytes=10**6, as_of=AS_OF
            )
            assert document.body.decode() == vector.body, vector.name
    finally:
        await engine.close()


@EVERY
async def test_a_rest_answer_is_encoded_as_the_committed_bytes(vector: Vector) -> None:
    loaded = vector.template(**STORED)
    with serving(fields=vector.fields, rows=vector.rest, page=3) as service:
        engine = engine_for(service.url)
        authority = make_authority(dataset=DATASET, capability="c")
        document, _ = await run_whole(
            engine, authority, loaded, bind(loaded, {}), max_rows=100, max_bytes=10**6, as_of=AS_OF
        )
        async with engine.stream(authority, loaded, bind(loaded, {}), max_rows=100, max_bytes=10**6) as rows:
            batches = [batch async for batch in rows]
        assert rows.execution.job_id is not None
        await engine.close()
    assert document.body.decode() == vector.body
    assert all(batch.schema == rows.schema for batch in batches)
    assert encoded(vector, batches) == vector.body


@EVERY
async def test_an_arrow_stream_is_encoded_as_the_committed_bytes(vector: Vector) -> None:
    loaded = vector.template(**STORED)
    with (
        serving(fields=vector.fields, rows=vector.rest) as service,
        ScriptedStorage(sent_as_arrow(vector)) as storage,
    ):
        engine = engine_for(service.url, storage=storage.address, storage_read=1)
        authority = make_authority(dataset=DATASET, capability="c")
        document, _ = await run_whole(
            engine, authority, loaded, bind(loaded, {}), max_rows=100, max_bytes=10**6, as_of=AS_OF
        )
        await engine.close()
    assert document.body.decode() == vector.body
    assert len(storage.sessions) == (1 if vector.rest else 0)


def test_the_committed_results_are_of_every_type_and_of_no_row_too() -> None:
    kinds = {vector.column["type"] for vector in vectors()}
    assert kinds == {
        "STRING",
        "INT64",
        "FLOAT64",
        "NUMERIC",
        "BOOL",
        "DATE",
        "DATETIME",
        "TIME",
        "TIMESTAMP",
        "BYTES",
        "STRUCT",
    }
    assert any(not vector.rest for vector in vectors())
