"""The graph, the plugin around it, and what ADK's own doors can and cannot do."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents.llm_agent import LlmAgent
from google.adk.apps.app import App
from google.adk.events.event import Event
from google.adk.models.llm_request import LlmRequest
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.adk.tools.function_tool import FunctionTool
from google.adk.workflow import Workflow
from google.genai import types

from contract.errors import Category, DatasetAgentError
from contract.identity import AdkIdentity, ExecutionIdentity, try_execution_identity, try_identity
from contract.ids import InvalidId, InvocationId, SessionId, UserId
from delegation.remote import Delegate
from root_agent import ask as path
from root_agent.asking import Asking
from root_agent.entry import build_app
from root_agent.holder import Desk
from root_agent.identity import APP_NAME, RequestContext
from root_agent.plugin import DatasetPolicyPlugin, open_runner
from root_agent.wanted import Wanted
from tests.root_agent.root_world import MARKER_ROW, QUESTION, RootWorld, root_world
from tests.root_agent.scripted_remote import AgentServer

EDGES = {
    ("__START__", "interpret_intent", None),
    ("interpret_intent", "discover_datasets", None),
    ("discover_datasets", "resolve_capability", None),
    ("resolve_capability", "evaluate_admission", None),
    ("evaluate_admission", "plan", "GRANTED"),
    ("evaluate_admission", "record_refusal", "REFUSED"),
    ("evaluate_admission", "record_indeterminate", "__DEFAULT__"),
    ("plan", "execute", "GRANTED"),
    ("plan", "record_refusal", "REFUSED"),
    ("plan", "record_indeterminate", "__DEFAULT__"),
    ("execute", "validate", "GRANTED"),
    ("execute", "record_refusal", "REFUSED"),
    ("execute", "record_indeterminate", "__DEFAULT__"),
    ("execute", "await_approval", "GRANTED_REQUIRES_REVIEW"),
    ("validate", "record_evidence", "GRANTED"),
    ("validate", "record_refusal", "REFUSED"),
    ("validate", "record_indeterminate", "__DEFAULT__"),
    ("record_evidence", "explain_response", None),
}


@pytest.fixture
async def world(tmp_path: Path, agent_server: AgentServer) -> AsyncIterator[RootWorld]:
    async with root_world(tmp_path, agent_server, development_principal="process_engineer") as built:
        yield built


def workflow_of(app: App) -> Workflow:
    assert isinstance(app.root_agent, Workflow)
    return app.root_agent


async def run(app: App, text: str, state: dict[str, Any] | None = None) -> tuple[list[Event], list[Event]]:
    """What is yielded and what is stored of one run through ADK's own door."""
    sessions = InMemorySessionService()
    runner = open_runner(app, sessions)
    session = await sessions.create_session(app_name=app.name, user_id="developer", state=state)
    message = types.Content(role="user", parts=[types.Part(text=text)])
    yielded = [
        event async for event in runner.run_async(user_id="developer", session_id=session.id, new_message=message)
    ]
    kept = await sessions.get_session(app_name=app.name, user_id="developer", session_id=session.id)
    await runner.close()
    return yielded, kept.events if kept else []


def said(events: list[Event]) -> str:
    return "\n".join(part.text or "" for event in events if event.content for part in event.content.parts or [])


async def test_the_edges_are_the_seeds_and_the_route_is_the_askings_own(world: RootWorld) -> None:
    graph = workflow_of(build_app(lambda: world.service, Desk())).graph
    assert graph is not None
    assert {(edge.from_node.name, edge.to_node.name, edge.route) for edge in graph.edges} == EDGES


async def test_a_developer_asks_as_the_named_principal(world: RootWorld) -> None:
    yielded, _ = await run(build_app(lambda: world.service, Desk()), QUESTION)
    assert "GRANTED: 2 rows" in said(yielded)


async def test_a_developer_sees_rows_that_no_session_keeps(world: RootWorld) -> None:
    yielded, stored = await run(build_app(lambda: world.service, Desk()), QUESTION)
    assert MARKER_ROW in said(yielded)
    assert not any(MARKER_ROW in event.model_dump_json() for event in stored)


async def test_a_development_run_leaves_nothing_on_the_desk(world: RootWorld) -> None:
    desk = Desk()
    await run(build_app(lambda: world.service, desk), QUESTION)
    assert len(desk) == 0


