"""A call that takes long: it tells how far it is, is followed, cancelled, left and detached; it runs once."""

from __future__ import annotations

import base64
import itertools
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from contract.call import GET_RESULTS, Operation
from contract.canonical import sha256_hex
from contract.extension import PROGRESS_KEY, RESULT_KEY
from contract.scope import parse_rows
from evidence.provenance import verify_provenance
from grants.state import RevocationKind, revoked_by_now
from remote_agent import events as events_module
from remote_agent import handler
from tests.remote_agent.long_world import BINDINGS, PEOPLE, Client, Held, held, state_of, until
from tests.running_agent import RunningAgent, decision_of, result_of

WORKING, DONE, CANCELED = "TASK_STATE_WORKING", "TASK_STATE_COMPLETED", "TASK_STATE_CANCELED"
PAIRS = itertools.permutations([f"B{number:03d}" for number in range(1, 200)], 2)


@pytest.fixture
def rpc(agent: RunningAgent) -> Client:
    return Client(agent)


@pytest.fixture(params=BINDINGS)
def client(agent: RunningAgent, request: pytest.FixtureRequest) -> Client:
    return Client(agent, request.param)


@pytest.fixture
def holding(agent: RunningAgent) -> Iterator[Held]:
    with held(agent) as executions:
        yield executions


def fresh(client: Client) -> bytes:
    """A call that nobody made before."""
    first, second = next(PAIRS)
    return client.call({"batch_a": first, "batch_b": second})


def detached(client: Client, holding: Held) -> dict[str, Any]:
    task = client.send(fresh(client), now=True)
    assert state_of(task) == WORKING
    until(lambda: holding.began)
    return task


def rows_of(agent: RunningAgent, task_id: str) -> list[dict[str, Any]]:
    """The evidence of one task, subscriptions included."""
    return [dict(row.cells) for row in agent.rows() if row.cells["task_id"] == task_id]


def reasons(client: Client, task_id: str) -> list[str]:
    return [str(row["reason"]) for row in rows_of(client.agent, task_id)]


def ended(client: Client, task_id: str) -> dict[str, Any]:
    """The task once it does not work any more."""

    def found() -> dict[str, Any] | None:
        task = client.get(task_id)
        return task if state_of(task) != WORKING else None

    return dict(until(found))


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


def test_subscribers_see_the_one_execution_each_under_a_leaf_of_its_own(agent: RunningAgent, holding: Held) -> None:
    clients = [Client(agent, BINDINGS[number % 2]) for number in range(6)]
    part = fresh(clients[0])
    task = clients[0].send(part, now=True)
    following = threading.Barrier(len(clients) + 1, timeout=20)

    def follow(client: Client) -> Any:
        with client.followed(task["id"]) as events:
            events.next()
            following.wait()
            return events.rest()

    with ThreadPoolExecutor(len(clients)) as pool:
        futures = [pool.submit(follow, client) for client in clients]
        following.wait()
        holding.release()
        outcomes = [future.result() for future in futures]
    assert {outcome.state for outcome in outcomes} == {DONE}
    assert len({outcome.raw("result") for outcome in outcomes}) == 1
    assert holding.began == 1
    rows = rows_of(agent, task["id"])
    assert len(rows) == 1 + len(clients), "the call, and each release of its rows"
    assert len({row["execution_id"] for row in rows}) == 1
    assert len({row["leaf_digest"] for row in rows}) == len(rows)
    for outcome in outcomes:
        verify_provenance(
            json.loads(outcome.raw("provenance")),
            agent.lifecycle.service.signer.public_key,
            body=outcome.raw("result"),
            call_hash=sha256_hex(part),
        )


def test_those_who_follow_without_a_leaf_see_the_end_but_no_row_and_leave_no_row_of_evidence(
    client: Client, holding: Held
) -> None:
    task = detached(client, holding)
    with client.followed(task["id"], rows=False) as one, client.followed(task["id"], rows=False) as other:
        one.next(), other.next()
        holding.release()
        ends = [one.rest(), other.rest()]
    assert [(end.state, "raw" in end.artifacts["result"]["parts"][0]) for end in ends] == [(DONE, False)] * 2
    assert reasons(client, task["id"]) == ["PRINCIPAL_AUTHORIZED"]
    assert holding.began == 1


def test_a_subscription_needs_ownership_and_the_extension(client: Client, holding: Held) -> None:
    task = detached(client, holding)
    stranger = Client(client.agent, client.binding, "analyst")
    for rows in (True, False):
        with stranger.followed(task["id"], rows=rows) as events:
            assert events.next()["code"] == -32001
    assert stranger.get(task["id"])["code"] == -32001
    assert stranger.cancel(task["id"])["code"] == -32001
    headers = client.headers()
    del headers["A2A-Extensions"]
    with client.stream("SubscribeToTask", {"id": task["id"]}, headers) as events:
        assert events.next()["code"] == -32008


