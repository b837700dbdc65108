"""What is no JSON-RPC request is refused at the MCP door in fixed words: nothing of it is repeated, and nothing runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from contract.extension import GRANT_HEADER
from tests.mcp_asker import McpAsker
from tests.running_agent import RunningAgent, agent_home, running_agent

SECRET = "an-argument-that-nobody-repeats"
CALL: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": "search_batches", "arguments": {"query": SECRET}},
}
NO_MESSAGES: list[Any] = [
    [CALL],
    [CALL, {**CALL, "id": 2}],
    [],
    {"x": SECRET},
    SECRET,
    5,
    None,
    {**CALL, "jsonrpc": "1.0"},
    {**CALL, "jsonrpc": SECRET},
    {**CALL, "method": [SECRET]},
    {**CALL, "params": [SECRET]},
    {**CALL, "params": SECRET},
    {**CALL, "id": {"x": SECRET}},
    {**CALL, "id": [SECRET]},
    {**CALL, "id": None},
    {**CALL, "id": True},
    {**CALL, "id": 1.5},
    {"jsonrpc": "2.0", "id": 1, "result": {"x": SECRET}},
    {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": SECRET}},
]


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAgent]:
    folder: Path = tmp_path_factory.mktemp("mcp-bodies")
    with running_agent(agent_home(folder)) as running:
        yield running


@pytest.mark.parametrize("version", ["2024-11-05", "2025-06-18", "2026-07-28"])
def test_what_is_no_message_is_refused_and_not_repeated(
    agent: RunningAgent, version: str, caplog: pytest.LogCaptureFixture
) -> None:
    asker, rows = McpAsker(agent.settings, agent.url), len(agent.rows())
    grant = asker.tool_grant("search", {"query": SECRET})
    headers = {**asker.mcp_headers(grant), "MCP-Protocol-Version": version, "Accept": "application/json"}
    assert GRANT_HEADER in headers
    for body in NO_MESSAGES:
        reply = httpx.post(
            asker.mcp_url(), content=json.dumps(body), headers={**headers, "Content-Type": "application/json"}
        )
        problem = reply.json()
        assert (reply.status_code, problem["code"]) == (400, "remote_agent.mcp.body"), body
        assert SECRET not in reply.text and "pydantic" not in reply.text
    assert SECRET not in caplog.text
    assert len(agent.rows()) == rows


@pytest.mark.parametrize("name", [1, "one"])
def test_a_request_is_answered_under_the_id_that_it_has(agent: RunningAgent, name: object) -> None:
    asker = McpAsker(agent.settings, agent.url)
    headers = {**asker.mcp_headers(), "MCP-Protocol-Version": "2025-06-18", "Accept": "application/json"}
    absent: dict[str, Any] = {}
    for params in (absent, {"params": None}, {"params": absent}):
        body = {"jsonrpc": "2.0", "id": name, "method": "tools/list", **params}
        told = httpx.post(asker.mcp_url(), json=body, headers=headers).json()
        assert told["id"] == name and "search_batches" in {tool["name"] for tool in told["result"]["tools"]}


def test_a_notification_is_taken_and_runs_nothing(agent: RunningAgent) -> None:
    asker, rows = McpAsker(agent.settings, agent.url), len(agent.rows())
    headers = {**asker.mcp_headers(), "MCP-Protocol-Version": "2025-06-18", "Accept": "application/json"}
    for method in ("notifications/initialized", "tools/call"):
        reply = httpx.post(asker.mcp_url(), json={"jsonrpc": "2.0", "method": method}, headers=headers)
        assert (reply.status_code, reply.text) == (202, "")
    assert len(agent.rows()) == rows