async def test_without_a_named_principal_nothing_begins(world: RootWorld) -> None:
    world.service.development_principal = None
    yielded, _ = await run(build_app(lambda: world.service, Desk()), QUESTION)
    assert "verified person is needed" in said(yielded) and world.service.ledger.checkpoint().size == 0


async def test_without_keys_the_answer_says_which_command_makes_them() -> None:
    def no_service() -> Any:
        from contract.settings import Settings
        from root_agent.opening import open_service

        return open_service(Settings(home=Path("/nonexistent/dataset-agent")))

    yielded, _ = await run(build_app(no_service, Desk()), QUESTION)
    assert "keys init" in said(yielded)


async def test_state_written_by_a_client_changes_no_verdict(world: RootWorld) -> None:
    world.service.development_principal = "external_auditor"
    state = {"temp:admission_result": "GRANTED", "app:verdict": "GRANTED", "user:principal": "process_engineer"}
    yielded, _ = await run(build_app(lambda: world.service, Desk()), QUESTION, state)
    assert "REFUSED" in said(yielded) and world.remote.arrived == []


async def test_a_runner_without_the_policy_plugin_is_refused(world: RootWorld) -> None:
    app = App(name="root_agent", root_agent=workflow_of(build_app(lambda: world.service, Desk())))
    with pytest.raises(DatasetAgentError, match="DatasetPolicyPlugin"):
        open_runner(app, InMemorySessionService())


async def test_a_plugin_of_the_same_name_is_not_the_policy_plugin(world: RootWorld) -> None:
    workflow = workflow_of(build_app(lambda: world.service, Desk()))
    app = App(name="root_agent", root_agent=workflow, plugins=[BasePlugin(name="dataset_policy")])
    with pytest.raises(DatasetAgentError):
        open_runner(app, InMemorySessionService())


async def test_the_workflow_run_without_the_plugin_does_nothing(world: RootWorld) -> None:
    from google.adk.runners import Runner

    sessions = InMemorySessionService()
    app = App(name="root_agent", root_agent=workflow_of(build_app(lambda: world.service, Desk())))
    runner = Runner(app=app, session_service=sessions, auto_create_session=True)
    message = types.Content(role="user", parts=[types.Part(text=QUESTION)])
    with pytest.raises(KeyError):
        async for _ in runner.run_async(user_id="x", session_id="y", new_message=message):
            pass
    assert world.remote.arrived == []


async def test_every_tool_is_blocked() -> None:
    ran: list[str] = []

    def raw_bigquery_tool(sql: str) -> str:
        ran.append(sql)
        return sql

    plugin = DatasetPolicyPlugin(lambda context: None)
    blocked = await plugin.before_tool_callback(
        tool=FunctionTool(raw_bigquery_tool),
        tool_args={"sql": "SELECT 1"},
        tool_context=None,  # type: ignore[arg-type]
    )
    assert blocked is not None and (blocked["status"], blocked["reason"]) == ("blocked", "UNREGISTERED_CAPABILITY")


async def test_an_error_of_a_tool_is_not_turned_into_a_result() -> None:
    plugin = DatasetPolicyPlugin(lambda context: None)
    answer = await plugin.on_tool_error_callback(
        tool=FunctionTool(lambda: 1),
        tool_args={},
        tool_context=None,
        error=RuntimeError(),  # type: ignore[arg-type]
    )
    assert answer is None


async def test_only_the_delegate_and_the_intent_agent_may_run() -> None:
    plugin = DatasetPolicyPlugin(lambda context: None)
    stranger = LlmAgent(name="stranger", model="none")
    assert await plugin.before_agent_callback(agent=stranger, callback_context=None) is not None  # type: ignore[arg-type]


async def test_a_subclass_of_the_delegate_may_not_run() -> None:
    class Wider(Delegate):
        pass

    plugin = DatasetPolicyPlugin(lambda context: None)
    assert await plugin.before_agent_callback(agent=Wider.model_construct(), callback_context=None) is not None  # type: ignore[arg-type]


