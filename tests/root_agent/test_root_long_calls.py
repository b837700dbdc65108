"""A root agent and a real dataset agent: a call that misses arguments, one that takes long, one that is given up."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from contract.ids import new_id
from contract.verdict import Reason, Verdict
from dataset_agent.login import identity_token
from remote_agent import events
from root_agent.answer_view import to_json
from root_agent.asking import Answer
from root_agent.entry import RootAgent
from root_agent.opening import close_service, open_service
from tests.remote_agent.long_world import CAPABILITY, DATASET, Client, Held, held, until
from tests.running_agent import RunningAgent, agent_home, running_agent

CALLED: list[str] = []


def listening(app: Any, _: Any) -> Any:
    """The agent's application; what JSON-RPC methods arrive is noted."""

    async def noting(scope: Any, receive: Any, send: Any) -> None:
        async def noted() -> Any:
            message = await receive()
            if message.get("body"):
                CALLED.append(json.loads(message["body"]).get("method", ""))
            return message

        await app(scope, noted if scope["type"] == "http" else receive, send)

    return noting


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAgent]:
    with running_agent(agent_home(tmp_path_factory.mktemp("home")), wrap=listening) as served:
        yield served


@pytest.fixture
async def root(agent: RunningAgent) -> AsyncIterator[RootAgent]:
    CALLED.clear()
    service = open_service(agent.settings.model_copy(update={"url": agent.url}))
    root = RootAgent(service)
    yield root
    await root.close()
    await close_service(service)


@pytest.fixture
def holding(agent: RunningAgent) -> Iterator[Held]:
    with held(agent) as executions:
        yield executions


async def call(root: RootAgent, agent: RunningAgent, arguments: dict[str, str], **how: Any) -> Answer:
    wanted = {"dataset": DATASET, "capability": CAPABILITY, "arguments": arguments}
    return await root.ask(identity_token(agent.settings, "process_engineer"), call=wanted, **how)


def reasons(agent: RunningAgent, before: int) -> list[str]:
    return [str(row.cells["reason"]) for row in agent.rows()[before:]]


async def eventually(holds: Any) -> Any:
    """As ``until``, beside the loop that the root agent runs in."""
    return await asyncio.to_thread(until, holds)


async def test_a_typed_call_that_misses_arguments_says_which_and_in_which_task(
    root: RootAgent, agent: RunningAgent
) -> None:
    view = to_json(await call(root, agent, {"batch_a": "B001"}))
    assert (view["verdict"], view["reason"]) == ("INDETERMINATE", "ARGUMENTS_MISSING")
    assert [(item["name"], item["type"]) for item in view["missing"]] == [("batch_b", "STRING")]
    assert view["decision"]["verdict"] == "GRANTED"
    assert view["remote"]["task_id"]
    assert view["result"] is None


async def test_the_whole_call_completes_that_task_under_a_grant_of_its_own(
    root: RootAgent, agent: RunningAgent
) -> None:
    before = len(agent.rows())
    asked = to_json(await call(root, agent, {"batch_a": "B151"}))
    done = to_json(await call(root, agent, {"batch_a": "B151", "batch_b": "B152"}, task=asked["remote"]["task_id"]))
    assert (done["verdict"], done["remote"]["task_id"]) == ("GRANTED", asked["remote"]["task_id"])
    assert [row[0] for row in done["result"]["rows"]] == ["B151", "B152"]
    rows = agent.rows()[before:]
    assert [row.cells["reason"] for row in rows] == ["ARGUMENTS_MISSING", "PRINCIPAL_AUTHORIZED"]
    assert len({row.cells["root_jti"] for row in rows}) == 2


async def test_a_task_that_nobody_asked_in_is_a_fault_of_the_exchange_and_no_row(
    root: RootAgent, agent: RunningAgent
) -> None:
    answer = await call(root, agent, {"batch_a": "B001", "batch_b": "B002"}, task=new_id("task"))
    assert (answer.decision.reason, answer.document) == (Reason.REMOTE_FAULT, None)


async def test_whoever_watches_is_told_how_far_a_call_is_and_gets_the_verified_rows(
    root: RootAgent, agent: RunningAgent, holding: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "INTERVAL_S", 0.02)
    told: list[int] = []
    holding.percent = 20.0

    def watch(percent: int) -> None:
        told.append(percent)
        if percent == 20:
            holding.percent = 70.0
        else:
            holding.release()

    answer = await call(root, agent, {"batch_a": "B153", "batch_b": "B154"}, watch=watch)
    assert (answer.verdict, told[:2]) == (Verdict.GRANTED, [20, 70])  # then the engine may say something itself
    assert answer.asking.verified is not None
    assert CALLED.count("SendStreamingMessage") == 1


async def test_a_refusal_comes_through_a_stream_as_it_is(root: RootAgent, agent: RunningAgent) -> None:
    answer = await call(root, agent, {"batch_a": "B001", "batch_b": "wrong"}, watch=lambda _: None)
    assert (answer.decision.reason, answer.document) == (Reason.ARGUMENTS_INVALID, None)


async def test_who_gives_up_cancels_the_call_by_name_even_where_somebody_else_follows_it(
    root: RootAgent, agent: RunningAgent, holding: Held
) -> None:
    before = len(agent.rows())
    asking = asyncio.create_task(call(root, agent, {"batch_a": "B155", "batch_b": "B156"}, watch=lambda _: None))
    await eventually(lambda: holding.began)
    followed = asyncio.create_task(asyncio.to_thread(follow, agent))
    await eventually(lambda: "SubscribeToTask" in CALLED)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert (await followed).state == "TASK_STATE_CANCELED"
    assert "CancelTask" in CALLED
    assert holding.stopped == 1
    assert await eventually(lambda: reasons(agent, before)) == ["CANCELLED"]
    assert list(root.service.ledger.rows())[-1].cells["reason"] == "CANCELLED"


@pytest.mark.parametrize("watch", [lambda _: None, None], ids=["watched", "unwatched"])
async def test_what_takes_too_long_is_unknown_by_the_name_of_its_task_which_settles_it(
    root: RootAgent, agent: RunningAgent, holding: Held, watch: Any
) -> None:
    before, root.service.call_timeout = len(agent.rows()), 1.0
    answer = await call(root, agent, {"batch_a": "B157", "batch_b": "B158" if watch else "B159"}, watch=watch)
    view = to_json(answer)
    assert (view["verdict"], view["reason"]) == ("INDETERMINATE", "REMOTE_TIMEOUT")
    assert await eventually(lambda: reasons(agent, before)) == ["CANCELLED"]
    client = Client(agent)
    task = client.post("GetTask", {"id": view["remote"]["task_id"]}, client.headers())
    assert task["status"]["state"] == "TASK_STATE_CANCELED"
    rows = [list(root.service.ledger.rows())[-1].cells, agent.rows()[-1].cells]
    assert len({row["task_id"] for row in rows}) == len({row["trace_id"] for row in rows}) == 1


def follow(agent: RunningAgent) -> Any:
    """Another process of the same person follows the task that runs, to its end."""
    client = Client(agent)
    (task,) = client.post("ListTasks", {"status": "TASK_STATE_WORKING"}, client.headers())["tasks"]
    with client.followed(task["id"], rows=False) as events_:
        return events_.rest()
