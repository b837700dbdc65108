"""A root agent that asks by an MCP tool, over real loopback HTTP: what it shows, and what becomes of failures."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from contract.errors import DatasetAgentError
from contract.settings import Settings
from contract.verdict import Reason, Verdict
from control_plane.descriptor import DatasetDescriptor
from dataset_agent.login import identity_token
from delegation.mcp_tool import McpTool
from delegation.offer import Offer
from remote_agent import accounting
from remote_agent.outcome import Found
from root_agent.answer_view import to_json
from root_agent.asking import Answer
from root_agent.entry import RootAgent
from root_agent.opening import close_service, open_service
from root_agent.service import Service
from root_agent.wanted import Wanted
from tests.engine_taps import count_all
from tests.mcp_asker import DATASET
from tests.running_agent import RunningAgent, agent_home, running_agent

Change = Callable[[dict[str, Any], dict[str, Any]], Any]
"""What becomes of a reply of the MCP door: from what was asked and the reply to another reply, or a status."""


class Tampering:
    """Stands before an agent and changes what its MCP door says; honest until ``change`` is set."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.change: Change | None = None
        self.asked: list[str] = []
        self.headers: list[dict[str, str]] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith("/mcp/"):
            await self.app(scope, receive, send)
            return
        first = await receive()
        asked = json.loads(first["body"])
        self.asked.append(asked["method"])
        self.headers.append({name.decode(): value.decode() for name, value in scope["headers"]})
        sent: list[Message] = []
        given = [first]

        async def again() -> Message:
            return given.pop() if given else await receive()

        async def keep(message: Message) -> None:
            sent.append(message)

        if self.change is None:
            await self.app(scope, again, send)
            return
        await self.app(scope, again, keep)
        told = self.change(asked, json.loads(sent[1]["body"]))
        status, body = (told, b"{}") if isinstance(told, int) else (200, told)
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(raw)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": raw})


WALL: list[Tampering] = []


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAgent]:
    def wrap(app: Any, _: Any) -> Any:
        WALL[:] = [Tampering(app)]
        return WALL[0]

    with running_agent(agent_home(tmp_path_factory.mktemp("home")), wrap=wrap) as served:
        yield served


@pytest.fixture
def settings(agent: RunningAgent) -> Settings:
    return agent.settings.model_copy(update={"url": agent.url})


@pytest.fixture
async def service(settings: Settings) -> AsyncIterator[Service]:
    opened = open_service(settings)
    yield opened
    await close_service(opened)


@pytest.fixture
async def root(service: Service) -> AsyncIterator[RootAgent]:
    made = RootAgent(service)
    yield made
    await made.close()


@pytest.fixture
def wall(agent: RunningAgent) -> Iterator[Tampering]:
    wall = WALL[0]
    wall.asked.clear()
    wall.headers.clear()
    yield wall
    wall.change = None


@contextmanager
def counted() -> Iterator[list[str]]:
    runs: list[str] = []
    undo = count_all(lambda: runs.append("run"))
    try:
        yield runs
    finally:
        undo()


def compare(first: int) -> dict[str, Any]:
    arguments = {"batch_a": f"B{first:03d}", "batch_b": f"B{first + 1:03d}"}
    return {"dataset": DATASET, "capability": "compare_batches", "arguments": arguments}


async def asked(root: RootAgent, settings: Settings, call: dict[str, Any], **how: Any) -> Answer:
    how.setdefault("via", "mcp")
    return await root.ask(identity_token(settings, how.pop("principal", "process_engineer")), call=call, **how)


async def test_an_answer_by_a_tool_has_rows_verified_provenance_and_one_mcp_call(
    root: RootAgent, settings: Settings, service: Service, wall: Tampering
) -> None:
    told = to_json(await asked(root, settings, compare(1)))
    assert told["verdict"] == "GRANTED"
    assert told["result"]["row_count"] == 2
    assert told["provenance"]["verified"] is True
    (call,) = told["mcp_calls"]
    assert (call["tool"], call["agent"], told["a2a_calls"]) == ("compare_batches", settings.agent_id, [])
    assert wall.asked == ["tools/list", "tools/call"]
    row = list(service.ledger.rows())[-1].cells
    assert (row["tool_origin"], row["verdict"]) == ("MCP", "GRANTED")
    again = to_json(await asked(root, settings, compare(1)))
    assert (again["cache"]["outcome"], again["mcp_calls"], again["attempts"]) == ("HIT", [], 1)


