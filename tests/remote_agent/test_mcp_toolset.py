"""An ADK ``McpToolset`` over a server with 30 tools: filtered to what dataset and person allow, and blocked even so."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any, Final

import pytest
import uvicorn
from google.adk.agents import LlmAgent
from google.adk.tools.mcp_tool.mcp_session_manager import StreamableHTTPConnectionParams
from google.adk.tools.mcp_tool.mcp_toolset import McpToolset
from mcp.server.mcpserver import MCPServer

from contract.settings import SHIPPED_DATASETS
from contract.verdict import Verdict
from control_plane.admission import AdmissionRequest, decide
from control_plane.descriptor import DatasetDescriptor
from control_plane.evaluator import InProcessEvaluator
from control_plane.policy import load_policies
from control_plane.principals import load_directory
from control_plane.registry import load_registry
from control_plane.tools import tools_of
from dataset_agent.process import bind_port, server_settings
from remote_agent.plugin import DatasetPolicyPlugin
from tests.remote_agent.framework_world import ToolWall, obeying, run

ALL: Final = 30
RAN: list[str] = []


def served_tools() -> MCPServer:
    server = MCPServer("thirty")

    def named(name: str) -> Any:
        def tool(value: str = "") -> str:
            RAN.append(name)
            return f"rows of {name}"

        tool.__name__ = name
        return tool

    names = ["search_batches", "compare_batches", "calculate_yield", "detect_outliers", "step_totals"]
    for name in [*names, *(f"more_{n}" for n in range(ALL - len(names)))]:
        server.add_tool(named(name), name=name, description=f"the tool {name}")
    return server


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[str, MCPServer]]:
    made = served_tools()
    listener = bind_port("127.0.0.1", 0)
    running = uvicorn.Server(uvicorn.Config(made.streamable_http_app(stateless_http=True), **server_settings()))
    thread = threading.Thread(target=lambda: running.run(sockets=[listener]), daemon=True)
    thread.start()
    while not running.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", made
    running.should_exit = True
    thread.join(20)


@pytest.fixture(scope="module")
def dataset() -> DatasetDescriptor:
    """The shipped dataset with three more tools: eight of the thirty are named by its descriptor."""
    manifest = load_registry(SHIPPED_DATASETS).datasets["purification-batches"]
    spare = manifest.capabilities[0]
    more = tuple(spare.model_copy(update={"name": f"more_{n}", "mcp_tool_name": f"more_{n}"}) for n in range(3))
    return manifest.model_copy(update={"capabilities": (*manifest.capabilities, *more)})


async def allowed(dataset: DatasetDescriptor, name: str) -> list[str]:
    """The tools that a person may call, each decided like a call."""
    policies = load_policies(SHIPPED_DATASETS / "policies")
    principal = load_directory(SHIPPED_DATASETS / "principals.yaml").named(name)
    assert principal is not None
    # entitled to one that the descriptor does not name, too: it is no tool of the dataset
    principal = principal.__class__(
        **{field: getattr(principal, field) for field in principal.__slots__ if field != "entitlements"},
        entitlements={dataset.dataset: frozenset({"search", "compare_batches", "more_1", "more_9"})},
    )
    evaluator = InProcessEvaluator(policies, 1.0)
    found = []
    for tool in tools_of(dataset).values():
        asked = AdmissionRequest(
            principal=principal,
            dataset=dataset.dataset,
            capability=tool.capability.name,
            descriptor=dataset,
            policy_version=policies.version,
            now=dataset.as_of.timestamp(),
        )
        if (await decide(asked, evaluator)).verdict is Verdict.GRANTED:
            found.append(tool.name)
    return found


def toolset(url: str, names: list[str] | None) -> McpToolset:
    return McpToolset(connection_params=StreamableHTTPConnectionParams(url=url), tool_filter=names)


async def listed(tools: McpToolset) -> list[str]:
    try:
        return [tool.name for tool in await tools.get_tools()]
    finally:
        await tools.close()


async def test_thirty_tools_are_eight_by_the_dataset_and_three_for_the_person(
    server: tuple[str, MCPServer], dataset: DatasetDescriptor
) -> None:
    url, _ = server
    by_dataset, by_person = list(tools_of(dataset)), await allowed(dataset, "process_engineer")
    counts = [len(await listed(toolset(url, names))) for names in (None, by_dataset, by_person)]
    assert counts == [30, 8, 3]
    assert by_person == ["search_batches", "compare_batches", "more_1"]


@pytest.mark.parametrize("wall", [ToolWall, DatasetPolicyPlugin])
@pytest.mark.parametrize("tool", ["compare_batches", "more_20"])
async def test_a_tool_of_a_toolset_is_blocked_whether_the_filter_lists_it_or_not(
    server: tuple[str, MCPServer], dataset: DatasetDescriptor, tool: str, wall: type[DatasetPolicyPlugin]
) -> None:
    """The filter makes the surface small; what runs is what was admitted, and that is never a tool of a toolset."""
    RAN.clear()
    for names in (None, await allowed(dataset, "process_engineer")):
        tools = toolset(server[0], names)
        agent = LlmAgent(name="x", model=obeying(tool, value="x"), tools=[tools])
        unlisted = names is not None and tool not in names
        try:
            told = str(await run(agent, wall()))
        except ValueError:  # no such tool, says ADK
            told = "" if unlisted else "nothing was called"
        finally:
            await tools.close()
        reason = "UNREGISTERED_CAPABILITY" if wall is ToolWall else "NO_ACTIVE_GRANT"  # its agent does not even begin
        assert unlisted or reason in told
    assert RAN == []


async def test_a_filtered_out_tool_that_is_called_all_the_same_is_blocked(server: tuple[str, MCPServer]) -> None:
    """By somebody who holds the tool object itself, past the filter."""
    RAN.clear()
    everything = toolset(server[0], None)
    held = next(tool for tool in await everything.get_tools() if tool.name == "more_20")
    context: Any = type("Context", (), {"session": type("Session", (), {"id": "s"})()})()
    block = await DatasetPolicyPlugin().before_tool_callback(tool=held, tool_args={}, tool_context=context)
    await everything.close()
    assert block is not None
    assert (block["status"], block["reason"], RAN) == ("blocked", "UNREGISTERED_CAPABILITY", [])


async def test_a_tool_that_the_server_newly_offers_is_on_no_surface_until_a_descriptor_names_it(
    server: tuple[str, MCPServer], dataset: DatasetDescriptor
) -> None:
    url, made = server
    made.add_tool(lambda value="": RAN.append("new") or "rows", name="brand_new", description="new")
    try:
        assert "brand_new" in await listed(toolset(url, None))
        assert "brand_new" not in await listed(toolset(url, list(tools_of(dataset))))
        spare = dataset.capabilities[0]
        named = dataset.model_copy(
            update={
                "capabilities": (
                    *dataset.capabilities,
                    spare.model_copy(update={"name": "brand_new", "mcp_tool_name": "brand_new"}),
                )
            }
        )
        assert "brand_new" in await listed(toolset(url, list(tools_of(named))))
    finally:
        made.remove_tool("brand_new")