def test_a_task_has_so_many_followers_and_no_more(
    client: Client, holding: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("remote_agent.running.MAX_WATCHERS", 1)
    task = detached(client, holding)
    with client.followed(task["id"], rows=False) as first:
        first.next()
        with client.followed(task["id"], rows=False) as second:
            assert second.next()["code"] == -32004


@pytest.mark.parametrize(
    ("leaf", "reason"),
    [
        ({"columns": frozenset({"batch_record.batch_id"})}, "COLUMN_NOT_PERMITTED"),
        ({"constraints": {"batch_record.site": {"one_of": ["Basel"]}}}, "GRANT_WIDENED"),
        ({"capability": "search"}, "GRANT_WIDENED"),
        ({"revision": "another"}, "UNKNOWN_DATASET_REVISION"),
    ],
    ids=["fewer columns", "fewer rows", "another capability", "another revision"],
)
def test_a_subscriber_whose_grant_is_for_less_than_the_task_gets_none_of_it(
    agent: RunningAgent, holding: Held, leaf: dict[str, Any], reason: str
) -> None:
    client = Client(agent)
    task = detached(client, holding)
    if "constraints" in leaf:
        leaf = {"constraints": parse_rows(leaf["constraints"])}
    with client.followed(task["id"], **leaf) as events:
        refused = events.next()
    assert refused["code"] == -32602
    assert refused["message"].startswith(f"{reason}: ")
    assert reasons(client, task["id"]) == [reason]


def test_a_leaf_follows_once_and_no_other_task(rpc: Client, holding: Held) -> None:
    one, other = detached(rpc, holding), detached(rpc, holding)
    grant = rpc.leaf(Operation("SubscribeToTask", task=one["id"]))
    for task_id, reason in (
        (other["id"], "GRANT_OPERATION_MISMATCH"),
        (one["id"], None),
        (one["id"], "GRANT_REPLAYED"),
    ):
        with rpc.stream("SubscribeToTask", {"id": task_id}, rpc.headers(grant)) as events:
            event = events.next()
            assert event.get("message", "").split(":")[0] == (reason or "")


def test_a_subscriber_whose_grant_is_revoked_while_it_waits_gets_no_row(agent: RunningAgent, holding: Held) -> None:
    client = Client(agent, person="analyst")
    task = detached(client, holding)
    with client.followed(task["id"]) as events:
        events.next()
        service = agent.lifecycle.service
        revoke = service.state.revoke(
            RevocationKind.SUBJECT, PEOPLE["analyst"], not_before=revoked_by_now(service.clock())
        )
        agent.run(revoke)
        holding.release()
        last = events.rest()
    assert (last.reason, last.artifacts) == ("GRANT_REVOKED", {})
    assert sorted(reasons(client, task["id"])) == ["GRANT_REVOKED", "GRANT_REVOKED"]


def test_when_the_only_one_who_waits_leaves_the_work_is_stopped_and_recorded(client: Client, holding: Held) -> None:
    with client.sent(fresh(client)) as events:
        task_id = events.next()["task"]["id"]
        until(lambda: holding.began)
    until(lambda: holding.stopped)
    assert state_of(ended(client, task_id)) == CANCELED
    assert until(lambda: reasons(client, task_id)) == ["CANCELLED"]


def test_while_somebody_else_follows_the_work_goes_on(client: Client, holding: Held) -> None:
    with client.sent(fresh(client)) as events:
        task_id = events.next()["task"]["id"]
        until(lambda: holding.began)
        staying = client.followed(task_id)
        follower = staying.__enter__()
        follower.next()
    client.get(task_id)
    assert holding.stopped == 0
    holding.release()
    assert follower.rest().state == DONE
    staying.__exit__(None, None, None)
    assert (holding.began, holding.stopped) == (1, 0)
    assert reasons(client, task_id) == ["PRINCIPAL_AUTHORIZED"] * 2


def test_the_last_follower_who_leaves_stops_the_work(rpc: Client, holding: Held) -> None:
    with rpc.sent(fresh(rpc)) as events:
        task_id = events.next()["task"]["id"]
        until(lambda: holding.began)
        with rpc.followed(task_id, rows=False) as follower:
            follower.next()
    until(lambda: holding.stopped)
    until(lambda: reasons(rpc, task_id))
    assert (reasons(rpc, task_id), holding.began) == (["CANCELLED"], 1)


def test_a_follower_who_leaves_a_detached_call_stops_nothing(client: Client, holding: Held) -> None:
    task = detached(client, holding)
    with client.followed(task["id"]) as events:
        events.next()
    until(lambda: reasons(client, task["id"]) == ["CANCELLED"])  # that subscription
    assert holding.stopped == 0
    holding.release()
    assert state_of(ended(client, task["id"])) == DONE


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


def test_a_task_that_has_ended_is_not_followed(rpc: Client, holding: Held) -> None:
    holding.release()
    task = rpc.send(fresh(rpc))
    with rpc.followed(task["id"]) as events:
        assert events.next()["code"] == -32004


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


def test_as_many_as_may_are_detached_and_one_more_is_answered_when_it_ends(
    agent: RunningAgent, holding: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handler, "MAX_DETACHED", 1)
    client = Client(agent)
    detached(client, holding)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.send, fresh(client), now=True)
        until(lambda: holding.began == 2)
        holding.release()
        assert state_of(waiting.result()) == DONE
