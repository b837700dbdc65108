"""The result of an MCP tool call is read as strictly as a reply over A2A: only the door's own form is an answer."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from contract.mcp import MCP_DECISION, MCP_PROVENANCE, MCP_RESULT, MCP_TASK
from contract.verdict import NotGranted, Reason
from delegation.mcp import MAX_TOOLS, McpFault, call_tool, list_tools
from delegation.mcp_reply import from_tool_result
from delegation.mcp_tool import ToolPlace, _check_declared
from delegation.reply import Outcome
from delegation.reply_reader import MAX_ENVELOPE
from tests.control_plane.control_plane_world import make_descriptor, raw_capability
from tests.root_agent.scripted_remote import granted_decision

SCHEMA = {"type": "object", "properties": {}}
REFUSED = granted_decision() | {"verdict": "REFUSED", "reason": "INSUFFICIENT_PRIVILEGE", "rationale": "no"}
TOLD = {
    "sha256": "ab" * 32,
    "size": 2_000_000,
    "row_count": 40_000,
    "truncated": False,
    "as_of": "2026-08-31T00:00:00.000000Z",
    "expires_at": "2026-08-31T00:15:00.000000Z",
}
Edit = Callable[[dict[str, Any]], object]


def sealed(size: int = 8) -> dict[str, Any]:
    payload = base64.b64encode(b"x" * size).decode()
    return {"payload": payload, "payloadType": "application/vnd.in-toto+json", "signatures": [{"sig": "eA=="}]}


def good() -> dict[str, Any]:
    return {
        "content": [{"type": "text", "text": '{"rows":[]}'}],
        "isError": False,
        "_meta": {MCP_DECISION: granted_decision(), MCP_TASK: "task-1", MCP_PROVENANCE: sealed()},
    }


def stored() -> dict[str, Any]:
    link = {"type": "resource_link", "uri": "https://agent.example/results/task-1"}
    link["mimeType"] = "application/vnd.dataset-agent.result+json"
    whole = good()
    whole["content"], whole["_meta"][MCP_RESULT] = [link], TOLD
    return whole


def test_a_whole_result_gives_the_bytes_as_received() -> None:
    reply = from_tool_result(good())
    assert (reply.outcome, reply.body, reply.envelope, reply.task_id) == (
        Outcome.COMPLETED,
        b'{"rows":[]}',
        sealed(),
        "task-1",
    )


def test_a_refusal_keeps_the_remotes_own_reason() -> None:
    refusal = {"content": [], "isError": True, "_meta": {MCP_DECISION: REFUSED}}
    reply = from_tool_result(refusal)
    assert (reply.outcome, reply.reason) == (Outcome.REFUSED, Reason.INSUFFICIENT_PRIVILEGE)


SPOILED: dict[str, Edit] = {
    "no members beside the content": lambda it: it.pop("_meta"),
    "no decision": lambda it: it["_meta"].pop(MCP_DECISION),
    "a decision that is a text": lambda it: it["_meta"].update({MCP_DECISION: "GRANTED"}),
    "an error that was granted": lambda it: it.update(isError=True),
    "a result that was refused": lambda it: it["_meta"].update({MCP_DECISION: REFUSED}),
    "a content that is no list": lambda it: it.update(content={"0": it["content"][0]}),
    "a content that is one object": lambda it: it.update(content={0: it["content"][0]}),
    "two blocks": lambda it: it["content"].append(it["content"][0]),
    "no block": lambda it: it["content"].clear(),
    "a block that is a text": lambda it: it.update(content=["text"]),
    "an image": lambda it: it["content"][0].update(type="image"),
    "a text that is a number": lambda it: it["content"][0].update(text=7),
    "half a character": lambda it: it["content"][0].update(text="\ud800"),
    "no proof": lambda it: it["_meta"].pop(MCP_PROVENANCE),
    "a proof that is no envelope": lambda it: it["_meta"].update({MCP_PROVENANCE: {"payload": 1}}),
    "a proof that is too large": lambda it: it["_meta"].update({MCP_PROVENANCE: sealed(MAX_ENVELOPE + 1)}),
}


@pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED)
def test_another_form_is_no_answer(spoil: Edit) -> None:
    spoiled = copy.deepcopy(good())
    spoil(spoiled)
    reply = from_tool_result(spoiled)
    assert (reply.outcome, reply.reason, reply.body) == (Outcome.INDETERMINATE, Reason.REMOTE_RESPONSE_INVALID, b"")


def test_a_result_without_a_proof_is_told_from_one_whose_proof_is_none() -> None:
    spoiled = good()
    del spoiled["_meta"][MCP_PROVENANCE]
    assert "no provenance beside it" in from_tool_result(spoiled).message


@pytest.mark.parametrize("said", [None, "text", 1, []])
def test_what_is_no_object_is_no_answer(said: object) -> None:
    assert from_tool_result(said).reason is Reason.REMOTE_RESPONSE_INVALID


def test_what_waits_elsewhere_is_of_a_known_media_type() -> None:
    whole = stored()
    whole["content"][0]["mimeType"] = "text/html"
    assert from_tool_result(whole).reason is Reason.REMOTE_RESPONSE_INVALID


def answering(status: int, body: object) -> httpx.AsyncClient:
    """A client whose every request gets this answer, so that nothing but the reading of it is tried."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return httpx.AsyncClient(transport=httpx.MockTransport(lambda _: httpx.Response(status, content=data)))


