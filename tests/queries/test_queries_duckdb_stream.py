"""Results read batch by batch: the same rows as in one document, under the same bounds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from contract.schema import ResultColumn
from contract.verdict import NotGranted, Reason
from queries.arrow_form import arrow_schema
from queries.duckdb_engine import DuckDbEngine
from tests.queries.duckdb_world import ENDLESS, in_worker, is_alive, opened, run, stream, workers
from tests.queries.world import results, shop, template

ALL = template("SELECT id, region, amount FROM orders ORDER BY id", "id:INT64 region:STRING amount:NUMERIC")
PAIRS = "SELECT a.order_id AS x, b.qty AS y FROM lines AS a, lines AS b, orders AS o WHERE {} ORDER BY x"
MANY = template(PAIRS.format("o.id < 5"), "x:INT64 y:INT64")
MANY_ROWS = 180 * 180 * 4
FOREVER = template(ENDLESS, "n:INT64")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The database file is built once, and opened for each test."""
    return shop(tmp_path_factory.mktemp("shop"))


@pytest.fixture
async def engine(folder: Path) -> AsyncIterator[DuckDbEngine]:
    made = opened(folder)
    yield made
    await made.close()


async def read(
    engine: DuckDbEngine, loaded: Any, *, between: Callable[[], Awaitable[None]] | None = None, **more: Any
) -> list[list[Any]]:
    found: list[list[Any]] = []
    async with stream(engine, loaded, **more) as held:
        async for batch in held:
            assert batch.schema == held.schema
            found.extend(list(row) for row in zip(*(column.to_pylist() for column in batch.columns), strict=True))
            if between is not None:
                await between()
    return found


async def refused(engine: DuckDbEngine, loaded: Any, **more: Any) -> NotGranted:
    with pytest.raises(NotGranted) as caught:
        await read(engine, loaded, **more)
    return caught.value


async def test_a_stream_has_the_rows_of_a_run_governed_alike(engine: DuckDbEngine) -> None:
    limits: dict[str, Any] = {"rows": {"orders.region": {"one_of": ["EU"]}}, "masks": {"orders.region": "hash"}}
    unlimited: dict[str, Any] = {}
    for more in (unlimited, limits):
        found = await read(engine, ALL, **more)
        assert [row[:2] for row in found] == [row[:2] for row in await run(engine, ALL, **more)]
    assert len(found) < 60


async def test_an_empty_result_has_a_schema_and_an_execution(engine: DuckDbEngine) -> None:
    none = template("SELECT id FROM orders WHERE id < 0 ORDER BY id", "id:INT64")
    async with stream(engine, none) as held:
        with pytest.raises(RuntimeError):
            _ = held.execution
        assert [batch async for batch in held] == []
        assert held.schema == arrow_schema(results("id:INT64"))
        assert (held.execution.engine, held.execution.tool_origin) == ("duckdb", "LOCAL")


async def test_many_rows_come_in_bounded_batches_and_in_order(engine: DuckDbEngine) -> None:
    before, count, batches = -1, 0, 0
    async with stream(engine, MANY) as held:
        async for batch in held:
            values: list[Any] = batch.column(0).to_pylist()
            assert values == sorted(values)
            assert values[0] >= before
            before, count, batches = values[-1], count + batch.num_rows, batches + 1
    assert count == MANY_ROWS
    assert batches > 5
    assert not engine._threads.jobs


async def test_more_rows_or_bytes_than_allowed_end_a_stream(engine: DuckDbEngine) -> None:
    for limit in ({"max_rows": MANY_ROWS - 1}, {"max_bytes": 10_000}):
        assert (await refused(engine, MANY, **limit)).reason is Reason.RESULT_TOO_LARGE
    assert len(await read(engine, MANY, max_rows=MANY_ROWS)) == MANY_ROWS


async def test_leaving_a_stream_stops_its_query(engine: DuckDbEngine) -> None:
    for leave in ("break", "error"):
        try:
            async with stream(engine, MANY) as held:
                async for _ in held:
                    if leave == "break":
                        break
                    raise KeyError
        except KeyError:
            pass
        assert not engine._threads.jobs
    assert await run(engine, template("SELECT 1 AS x", "x:INT64")) == [[1]]


async def test_cancelling_the_reader_stops_the_query(engine: DuckDbEngine) -> None:
    task = asyncio.create_task(read(engine, FOREVER))
    while not engine._threads.jobs:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not engine._threads.jobs


async def test_the_time_limit_holds_for_a_slow_query_and_for_a_slow_reader(folder: Path) -> None:
    engine = opened(folder, timeout=0.6)
    assert (await refused(engine, FOREVER)).reason is Reason.EXECUTION_TIMEOUT
    with pytest.raises(NotGranted) as caught:
        await read(engine, MANY, between=lambda: asyncio.sleep(0.4))
    assert caught.value.reason is Reason.EXECUTION_TIMEOUT
    assert not engine._threads.jobs
    await engine.close()


async def test_what_has_no_form_in_a_result_ends_a_stream(engine: DuckDbEngine) -> None:
    overflow = template("SELECT 1e308 * 10 * id AS x FROM orders ORDER BY x", "x:FLOAT64")
    assert (await refused(engine, overflow)).reason is Reason.EXECUTION_FAILED
    required = template("SELECT region FROM orders ORDER BY region", "region:STRING")
    column = ResultColumn.model_validate({"name": "region", "type": "STRING", "mode": "REQUIRED"})
    object.__setattr__(required, "results", (column,))
    assert (await refused(engine, required)).reason is Reason.RESULT_INVALID


async def test_a_stream_may_run_in_a_worker(engine: DuckDbEngine) -> None:
    loaded = in_worker(PAIRS.format("o.id < 5 AND @@worker"), "x:INT64 y:INT64")
    assert len(await read(engine, loaded)) == MANY_ROWS
    (kept,) = workers(engine)
    async with stream(engine, loaded) as held:
        async for _ in held:
            break
    assert not is_alive(kept.pid)
    assert len(await read(engine, loaded, max_rows=MANY_ROWS)) == MANY_ROWS
    assert (await refused(engine, loaded, max_rows=MANY_ROWS - 1)).reason is Reason.RESULT_TOO_LARGE


async def test_closing_the_engine_ends_a_stream_that_is_open(folder: Path) -> None:
    engine = opened(folder)
    with pytest.raises(NotGranted):
        await read(engine, MANY, between=engine.close)
