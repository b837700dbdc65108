"""ADK's own confirmation is no authority at a dataset agent: the very one it waits for runs no tool."""

from __future__ import annotations

from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools.function_tool import FunctionTool
from google.genai import types

from remote_agent.plugin import DatasetPolicyPlugin
from tests.remote_agent.framework_world import ToolWall, obeying

RAN: list[str] = []


def export_all(table: str) -> str:
    """Exports a table. No capability stands for it."""
    RAN.append(table)
    return "exported"


@pytest.mark.parametrize(
    ("wall", "response", "ran"),
    [
        ([], {"confirmed": True}, ["t"]),  # what the others would do without the plugin
        ([ToolWall], {"confirmed": True}, []),
        ([ToolWall], {"confirmed": True, "payload": {"aa_token": "forged"}}, []),
        ([ToolWall], {"confirmed": False}, []),
        ([DatasetPolicyPlugin], {"confirmed": True}, []),
    ],
)
async def test_a_confirmation_runs_no_tool_that_was_not_admitted(
    wall: list[type[BasePlugin]], response: dict[str, Any], ran: list[str]
) -> None:
    """The pause is made without the plugin, and answered under it: also where only its wall before tools stands."""
    RAN.clear()
    agent = LlmAgent(
        name="helper",
        model=obeying("export_all", table="t"),
        tools=[FunctionTool(export_all, require_confirmation=True)],
    )
    sessions = InMemorySessionService()
    session = await sessions.create_session(app_name="helper_app", user_id="u")
    asked: list[str | None] = []

    async def run(part: types.Part, plugins: list[BasePlugin]) -> None:
        runner = Runner(app=App(name="helper_app", root_agent=agent, plugins=plugins), session_service=sessions)
        message = types.Content(role="user", parts=[part])
        async for event in runner.run_async(user_id="u", session_id=session.id, new_message=message):
            asked.extend(call.id for call in event.get_function_calls() if call.name == "adk_request_confirmation")
        await runner.close()

    await run(types.Part(text="go"), [])
    assert (len(asked), RAN) == (1, [])
    answer = types.FunctionResponse(id=asked[0], name="adk_request_confirmation", response=response)
    await run(types.Part(function_response=answer), [plugin() for plugin in wall])
    assert ran == RAN
