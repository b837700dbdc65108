"""The worker process: what runs in it, what it knows, and what its end means here."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from contract.verdict import NotGranted, Reason
from queries.duckdb_connection import cores
from queries.duckdb_engine import DuckDbEngine
from queries.duckdb_query import Query
from queries.duckdb_remote import Worker, WorkerFailed, Workers
from queries.masks import MASK_KEY
from queries.template import Template
from tests.queries.duckdb_world import ENDLESS, in_worker, is_alive, opened, run, workers
from tests.queries.world import parameter, shop, template

COUNT = in_worker("SELECT COUNT(*) AS n FROM orders WHERE @@worker", "n:INT64")
ENDLESS_THERE = in_worker(f"{ENDLESS} AND @@worker", "n:INT64")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The database file is built once, and opened for each test."""
    return shop(tmp_path_factory.mktemp("shop"))


@pytest.fixture
async def engine(folder: Path) -> AsyncIterator[DuckDbEngine]:
    made = opened(folder)
    yield made
    await made.close()


async def refused(engine: DuckDbEngine, loaded: Template, **more: Any) -> NotGranted:
    with pytest.raises(NotGranted) as caught:
        await run(engine, loaded, **more)
    return caught.value


async def started(engine: DuckDbEngine) -> int:
    """The process that runs the query of another task, once it does."""
    while not engine._threads.jobs or not (found := workers(engine)):
        await asyncio.sleep(0.01)
    return next(iter(found)).pid


async def test_a_worker_is_started_when_one_is_needed_and_kept(engine: DuckDbEngine) -> None:
    assert await run(engine, template("SELECT COUNT(*) AS n FROM orders", "n:INT64")) == [[60]]
    assert not workers(engine)
    assert await run(engine, COUNT) == [[60]]
    (first,) = workers(engine)
    for _ in range(3):
        assert await run(engine, COUNT) == [[60]]
    assert workers(engine) == {first}


async def test_arguments_rows_and_masks_hold_in_a_worker(engine: DuckDbEngine) -> None:
    loaded = in_worker(
        "SELECT id, region, amount, at FROM orders WHERE id <= @n AND day < @d AND region IN UNNEST(@r) AND @@worker ORDER BY id",
        "id:INT64 region:STRING amount:NUMERIC at:TIMESTAMP",
        parameter("n:INT64"),
        parameter("d:DATE"),
        parameter("r:STRING[]"),
    )
    here = template(
        "SELECT id, region, amount, at FROM orders WHERE id <= @n AND day < @d AND region IN UNNEST(@r) ORDER BY id",
        "id:INT64 region:STRING amount:NUMERIC at:TIMESTAMP",
        *loaded.parameters,
    )
    arguments = {"n": 50, "d": "2024-12-01", "r": ["EU", "US"]}
    limits = {"rows": {"orders.region": {"one_of": ["EU"]}}, "masks": {"orders.amount": "null"}}
    found = await run(engine, loaded, arguments, **limits)
    assert found
    assert {row[1] for row in found} == {"EU"}
    assert found == await run(engine, here, arguments, **limits)
    assert found != await run(engine, loaded, arguments)


async def test_the_mask_key_leaves_this_process_only_where_it_is_bound(engine: DuckDbEngine) -> None:
    loaded = in_worker("SELECT region FROM orders WHERE @@worker ORDER BY region", "region:STRING")
    asked: list[Query] = []
    ask = Worker.ask

    def watched(self: Worker, query: Query) -> Any:
        asked.append(query)
        return ask(self, query)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Worker, "ask", watched)
        plain = await run(engine, loaded)
        hashed = await run(engine, loaded, masks={"orders.region": "hash"})
    assert plain != hashed
    assert [MASK_KEY in query.values for query in asked] == [False, True]


async def test_a_worker_inherits_no_environment_no_socket_and_no_file(
    engine: DuckDbEngine, monkeypatch: pytest.MonkeyPatch, folder: Path, tmp_path: Path
) -> None:
    monkeypatch.setenv("DATASET_AGENT_SECRET_OF_THE_TEST", "a-secret")
    with socket.create_server(("127.0.0.1", 0)) as listening, (tmp_path / "open").open("w") as file:
        os.set_inheritable(listening.fileno(), True)
        os.set_inheritable(file.fileno(), True)
        await run(engine, COUNT)
        (worker,) = workers(engine)
        process = Path(f"/proc/{worker.pid}")
        variables = (process / "environ").read_bytes()
        names = {item.split(b"=")[0].decode() for item in variables.split(b"\0") if item}
        files = {os.readlink(path) for path in (process / "fd").iterdir()}
    assert b"a-secret" not in variables
    assert names <= {
        "LC_ALL", "TZ", "MALLOC_ARENA_MAX", "ARROW_DEFAULT_MEMORY_POOL", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"
    }  # fmt: skip
    # What it looks up of its own memory is open for a moment.
    regular = {name for name in files if name.startswith("/") and name not in (os.devnull, f"{process}/status")}
    assert regular <= {str(path) for path in (folder / "scratch").iterdir()}
    assert not any(name.startswith("socket:") for name in files)


async def test_a_worker_that_is_killed_fails_its_query_and_the_next_one_runs(engine: DuckDbEngine) -> None:
    await run(engine, COUNT)
    (first,) = workers(engine)
    os.kill(first.pid, signal.SIGKILL)
    failed = await refused(engine, COUNT)
    assert (failed.reason, failed.message) == (Reason.EXECUTION_FAILED, "the query failed")
    assert await run(engine, COUNT) == [[60]]
    assert first not in workers(engine)


