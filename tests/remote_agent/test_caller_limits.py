"""A caller over a limit gets a clear answer with a retry hint; nobody else is slowed, and no grant is spent."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from contract.extension import ERROR_KEY
from evidence import arrivals
from quota.limiter import KEPT_S, Caller
from quota.opening import QUOTA_FILE
from quota.store import Names
from remote_agent import answer as path
from tests.remote_agent.long_tasks import fresh
from tests.remote_agent.long_world import BINDINGS, Client, held, until
from tests.remote_agent.two_workers import two_workers
from tests.running_agent import RunningAgent, agent_home, decision_of, running_agent

pytestmark = pytest.mark.live
SLOW = 0.01
"""Calls a second: within a test none comes back."""


def reason(task: dict[str, Any]) -> str:
    return str(decision_of(task)["reason"])


def over(task: dict[str, Any]) -> dict[str, Any]:
    return dict(task["metadata"][ERROR_KEY])


@pytest.fixture
def served(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[RunningAgent]:
    with running_agent(agent_home(tmp_path / "home", **request.param)) as agent:
        yield agent


@pytest.mark.parametrize("served", [{"person_rate": 0.5, "person_burst": 2}], indirect=True)
@pytest.mark.parametrize(("binding", "person"), [*zip(BINDINGS, ("process_engineer", "analyst"), strict=True)])
def test_a_person_over_the_rate_is_told_when_to_come_back_and_may_then_with_the_same_leaf(
    served: RunningAgent, binding: str, person: str
) -> None:
    client = Client(served, binding, person)
    part, stopped = b"", dict[str, Any]()
    while not stopped or reason(stopped) != "RATE_LIMITED":
        part = fresh(client)
        leaf = client.leaf_for(part)
        stopped = client.send(part, leaf)
    assert decision_of(stopped)["verdict"] == "INDETERMINATE"
    assert stopped["status"]["state"] == "TASK_STATE_REJECTED"
    assert over(stopped)["retryable"] is True
    assert over(stopped)["retry_after_s"] in (1, 2)
    last = served.rows()[-1].cells
    assert (last["reason"], last["task_id"]) == ("RATE_LIMITED", stopped["id"])
    other = Client(served, binding, "analyst" if person == "process_engineer" else "process_engineer")
    assert reason(other.send(fresh(other))) == "PRINCIPAL_AUTHORIZED"
    time.sleep(over(stopped)["retry_after_s"])
    assert reason(client.send(part, leaf)) == "PRINCIPAL_AUTHORIZED"


@pytest.mark.parametrize("binding", BINDINGS)
def test_two_workers_hold_a_person_to_one_limit(tmp_path: Path, binding: str) -> None:
    settings = agent_home(tmp_path / "home", person_rate=SLOW, person_burst=4, agent_rate=SLOW, agent_burst=7)
    with two_workers(settings) as pair:
        engineers, analysts = [[Client(one, binding, who) for one in pair] for who in ("process_engineer", "analyst")]
        told = [reason(engineers[number % 2].send(fresh(engineers[0]))) for number in range(6)]
        assert told == ["PRINCIPAL_AUTHORIZED"] * 4 + ["RATE_LIMITED"] * 2
        assert reason(analysts[1].send(fresh(analysts[0]))) == "PRINCIPAL_AUTHORIZED"
        for one in pair:
            assert httpx.post(one.url, content=b"{}", headers=engineers[0].headers("x")).status_code == 429


@pytest.mark.parametrize("served", [{"agent_rate": SLOW, "agent_burst": 2}], indirect=True)
def test_an_agent_over_the_rate_is_answered_429_before_its_request_is_read(served: RunningAgent) -> None:
    client = Client(served)
    assert [reason(client.send(fresh(client))) for _ in range(2)] == ["PRINCIPAL_AUTHORIZED"] * 2
    rows = len(served.rows())
    told = httpx.post(served.url, content=b"not even JSON", headers=client.headers("no grant"))
    assert told.status_code == 429
    assert 90 <= int(told.headers["retry-after"]) <= 100
    problem = told.json()
    assert (problem["code"], problem["retryable"]) == ("remote_agent.limit.rate", True)
    assert 90 <= problem["retry_after"] <= 100
    assert len(served.rows()) == rows
    assert httpx.get(served.url + "/.well-known/agent-card.json").status_code == 200
    assert httpx.post(served.url, content=b"{}").status_code == 401  # nobody in particular takes nothing from anybody
    shown = httpx.get(served.url + "/metrics").text
    assert 'dataset_agent_limited_total{caller="agent",limit="rate"} 1.0' in shown


@pytest.mark.parametrize("served", [{"person_running": 1, "agent_running": 2}], indirect=True)
def test_executions_at_once_are_bounded_and_the_cache_answers_on(
    served: RunningAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    engineer, analyst = Client(served), Client(served, person="analyst")
    known = fresh(engineer)
    assert reason(engineer.send(known)) == "PRINCIPAL_AUTHORIZED"
    go_on, began, collect = asyncio.Event(), [0], path.collect

    async def held(*args: Any, **kwargs: Any) -> Any:
        began[0] += 1
        await go_on.wait()
        return await collect(*args, **kwargs)

    monkeypatch.setattr(path, "collect", held)
    with ThreadPoolExecutor() as threads:
        first = threads.submit(engineer.send, fresh(engineer))
        until(lambda: began[0] == 1)
        stopped = engineer.send(fresh(engineer))
        assert (reason(stopped), over(stopped)["retry_after_s"]) == ("CONCURRENCY_LIMITED", 1)
        assert reason(engineer.send(known)) == "PRINCIPAL_AUTHORIZED"
        second = threads.submit(analyst.send, fresh(analyst))
        until(lambda: began[0] == 2)
        served.loop.call_soon_threadsafe(go_on.set)
        assert [reason(first.result()), reason(second.result())] == ["PRINCIPAL_AUTHORIZED"] * 2
    monkeypatch.undo()
    until(lambda: reason(engineer.send(fresh(engineer))) == "PRINCIPAL_AUTHORIZED")


@pytest.mark.parametrize("served", [{}], indirect=True)
def test_requests_under_way_of_one_person_leave_room_for_others(
    served: RunningAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Followers run nothing, so no place of executions bounds them."""
    monkeypatch.setattr(arrivals, "_OF_PERSON", 3)
    engineer, analyst = Client(served), Client(served, person="analyst")
    with held(served) as executions, ThreadPoolExecutor() as threads:
        part = fresh(engineer)
        under_way = [threads.submit(engineer.send, part) for _ in range(3)]
        until(lambda: executions.began)
        until(lambda: len(served.lifecycle.service.ledger._attendance.arrivals._places) == 3)  # type: ignore[union-attr]
        stopped = engineer.send(part)
        assert (reason(stopped), over(stopped)["retry_after_s"]) == ("CONCURRENCY_LIMITED", 1)
        assert served.rows()[-1].cells["reason"] == "CONCURRENCY_LIMITED"
        other = threads.submit(analyst.send, fresh(analyst))
        until(lambda: executions.began == 2)
        executions.release()
        assert {reason(one.result()) for one in (*under_way, other)} == {"PRINCIPAL_AUTHORIZED"}
    assert reason(engineer.send(part)) == "PRINCIPAL_AUTHORIZED"


