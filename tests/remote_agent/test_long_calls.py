"""A call that takes long: it tells how far it is, is cancelled, left and detached; it runs once."""

from __future__ import annotations

import asyncio
import base64
import json
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from contract.call import GET_RESULTS, Operation
from contract.canonical import sha256_hex
from contract.extension import PROGRESS_KEY, RESULT_KEY
from evidence.provenance import verify_provenance
from remote_agent import events as events_module
from remote_agent import handler
from remote_agent.running import Running
from tests.remote_agent.long_tasks import CANCELED, DONE, WORKING, detached, ended, fresh, reasons, rows_of
from tests.remote_agent.long_world import BINDINGS, Client, Held, held, state_of, until
from tests.running_agent import RunningAgent, decision_of, result_of

pytestmark = pytest.mark.live


def test_a_stream_tells_how_far_it_is_and_ends_with_rows(
    client: Client, holding: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events_module, "INTERVAL_S", 0.02)
    with client.sent(fresh(client)) as events:
        assert state_of(events.next()["task"]) == WORKING
        told = []
        for holding.percent in (12.7, 40.0):
            told.append(events.next()["statusUpdate"]["metadata"][PROGRESS_KEY])
        holding.release()
        last = events.rest()
    assert (told, last.state) == ([{"percent": 12}, {"percent": 40}], DONE)
    assert set(last.artifacts) == {"result", "provenance"}


def test_while_it_works_a_task_shows_its_owner_how_far_it_is_and_nothing_else(client: Client, holding: Held) -> None:
    task = detached(client, holding)
    holding.percent = 33.3
    found = client.get(task["id"])
    assert (state_of(found), found["metadata"]) == (WORKING, {PROGRESS_KEY: {"percent": 33}})
    assert set(found) == {"id", "contextId", "status", "metadata"}


def test_how_far_it_is_never_falls_and_is_never_all(rpc: Client, holding: Held) -> None:
    task = detached(rpc, holding)
    seen = []
    for holding.percent in (50.0, 20.0, -1.0, float("nan"), 100.0):
        seen.append(rpc.get(task["id"])["metadata"][PROGRESS_KEY]["percent"])
    assert seen == [50, 50, 50, 50, 99]


def test_a_detached_call_goes_on_and_ends_with_status_decision_and_proof_without_rows(
    client: Client, holding: Held
) -> None:
    task = detached(client, holding)
    holding.release()
    found = ended(client, task["id"])
    assert (state_of(found), decision_of(found)["verdict"]) == (DONE, "GRANTED")
    assert "raw" not in json.dumps([item for item in found["artifacts"] if item["name"] != "provenance"])
    assert reasons(client, task["id"]) == ["PRINCIPAL_AUTHORIZED"]


def test_the_rows_of_a_detached_call_wait_for_whoever_comes_later_with_a_leaf_for_them(
    client: Client, holding: Held
) -> None:
    task = detached(client, holding)
    holding.release()
    artifacts = {item["name"]: item["parts"][0] for item in ended(client, task["id"])["artifacts"]}
    told, url = artifacts["result"]["metadata"][RESULT_KEY], artifacts["result"]["url"]
    grant = client.leaf(Operation(GET_RESULTS, task=task["id"]))
    body = httpx.get(url, headers=client.headers(grant), timeout=20)
    assert (body.status_code, sha256_hex(body.content), len(body.content)) == (200, told["sha256"], told["size"])
    assert body.json()["row_count"] == 2
    verify_provenance(
        json.loads(base64.b64decode(artifacts["provenance"]["raw"])),
        client.agent.lifecycle.service.signer.public_key,
        body=body.content,
    )
    assert httpx.get(url, headers=client.headers(), timeout=20).status_code == 403


def test_who_asks_again_after_a_detached_call_finds_its_rows(rpc: Client, holding: Held) -> None:
    part = fresh(rpc)
    task = rpc.send(part, now=True)
    holding.release()
    ended(rpc, task["id"])
    again = rpc.send(part)
    assert result_of(again)["row_count"] == 2
    assert holding.began == 1


def test_what_need_not_run_returns_whole_at_once(rpc: Client, holding: Held) -> None:
    holding.release()
    part = fresh(rpc)
    rpc.send(part)
    assert result_of(rpc.send(part, now=True))["row_count"] == 2
    assert decision_of(rpc.send(part, "", now=True))["reason"] == "NO_ACTIVE_GRANT"


