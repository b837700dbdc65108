"""Who follows a call that runs: what they see, with a leaf for its rows and without, and what their leaving does."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from contract.call import Operation
from contract.canonical import sha256_hex
from contract.scope import parse_rows
from evidence.provenance import verify_provenance
from grants.state import RevocationKind, revoked_by_now
from remote_agent.running import Running
from tests.remote_agent.long_tasks import DONE, WORKING, detached, ended, fresh, reasons, rows_of
from tests.remote_agent.long_world import BINDINGS, PEOPLE, Client, Held, state_of, until
from tests.running_agent import RunningAgent

pytestmark = pytest.mark.live


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
    until(lambda: len(rows_of(agent, task["id"])) == 1 + len(clients))  # the call, and each release of its rows
    rows = rows_of(agent, task["id"])
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
    until(lambda: sorted(reasons(client, task["id"])) == ["GRANT_REVOKED", "GRANT_REVOKED"])


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


def test_a_task_that_has_ended_is_not_followed(rpc: Client, holding: Held) -> None:
    holding.release()
    task = rpc.send(fresh(rpc))
    with rpc.followed(task["id"]) as events:
        assert events.next()["code"] == -32004


def listed(client: Client) -> list[dict[str, Any]]:
    return list(client.post("ListTasks", {}, client.headers()).get("tasks", []))


def test_a_negotiation_has_no_rows_to_wait_for(agent: RunningAgent, monkeypatch: pytest.MonkeyPatch) -> None:
    client, service = Client(agent), agent.lifecycle.service
    others = {task["id"] for task in listed(client)}
    asked, spend = threading.Event(), service.state.spend

    async def slow(*given: Any, **named: Any) -> None:
        await spend(*given, **named)
        while not asked.is_set():
            await asyncio.sleep(0.01)

    def accepted(running: Running) -> Awaitable[None]:
        asked.set()  # the follower has come
        return running.underway.accepted()

    monkeypatch.setattr(service.state, "spend", slow)
    monkeypatch.setattr(Running, "accepted", accepted)
    with ThreadPoolExecutor(1) as pool:
        negotiating = pool.submit(client.say, "Compare batches")
        task_id = until(
            lambda: next(
                (task["id"] for task in listed(client) if task["id"] not in others and state_of(task) == WORKING), None
            )
        )
        with client.followed(task_id) as events:
            refused = events.next()
        assert refused["code"] == -32004
        assert state_of(negotiating.result()) == "TASK_STATE_INPUT_REQUIRED"
