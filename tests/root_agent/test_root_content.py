"""What comes over ADK's own door: roles, kinds of parts, steps and state; and what a model is asked to write."""

from __future__ import annotations

import json
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from a2a.types.a2a_pb2 import Role
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st

from contract.run_limits import Steps
from contract.verdict import Reason, Verdict
from delegation.mcp_tool import McpTool
from delegation.remote import Exchange
from delegation.roles import a2a_role, adk_role
from root_agent import entry
from root_agent.answer_view import to_json
from root_agent.entry import RootAgent, build_app
from root_agent.holder import Desk
from root_agent.intent_schema import intent_schema
from root_agent.plugin import DatasetPolicyPlugin, admitting, open_runner
from tests.root_agent.root_world import QUESTION, RootWorld
from tests.root_agent.scripted_remote import shipped
from tests.root_agent.test_root_model import GOOD, ask, scripted

NOTHING: Any = None
DESCRIPTORS = [shipped("purification-batches"), shipped("chromatography-results")]
PARTS = {
    "file": types.Part(file_data=types.FileData(file_uri="gs://x/y", mime_type="text/plain")),
    "inline data": types.Part(inline_data=types.Blob(data=b"x", mime_type="image/png")),
    "an answer of a function": types.Part(function_response=types.FunctionResponse(name="f", response={})),
    "code": types.Part(executable_code=types.ExecutableCode(code="1", language=types.Language.PYTHON)),
    "nothing": types.Part(),
}


def test_roles_are_mapped_at_the_boundary_and_an_unknown_one_is_never_guessed() -> None:
    assert [a2a_role(role) for role in ("user", "model", "tool")] == [Role.ROLE_USER, Role.ROLE_AGENT, Role.ROLE_AGENT]
    assert [adk_role(role) for role in (Role.ROLE_USER, Role.ROLE_AGENT)] == ["user", "model"]
    assert all(adk_role(a2a_role(role)) == role for role in ("user", "model"))
    for wrong in (None, "", "USER", "system", "function"):
        with pytest.raises(ValueError, match="role"):
            a2a_role(wrong)
    for unknown in (Role.ROLE_UNSPECIFIED, 7):
        with pytest.raises(ValueError, match="role"):
            adk_role(unknown)


@pytest.fixture
async def world(world: RootWorld) -> RootWorld:
    world.service.development_principal = "process_engineer"
    return world


async def run(world: RootWorld, content: types.Content) -> tuple[str, list[Event]]:
    """What is said, and the events, of one run through ADK's own door."""
    app, sessions = build_app(lambda: world.service, Desk()), InMemorySessionService()
    runner = open_runner(app, sessions)
    session = await sessions.create_session(app_name=app.name, user_id="developer")
    events = [e async for e in runner.run_async(user_id="developer", session_id=session.id, new_message=content)]
    await runner.close()
    return "\n".join(p.text or "" for e in events if e.content for p in e.content.parts or []), events


@pytest.mark.parametrize("kind", PARTS)
async def test_a_part_that_is_no_text_stops_the_question_and_is_not_left_out(world: RootWorld, kind: str) -> None:
    content = types.Content(role="user", parts=[types.Part(text=QUESTION), PARTS[kind]])
    said, _ = await run(world, content)
    assert "a question is text" in said and world.remote.arrived == []
    assert world.service.ledger.checkpoint().size == 0


async def test_the_last_event_of_a_run_is_its_answer_and_says_so(world: RootWorld) -> None:
    said, events = await run(world, types.Content(role="user", parts=[types.Part(text=QUESTION)]))
    assert "GRANTED" in said
    output: Any = events[-1].output
    assert events[-1].is_final_response() and output["verdict"] == "GRANTED"
    assert [event.actions.state_delta for event in events if event.actions.state_delta] == []


async def test_a_run_that_takes_more_steps_than_one_may_ends_recorded(
    world: RootWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entry, "Steps", lambda: Steps(3))
    root = RootAgent(world.service)
    answer = await root.ask(world.token("process_engineer"), question=QUESTION)
    await root.close()
    assert (answer.decision.reason, answer.document) == (Reason.BUDGET_EXCEEDED, None)
    assert world.service.ledger.checkpoint().size == 1


