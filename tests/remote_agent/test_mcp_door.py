"""The MCP door over real loopback HTTP: the same path, decision and proof as over A2A."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import httpx
import httpx2
import pytest
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError

from contract.call import Call, encode_call
from contract.extension import CACHE_KEY, GRANT_HEADER
from contract.mcp import MCP_CACHE, MCP_DECISION, MCP_PROVENANCE
from contract.verdict import NotGranted
from control_plane.policy import load_policies
from delegation.mcp import PROTOCOL, McpFault
from delegation.reply import Outcome, Reply
from evidence.provenance import verify_provenance
from remote_agent import app as app_module
from remote_agent.answer import check_tool
from remote_agent.mcp_door import _scope_of
from remote_agent.service import World
from tests.adversarial.leak_watch import watching
from tests.engine_taps import count_all
from tests.mcp_asker import DATASET, McpAsker
from tests.running_agent import COMPARE, Asker, RunningAgent, agent_home, running_agent

TOOLS = ["search_batches", "compare_batches", "calculate_yield", "detect_outliers", "step_totals"]


@pytest.fixture
def caller(agent: RunningAgent) -> McpAsker:
    return McpAsker(agent.settings, agent.url)


def pair(first: int) -> dict[str, str]:
    return {"batch_a": f"B{first:03d}", "batch_b": f"B{first + 1:03d}"}


def test_a_tool_call_returns_rows_with_provenance_that_says_by_which_tool(
    agent: RunningAgent, caller: McpAsker
) -> None:
    reply = caller.ask_tool("compare_batches", COMPARE)
    assert reply.outcome is Outcome.COMPLETED
    assert json.loads(reply.body)["row_count"] == 2
    grant = caller.tool_grant("compare_batches", COMPARE)
    reply = caller.call_tool("compare_batches", COMPARE, caller.mcp_headers(grant))
    statement = verify_provenance(
        reply.envelope or {},
        agent.lifecycle.service.signer.public_key,
        body=reply.body,
        agent_id=agent.settings.agent_id,
        call_hash=caller.call_hash(DATASET, "compare_batches", COMPARE),
        dataset=DATASET,
        capability="compare_batches",
    )
    told = statement.predicate
    assert (told.execution.tool_origin, told.operation.tool_name) == ("MCP", "compare_batches")
    row = agent.rows()[-1].cells
    assert (row["tool_origin"], row["task_id"], row["cache"]) == ("MCP", reply.task_id, "HIT")


def test_the_sdk_sees_no_grant(caller: McpAsker, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[set[bytes]] = []
    handle = StreamableHTTPSessionManager.handle_request

    async def watched(self: StreamableHTTPSessionManager, scope: Any, receive: Any, send: Any) -> None:
        seen.append({name for name, _ in scope["headers"]})
        await handle(self, scope, receive, send)

    monkeypatch.setattr(StreamableHTTPSessionManager, "handle_request", watched)
    assert caller.ask_tool("compare_batches", COMPARE).outcome is Outcome.COMPLETED
    assert not any(GRANT_HEADER.lower().encode() in names for names in seen)
    assert seen


def test_the_sdk_tells_no_span_what_was_called_or_why_it_was_refused(caller: McpAsker) -> None:
    """It would name its spans by what callers write, and follow the trace that they choose."""
    with watching() as watch:
        assert caller.call_tool("a-name-that-nobody-tells", {}, caller.mcp_headers()).outcome is Outcome.REFUSED
        with pytest.raises(McpFault):
            caller.tools(caller.mcp_headers(caller.discover_grant("external_auditor")))
        spans = watch.exporter.get_finished_spans()
    assert [span.name for span in spans if "mcp" in str(span.instrumentation_scope).lower()] == []
    assert "a-name-that-nobody-tells" not in watch.places()["spans"]


def test_what_did_not_come_by_http_has_no_caller() -> None:
    with pytest.raises(MCPError):
        _scope_of(SimpleNamespace(request=None))  # type: ignore[arg-type]


def test_both_doors_find_what_either_stored_and_each_says_how_it_was_asked(agent: RunningAgent) -> None:
    caller = McpAsker(agent.settings, agent.url)
    task = caller.ask(DATASET, "compare_batches", pair(30))
    reply = caller.ask_tool("compare_batches", pair(30))
    statement = verify_provenance(
        reply.envelope or {}, agent.lifecycle.service.signer.public_key, body=reply.body, dataset=DATASET
    )
    assert task["metadata"][CACHE_KEY]["outcome"] == "MISS"
    assert (statement.predicate.cache.outcome, statement.predicate.execution.tool_origin) == ("HIT", "MCP")
    again = caller.ask(DATASET, "compare_batches", pair(30))
    assert again["metadata"][CACHE_KEY]["outcome"] == "HIT"
    assert agent.rows()[-1].cells["tool_origin"] == "LOCAL"


def test_a_client_sees_the_capabilities_that_are_tools_and_no_policy_in_them(
    agent: RunningAgent, caller: McpAsker
) -> None:
    tools = caller.tools(caller.mcp_headers())
    assert list(tools) == TOOLS
    compare = tools["compare_batches"]
    assert compare["inputSchema"]["required"] == ["batch_a", "batch_b"]
    assert compare["inputSchema"]["properties"]["batch_a"]["pattern"] == "^(?:B[0-9]{3})$"
    assert compare["annotations"] == {"readOnlyHint": True}
    served = agent.lifecycle.service.world.datasets[DATASET].descriptor
    policies = load_policies(agent.settings.datasets / "policies")
    for word in (DATASET, served.revision, served.version, policies.version, "BPD-", "grant", "internal"):
        assert word not in json.dumps(tools)


@pytest.mark.parametrize(
    ("principal", "shown"), [("process_engineer", TOOLS), ("analyst", ["search_batches", "compare_batches"])]
)
def test_under_a_discover_leaf_only_what_its_person_may_ask_is_listed(
    caller: McpAsker, principal: str, shown: list[str]
) -> None:
    assert sorted(caller.tools(caller.mcp_headers(caller.discover_grant(principal)))) == sorted(shown)


@contextmanager
def served_with(agent: RunningAgent, change: Callable[[World], World]) -> Iterator[None]:
    service = agent.lifecycle.service
    world = service.world
    service.world = change(world)
    try:
        yield
    finally:
        service.world = world


def test_a_tool_is_not_listed_for_a_capability_of_its_name_that_another_dataset_has(
    agent: RunningAgent, caller: McpAsker
) -> None:
    held = {DATASET: frozenset({"compare_batches"}), "chromatography-results": frozenset({"search"})}

    def entitled(world: World) -> World:
        people = {
            who: replace(person, entitlements=held) if person.name == "analyst" else person
            for who, person in world.directory.by_identity.items()
        }
        return replace(world, directory=replace(world.directory, by_identity=people))

    with served_with(agent, entitled):
        shown = caller.tools(caller.mcp_headers(caller.discover_grant("analyst")))
    assert list(shown) == ["compare_batches"]


def test_a_tool_of_what_is_described_and_not_served_is_not_listed(agent: RunningAgent, caller: McpAsker) -> None:
    def without(world: World) -> World:
        served = world.datasets[DATASET]
        left = {name: held for name, held in served.capabilities.items() if name != "compare_batches"}
        return replace(world, datasets={**world.datasets, DATASET: replace(served, capabilities=left)})

    with served_with(agent, without):
        assert list(caller.tools(caller.mcp_headers())) == [name for name in TOOLS if name != "compare_batches"]


def test_a_tool_is_called_by_its_own_name_whatever_its_capability_is_called(caller: McpAsker) -> None:
    reply = caller.ask_tool("search_batches", {"query": "fouling"}, capability="search")
    assert reply.outcome is Outcome.COMPLETED


def test_who_may_ask_nothing_is_shown_nothing_and_has_a_row(agent: RunningAgent, caller: McpAsker) -> None:
    before = len(agent.rows())
    with pytest.raises(McpFault):
        caller.tools(caller.mcp_headers(caller.discover_grant("external_auditor")))
    assert [row.cells["reason"] for row in agent.rows()[before:]] == ["INSUFFICIENT_PRIVILEGE"]


def test_a_discover_leaf_works_once(caller: McpAsker) -> None:
    headers = caller.mcp_headers(caller.discover_grant("analyst"))
    assert caller.tools(headers)
    with pytest.raises(McpFault):
        caller.tools(headers)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"batch_a": "B001"}, "ARGUMENTS_MISSING"),
        ({"batch_a": "B001", "batch_b": "nonsense"}, "ARGUMENTS_INVALID"),
        ({**COMPARE, "sql": "SELECT 1"}, "ARGUMENTS_INVALID"),
        ({**COMPARE, "long": 2**60}, "GRANT_OPERATION_MISMATCH"),
    ],
)
def test_arguments_that_are_not_those_of_the_tool_run_nothing(
    agent: RunningAgent, caller: McpAsker, arguments: dict[str, Any], reason: str
) -> None:
    runs: list[str] = []
    undo = count_all(lambda: runs.append("run"))
    try:
        if reason == "GRANT_OPERATION_MISMATCH":  # no RFC 8785 form: bound as an empty call
            reply = raw_call(caller, "compare_batches", arguments, caller.tool_grant("compare_batches", COMPARE))
        else:
            reply = caller.ask_tool("compare_batches", arguments)
    finally:
        undo()
    assert (reply.reason, reply.body, reply.envelope, runs) == (reason, b"", None, [])
    assert agent.rows()[-1].cells["reason"] == reason


def raw_call(caller: McpAsker, tool: str, arguments: dict[str, Any], grant: str | None = None, **params: Any) -> Reply:
    """A call as an SDK of another language may write it."""
    from delegation.mcp_reply import from_tool_result

    meta = {
        "io.modelcontextprotocol/protocolVersion": PROTOCOL,
        "io.modelcontextprotocol/clientCapabilities": {},
        **params.pop("meta", {}),
    }
    body = {"name": tool, "arguments": arguments, "_meta": meta, **params}
    headers = {"MCP-Protocol-Version": PROTOCOL, "Mcp-Method": "tools/call", "Mcp-Name": tool}
    response = httpx.post(
        caller.mcp_url(),
        json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": body},
        headers=headers | caller.mcp_headers(grant),
    )
    return from_tool_result(response.json().get("result"))


def test_a_grant_in_arguments_or_in_meta_is_no_authority(agent: RunningAgent, caller: McpAsker) -> None:
    grant = caller.tool_grant("compare_batches", COMPARE)
    inside = raw_call(caller, "compare_batches", {**COMPARE, "Execution-Grant": grant})
    beside = raw_call(caller, "compare_batches", COMPARE, meta={"Execution-Grant": grant, "grant": grant})
    assert (inside.reason, beside.reason) == ("NO_ACTIVE_GRANT", "NO_ACTIVE_GRANT")
    assert raw_call(caller, "compare_batches", COMPARE, grant).outcome is Outcome.COMPLETED  # and it was not spent


def test_a_leaf_is_good_at_the_door_it_was_made_for(caller: McpAsker) -> None:
    over_a2a = caller.tool_grant("compare_batches", pair(40), method="SendMessage")
    reply = caller.call_tool("compare_batches", pair(40), caller.mcp_headers(over_a2a))
    assert reply.reason == "GRANT_OPERATION_MISMATCH"
    call = caller.call(DATASET, "compare_batches", pair(40))
    sent = caller.send(call, caller.headers(caller.tool_grant("compare_batches", pair(40))))
    assert sent.json()["result"]["task"]["metadata"]["urn:dataset-agent:ext:execution-grant:v1/decision"]["reason"] == (
        "GRANT_OPERATION_MISMATCH"
    )


@pytest.mark.parametrize(
    ("tool", "capability", "reason"),
    [
        ("calculate_yield", "compare_batches", "GRANT_OPERATION_MISMATCH"),
        ("compare_batches_x", "compare_batches", "GRANT_OPERATION_MISMATCH"),
        ("search", "search", "UNREGISTERED_CAPABILITY"),  # a capability whose tool has another name
        ("raw_sql", "raw_sql", "UNREGISTERED_CAPABILITY"),
    ],
)
def test_another_tool_than_the_leaf_names_and_a_name_that_is_no_tool_run_nothing(
    agent: RunningAgent, caller: McpAsker, tool: str, capability: str, reason: str
) -> None:
    arguments = {"query": "fouling"} if capability == "search" else COMPARE
    before = len(agent.rows())
    grant = caller.tool_grant(capability, arguments)
    reply = caller.call_tool(tool, arguments, caller.mcp_headers(grant))
    assert (reply.outcome, reply.reason) == (Outcome.REFUSED, reason)
    (row,) = agent.rows()[before:]
    assert (row.cells["reason"], row.cells["execution_id"]) == (reason, None)


def test_a_call_of_another_capability_than_its_tools_is_refused_whoever_translated_it(agent: RunningAgent) -> None:
    served = agent.lifecycle.service.world.datasets[DATASET]
    call = Call.parse(encode_call(DATASET, "calculate_yield", {}))
    check_tool("calculate_yield", call, served)
    for name, where in (("compare_batches", served), ("calculate_yield", None)):
        with pytest.raises(NotGranted) as stop:
            check_tool(name, call, where)
        assert stop.value.reason == "UNREGISTERED_CAPABILITY"


def test_what_is_no_mcp_server_is_not_there(caller: McpAsker) -> None:
    headers = caller.mcp_headers()
    assert httpx.post(caller.mcp_url("chromatography-results"), json={}, headers=headers).status_code == 404
    assert httpx.post(caller.mcp_url("nothing"), json={}, headers=headers).status_code == 404
    assert httpx.post(caller.mcp_url(), json={}).status_code == 401
    for verb in ("GET", "DELETE"):
        assert httpx.request(verb, caller.mcp_url(), headers=headers).status_code == 405


def test_a_body_with_a_member_twice_is_read_by_nobody(agent: RunningAgent, caller: McpAsker) -> None:
    before = len(agent.rows())
    body = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","name":"b"}}'
    response = httpx.post(caller.mcp_url(), content=body, headers=caller.mcp_headers())
    assert (response.status_code, len(agent.rows())) == (400, before)
    assert response.json()["code"] == "remote_agent.mcp.body"


async def test_the_sdks_own_client_lists_calls_and_reads(agent: RunningAgent) -> None:
    """Of the revision with a handshake; it lists the tools around a call, with the headers of the call."""
    caller = McpAsker(agent.settings, agent.url)
    grant = caller.tool_grant("compare_batches", pair(50))
    async with (
        httpx2.AsyncClient(headers=caller.mcp_headers(grant)) as http,
        streamable_http_client(caller.mcp_url(), http_client=http) as (read, write),
        ClientSession(read, write) as session,
    ):
        hello = await session.initialize()
        assert hello.server_info.name == agent.settings.agent_id
        assert [tool.name for tool in (await session.list_tools()).tools] == TOOLS
        result = await session.call_tool("compare_batches", pair(50))
        assert result.is_error is False
        assert json.loads(result.content[0].text)["row_count"] == 2
        assert set(result.meta or {}) >= {MCP_DECISION, MCP_PROVENANCE, MCP_CACHE}
        replayed = await session.call_tool("compare_batches", pair(50))
        assert replayed.is_error is True
        assert replayed.content[0].text.startswith("REFUSED: GRANT_REPLAYED")


def test_without_the_extra_the_door_says_what_to_install_and_the_other_door_answers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setattr(app_module, "find_spec", lambda name: None)
    with running_agent(agent_home(tmp_path / "home")) as bare:
        caller = McpAsker(bare.settings, bare.url)
        response = httpx.post(caller.mcp_url(), json={}, headers=caller.mcp_headers())
        assert response.json()["code"] == "remote_agent.mcp.not_installed"
        assert "dataset-agent[mcp]" in response.json()["detail"]
        assert Asker(bare.settings, bare.url).ask(DATASET, "compare_batches", COMPARE)["artifacts"]
