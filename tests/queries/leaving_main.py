"""How long work goes on for somebody who was killed: ``python -m tests.queries.leaving_main [--times N]``.

A client of its own process asks a served dataset agent for what takes an hour, and is killed while the
query runs. What is timed is from there until DuckDB has given the query up, and until BigQuery's job is
DONE: at a scripted service, because the emulator runs a job inside the request that makes it.
"""

from __future__ import annotations

import argparse
import json
import logging
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from contract.call import Operation
from contract.canonical import sha256_hex
from queries.duckdb_job import Job
from tests.bigquery.bigquery_folder import CAPABILITY, DATASET, FIELDS, ROW, datasets_in_bigquery
from tests.bigquery.scripted_bigquery import serving
from tests.remote_agent.long_world import Client, until
from tests.remote_agent.test_killed_clients import PROGRAM, grinding, slow_datasets
from tests.running_agent import Asker, agent_home, message, running_agent

_MOST: Final = 1.0
Request = tuple[str, dict[str, str], dict[str, Any]]


def killed(request: Request, runs: Callable[[], Any], ended: Callable[[], Any]) -> float:
    """Seconds from the client's end to the work's."""
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, text=True) as process:
        if process.stdin is None:
            raise AssertionError("the client reads its request from a pipe")
        json.dump(request, process.stdin)
        process.stdin.close()
        try:
            until(runs)
        finally:
            process.kill()
            began = time.monotonic()
    until(ended)
    return time.monotonic() - began


@contextmanager
def watched() -> Iterator[set[Job]]:
    """The queries that DuckDB runs at the moment."""
    running: set[Job] = set()
    start, end = Job.start, Job.end

    def started(job: Job, *args: Any) -> None:
        start(job, *args)
        running.add(job)

    def over(job: Job) -> None:
        end(job)
        running.discard(job)

    Job.start, Job.end = started, over  # type: ignore[method-assign]
    try:
        yield running
    finally:
        Job.start, Job.end = start, end  # type: ignore[method-assign]


def in_duckdb(folder: Path, times: int) -> list[float]:
    settings = agent_home(folder / "home", datasets=slow_datasets(folder), query_timeout=600)
    with watched() as jobs, running_agent(settings) as agent:
        client, found = Client(agent), []
        for number in range(times):
            method = ("SendMessage", "SendStreamingMessage")[number % 2]
            found.append(killed(grinding(client, 29 + number / 100, method), lambda: jobs, lambda: not jobs))
        return found


def in_bigquery(folder: Path, times: int) -> list[float]:
    with serving(fields=FIELDS, rows=[ROW]) as service:
        datasets = datasets_in_bigquery(folder)
        settings = agent_home(folder / "home", datasets=datasets, bigquery_emulator=service.url, query_timeout=600)
        with running_agent(settings) as agent:
            service.script.runs = True
            asker, found = Asker(agent.settings, agent.url), []
            for number in range(times):
                call = asker.call(DATASET, CAPABILITY, {"batch_id": f"B{number:03d}"})
                operation = Operation("SendMessage", call_hash=sha256_hex(call))
                headers = asker.headers(asker.grant(asker.scope(DATASET, CAPABILITY), operation))
                body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message(call)}}
                request = (agent.url + "/", headers | {"Content-Type": "application/json"}, body)
                before = len(service.jobs)

                def states() -> list[str]:
                    return [job["status"]["state"] for job in list(service.jobs.values())[before:]]  # noqa: B023

                found.append(killed(request, lambda: states() == ["RUNNING"], lambda: states() == ["DONE"]))
            return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=10, help="clients that are killed, of each engine")
    times = parser.parse_args().times
    logging.disable(logging.WARNING)
    longest = {}
    for engine, measured in (("duckdb", in_duckdb), ("bigquery", in_bigquery)):
        with tempfile.TemporaryDirectory() as folder:
            longest[engine] = max(measured(Path(folder), times))
    told = {f"{engine}: longest after the client's end s": round(seconds, 3) for engine, seconds in longest.items()}
    print(json.dumps({"killed clients of each engine": times, **told, "most s": _MOST}))
    return int(max(longest.values()) > _MOST)


if __name__ == "__main__":
    sys.exit(main())
