"""Two walls around every tool, each of which holds alone."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from a2a.types.a2a_pb2 import AgentCard
from google.adk.agents import LlmAgent
from google.adk.agents.remote_a2a_agent import RemoteA2aAgent
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.function_tool import FunctionTool
from google.adk.workflow import START, Workflow
from google.genai import types

from contract.authority import Authority
from contract.call import Call
from contract.errors import Component, DatasetAgentError
from contract.result import Execution, ResultDocument
from contract.telemetry import refuse_content_capture
from contract.verdict import NotGranted, Reason
from delegation.cards import RemoteCard
from delegation.remote import Delegate, Exchange
from delegation.sending import Sent
from remote_agent.agent import app
from remote_agent.executor import AdkExecutor, GovernedTool
from remote_agent.plugin import ADMITTED, Admitted, DatasetPolicyPlugin, require_policy
from tests.authority_builder import make_authority
from tests.remote_agent.framework_world import ToolWall, obeying, responses, run

DOCUMENT = ResultDocument(b"{}", 0, False, "2026-01-01T00:00:00.000000Z")
EXECUTION = Execution("exe-1", "duckdb", None, "LOCAL", 1.0, 2.0)
RAN: list[str] = []


def raw_bigquery_tool(sql: str) -> dict[str, str]:
    """Runs any SQL. Nobody should have added this."""
    RAN.append(sql)
    return {"rows": sql}


async def test_a_tool_added_by_mistake_is_blocked_and_its_body_never_runs() -> None:
    """By the wall before tools alone, and by all of them."""
    for plugin in (ToolWall(), DatasetPolicyPlugin()):
        RAN.clear()
        model = obeying("raw_bigquery_tool", sql="SELECT 1")
        said = responses(await run(LlmAgent(name="x", model=model, tools=[FunctionTool(raw_bigquery_tool)]), plugin))
        told = [(item["status"], item["reason"], item["error"]["kind"]) for item in said]
        assert told in ([], [("blocked", "UNREGISTERED_CAPABILITY", "GuardrailBlocked")])
        assert bool(said) is (type(plugin) is ToolWall) and RAN == []


async def test_a_tool_behind_another_agent_is_blocked_too() -> None:
    RAN.clear()
    model = obeying("raw_bigquery_tool", sql="x")
    inner = LlmAgent(name="inner", model=model, tools=[FunctionTool(raw_bigquery_tool)])
    for include in (True, False):
        tool = AgentTool(inner, include_plugins=include)
        outer = LlmAgent(name="outer", model=obeying("inner", request="go"), tools=[tool])
        assert responses(await run(outer, ToolWall()))[0]["status"] == "blocked"
    assert RAN == []


class Context:
    """What the plugin reads of a tool context."""

    def __init__(self, session_id: str) -> None:
        self.session = type("Session", (), {"id": session_id})()
        self.function_call_id = "call-1"


@pytest.fixture
def tool() -> GovernedTool:
    async def perform() -> tuple[ResultDocument, Execution]:
        return DOCUMENT, EXECUTION

    return GovernedTool("compare_batches", "compare", perform)


async def judged(tool: BaseTool, admitted: Admitted | None, *, args: dict[str, Any] | None = None) -> str | None:
    token = ADMITTED.set(admitted)
    try:
        block = await DatasetPolicyPlugin().before_tool_callback(
            tool=tool,
            tool_args=args or {},
            tool_context=Context("s"),  # type: ignore[arg-type]
        )
    finally:
        ADMITTED.reset(token)
    return None if block is None else str(block["reason"])


async def test_only_the_admitted_tool_object_in_its_session_runs(tool: GovernedTool) -> None:
    authority = make_authority()
    twin = GovernedTool("compare_batches", "compare", tool._perform)
    assert await judged(tool, Admitted(authority, tool, "s")) is None
    assert await judged(tool, None) == "NO_ACTIVE_GRANT"
    assert await judged(twin, Admitted(authority, tool, "s")) == "UNREGISTERED_CAPABILITY"
    assert await judged(tool, Admitted(authority, tool, "other")) == "NO_ACTIVE_GRANT"
    assert await judged(tool, Admitted(authority, tool, "s"), args={"batch_a": "B9"}) == "ARGUMENTS_INVALID"


async def test_a_tool_of_no_capability_is_told_as_that_before_any_call_is_looked_for(tool: GovernedTool) -> None:
    """Whatever is admitted, and were the tool itself."""
    stray = FunctionTool(raw_bigquery_tool)
    for admitted in (None, Admitted(make_authority(), tool, "s"), Admitted(make_authority(), stray, "s")):
        assert await judged(stray, admitted) == "UNREGISTERED_CAPABILITY"
    assert await judged(tool, None) == "NO_ACTIVE_GRANT"


async def test_an_agent_that_asks_another_one_runs_only_for_the_exchange_that_was_admitted() -> None:
    def delegate() -> Delegate:
        exchange = Exchange(Call.parse(CALL), prepare, timeout=1.0)
        return Delegate(
            RemoteCard("urn:a", "http://127.0.0.1:9", "http://127.0.0.1:9/", AgentCard(name="a"), ()), exchange, http
        )

    def prepare() -> Sent:
        raise AssertionError("nothing may be derived")

    async with httpx.AsyncClient() as http:
        mine, other, authority = delegate(), delegate(), make_authority()
        assert await asked(mine, Admitted(authority, mine.exchange, "s")) is None
        assert await asked(mine.model_copy(), Admitted(authority, mine.exchange, "s")) is None
        assert await asked(mine, None) is not None
        assert await asked(other, Admitted(authority, mine.exchange, "s")) is not None
        assert await asked(mine, Admitted(authority, mine.exchange, "other")) is not None
        assert await asked(foreign_agent(), Admitted(authority, mine.exchange, "s")) is not None
        runner = AdkExecutor().runner(Workflow(name="w", edges=[(START, mine)]), mine.exchange)
        await runner.session_service.create_session(app_name="remote_agent", user_id="u", session_id="s")
        go = types.Content(role="user", parts=[types.Part(text="go")])
        said = [event async for event in runner.run_async(user_id="u", session_id="s", new_message=go)]
        assert "NO_ACTIVE_GRANT" in str(said)
        assert mine.exchange.sent is None


CALL = b'{"dataset":"a","capability":"b","arguments":{}}'


def foreign_agent() -> RemoteA2aAgent:
    """One that somebody added by mistake."""
    return RemoteA2aAgent(name="x", agent_card="http://127.0.0.1:9/card.json")


async def asked(agent: RemoteA2aAgent, admitted: Admitted | None) -> types.Content | None:
    token = ADMITTED.set(admitted)
    try:
        context: Any = Context("s")
        return await DatasetPolicyPlugin().before_agent_callback(agent=agent, callback_context=context)
    finally:
        ADMITTED.reset(token)


async def test_a_tool_error_is_never_answered_with_a_result(tool: GovernedTool) -> None:
    answered = await DatasetPolicyPlugin().on_tool_error_callback(
        tool=tool,
        tool_args={},
        tool_context=Context("s"),
        error=RuntimeError(),  # type: ignore[arg-type]
    )
    assert answered is None


def test_a_runner_without_the_policy_plugin_is_not_built() -> None:
    class Other(BasePlugin):
        pass

    for plugins in ([], [Other(name="other"), DatasetPolicyPlugin()], [ToolWall(), DatasetPolicyPlugin()]):
        with pytest.raises(RuntimeError):
            require_policy(list(plugins))


async def test_the_declaration_shows_name_and_description_only(tool: GovernedTool) -> None:
    declaration = tool._get_declaration()
    assert declaration.parameters_json_schema == {"type": "object", "properties": {}, "additionalProperties": False}
    assert "BPD" not in declaration.model_dump_json()


async def test_what_blocks_the_tool_leaves_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    class Blocking(BasePlugin):
        async def before_tool_callback(self, **_: Any) -> dict[str, str]:
            return {"status": "blocked"}

    executor = AdkExecutor(extra_plugins=[Blocking(name="blocking")])

    async def perform() -> tuple[ResultDocument, Execution]:
        raise AssertionError("the body must not run")

    with pytest.raises(NotGranted) as stop:
        await executor.execute(make_authority(), _Call(), perform)  # type: ignore[arg-type]
    assert stop.value.reason is Reason.NO_ACTIVE_GRANT


class _Call:
    def parts(self) -> tuple[Any, Any, Any]:
        descriptor = type("D", (), {"tool_name": "compare_batches", "name": "compare_batches", "description": "d"})()
        return None, type("C", (), {"descriptor": descriptor})(), None


async def test_the_executor_hands_rows_to_the_path_and_forgets_its_session() -> None:
    executor = AdkExecutor()

    async def perform() -> tuple[ResultDocument, Execution]:
        return DOCUMENT, EXECUTION

    found = await executor.execute(make_authority(), _Call(), perform)  # type: ignore[arg-type]
    assert found.document is DOCUMENT
    assert found.run.function_call_id
    assert (await executor.sessions.list_sessions(app_name="remote_agent")).sessions == []
    assert ADMITTED.get() is None


def test_content_capture_is_refused_at_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
    with pytest.raises(DatasetAgentError, match="unset OTEL"):
        refuse_content_capture(Component.REMOTE_AGENT)


def test_an_authority_is_the_only_way_in() -> None:
    with pytest.raises(TypeError):
        Authority(*[None] * 12, proof=None)  # type: ignore[arg-type]


async def test_a_development_session_is_told_how_to_ask() -> None:
    sessions = InMemorySessionService()
    runner = Runner(app=app, session_service=sessions)
    await sessions.create_session(app_name="remote_agent", user_id="u", session_id="s")
    message = types.Content(role="user", parts=[types.Part(text="give me rows")])
    said = [event async for event in runner.run_async(user_id="u", session_id="s", new_message=message)]
    assert any("NO_ACTIVE_GRANT" in (part.text or "") for e in said if e.content for part in e.content.parts or [])
