"""Values, faults, jobs and tables at the emulator, over its own wire."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from google.cloud import bigquery

from contract.verdict import NotGranted, Reason
from queries.bigquery_access import Access
from queries.bigquery_engine import BigQueryEngine
from queries.bigquery_read import blocks, open_stream
from queries.bigquery_tables import describe_tables, state_of
from queries.errors import TemplateError
from tests.bigquery import emulated
from tests.bigquery.bigquery_world import AS_OF
from tests.bigquery.emulated import SHOP, body
from tests.bigquery.test_bigquery_emulator import QUERIES
from tests.bigquery.vectors import Vector, vectors
from tests.queries.documents import document_of
from tests.queries.world import DATASET, TABLES, template

pytestmark = pytest.mark.bigquery


@pytest.mark.parametrize("vector", [v for v in vectors() if v.emulated], ids=lambda vector: vector.name)
async def test_a_stored_value_comes_back_as_the_committed_bytes(asked: bigquery.Client, vector: Vector) -> None:
    where = {"bigquery": f"{emulated.PROJECT}.vectors.{vector.table_name}"}
    emulated.fill(asked, vector.table(**where), vector.arrow())
    engine = emulated.engine(DATASET)
    try:
        found = await body(engine, vector.template(**where))
    finally:
        await engine.close()
    assert found == vector.body


async def test_a_failing_query_has_fixed_words(stored: BigQueryEngine, caplog: pytest.LogCaptureFixture) -> None:
    gone = (emulated.in_bigquery(TABLES[0].model_copy(update={"name": "gone"}), "shop_data"),)
    missing = template("SELECT COUNT(*) AS n FROM gone", "n:INT64", tables=gone)
    dividing = template("SELECT MAX(o.id / (o.id - o.id)) AS x FROM orders AS o", "x:FLOAT64", tables=SHOP)
    for broken in (missing, dividing):
        with pytest.raises(NotGranted) as failed:
            await body(stored, broken)
        assert (failed.value.reason, failed.value.message) == (Reason.EXECUTION_FAILED, "the query failed")
    assert not any("gone" in record.getMessage() for record in caplog.records if record.name.startswith("queries"))
    with pytest.raises(TemplateError, match="BigQuery does not accept the query"):
        await stored.check(missing)


async def test_a_template_is_tried_and_other_columns_are_seen(stored: BigQueryEngine) -> None:
    for sql, declared in QUERIES:
        await stored.check(template(sql, declared, tables=SHOP))


HEAVY = template(
    "SELECT COUNT(*) AS n FROM lines AS a CROSS JOIN lines AS b CROSS JOIN lines AS c CROSS JOIN orders AS d "
    "WHERE a.price + b.price + c.price > d.amount",
    "n:INT64",
    tables=SHOP,
)


async def test_a_job_of_a_caller_who_left_is_done_at_the_emulator(
    asked: bigquery.Client, stored: BigQueryEngine
) -> None:
    """It runs a job inside the request that makes it, so a job that is still running is shown by the scripted service."""
    task = asyncio.create_task(body(stored, HEAVY))
    while not any(job.runs for job in stored._jobs):
        await asyncio.sleep(0.005)
    await asyncio.sleep(0.1)
    (job,) = stored._jobs
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    told = time.monotonic()
    found = await asyncio.to_thread(asked.get_job, job.id)
    assert found.state == "DONE"
    print(f"the job is DONE {time.monotonic() - told:.3f} s after its caller was told")


async def test_a_job_that_takes_too_long_is_given_up(shop: Path) -> None:
    engine = emulated.engine(DATASET, timeout=0.2)
    with pytest.raises(NotGranted) as refused:
        await body(engine, HEAVY)
    assert refused.value.reason is Reason.EXECUTION_TIMEOUT
    await engine.close()


async def test_a_stored_table_is_read_as_an_arrow_stream_alike(asked: bigquery.Client) -> None:
    """What the emulator keeps of a query's own result is no table, so a stored one is read."""
    reader = Access(emulated.options()).reader(None)
    assert reader is not None
    for vector in vectors():
        if not (vector.rest and vector.emulated):
            continue
        where = f"{emulated.PROJECT}.streams.{vector.table_name}"
        emulated.fill(asked, vector.table(bigquery=where), vector.arrow())
        opened = open_stream(reader, bigquery.TableReference.from_string(where), project=emulated.PROJECT, timeout=30)
        assert opened is not None
        assert document_of(vector.results, blocks(*opened), AS_OF).body.decode() == vector.body, vector.name


def test_tables_are_described_and_their_state_changes_with_their_rows(asked: bigquery.Client, shop: Path) -> None:
    names = [str(table.bigquery) for table in SHOP]
    described = describe_tables(emulated.options(), names)
    assert [table.name for table in described] == names
    for table, found in zip(TABLES, described, strict=True):
        assert [(c.name, c.type, c.mode) for c in found.columns] == [(c.name, c.type, c.mode) for c in table.columns]
    before = state_of(described)
    assert state_of(tuple(reversed(described))) == before
    lines = pq.read_table(shop / str(TABLES[1].file))
    for held in (lines.slice(1), lines):
        emulated.fill(asked, SHOP[1], held)
        after = state_of(describe_tables(emulated.options(), names))
        assert after.revision != before.revision
        before = after