def test_when_the_only_one_who_waits_leaves_the_work_is_stopped_and_recorded(client: Client, holding: Held) -> None:
    with client.sent(fresh(client)) as events:
        task_id = events.next()["task"]["id"]
        until(lambda: holding.began)
    until(lambda: holding.stopped)
    assert state_of(ended(client, task_id)) == CANCELED
    assert until(lambda: reasons(client, task_id)) == ["CANCELLED"]


def test_cancelling_stops_the_work_for_all_who_follow(client: Client, holding: Held) -> None:
    task = detached(client, holding)
    with client.followed(task["id"]) as rows, client.followed(task["id"], rows=False) as watching:
        rows.next(), watching.next()
        assert state_of(client.cancel(task["id"])) == CANCELED
        ends = [rows.rest(), watching.rest()]
    assert [(end.state, end.artifacts) for end in ends] == [(CANCELED, {})] * 2
    assert holding.stopped == 1
    assert reasons(client, task["id"]) == ["CANCELLED", "CANCELLED"]
    assert state_of(client.get(task["id"])) == CANCELED
    assert client.cancel(task["id"])["code"] == -32002


def test_the_task_shows_the_very_decision_that_was_recorded(rpc: Client, holding: Held) -> None:
    task = detached(rpc, holding)
    canceled = rpc.cancel(task["id"])
    assert decision_of(canceled)["decision_id"] == rows_of(rpc.agent, task["id"])[0]["decision_id"]


def test_a_running_task_is_listed_for_its_person_alone(rpc: Client, holding: Held) -> None:
    task = detached(rpc, holding)
    stranger = Client(rpc.agent, "JSONRPC", "analyst")
    mine = Client(rpc.agent).post("ListTasks", {"status": WORKING}, rpc.headers())["tasks"]
    theirs = stranger.post("ListTasks", {}, stranger.headers())["tasks"]
    assert task["id"] in [item["id"] for item in mine]
    assert task["id"] not in [item["id"] for item in theirs]
    holding.release()
    ended(rpc, task["id"])
    again = Client(rpc.agent).post("ListTasks", {"status": WORKING}, rpc.headers())["tasks"]
    assert task["id"] not in [item["id"] for item in again]


def test_cancelling_while_it_ends_leaves_one_outcome_one_run_and_one_row(agent: RunningAgent) -> None:
    for number in range(6):
        client = Client(agent, BINDINGS[number % 2])
        with held(agent) as holding:
            task = detached(client, holding)
            with ThreadPoolExecutor(3) as pool:
                releasing = pool.submit(holding.release)
                cancels = [pool.submit(client.cancel, task["id"]) for _ in range(2)]
                releasing.result()
                told = [cancel.result() for cancel in cancels]
            found = ended(client, task["id"])
        canceled = [state_of(item) for item in told if "status" in item]
        assert set(canceled) <= {state_of(found)}
        assert (state_of(found) == CANCELED) == bool(canceled)
        assert holding.began == 1
        assert len(reasons(client, task["id"])) == 1


@pytest.mark.parametrize("share", ["MAX_DETACHED", "MAX_DETACHED_OF_PERSON"])
def test_as_many_as_may_are_detached_and_one_more_is_answered_when_it_ends(
    share: str, agent: RunningAgent, holding: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handler, share, 1)
    monkeypatch.setattr(handler, "_SOON_S", 0.0)  # what may be detached is, before it is let go
    client = Client(agent)
    detached(client, holding)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.send, fresh(client), now=True)
        until(lambda: holding.began == 2)
        holding.release()
        assert state_of(waiting.result()) == DONE


@pytest.mark.parametrize("share", ["MAX_DETACHED", "MAX_DETACHED_OF_PERSON"])
def test_of_calls_that_are_sent_at_once_no_more_are_detached_than_may_be(
    share: str, agent: RunningAgent, holding: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited = 0

    async def together(running: Running, seconds: float) -> bool:
        nonlocal waited
        waited += 1
        while waited < 3:
            await asyncio.sleep(0.001)
        return False

    monkeypatch.setattr(handler, share, 1)
    monkeypatch.setattr(Running, "wait", together)
    client = Client(agent)
    with ThreadPoolExecutor(3) as pool:
        sent = [pool.submit(client.send, fresh(client), now=True) for _ in range(3)]
        until(lambda: any(one.done() for one in sent))
        holding.release()
        assert sorted(state_of(one.result()) for one in sent) == sorted([WORKING, DONE, DONE])