async def test_a_worker_that_dies_in_a_query_fails_it(engine: DuckDbEngine) -> None:
    task = asyncio.create_task(refused(engine, ENDLESS_THERE))
    os.kill(await started(engine), signal.SIGSEGV)
    assert (await task).reason is Reason.EXECUTION_FAILED
    assert await run(engine, COUNT) == [[60]]


async def test_a_worker_is_ended_with_the_time_of_its_query(folder: Path) -> None:
    engine = opened(folder, timeout=2.0)
    task = asyncio.create_task(refused(engine, ENDLESS_THERE))
    pid = await started(engine)
    assert (await task).reason is Reason.EXECUTION_TIMEOUT
    assert not is_alive(pid)
    assert not engine._threads.jobs
    assert await run(engine, COUNT) == [[60]]
    await engine.close()


async def test_cancelling_the_caller_ends_the_worker(engine: DuckDbEngine) -> None:
    task = asyncio.create_task(run(engine, ENDLESS_THERE))
    pid = await started(engine)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not is_alive(pid)
    assert not engine._threads.jobs
    assert await run(engine, COUNT) == [[60]]


async def test_closing_the_engine_leaves_no_worker(folder: Path) -> None:
    engine = opened(folder)
    await run(engine, COUNT)
    task = asyncio.create_task(refused(engine, ENDLESS_THERE))
    pid = await started(engine)
    await engine.close()
    assert (await task).reason is Reason.EXECUTION_TIMEOUT
    assert not is_alive(pid)
    assert not workers(engine)


async def test_a_query_that_needs_too_much_memory_takes_only_its_worker_with_it(folder: Path) -> None:
    engine = opened(folder, memory_limit="64MB")
    long = f"REPLACE('{'x' * 32}', 'x', '{'y' * 500}')"
    distinct = f"CONCAT({long}, CAST(l.order_id AS STRING), '-', CAST(o.id AS STRING))"
    sql = f"SELECT COUNT(DISTINCT {distinct}) AS n FROM lines AS l, orders AS o"
    loaded = template(sql, "n:INT64")
    failed = await refused(engine, loaded)
    assert (failed.reason, failed.message) == (Reason.EXECUTION_FAILED, "the query failed")
    assert await run(engine, COUNT) == [[60]]
    await engine.close()


async def test_an_error_in_a_worker_has_a_fixed_text_and_costs_no_worker(
    engine: DuckDbEngine, caplog: pytest.LogCaptureFixture
) -> None:
    loaded = in_worker("SELECT DIV(9007199254740993, id - id) AS x FROM orders WHERE @@worker ORDER BY x", "x:INT64")
    await run(engine, COUNT)
    (first,) = workers(engine)
    with caplog.at_level(logging.DEBUG):
        failed = await refused(engine, loaded)
    assert (failed.reason, failed.message, failed.__cause__) == (Reason.EXECUTION_FAILED, "the query failed", None)
    assert "9007199254740993" not in caplog.text
    assert await run(engine, COUNT) == [[60]]
    assert workers(engine) == {first}


async def test_more_rows_or_bytes_than_allowed_return_nothing_and_cost_no_worker(engine: DuckDbEngine) -> None:
    loaded = in_worker("SELECT a.order_id FROM lines AS a, lines AS b WHERE @@worker ORDER BY 1", "order_id:INT64")
    assert (await refused(engine, loaded, max_rows=100)).reason is Reason.RESULT_TOO_LARGE
    (first,) = workers(engine)
    assert await run(engine, COUNT) == [[60]]
    assert workers(engine) == {first}
    assert (await refused(engine, loaded, max_rows=10**6, max_bytes=1000)).reason is Reason.RESULT_TOO_LARGE
    assert await run(engine, COUNT) == [[60]]


async def test_an_overflow_in_a_worker_is_an_error(engine: DuckDbEngine) -> None:
    loaded = in_worker("SELECT 1e308 * 10 * id AS x FROM orders WHERE @@worker ORDER BY x", "x:FLOAT64")
    assert (await refused(engine, loaded)).reason is Reason.EXECUTION_FAILED


async def test_there_are_as_many_workers_as_cores_at_most(engine: DuckDbEngine) -> None:
    found = await asyncio.gather(*(run(engine, COUNT) for _ in range(4 * cores())))
    assert found == [[[60]]] * (4 * cores())
    assert 1 <= len(workers(engine)) <= cores()


async def test_a_worker_that_ended_idle_is_replaced(folder: Path) -> None:
    engine = opened(folder)
    path, memory, timeout, threads, _ = engine._workers._setup
    engine._workers = Workers(path, memory, timeout, threads, idle=0.5)
    await run(engine, COUNT)
    (first,) = workers(engine)
    while is_alive(first.pid):
        await asyncio.sleep(0.01)
    assert await run(engine, COUNT) == [[60]]
    assert first not in workers(engine)
    await engine.close()


async def test_a_worker_that_is_started_while_its_engine_closes_is_ended(
    engine: DuckDbEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[Worker] = []

    def closing(*setup: Any) -> Worker:
        begun.append(Worker(*setup))
        engine._workers.close()
        return begun[0]

    monkeypatch.setattr("queries.duckdb_remote.Worker", closing)
    with pytest.raises(WorkerFailed):
        engine._workers.take()
    assert [is_alive(worker.pid) for worker in begun] == [False]
    assert workers(engine) == set()
