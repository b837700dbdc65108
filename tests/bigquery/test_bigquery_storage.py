"""Large results come as one Arrow stream, in order, complete or not at all, and are left when nobody reads."""

from __future__ import annotations

import asyncio

import pyarrow as pa
import pytest

from contract.verdict import NotGranted, Reason
from queries.bigquery_engine import BigQueryEngine
from queries.bind import bind
from tests.authority_builder import make_authority
from tests.bigquery.bigquery_world import asked, engine_for, stored_template
from tests.bigquery.scripted_bigquery import serving
from tests.bigquery.scripted_storage import ScriptedStorage
from tests.queries.world import DATASET

MANY = stored_template("SELECT id AS x FROM orders ORDER BY id", "x:INT64")
NUMBERS = pa.table({"x": pa.array(range(1_000), pa.int64())})
ROWS = [[str(number)] for number in range(1_000)]


async def streamed(engine: BigQueryEngine, *, max_bytes: int) -> list[pa.RecordBatch]:
    authority = make_authority(dataset=DATASET, capability="c")
    async with engine.stream(authority, MANY, bind(MANY, {}), max_rows=1_000, max_bytes=max_bytes) as rows:
        return [batch async for batch in rows]


async def test_the_threshold_decides_how_rows_are_read() -> None:
    with serving(rows=ROWS) as service, ScriptedStorage(NUMBERS, rows=100) as storage:
        for threshold, sessions in ((1_001, 0), (1_000, 1)):
            engine = engine_for(service.url, storage=storage.address, storage_read=threshold)
            document, _ = await asked(engine, MANY)
            assert [row[0] for row in document["rows"]] == list(range(1_000))
            assert len(storage.sessions) == sessions
            await engine.close()
    (session,) = storage.sessions
    assert session.parent == "projects/billing"
    assert session.read_session.table == "projects/billing/datasets/_anon/tables/result"
    assert session.max_stream_count == 1


async def test_a_stream_that_ends_early_is_no_result() -> None:
    with serving(rows=ROWS) as service, ScriptedStorage(NUMBERS, rows=100, keep=9) as storage:
        engine = engine_for(service.url, storage=storage.address, storage_read=1)
        with pytest.raises(NotGranted) as failed:
            await asked(engine, MANY)
        await engine.close()
    assert failed.value.reason is Reason.EXECUTION_FAILED


async def test_more_bytes_than_allowed_end_the_stream() -> None:
    with serving(rows=ROWS) as service, ScriptedStorage(NUMBERS, rows=10, pause=0.02) as storage:
        engine = engine_for(service.url, storage=storage.address, storage_read=1)
        with pytest.raises(NotGranted) as refused:
            await asked(engine, MANY, max_bytes=400)
        assert refused.value.reason is Reason.RESULT_TOO_LARGE
        assert storage.left.wait(5)
        with pytest.raises(NotGranted) as refused:
            await streamed(engine, max_bytes=400)
        assert refused.value.reason is Reason.RESULT_TOO_LARGE
        await engine.close()


async def test_a_reader_that_leaves_after_the_first_batch_ends_the_stream() -> None:
    with serving(rows=ROWS) as service, ScriptedStorage(NUMBERS, rows=10, pause=0.05) as storage:
        engine = engine_for(service.url, storage=storage.address, storage_read=1)
        authority = make_authority(dataset=DATASET, capability="c")
        async with engine.stream(authority, MANY, bind(MANY, {}), max_rows=1_000, max_bytes=10**6) as rows:
            async for batch in rows:
                assert batch.column(0).to_pylist() == list(range(10))
                with pytest.raises(RuntimeError):
                    _ = rows.execution
                break
        assert storage.left.wait(5)
        assert rows.execution.job_id in service.jobs
        await engine.close()


async def test_cancelling_the_caller_ends_the_stream() -> None:
    with serving(rows=ROWS) as service, ScriptedStorage(NUMBERS, rows=10, pause=0.05) as storage:
        engine = engine_for(service.url, storage=storage.address, storage_read=1)
        task = asyncio.create_task(asked(engine, MANY))
        while not storage.sessions:
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert storage.left.wait(5)
        await engine.close()


async def test_a_stream_makes_one_batch_ahead_and_none_beyond() -> None:
    with serving(rows=ROWS, page=100) as service:
        engine = engine_for(service.url)
        authority = make_authority(dataset=DATASET, capability="c")
        async with engine.stream(authority, MANY, bind(MANY, {}), max_rows=1_000, max_bytes=10**6) as rows:
            read = 0
            async for batch in rows:
                read += batch.num_rows
                await asyncio.sleep(0.02)
                pages = len([a for a in service.asked if "/queries/" in a.path])
                assert pages <= read // 100 + 1
        assert read == 1_000
        await engine.close()
