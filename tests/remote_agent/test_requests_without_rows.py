"""What leaves no row, though an authenticated client sent a leaf with it: nothing was judged, so the leaf is as good as before.

The list is that of ``docs/audit.md``. Everything else that comes with a leaf is one terminal row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from contract.extension import GRANT_HEADER
from tests.remote_agent.long_tasks import detached, fresh
from tests.remote_agent.long_world import Client, Held
from tests.running_agent import COMPARE, RunningAgent, message, task_of


@dataclass
class Sender:
    """One call with one leaf, sent in forms that the protocol does not take, and at last in one that it does."""

    agent: RunningAgent

    def __post_init__(self) -> None:
        self.client = Client(self.agent)
        self.asker = self.client.asker
        self.call = self.client.call(COMPARE)
        self.leaf = self.client.leaf_for(self.call)

    def headers(self, **changes: str | None) -> dict[str, str]:
        given = self.client.headers(self.leaf) | {name.replace("_", "-"): value for name, value in changes.items()}
        return {name: value for name, value in given.items() if value is not None}

    def send(
        self, method: str = "SendMessage", headers: dict[str, str] | None = None, more: Any = None, **members: Any
    ) -> Any:
        params = {"message": message(self.call) | members} | (more or {})
        return self.asker.rpc(method, params, headers or self.headers())

    def post(self, place: str, content: bytes, **changes: str | None) -> httpx.Response:
        headers = self.headers(**changes) | {"content-type": "application/json"}
        return httpx.post(self.agent.url + place, content=content, headers=headers, timeout=60)

    @property
    def rows(self) -> int:
        return len(self.agent.rows())


@pytest.fixture
def sender(agent: RunningAgent) -> Sender:
    return Sender(agent)


def code(response: httpx.Response) -> int:
    """Of JSON-RPC, or of HTTP where it was none."""
    error = response.json().get("error") if response.status_code == 200 else None
    return response.status_code if error is None else int(error["code"])


def ended(sender: Sender) -> str:
    return str(sender.client.send(sender.call)["id"])


Attempt = Callable[[Sender], httpx.Response]
PUSH = {"configuration": {"taskPushNotificationConfig": {"url": "http://127.0.0.1:1"}}}
ATTEMPTS: dict[str, tuple[int, Attempt]] = {
    "no client assertion": (401, lambda it: it.send(headers=it.headers(Authorization=None))),
    "another client assertion": (401, lambda it: it.send(headers=it.headers(Authorization="Bearer x"))),
    "a body that is too large": (413, lambda it: it.post("/", b'"' + b"x" * 300_000 + b'"')),
    "a body that is too dear": (400, lambda it: it.post("/", b"[" * 200)),
    "no JSON": (-32700, lambda it: it.post("/", b"{")),
    "a method that there is not": (-32601, lambda it: it.send("SendMassage")),
    "another version of A2A": (-32009, lambda it: it.send(headers=it.headers(A2A_Version="0.3"))),
    "the extension is not activated": (-32008, lambda it: it.send(headers=it.headers(A2A_Extensions=None))),
    "no message": (-32602, lambda it: it.asker.rpc("SendMessage", {}, it.headers())),
    "an id that is none": (-32602, lambda it: it.send(messageId="a\0b")),
    "to call somebody back": (-32003, lambda it: it.send(more=PUSH)),
    "a form that is not offered": (
        -32005,
        lambda it: it.send(more={"configuration": {"acceptedOutputModes": ["image/png"]}}),
    ),
    "a task that there is not": (-32001, lambda it: it.send(taskId="task-1")),
    "a task that has ended": (-32004, lambda it: it.send(taskId=ended(it))),
    "to follow a task that there is not": (
        -32001,
        lambda it: it.asker.rpc("SubscribeToTask", {"id": "task-1"}, it.headers()),
    ),
    "no path": (404, lambda it: it.post("/nowhere", b"{}")),
    "a dataset that is behind no MCP": (404, lambda it: it.post("/mcp/nothing", b"{}")),
    "a method that fetches nothing": (405, lambda it: it.post("/results/res-1", b"")),
    "to fetch without the extension": (
        400,
        lambda it: httpx.get(it.agent.url + "/results/res-1", headers=it.headers(A2A_Extensions=None)),
    ),
}


@pytest.mark.parametrize("name", ATTEMPTS)
def test_what_the_protocol_does_not_take_leaves_no_row_and_spends_no_leaf(sender: Sender, name: str) -> None:
    expected, attempt = ATTEMPTS[name]
    before = sender.rows
    assert code(attempt(sender)) == expected
    of_attempt = sender.rows - before
    assert of_attempt == (1 if "ended" in name else 0)  # the call that ended before has its own
    assert task_of(sender.send())["status"]["state"] == "TASK_STATE_COMPLETED"
    assert sender.rows == before + of_attempt + 1


@pytest.mark.parametrize("leaf", [None, "x", "a.b.c"])
def test_a_call_without_a_leaf_that_reads_is_judged_and_is_one_row(sender: Sender, leaf: str | None) -> None:
    before = sender.rows
    refused = task_of(sender.send(headers=sender.headers(**{GRANT_HEADER.replace("-", "_"): leaf})))
    assert refused["status"]["state"] == "TASK_STATE_REJECTED"
    assert sender.rows == before + 1


def test_a_further_message_of_a_task_that_is_being_answered_leaves_no_row(sender: Sender, holding: Held) -> None:
    fresh(sender.client)  # the first of them may be COMPARE, which was answered before
    task = detached(sender.client, holding)
    before = sender.rows
    assert code(sender.send(taskId=task["id"])) == -32004
    assert sender.rows == before
    holding.release()
    assert task_of(sender.send())["status"]["state"] == "TASK_STATE_COMPLETED"