def names_in(agent: RunningAgent) -> set[str]:
    with closing(sqlite3.connect(agent.settings.home / QUOTA_FILE)) as db:
        return {name for (name,) in db.execute("SELECT key FROM rates")}


@pytest.mark.parametrize("served", [{}], indirect=True)
def test_callers_have_other_names_in_the_store_once_the_secret_was_changed(served: RunningAgent) -> None:
    client, secret = Client(served), served.settings.remote_dir / "cache.secret"
    assert reason(client.send(fresh(client))) == "PRINCIPAL_AUTHORIZED"
    before = names_in(served)
    known = Names(bytes.fromhex(secret.read_text().split()[0]))
    here = served.settings.agent_id
    person = Caller.person(served.settings.issuer_url, "acme", "u-eng-01", at=here)
    agent = Caller.agent(served.settings.root_id, at=here)
    assert before == {known.of(person.key), known.of(agent.key)}
    secret.write_text("ab" * 32 + "\n" + secret.read_text())
    served.run(served.lifecycle.reload())
    time.sleep(KEPT_S)  # what was taken beforehand is used up under the old names
    assert reason(client.send(fresh(client))) == "PRINCIPAL_AUTHORIZED"
    changed = Names(bytes.fromhex("ab" * 32))
    assert names_in(served) - before == {changed.of(person.key), changed.of(agent.key)}