async def test_the_grant_is_in_the_header_of_the_call_alone(
    root: RootAgent, settings: Settings, wall: Tampering
) -> None:
    await asked(root, settings, compare(3))
    listing, call = wall.headers
    assert "execution-grant" in call
    assert "execution-grant" not in listing


async def test_a_question_in_words_goes_by_the_door_that_is_named(root: RootAgent, settings: Settings) -> None:
    words = "Compare the recovery of batches B005 and B006"
    token = identity_token(settings, "process_engineer")
    by_tool = to_json(await root.ask(token, question=words, via="mcp"))
    over_a2a = to_json(await root.ask(token, question=words.replace("B006", "B007"), via="a2a"))
    by_default = to_json(await root.ask(token, question=words.replace("B006", "B008")))
    assert [len(told["mcp_calls"]) for told in (by_tool, over_a2a, by_default)] == [1, 0, 0]
    assert [len(told["a2a_calls"]) for told in (by_tool, over_a2a, by_default)] == [0, 1, 1]


async def test_who_is_refused_reaches_no_door(root: RootAgent, settings: Settings, wall: Tampering) -> None:
    answer = await asked(root, settings, compare(1), principal="external_auditor")
    assert (answer.verdict, wall.asked) == (Verdict.REFUSED, [])
    assert to_json(answer)["mcp_calls"] == []


async def test_a_dataset_without_the_door_is_not_asked_by_it(
    root: RootAgent, settings: Settings, wall: Tampering
) -> None:
    call = {"dataset": "chromatography-results", "capability": "search", "arguments": {"query": "x"}}
    answer = await asked(root, settings, call)
    assert (answer.decision.reason, wall.asked) == (Reason.UNREGISTERED_CAPABILITY, [])


def listed(change: Callable[[list[dict[str, Any]]], Any]) -> Change:
    def apply(sent: dict[str, Any], reply: dict[str, Any]) -> Any:
        if sent["method"] == "tools/list":
            change(reply["result"]["tools"])
        return reply

    return apply


def called(change: Callable[[dict[str, Any]], Any]) -> Change:
    def apply(sent: dict[str, Any], reply: dict[str, Any]) -> Any:
        if sent["method"] != "tools/call":
            return reply
        told = change(reply["result"])
        return reply if told is None else told

    return apply


def tool_of(tools: list[dict[str, Any]]) -> dict[str, Any]:
    return next(tool for tool in tools if tool["name"] == "compare_batches")


