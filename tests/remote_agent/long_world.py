"""A served dataset agent whose executions are counted and can be held, and people who ask, follow and cancel.

What is held is the execution alone: everything before and after it is the real thing over loopback
HTTP, on both bindings.
"""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import httpx

from contract.call import Operation
from contract.canonical import sha256_hex
from contract.extension import DECISION_KEY
from contract.ids import new_id
from contract.principal import Principal
from contract.progress import report
from contract.scope import Scope
from grants.client import client_assertion
from remote_agent import answer as path
from tests.running_agent import Asker, RunningAgent, message

DATASET, CAPABILITY = "purification-batches", "compare_batches"
PEOPLE = {"process_engineer": "u-eng-01", "analyst": "u-ana-01"}
BINDINGS = ("JSONRPC", "HTTP+JSON")
PATIENCE_S = 60.0


def until(holds: Callable[[], Any]) -> Any:
    """Wait until something holds, and return it; a test that waits in vain fails."""
    end = time.monotonic() + PATIENCE_S
    while not (found := holds()):
        if time.monotonic() > end:
            raise AssertionError("waited in vain")
        time.sleep(0.005)
    return found


@dataclass
class Held:
    """The executions of one agent: how many began, and whether they wait."""

    loop: asyncio.AbstractEventLoop
    began: int = 0
    stopped: int = 0
    percent: float = -1.0
    _gate: asyncio.Event = field(default_factory=asyncio.Event)

    def release(self) -> None:
        self.loop.call_soon_threadsafe(self._gate.set)

    async def __call__(self, inner: Any, *args: Any) -> Any:
        self.began += 1
        report(lambda: self.percent)
        try:
            await self._gate.wait()
        except asyncio.CancelledError:
            self.stopped += 1
            raise
        return await inner(*args)


@contextmanager
def held(agent: RunningAgent) -> Iterator[Held]:
    """Until the block ends every execution waits for ``release``."""
    holding, inner = Held(agent.loop), path.run

    async def run(*args: Any) -> Any:
        return await holding(inner, *args)

    path.run = run
    try:
        yield holding
    finally:
        holding.release()
        path.run = inner


class QuickAsker(Asker):
    """Reads descriptors and people once."""

    @cached_property
    def _found(self) -> Principal:
        return super()._principal()

    def _principal(self) -> Principal:
        return self._found

    @cached_property
    def _scopes(self) -> dict[tuple[str, ...], Scope]:
        return {}

    def scope(self, dataset: str, *capabilities: str, **changes: Any) -> Scope:
        place = (dataset, *capabilities)
        if place not in self._scopes:
            self._scopes[place] = super().scope(dataset, *capabilities)
        return replace(self._scopes[place], **changes)