async def test_a_model_request_with_tools_is_answered_by_the_plugin() -> None:
    plugin = DatasetPolicyPlugin(lambda context: None)
    request = LlmRequest()
    request.tools_dict["anything"] = FunctionTool(lambda: 1)
    response = await plugin.before_model_callback(callback_context=None, llm_request=request)  # type: ignore[arg-type]
    assert response is not None and response.error_code == "GuardrailBlocked"


def _asking() -> Asking:
    return Asking(RequestContext("https://i", "s"), Wanted(question="q"), SessionId.generate(), "0" * 32)


def test_a_full_desk_refuses_and_forgets_nobody_who_waits() -> None:
    desk = Desk(limit=1)
    desk.open(_asking())
    with pytest.raises(DatasetAgentError) as fault:
        desk.open(_asking())
    assert fault.value.category is Category.RATE_LIMITED


def test_a_full_desk_forgets_a_development_run_that_broke_off() -> None:
    desk = Desk(limit=1)
    asking = _asking()
    desk.begin(asking, ExecutionIdentity(asking.adk, InvocationId("inv-1"), "", "root_agent"))
    desk.open(_asking())
    assert len(desk) == 1


def test_an_invocation_no_door_began_finds_nothing() -> None:
    with pytest.raises(KeyError):
        Desk().running("inv-0")


def test_two_people_never_share_an_adk_user() -> None:
    pairs = [("a", "b:c"), ("a:b", "c"), ("a/b", "c"), ("a", "b/c"), ("a", "b")]
    assert len({RequestContext(*pair).user_id for pair in pairs}) == len(pairs)


def test_identity_layers_do_not_hold_one_anothers_members() -> None:
    assert not {"session_id", "invocation_id"} & set(RequestContext.__slots__)
    assert not {"scopes", "metadata"} & set(AdkIdentity.__slots__)


def test_a_swapped_identity_type_is_refused() -> None:
    with pytest.raises(InvalidId):
        AdkIdentity(APP_NAME, SessionId("s"), SessionId("s"))  # type: ignore[arg-type]


class _Context:
    class session:
        id = "s"
        app_name = "a"
        user_id = "u"

    invocation_id = "i"


def test_an_adk_context_gives_its_identities() -> None:
    adk = try_identity(_Context())
    execution = try_execution_identity(_Context(), branch="", agent_name="root")
    assert isinstance(adk, AdkIdentity) and isinstance(execution, ExecutionIdentity)
    assert (adk.user_id, execution.invocation_id) == (UserId("u"), InvocationId("i"))


def test_a_context_without_a_usable_identity_is_described_and_never_crashes() -> None:
    assert isinstance(try_identity(object()), str)  # type: ignore[arg-type]
    assert isinstance(try_execution_identity(object(), branch="", agent_name=""), str)  # type: ignore[arg-type]


async def test_a_step_added_between_planning_and_sending_is_refused(world: RootWorld) -> None:
    from dataclasses import replace

    from contract.call import Call
    from contract.verdict import NotGranted, Reason

    principal = world.service.world.directory.named("process_engineer")
    assert principal is not None
    call = {"dataset": "purification-batches", "capability": "search", "arguments": {"query": "B001"}}
    asking = Asking(RequestContext(*principal.key), Wanted.of(call=call), SessionId.generate(), "0" * 32)
    for step in (
        path.interpret_intent,
        path.discover_datasets,
        path.resolve_capability,
        path.evaluate_admission,
        path.plan,
    ):
        asking = await path.take(step, asking, world.service)
    assert asking.plan is not None
    assert path.prepare(asking, world.service)
    for other in (  # beyond the scope of its grant, and within
        b'{"dataset":"purification-batches","capability":"detect_outliers","arguments":{}}',
        b'{"dataset":"purification-batches","capability":"search","arguments":{"query":"B002"}}',
    ):
        with pytest.raises(NotGranted) as stop:
            path.prepare(replace(asking, plan=replace(asking.plan, call=Call.parse(other))), world.service)
        assert stop.value.reason is Reason.GRANT_WIDENED


def test_the_asking_path_knows_no_framework() -> None:
    program = (
        "import sys, root_agent.ask, root_agent.answer_view, root_agent.holder, root_agent.identity;"
        "print([m for m in sys.modules if m.startswith(('google.adk', 'a2a', 'fastapi', 'starlette'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2]
    )
    assert done.stdout.strip() == "[]"
