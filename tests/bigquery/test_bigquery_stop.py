"""A job that nobody waits for is cancelled; what BigQuery does not answer keeps nobody waiting."""

from __future__ import annotations

import asyncio
import socket
import threading
import time

import pytest

from contract.verdict import NotGranted, Reason
from queries import bigquery_engine, bigquery_job
from tests.authority_builder import make_authority
from tests.bigquery.bigquery_world import asked, engine_for, stored_template
from tests.bigquery.scripted_bigquery import ScriptedBigQuery, serving
from tests.queries.world import DATASET

ONE = stored_template("SELECT COUNT(*) AS x FROM orders", "x:INT64")


def states(service: ScriptedBigQuery) -> list[str]:
    return [job["status"]["state"] for job in service.jobs.values()]


def at_work() -> list[str]:
    """Threads of an engine that go on although their work was over."""
    ours = [thread for thread in threading.enumerate() if thread.name.startswith("bigquery-")]
    for thread in ours:
        thread.join(5)
    return [thread.name for thread in ours if thread.is_alive()]


async def running(service: ScriptedBigQuery) -> None:
    while "RUNNING" not in states(service):
        await asyncio.sleep(0.005)


async def test_cancelling_the_caller_cancels_the_job_before_the_caller_is_told() -> None:
    with serving(runs=True) as service:
        engine = engine_for(service.url)
        task = asyncio.create_task(asked(engine, ONE))
        await running(service)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert states(service) == ["DONE"]
        assert next(iter(service.jobs.values()))["status"]["errorResult"]["reason"] == "stopped"
        assert [cancel.query["location"] for cancel in service.cancels] == ["EU"]
        assert not engine._jobs
        await engine.close()


async def test_a_cancelled_caller_leaves_other_jobs_alone() -> None:
    with serving(runs=True) as service:
        engine = engine_for(service.url)
        first = asyncio.create_task(asked(engine, ONE))
        await running(service)
        other = asyncio.create_task(asked(engine, ONE))
        while len(service.jobs) < 2:
            await asyncio.sleep(0.005)
        first.cancel()
        await asyncio.wait([first])
        assert sorted(states(service)) == ["DONE", "RUNNING"]
        kept = next(job for job in service.jobs.values() if job["status"]["state"] == "RUNNING")
        kept["status"] = {"state": "DONE"}
        assert (await other)[0]["rows"] == [[1]]
        await engine.close()


async def test_a_job_that_takes_too_long_is_cancelled() -> None:
    with serving(runs=True) as service:
        engine = engine_for(service.url, timeout=0.4)
        with pytest.raises(NotGranted) as refused:
            await asked(engine, ONE)
        assert refused.value.reason is Reason.EXECUTION_TIMEOUT
        service.until(lambda: states(service) == ["DONE"])
        await engine.close()


async def test_an_insert_that_is_under_way_when_the_caller_goes_is_cancelled_when_it_arrives() -> None:
    with serving(runs=True, slow=0.4) as service:
        engine = engine_for(service.url)
        task = asyncio.create_task(asked(engine, ONE))
        while not service.inserts:
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        service.until(lambda: states(service) == ["DONE"])
        assert len(service.inserts) == 1
        await engine.close()


async def test_closing_cancels_what_runs() -> None:
    with serving(runs=True) as service:
        engine = engine_for(service.url)
        task = asyncio.create_task(asked(engine, ONE))
        await running(service)
        await engine.close()
        with pytest.raises(NotGranted):
            await task
        assert states(service) == ["DONE"]


async def test_leaving_a_stream_cancels_its_job() -> None:
    with serving(runs=True) as service:
        engine = engine_for(service.url)
        authority = make_authority(dataset=DATASET, capability="c")

        async def read() -> None:
            from queries.bind import bind

            async with engine.stream(authority, ONE, bind(ONE, {}), max_rows=9, max_bytes=10**6) as rows:
                async for _ in rows:
                    pass

        task = asyncio.create_task(read())
        await running(service)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert states(service) == ["DONE"]
        await engine.close()


async def test_a_service_that_never_answers_keeps_nobody_beyond_the_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (bigquery_engine, bigquery_job):
        monkeypatch.setattr(module, "CANCEL_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        engine = engine_for(f"http://127.0.0.1:{silent.getsockname()[1]}", timeout=0.3)
        started = time.monotonic()
        with pytest.raises(NotGranted) as refused:
            await asked(engine, ONE)
        assert refused.value.reason is Reason.EXECUTION_TIMEOUT
        assert time.monotonic() - started < 5
        await engine.close()
    assert at_work() == []


async def test_a_service_that_cannot_cancel_now_is_asked_again_and_not_after_the_engine_was_closed() -> None:
    with serving(runs=True, deaf=(503, "backendError")) as service:
        engine = engine_for(service.url)
        task = asyncio.create_task(asked(engine, ONE))
        await running(service)
        task.cancel()
        while len(service.cancels) < 3:
            await asyncio.sleep(0.005)
        service.script.deaf = None
        with pytest.raises(asyncio.CancelledError):
            await task
        assert states(service) == ["DONE"]
        await engine.close()
        asked_until_closed = len(service.asked)
        assert at_work() == []
        assert len(service.asked) == asked_until_closed


async def test_closing_ends_the_asking_of_a_service_that_cannot_cancel(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(bigquery_engine, "CANCEL_SECONDS", 0.2)
    with serving(runs=True, deaf=(503, "backendError")) as service:
        engine = engine_for(service.url)
        task = asyncio.create_task(asked(engine, ONE))
        await running(service)
        await engine.close()
        with pytest.raises(NotGranted):
            await task
        assert at_work() == []
    assert "may still run: ServiceUnavailable" in caplog.text


async def test_closing_does_not_wait_for_a_thread_that_bigquery_keeps_waiting(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(bigquery_engine, "CANCEL_SECONDS", 0.1)
    monkeypatch.setattr(bigquery_engine, "_LEAVING_SECONDS", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        engine = engine_for(f"http://127.0.0.1:{silent.getsockname()[1]}", timeout=0.2)
        with pytest.raises(NotGranted):
            await asked(engine, ONE)
        await engine.close()
        assert "still keeps a thread of it waiting" in caplog.text
    assert at_work() == []


async def test_the_loop_is_free_and_threads_are_bounded_while_jobs_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bigquery_engine, "_THREADS", 2)
    with serving(runs=True) as service:
        engine = engine_for(service.url, timeout=20)
        tasks = [asyncio.create_task(asked(engine, ONE)) for _ in range(5)]
        while len(service.jobs) < 2:
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.1)
        assert len(service.jobs) == 2
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await engine.close()
    assert at_work() == []
    assert set(states(service)) == {"DONE"}
