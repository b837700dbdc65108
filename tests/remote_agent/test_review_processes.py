"""An approval outlives the process, and of two processes one uses it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from approvals.approval import State
from contract.call import GET_RESULTS, Operation
from contract.canonical import sha256_hex
from contract.settings import Settings
from grants.state import RevocationKind
from tests.remote_agent.long_world import Client, held
from tests.remote_agent.review_world import (
    DATASET,
    DONE,
    REJECTED,
    WAITS,
    again,
    approval_of,
    ask,
    asked_after,
    decide,
    reviewed_datasets,
    state_of,
)
from tests.running_agent import agent_home, decision_of, result_of, running_agent
from tests.valkey_server import ValkeyServer

pytestmark = pytest.mark.live
A = {"batch_a": "B001", "batch_b": "B002"}


@pytest.fixture(scope="module")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    kept = {"appendonly": "yes", "maxmemory-policy": "noeviction"}
    server = ValkeyServer(data_dir=tmp_path_factory.mktemp("valkey"), config=kept)
    server.start()
    yield f"redis://127.0.0.1:{server.port}"
    server.stop()


@pytest.fixture(params=["sqlite", "redis"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    """A home in which several agents may serve, one after the other or together."""
    given: dict[str, Any] = {"datasets": reviewed_datasets(tmp_path), "watch_interval": 0}
    if request.param == "redis":
        given["state_url"] = request.getfixturevalue("valkey")
        given["agent_id"] = f"urn:dataset-agent:{tmp_path.name}"
    return agent_home(tmp_path / "home", **given)


def test_after_a_restart_the_decision_in_the_store_resumes_the_call_once(settings: Settings) -> None:
    with running_agent(settings) as first:
        task = ask(Client(first), **A)
    with running_agent(settings) as second:
        found = Client(second).get(task["id"])
        assert (state_of(found), found["contextId"]) == (WAITS, task["contextId"])
        decide(second, task)
    with running_agent(settings) as third:
        client = Client(third)
        with held(third) as executions:
            executions.release()
            done = again(client, task, **A)
            assert (state_of(done), done["contextId"], executions.began) == (DONE, task["contextId"], 1)
    with running_agent(settings) as fourth:
        client = Client(fourth)
        assert client.get(task["id"])["code"] == -32001
        with held(fourth) as executions:
            executions.release()
            refused = again(client, task, **A)
        assert (state_of(refused), decision_of(refused)["reason"]) == (REJECTED, "APPROVAL_ALREADY_DECIDED")
        assert executions.began == 0
        assert len(fourth.run(fourth.lifecycle.service.approvals.all())) == 1


def test_what_runs_again_by_the_time_it_is_found_again_is_stopped_by_who_cancels_it(settings: Settings) -> None:
    with running_agent(settings) as first:
        task = ask(Client(first), **A)
        decide(first, task)
    with running_agent(settings) as second, held(second) as executions, ThreadPoolExecutor(2) as both:
        client = Client(second)
        with asked_after(second, "of_task", lambda: executions.began > 0) as put:
            cancelling = both.submit(client.cancel, task["id"])
            assert put.wait(20)
            resumed = both.submit(again, client, task, **A)
            assert state_of(cancelling.result(20)) == "TASK_STATE_CANCELED"
        assert state_of(resumed.result(20)) == "TASK_STATE_CANCELED"
        assert (executions.began, executions.stopped) == (1, 1)


def test_of_two_resumes_at_once_in_two_processes_one_runs(settings: Settings) -> None:
    """Two agents of one home, each with its own memory: what a second worker, or a second replica, is."""
    with running_agent(settings) as one, running_agent(settings) as other:
        clients = [Client(one), Client(other)]
        with held(one) as executions:
            executions.release()
            for _ in range(5):
                task = ask(clients[0], **A)
                decide(one, task)
                before = executions.began
                answers: list[dict[str, Any]] = []
                together = threading.Barrier(2)

                def resume(client: Client, task: Any = task, answers: Any = answers, together: Any = together) -> None:
                    together.wait()
                    answers.append(again(client, task, **A))

                threads = [threading.Thread(target=resume, args=(client,)) for client in clients]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                assert sorted(state_of(answer) for answer in answers) == [DONE, REJECTED]
                lost = next(answer for answer in answers if state_of(answer) == REJECTED)
                assert decision_of(lost)["reason"] == "APPROVAL_ALREADY_DECIDED"
                assert executions.began == before + 1
                assert approval_of(one, task).state is State.USED


def test_what_nobody_decided_or_used_in_time_has_expired(settings: Settings) -> None:
    with running_agent(settings) as agent:
        client = Client(agent)
        waits, given = ask(client, **A), ask(client, **A)
        decide(agent, given)
        service = agent.lifecycle.service
        book = service.approvals
        past = settings.approval_ttl + 1
        # only what the approvals are asked with: grants and their clocks stay
        inner = type(book).look
        type(book).look = lambda self, task, who, asked, now: inner(self, task, who, asked, now + past)  # type: ignore[method-assign]
        try:
            for task in (waits, given):
                expired = again(client, task, **A)
                assert (state_of(expired), decision_of(expired)["reason"]) == (REJECTED, "APPROVAL_EXPIRED")
        finally:
            type(book).look = inner  # type: ignore[method-assign]


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def test_what_somebody_approved_who_is_revoked_since_runs_for_nobody(settings: Settings) -> None:
    with running_agent(settings) as agent, held(agent) as executions:
        executions.release()
        client = Client(agent)
        tasks = [ask(client, **A), ask(client, **A)]
        approved = [decide(agent, task).at for task in tasks]
        state = agent.lifecycle.service.state
        agent.run(state.revoke(RevocationKind.SUBJECT, "u-clin-01", not_before=approved[0]))
        told = [again(client, task, **A) for task in tasks]
        assert [decision_of(task)["reason"] for task in told] == ["GRANT_REVOKED", "PRINCIPAL_AUTHORIZED"]
        assert ([state_of(task) for task in told], executions.began) == ([WAITS, DONE], 1)
        assert approval_of(agent, tasks[0]).state is State.APPROVED


def test_what_changes_between_the_decision_and_the_resume_is_decided_anew(settings: Settings) -> None:
    with running_agent(settings) as agent:
        client = Client(agent)
        folder = settings.datasets
        taken, moved, changed = (ask(client, **A) for _ in range(3))
        for task in (taken, moved, changed):
            decide(agent, task)

        # the entitlement is taken away, and given back
        people = folder / "principals.yaml"
        held_ = "[calculate_yield, compare_batches, detect_outliers, search, step_totals]"
        edit(people, held_, held_.replace("compare_batches, ", ""))
        agent.run(agent.lifecycle.reload())
        refused = again(client, taken, **A)
        assert (state_of(refused), decision_of(refused)["reason"]) == (WAITS, "INSUFFICIENT_PRIVILEGE")
        assert approval_of(agent, taken).state is State.APPROVED
        edit(people, held_.replace("compare_batches, ", ""), held_)
        agent.run(agent.lifecycle.reload())
        assert state_of(again(client, taken, **A)) == DONE

        # new data: a grant of the old revision is none, one of the new is
        descriptor = folder / DATASET / "descriptor.yaml"
        revision = agent.lifecycle.service.world.datasets[DATASET].descriptor.revision
        edit(descriptor, f"revision: {revision}", "revision: r-next")
        agent.run(agent.lifecycle.reload())
        stale = again(client, moved, **A)
        assert (state_of(stale), decision_of(stale)["reason"]) == (WAITS, "UNKNOWN_DATASET_REVISION")
        client.asker._scopes.clear()
        done = again(client, moved, **A)
        assert (state_of(done), [row[0] for row in result_of(done)["rows"]]) == (DONE, ["B001", "B002"])

        # another template: what was approved is not what would run
        template = folder / DATASET / "templates" / "compare_batches.sql"
        template.write_text(template.read_text(encoding="utf-8") + "\n-- changed\n", encoding="utf-8")
        agent.run(agent.lifecycle.reload())
        other = again(client, changed, **A)
        assert (state_of(other), decision_of(other)["reason"]) == (WAITS, "APPROVAL_MISMATCH")
        assert approval_of(agent, changed).state is State.APPROVED


def test_an_approval_that_another_hand_wrote_into_the_store_is_none(settings: Settings) -> None:
    with running_agent(settings) as agent:
        client = Client(agent)
        task = ask(client, **A)
        book = agent.lifecycle.service.approvals
        kept = agent.run(book.find(approval_of(agent, task).id))
        told = json.loads(kept.approval.model_dump_json())
        forged = replace(kept.held, version=2, sealed=json.dumps(told | {"state": "approved"}).encode().hex())
        assert agent.run(book._store.swap(kept.held, forged))
        refused = again(client, task, **A)
        assert (state_of(refused), decision_of(refused)["reason"]) == (WAITS, "STATE_UNAVAILABLE")


def test_a_large_result_of_an_approved_call_is_fetched_under_that_approval(tmp_path: Path) -> None:
    datasets = reviewed_datasets(tmp_path, "search")
    home = agent_home(tmp_path / "home", datasets=datasets, watch_interval=0, max_result_bytes=1_024)
    with running_agent(home) as agent:
        client = Client(agent)
        part = client.call({"query": "b"}, "search")
        task = client.send(part, client.leaf_for(part, capability="search"))
        assert state_of(task) == WAITS
        approved = decide(agent, task)
        done = client.send(part, client.leaf_for(part, capability="search"), task=task)
        (waiting,) = next(item for item in done["artifacts"] if item["name"] == "result")["parts"]
        leaf = client.leaf(Operation(GET_RESULTS, task=done["id"]), "search")
        fetched = httpx.get(waiting["url"], headers=client.headers(leaf), timeout=30)
        assert fetched.status_code == 200
        told = next(value for name, value in waiting["metadata"].items() if name.endswith("/result"))
        assert sha256_hex(fetched.content) == told["sha256"]
        state = agent.lifecycle.service.state
        agent.run(state.revoke(RevocationKind.SUBJECT, "u-clin-01", not_before=approved.at))
        leaf = client.leaf(Operation(GET_RESULTS, task=done["id"]), "search")
        refused = httpx.get(waiting["url"], headers=client.headers(leaf), timeout=30)
        assert (refused.status_code, refused.json()["decision"]["reason"]) == (403, "GRANT_REVOKED")