BEFORE_THE_CALL: dict[str, tuple[Change, Reason]] = {
    "a parameter more": (
        listed(lambda tools: tool_of(tools)["inputSchema"]["properties"].update(sql={"type": "string"})),
        Reason.REMOTE_RESPONSE_INVALID,
    ),
    "a pattern less": (
        listed(lambda tools: tool_of(tools)["inputSchema"]["properties"]["batch_a"].pop("pattern")),
        Reason.REMOTE_RESPONSE_INVALID,
    ),
    "another name": (listed(lambda tools: tool_of(tools).update(name="other")), Reason.REMOTE_RESPONSE_INVALID),
    "no list": (lambda sent, reply: {**reply, "result": {"tools": "all"}}, Reason.REMOTE_RESPONSE_INVALID),
    "no json": (lambda sent, reply: b"<html>", Reason.REMOTE_RESPONSE_INVALID),
    "another id": (lambda sent, reply: {**reply, "id": 9}, Reason.REMOTE_RESPONSE_INVALID),
    "a protocol error": (
        lambda sent, reply: {"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "MARKER"}},
        Reason.REMOTE_FAULT,
    ),
    "500": (lambda sent, reply: 500, Reason.REMOTE_FAULT),
    "503": (lambda sent, reply: 503, Reason.REMOTE_UNAVAILABLE),
}


@pytest.mark.parametrize("case", BEFORE_THE_CALL)
async def test_a_server_that_fails_or_declares_something_else_is_not_called(
    root: RootAgent, settings: Settings, service: Service, wall: Tampering, case: str
) -> None:
    wall.change, reason = BEFORE_THE_CALL[case]
    with counted() as runs:
        answer = await asked(root, settings, compare(20))
    assert (answer.decision.reason, answer.document, runs, wall.asked) == (reason, None, [], ["tools/list"])
    row = list(service.ledger.rows())[-1].cells
    assert (row["reason"], row["rows_returned"]) == (reason.value, None)
    told = to_json(answer)
    assert (told["mcp_calls"], told["remote"]["error"]["reason"]) == ([], reason.value)
    assert "MARKER" not in json.dumps(told)


def meta(result: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = result["_meta"][f"dataset-agent/{name}"]
    return found


AFTER_THE_CALL: dict[str, tuple[Change, Reason]] = {
    "other rows": (
        called(lambda result: result["content"][0].update(text=result["content"][0]["text"].replace("B0", "B9"))),
        Reason.REMOTE_PROVENANCE_INVALID,
    ),
    "no provenance": (
        called(lambda result: result["_meta"].pop("dataset-agent/provenance") and None),
        Reason.REMOTE_RESPONSE_INVALID,
    ),
    "an envelope that is none": (
        called(lambda result: meta(result, "provenance").update(payload=7)),
        Reason.REMOTE_RESPONSE_INVALID,
    ),
    "no decision": (
        called(lambda result: result["_meta"].pop("dataset-agent/decision") and None),
        Reason.REMOTE_RESPONSE_INVALID,
    ),
    "a refusal with rows": (
        called(lambda result: meta(result, "decision").update(verdict="REFUSED", reason="NO_ACTIVE_GRANT")),
        Reason.REMOTE_RESPONSE_INVALID,
    ),
    "an error that is granted": (called(lambda result: result.update(isError=True)), Reason.REMOTE_RESPONSE_INVALID),
    "two contents": (
        called(lambda result: result["content"].append({"type": "text", "text": "x"})),
        Reason.REMOTE_RESPONSE_INVALID,
    ),
    "a picture": (called(lambda result: result["content"][0].update(type="image")), Reason.REMOTE_RESPONSE_INVALID),
    "no text": (called(lambda result: result["content"][0].update(text=7)), Reason.REMOTE_RESPONSE_INVALID),
    "half a character": (
        called(lambda result: b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"\\ud800"}]}}'),
        Reason.REMOTE_RESPONSE_INVALID,
    ),
    "nothing": (called(lambda result: {"jsonrpc": "2.0", "id": 1, "result": None}), Reason.REMOTE_RESPONSE_INVALID),
}


@pytest.mark.parametrize("case", AFTER_THE_CALL)
async def test_a_reply_that_is_not_the_signed_answer_shows_no_row(
    root: RootAgent, settings: Settings, service: Service, wall: Tampering, case: str
) -> None:
    wall.change, reason = AFTER_THE_CALL[case]
    answer = await asked(root, settings, compare(30))
    assert (answer.decision.reason, answer.document) == (reason, None)
    row = list(service.ledger.rows())[-1].cells
    assert (row["reason"], row["rows_returned"]) == (reason.value, None)
    assert to_json(answer)["mcp_calls"] == []


@pytest.mark.parametrize("says", [{"tool_name": "search_batches"}, {"origin": "LOCAL"}])
async def test_provenance_of_another_tool_or_of_none_shows_no_row(
    root: RootAgent, settings: Settings, monkeypatch: pytest.MonkeyPatch, says: dict[str, str]
) -> None:
    """The dataset agent signs that it was asked for something else than the tool that was called."""
    if "origin" in says:
        monkeypatch.setattr(Found, "asked_by", lambda found, request: found)
    else:
        inner = accounting.draft
        monkeypatch.setattr(accounting, "draft", lambda *args, **kwargs: inner(*args, **(kwargs | says)))
    answer = await asked(root, settings, compare(40))
    assert (answer.decision.reason, answer.document) == (Reason.REMOTE_PROVENANCE_INVALID, None)