def wrapped(result: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "result": result}


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (500, wrapped(good()), Reason.REMOTE_FAULT),
        (503, wrapped(good()), Reason.REMOTE_UNAVAILABLE),
        (202, wrapped(good()), Reason.REMOTE_FAULT),
        (200, b"no json", Reason.REMOTE_RESPONSE_INVALID),
        (200, [wrapped(good())], Reason.REMOTE_RESPONSE_INVALID),
        (200, wrapped(good()) | {"jsonrpc": "1.0"}, Reason.REMOTE_RESPONSE_INVALID),
        (200, wrapped(good()) | {"id": 2}, Reason.REMOTE_RESPONSE_INVALID),
        (200, wrapped(good()) | {"error": {"code": 1}}, Reason.REMOTE_FAULT),
    ],
)
async def test_an_answer_that_is_not_the_one_to_this_call_is_a_fault_of_the_remote(
    status: int, body: object, reason: Reason
) -> None:
    async with answering(status, body) as http:
        reply = await call_tool(http, "http://127.0.0.1:9/mcp/d", "t", {}, {}, timeout=5)
    assert (reply.outcome, reply.reason) == (Outcome.INDETERMINATE, reason)


@pytest.mark.parametrize(
    "tools",
    [
        None,
        {"name": "t"},
        "tools",
        [{"name": f"t{number}"} for number in range(MAX_TOOLS + 1)],
        [{"name": "t"}, ["name"]],
        [{"name": "t"}, "t"],
    ],
)
async def test_a_list_of_tools_that_is_none_is_a_fault_of_the_remote(tools: object) -> None:
    async with answering(200, wrapped({"tools": tools})) as http:
        with pytest.raises(McpFault) as fault:
            await list_tools(http, "http://127.0.0.1:9/mcp/d", {}, timeout=5)
    assert fault.value.reply.reason is Reason.REMOTE_RESPONSE_INVALID


async def test_a_list_of_as_many_tools_as_there_may_be_is_read() -> None:
    tools = [{"name": f"t{number}"} for number in range(MAX_TOOLS)]
    async with answering(200, wrapped({"tools": tools})) as http:
        assert len(await list_tools(http, "http://127.0.0.1:9/mcp/d", {}, timeout=5)) == MAX_TOOLS


def test_a_tool_that_the_card_does_not_name_has_no_place() -> None:
    descriptor = make_descriptor(raw_capability(mcp_tool_name="t", tool_name=None), endpoints={"mcp": "/mcp/plants"})
    card: Any = SimpleNamespace(rpc_url="http://127.0.0.1:9/")
    assert ToolPlace.of(card, descriptor, "t").url == "http://127.0.0.1:9/mcp/plants"
    with pytest.raises(NotGranted) as stop:
        ToolPlace.of(card, descriptor, "other")
    assert stop.value.reason is Reason.UNREGISTERED_CAPABILITY


@pytest.mark.parametrize(
    "listed", [{}, {"other": {"inputSchema": SCHEMA}}, {"t": {}}, {"t": {"inputSchema": SCHEMA | {"required": ["x"]}}}]
)
def test_a_tool_that_is_not_declared_as_the_card_says_is_not_called(listed: dict[str, dict[str, Any]]) -> None:
    place = ToolPlace("http://127.0.0.1:9/mcp/d", "t", SCHEMA)
    _check_declared(place, {"t": {"inputSchema": SCHEMA}})
    with pytest.raises(NotGranted) as stop:
        _check_declared(place, listed)
    assert stop.value.reason is Reason.REMOTE_RESPONSE_INVALID
