"""Who is killed or leaves in the middle of a real query stops it, in DuckDB itself; its row says CANCELLED."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from contract.extension import PROGRESS_KEY
from contract.settings import SHIPPED_DATASETS
from queries.duckdb_job import Job
from tests.remote_agent.long_world import DATASET, Client, state_of, until
from tests.running_agent import RunningAgent, agent_home, running_agent

pytestmark = pytest.mark.live

GRIND = "grind"
SQL = """SELECT COUNT(*) AS found
FROM step_condition AS a CROSS JOIN step_condition AS b CROSS JOIN step_condition AS c CROSS JOIN step_condition AS d
WHERE a.operating_ph + b.operating_ph + c.operating_ph + d.operating_ph > @ph
"""
# A client of its own: one request, whose head and body it reads from standard input as JSON.
PROGRAM = """import json, sys, urllib.request
url, headers, body = json.load(sys.stdin)
urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers)).read()
"""


def slow_datasets(folder: Path) -> Path:
    """The shipped datasets with one capability that would run for an hour."""
    datasets = Path(shutil.copytree(SHIPPED_DATASETS, folder / "datasets"))
    descriptor, people = datasets / DATASET / "descriptor.yaml", datasets / "principals.yaml"
    raw = yaml.safe_load(descriptor.read_text())
    raw["capabilities"].append(
        {
            "name": GRIND,
            "tool_name": GRIND,
            "description": "count combinations of steps",
            "effect": "read",
            "sensitivity": "internal",
            "template": f"templates/{GRIND}.sql",
            "max_rows": 1,
            "parameters": [{"name": "ph", "type": "FLOAT64", "description": "The sum of four values of pH."}],
            "results": [{"name": "found", "type": "INT64"}],
        }
    )
    descriptor.write_text(yaml.safe_dump(raw, sort_keys=False))
    (datasets / DATASET / "templates" / f"{GRIND}.sql").write_text(SQL)
    known = yaml.safe_load(people.read_text())
    for person in known["principals"]:
        person["entitlements"].setdefault(DATASET, []).append(GRIND)
    people.write_text(yaml.safe_dump(known, sort_keys=False))
    return datasets


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAgent]:
    """An agent with the slow capability, which may run for ten minutes."""
    folder = tmp_path_factory.mktemp("slow")
    with running_agent(agent_home(folder / "home", datasets=slow_datasets(folder), query_timeout=600)) as agent:
        yield agent


@pytest.fixture
def client(slow: RunningAgent) -> Client:
    return Client(slow)


@pytest.fixture(autouse=True)
def jobs(monkeypatch: pytest.MonkeyPatch) -> set[Job]:
    """The queries that DuckDB runs at the moment."""
    running: set[Job] = set()
    start, end = Job.start, Job.end

    def started(job: Job, *args: Any) -> None:
        start(job, *args)
        running.add(job)

    def ended(job: Job) -> None:
        end(job)
        running.discard(job)

    monkeypatch.setattr(Job, "start", started)
    monkeypatch.setattr(Job, "end", ended)
    return running


def grinding(client: Client, ph: float, method: str = "SendMessage") -> tuple[str, dict[str, str], dict[str, Any]]:
    """A request for the slow capability: address, headers, body."""
    part = client.call({"ph": ph}, GRIND)
    headers = client.headers(client.leaf_for(part, method, GRIND)) | {"Content-Type": "application/json"}
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": client.params(part)}
    return client.agent.url + "/", headers, body


def last_reason(agent: RunningAgent, before: int) -> Any:
    rows = agent.rows()
    return str(rows[-1].cells["reason"]) if len(rows) > before else None


@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage"])
def test_a_client_that_is_killed_takes_its_query_with_it(
    slow: RunningAgent, client: Client, jobs: set[Job], method: str
) -> None:
    before = len(slow.rows())
    command = [sys.executable, "-c", PROGRAM]
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True) as process:
        try:
            if process.stdin is None:
                raise AssertionError("the client reads its request from a pipe")
            json.dump(grinding(client, 29.0, method), process.stdin)
            process.stdin.close()
            until(lambda: jobs)
        finally:
            process.kill()
    until(lambda: not jobs)
    assert until(lambda: last_reason(slow, before)) == "CANCELLED"
    assert len(slow.rows()) == before + 1


def test_a_socket_that_is_closed_takes_its_query_with_it(slow: RunningAgent, client: Client, jobs: set[Job]) -> None:
    before = len(slow.rows())
    url, headers, body = grinding(client, 29.5)
    content = json.dumps(body).encode()
    head = "\r\n".join([f"{name}: {value}" for name, value in headers.items()])
    place = urlsplit(url)
    with socket.create_connection((str(place.hostname), int(place.port or 0))) as connection:
        opening = f"POST / HTTP/1.1\r\nHost: agent\r\nContent-Length: {len(content)}\r\n{head}\r\n\r\n"
        connection.sendall(opening.encode() + content)
        until(lambda: jobs)
    until(lambda: not jobs)
    assert until(lambda: last_reason(slow, before)) == "CANCELLED"


def test_a_query_whose_second_subscriber_stays_goes_on_until_it_is_cancelled(
    slow: RunningAgent, client: Client, jobs: set[Job]
) -> None:
    before = len(slow.rows())
    url, headers, body = grinding(client, 30.0, "SendStreamingMessage")
    with client.stream("SendStreamingMessage", body["params"], headers) as events:
        task_id = events.next()["task"]["id"]
        until(lambda: jobs)
        staying = client.followed(task_id, capability=GRIND)
        follower = staying.__enter__()
        follower.next()
    assert state_of(client.get(task_id)) == "TASK_STATE_WORKING"
    assert (len(jobs), last_reason(slow, before)) == (1, None)
    assert state_of(client.cancel(task_id)) == "TASK_STATE_CANCELED"
    until(lambda: not jobs)
    assert follower.rest().state == "TASK_STATE_CANCELED"
    staying.__exit__(None, None, None)
    assert [row.cells["reason"] for row in slow.rows()[before:]] == ["CANCELLED", "CANCELLED"]


def test_duckdb_says_how_far_a_query_is(client: Client, jobs: set[Job]) -> None:
    part = client.call({"ph": 30.5}, GRIND)
    task = client.send(part, client.leaf_for(part, capability=GRIND), now=True)
    shown = until(lambda: client.get(task["id"]).get("metadata"))
    assert set(shown) == {PROGRESS_KEY}
    assert 0 <= shown[PROGRESS_KEY]["percent"] <= 99
    client.cancel(task["id"])
    until(lambda: not jobs)


def test_an_agent_that_stops_serving_stops_what_runs_detached_and_records_it(
    tmp_path: Path, slow: RunningAgent, jobs: set[Job]
) -> None:
    settings = agent_home(tmp_path / "home", datasets=slow.settings.datasets, query_timeout=600)
    with running_agent(settings) as agent:
        client = Client(agent)
        part = client.call({"ph": 31.0}, GRIND)
        client.send(part, client.leaf_for(part, capability=GRIND), now=True)
        until(lambda: jobs)
        ledger = agent.lifecycle.service.ledger
        rows: list[str] = []
        closing = ledger.close

        def close() -> None:
            rows.extend(str(row.cells["reason"]) for row in ledger.rows())
            closing()

        ledger.close = close  # type: ignore[method-assign]
    assert rows == ["CANCELLED"]
