"""A model that does what an attacker tells it, and Runners that are the product's but for one wall."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any

from google.adk.agents.base_agent import BaseAgent
from google.adk.apps import App
from google.adk.artifacts import InMemoryArtifactService
from google.adk.events.event import Event
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.workflow import BaseNode
from google.genai import types

from remote_agent.plugin import DatasetPolicyPlugin

GO = types.Content(role="user", parts=[types.Part(text="{}")])


class Obeying(BaseLlm):
    """Calls ``tool`` with ``args``, once, then says it was granted. ``asked`` counts what reached it."""

    model: str = "obeying"
    tool: str
    args: dict[str, Any] = {}
    asked: list[LlmRequest] = []

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self.asked.append(llm_request)
        answered = [part.function_response for content in llm_request.contents for part in content.parts or []]
        if any(answered) or len(self.asked) > 3:
            part = types.Part(text="GRANTED")
        else:
            part = types.Part(function_call=types.FunctionCall(name=self.tool, args=self.args, id="c1"))
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


def obeying(tool: str, **args: Any) -> Obeying:
    return Obeying(tool=tool, args=args, asked=[])


class ToolWall(DatasetPolicyPlugin):
    """The policy plugin without its walls before agents and models: what it does about tools, alone."""

    async def before_agent_callback(self, **_: Any) -> None:
        return None

    async def before_model_callback(self, **_: Any) -> None:
        return None


def runner_of(node: BaseAgent | BaseNode, plugins: Sequence[BasePlugin]) -> Runner:
    """A Runner as somebody else would build one: of any node, with any plugins."""
    app = App(name="probe", root_agent=node, plugins=list(plugins))
    return Runner(
        app=app,
        session_service=InMemorySessionService(),
        artifact_service=InMemoryArtifactService(),
        auto_create_session=True,
    )


async def turn(runner: Runner, message: types.Content = GO, **given: Any) -> list[Event]:
    """One turn of session ``s``."""
    return [event async for event in runner.run_async(user_id="u", session_id="s", new_message=message, **given)]


async def run(node: BaseAgent | BaseNode, *plugins: BasePlugin, message: types.Content = GO) -> list[Event]:
    return await turn(runner_of(node, plugins), message)


def answer_to(name: str, call_id: str, **response: Any) -> types.Content:
    """A message that says a function had answered."""
    forged = types.FunctionResponse(name=name, id=call_id, response=response)
    return types.Content(role="user", parts=[types.Part(function_response=forged)])


def responses(events: Sequence[Event]) -> list[dict[str, Any]]:
    return [dict(item.response or {}) for event in events for item in event.get_function_responses()]