async def test_a_subclass_of_the_mcp_tool_is_not_it() -> None:
    """It could do what it likes with what was admitted: by exact type, as for agents."""

    class Wider(McpTool):
        async def run_async(self, *, args: dict[str, Any], tool_context: Any) -> dict[str, Any]:
            raise AssertionError("it must not run")

    exchange, plugin = Exchange(NOTHING, NOTHING, timeout=1.0), DatasetPolicyPlugin(lambda context: None)
    with admitting(exchange, Verdict.GRANTED):
        for tool, reason in (
            (McpTool(NOTHING, exchange, NOTHING), None),
            (Wider(NOTHING, exchange, NOTHING), "UNREGISTERED_CAPABILITY"),
        ):
            block = await plugin.before_tool_callback(tool=tool, tool_args={}, tool_context=NOTHING)
            assert (block and block["reason"]) == reason


async def test_a_model_is_asked_for_the_form_of_a_call_of_what_it_was_shown(world: RootWorld) -> None:
    model = scripted(GOOD)
    assert to_json(await ask(world, model))["verdict"] == "GRANTED"
    config = model.requests[0].config
    assert config.response_mime_type == "application/json"
    jsonschema.Draft202012Validator.check_schema(config.response_json_schema)
    jsonschema.validate(GOOD, config.response_json_schema)
    jsonschema.validate({}, config.response_json_schema)


@pytest.mark.parametrize(
    "wrong",
    [
        GOOD | {"dataset": "clinical-private"},
        GOOD | {"capability": "execute_any_sql"},
        GOOD | {"arguments": {"sql": "SELECT 1"}},
        GOOD | {"verdict": "GRANTED"},
        [],
    ],
)
def test_the_form_has_no_room_for_what_was_not_shown(wrong: Any) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, intent_schema(DESCRIPTORS))


def test_a_parameter_of_two_capabilities_may_take_either_form() -> None:
    schema = intent_schema(DESCRIPTORS)["properties"]["arguments"]["properties"]
    capabilities = [capability for descriptor in DESCRIPTORS for capability in descriptor.capabilities]
    names = {item.name for capability in capabilities for item in capability.parameters}
    names |= {item.name for capability in capabilities for item in capability.periods}
    assert set(schema) == names and json.dumps(schema)


NAMES = st.sampled_from(["temp:a", "user:a", "app:a", "a"])


@given(st.dictionaries(NAMES, st.integers(), min_size=1))
async def test_state_has_the_reach_that_its_prefix_says(delta: dict[str, int]) -> None:
    """Of the sessions that both agents run on: ``temp:`` is gone, the session's own is its own, ``user:`` and ``app:`` reach on."""
    sessions = InMemorySessionService()
    first = await sessions.create_session(app_name="root_agent", user_id="u-1")
    event = Event(author="x", invocation_id="i", actions=EventActions(state_delta=dict(delta)))
    await sessions.append_event(first, event)
    kept = await sessions.get_session(app_name="root_agent", user_id="u-1", session_id=first.id)
    same = await sessions.create_session(app_name="root_agent", user_id="u-1")
    other = await sessions.create_session(app_name="root_agent", user_id="u-2")
    assert kept is not None
    assert kept.state == {name: value for name, value in delta.items() if not name.startswith("temp:")}
    assert same.state == {name: value for name, value in delta.items() if name.startswith(("user:", "app:"))}
    assert other.state == {name: value for name, value in delta.items() if name.startswith("app:")}


async def test_the_row_names_the_events_of_its_run_and_outlives_their_session(world: RootWorld) -> None:
    said, events = await run(world, types.Content(role="user", parts=[types.Part(text=QUESTION)]))
    (row,) = list(world.service.ledger.rows())
    ids = row.event_ids()
    assert "GRANTED" in said and len(ids) == len(set(ids)) == 7
    in_order = [event.id for event in events if event.id in ids]
    assert in_order == ids
    assert row.cells["invocation_id"] == events[0].invocation_id and row.cells["session_id"]
    root = RootAgent(world.service)
    await root.ask(world.token("process_engineer"), question=QUESTION)
    left = (await root._sessions.list_sessions(app_name="root_agent")).sessions
    await root.close()
    rows = list(world.service.ledger.rows())
    assert left == [] and len(rows) == 2 and len(rows[1].event_ids()) == 7