@dataclass
class Client:
    """One person's client on one binding. Arguments that nobody asked with before make a miss."""

    agent: RunningAgent
    binding: str = "JSONRPC"
    person: str = "process_engineer"
    asker: QuickAsker = field(init=False)

    def __post_init__(self) -> None:
        self.asker = QuickAsker(self.agent.settings, self.agent.url, principal=self.person)

    def call(self, arguments: dict[str, Any], capability: str = CAPABILITY) -> bytes:
        return self.asker.call(DATASET, capability, arguments)

    def leaf(self, operation: Operation, capability: str = CAPABILITY, **scope: Any) -> str:
        return self.asker.grant(self.asker.scope(DATASET, capability, **scope), operation)

    def leaf_for(self, part: bytes, method: str = "SendMessage", capability: str = CAPABILITY) -> str:
        return self.leaf(Operation(method, call_hash=sha256_hex(part)), capability)

    def headers(self, grant: str | None = None, person: str | None = None) -> dict[str, str]:
        settings, who = self.agent.settings, PEOPLE[person or self.person]
        assertion = client_assertion(
            self.asker.holder,
            agent_id=settings.root_id,
            audience=settings.agent_id,
            now=time.time(),
            person=(settings.issuer_url, "acme", who),
        )
        return self.asker.headers(grant, authenticated=False) | {"Authorization": f"Bearer {assertion}"}

    def send(
        self, part: bytes, grant: str | None = None, *, task: dict[str, Any] | None = None, now: bool = False
    ) -> dict[str, Any]:
        """The task of a message, or the error, with its HTTP or JSON-RPC code as ``code``."""
        grant = self.leaf_for(part) if grant is None else grant
        return self.post("SendMessage", self.params(part, task, now), self.headers(grant))

    def say(self, words: str, task: dict[str, Any] | None = None) -> dict[str, Any]:
        grant = self.leaf(Operation("SendMessage", negotiate=True))
        spoken = {"messageId": new_id("msg"), "role": "ROLE_USER", "parts": [{"text": words}]}
        return self.post("SendMessage", {"message": spoken | _place(task)}, self.headers(grant))

    def get(self, task_id: str, person: str | None = None) -> dict[str, Any]:
        return self.post("GetTask", {"id": task_id}, self.headers(person=person))

    def cancel(self, task_id: str, person: str | None = None) -> dict[str, Any]:
        return self.post("CancelTask", {"id": task_id}, self.headers(person=person))

    def params(self, part: bytes, task: dict[str, Any] | None = None, now: bool = False) -> dict[str, Any]:
        params: dict[str, Any] = {"message": message(part) | _place(task)}
        return params | {"configuration": {"returnImmediately": True}} if now else params

    def post(self, method: str, params: dict[str, Any], headers: dict[str, str]) -> dict[str, Any]:
        verb, url, body = self._request(method, params)
        return self._read(httpx.request(verb, url, json=body, headers=headers, timeout=PATIENCE_S))

    @contextmanager
    def stream(self, method: str, params: dict[str, Any], headers: dict[str, str]) -> Iterator[Listener]:
        """Events as they come; the connection is dropped where the block is left before the last."""
        verb, url, body = self._request(method, params)
        with httpx.stream(verb, url, json=body, headers=headers, timeout=PATIENCE_S) as reply:
            yield Listener(self._events(reply))

    @contextmanager
    def sent(self, part: bytes, task: dict[str, Any] | None = None) -> Iterator[Listener]:
        """A call as a stream."""
        grant = self.leaf_for(part, "SendStreamingMessage")
        with self.stream("SendStreamingMessage", self.params(part, task), self.headers(grant)) as events:
            yield events

    @contextmanager
    def followed(self, task_id: str, *, rows: bool = True, **leaf: Any) -> Iterator[Listener]:
        """A subscription, with a leaf for the task's rows or without."""
        grant = self.leaf(Operation("SubscribeToTask", task=task_id), **leaf) if rows else None
        with self.stream("SubscribeToTask", {"id": task_id}, self.headers(grant)) as events:
            yield events

    def _request(self, method: str, params: dict[str, Any]) -> tuple[str, str, Any]:
        if self.binding == "JSONRPC":
            return "POST", self.agent.url + "/", {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        verb, path, body = _REST[method]
        return verb, self.agent.url + path.format(**params), params if body else None

    def _events(self, reply: httpx.Response) -> Iterator[dict[str, Any]]:
        if "text/event-stream" not in reply.headers["content-type"]:
            reply.read()
            yield self._read(reply)
            return
        for line in reply.iter_lines():
            if line.startswith("data: "):
                event = json.loads(line[6:])
                yield event.get("result", event) if self.binding == "JSONRPC" else event

    def _read(self, reply: httpx.Response) -> dict[str, Any]:
        """A task or an event; an error as ``{"code", "message"}``, the code as JSON-RPC has it."""
        body = reply.json()
        if "error" in body:
            error = body["error"]
            code = error["code"] if self.binding == "JSONRPC" else _CODES[error["details"][0]["reason"]]
            return {"code": code, "message": error["message"]}
        found = body["result"] if self.binding == "JSONRPC" else body
        return dict(found.get("task", found))


_REST = {
    "SendMessage": ("POST", "/message:send", True),
    "SendStreamingMessage": ("POST", "/message:stream", True),
    "GetTask": ("GET", "/tasks/{id}", False),
    "CancelTask": ("POST", "/tasks/{id}:cancel", False),
    "SubscribeToTask": ("GET", "/tasks/{id}:subscribe", False),
}
_CODES = {
    "TASK_NOT_FOUND": -32001,
    "TASK_NOT_CANCELABLE": -32002,
    "UNSUPPORTED_OPERATION": -32004,
    "EXTENSION_SUPPORT_REQUIRED": -32008,
    "INVALID_PARAMS": -32602,
}


class Listener:
    """One stream of events, read one after the other."""

    def __init__(self, events: Iterator[dict[str, Any]]) -> None:
        self._events = events
        self.seen: list[dict[str, Any]] = []

    def next(self) -> dict[str, Any]:
        self.seen.append(next(self._events))
        return self.seen[-1]

    def rest(self) -> Ended:
        """What the stream ends with."""
        self.seen.extend(self._events)
        last = self.seen[-1]["statusUpdate"]
        artifacts = [event["artifactUpdate"]["artifact"] for event in self.seen if "artifactUpdate" in event]
        return Ended(last["status"]["state"], last.get("metadata", {}), {item["name"]: item for item in artifacts})


@dataclass
class Ended:
    state: str
    metadata: dict[str, Any]
    artifacts: dict[str, dict[str, Any]]

    @property
    def reason(self) -> str:
        return str(self.metadata[DECISION_KEY]["reason"])

    def raw(self, name: str) -> bytes:
        return base64.b64decode(self.artifacts[name]["parts"][0]["raw"])


def state_of(task: dict[str, Any]) -> str:
    return str(task["status"]["state"])


def proposal_of(task: dict[str, Any]) -> dict[str, Any]:
    return dict(json.loads(base64.b64decode(task["status"]["message"]["parts"][1]["raw"])))


def completion(task: dict[str, Any], **arguments: Any) -> bytes:
    """The bytes that complete a task's call."""
    return json.dumps({"task": task["id"], "arguments": arguments}).encode()


def _place(task: dict[str, Any] | None) -> dict[str, str]:
    return {} if task is None else {"taskId": task["id"], "contextId": task["contextId"]}