async def test_a_server_that_is_too_slow_is_an_outcome_with_a_row(settings: Settings, wall: Tampering) -> None:
    service = open_service(settings.model_copy(update={"call_timeout": 1.0}))
    root = RootAgent(service)
    await asked(root, settings, compare(50))  # the card is there

    def slow(sent: dict[str, Any], reply: dict[str, Any]) -> Any:
        time.sleep(1.5)
        return reply

    try:
        wall.change = slow
        answer = await asked(root, settings, compare(51))
        assert answer.decision.reason is Reason.REMOTE_TIMEOUT
        assert list(service.ledger.rows())[-1].cells["reason"] == "REMOTE_TIMEOUT"
    finally:
        await root.close()
        await close_service(service)


async def test_a_refusal_of_the_tool_is_the_remotes_own_decision(
    agent: RunningAgent, root: RootAgent, settings: Settings
) -> None:
    lifecycle = agent.lifecycle
    world = lifecycle.service.world
    await asked(root, settings, compare(60))
    agent.run(_set(lifecycle, replace(world, directory=replace(world.directory, by_identity={}))))
    try:
        answer = await asked(root, settings, compare(61))
    finally:
        agent.run(_set(lifecycle, world))
    assert (answer.verdict, answer.decision.reason) == (Verdict.INDETERMINATE, Reason.UNKNOWN_PRINCIPAL)
    told = to_json(answer)
    assert (told["decision"]["verdict"], told["remote"]["decision"]["reason"]) == ("GRANTED", "UNKNOWN_PRINCIPAL")
    assert told["mcp_calls"] == []


async def _set(lifecycle: Any, world: Any) -> None:
    lifecycle.service.world = world


@pytest.mark.parametrize(
    "how",
    [
        {"via": "smtp"},
        {"via": "mcp", "task": "t-1"},
        {"via": "mcp", "media_type": "application/vnd.apache.arrow.stream"},
    ],
)
def test_what_only_the_other_door_has_is_said_before_anything_is_asked(how: dict[str, Any]) -> None:
    with pytest.raises(DatasetAgentError) as problem:
        Wanted.of(call=compare(1), **how)
    assert problem.value.code == "root_agent.ask.via"


async def test_where_the_publisher_prefers_the_tool_it_is_asked_by_it(
    root: RootAgent, settings: Settings, service: Service
) -> None:
    kept = service.cards.offers

    async def preferring(*place: Any) -> tuple[Offer, ...]:
        def prefers(described: Any) -> Any:
            if not isinstance(described, DatasetDescriptor) or described.dataset != DATASET:
                return described
            changed = tuple(c.model_copy(update={"preferred": "mcp"}) for c in described.capabilities)
            return described.model_copy(update={"capabilities": changed})

        return tuple(replace(offer, descriptor=prefers(offer.descriptor)) for offer in await kept(*place))

    service.cards.offers = preferring  # type: ignore[method-assign]
    by_default = to_json(await asked(root, settings, compare(70), via=None))
    told_otherwise = to_json(await asked(root, settings, compare(71), via="a2a"))
    assert (len(by_default["mcp_calls"]), len(told_otherwise["a2a_calls"])) == (1, 1)


async def test_the_governed_tool_takes_no_argument_and_no_other_class_is_let_through() -> None:
    from root_agent.plugin import DatasetPolicyPlugin, admitting

    class Own(McpTool):
        pass

    plugin = DatasetPolicyPlugin(lambda context: None)
    place: Any = None
    exchange: Any = object()
    tool, own = McpTool(place, exchange, place), Own(place, exchange, place)
    context: Any = None
    assert tool._get_declaration().parameters_json_schema["properties"] == {}
    with admitting(exchange, Verdict.GRANTED):
        assert await plugin.before_tool_callback(tool=tool, tool_args={}, tool_context=context) is None
        for blocked, arguments in ((tool, {"batch_a": "B001"}), (own, {})):
            answer = await plugin.before_tool_callback(tool=blocked, tool_args=arguments, tool_context=context)
            assert answer is not None
            assert answer["status"] == "blocked"
