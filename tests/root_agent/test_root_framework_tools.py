"""What ADK can make run at the root, each through a real Runner under its policy plugin: no agent, no tool, no code."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest
from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.remote_a2a_agent import RemoteA2aAgent
from google.adk.apps.app import App
from google.adk.artifacts import InMemoryArtifactService
from google.adk.code_executors.base_code_executor import BaseCodeExecutor
from google.adk.code_executors.code_execution_utils import CodeExecutionResult
from google.adk.events.event import Event
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.load_artifacts_tool import load_artifacts_tool
from google.adk.tools.transfer_to_agent_tool import TransferToAgentTool
from google.adk.workflow import START, BaseNode, Workflow
from google.genai import types

from root_agent.plugin import DatasetPolicyPlugin
from root_agent.propose import INTENT_AGENT_NAME, Proposed, intent_agent, is_intent_agent

RAN: list[str] = []
GO = types.Content(role="user", parts=[types.Part(text="{}")])


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    RAN.clear()


class Obeying(BaseLlm):
    """Calls the tool it was told to, once."""

    model: str = "obeying"
    part: types.Part
    asked: list[LlmRequest] = []

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self.asked.append(llm_request)
        part = self.part if len(self.asked) == 1 else types.Part(text="GRANTED")
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


def calling(name: str, **args: Any) -> Obeying:
    return Obeying(part=types.Part(function_call=types.FunctionCall(name=name, args=args, id="c1")), asked=[])


def raw_bigquery_tool(sql: str) -> str:
    RAN.append(sql)
    return sql


class ToolWall(DatasetPolicyPlugin):
    """The plugin without its walls before agents and models."""

    async def before_agent_callback(self, **_: Any) -> None:
        return None

    async def before_model_callback(self, **_: Any) -> None:
        return None


class ModelWall(DatasetPolicyPlugin):
    """The plugin without its wall before agents."""

    async def before_agent_callback(self, **_: Any) -> None:
        return None


async def run(node: BaseAgent | BaseNode, kind: type[DatasetPolicyPlugin] = DatasetPolicyPlugin) -> list[Event]:
    runner = Runner(
        app=App(name="probe", root_agent=node, plugins=[kind(lambda _: None)]),
        session_service=InMemorySessionService(),
        artifact_service=InMemoryArtifactService(),
        auto_create_session=True,
    )
    return [event async for event in runner.run_async(user_id="u", session_id="s", new_message=GO)]


TOOLS: dict[str, tuple[BaseTool, dict[str, Any]]] = {
    "raw_bigquery_tool": (FunctionTool(raw_bigquery_tool), {"sql": "SELECT 1"}),
    "load_artifacts": (load_artifacts_tool, {"artifact_names": ["x"]}),
    "transfer_to_agent": (TransferToAgentTool(agent_names=["inner"]), {"agent_name": "inner"}),
    "inner": (
        AgentTool(
            LlmAgent(name="inner", model=calling("raw_bigquery_tool", sql="1"), tools=[raw_bigquery_tool]),
            include_plugins=False,
        ),
        {"request": "go"},
    ),
}


@pytest.mark.parametrize("name", TOOLS)
async def test_a_tool_is_blocked_where_an_agent_and_its_model_were_let_through(name: str) -> None:
    tool, args = TOOLS[name]
    events = await run(LlmAgent(name="x", model=calling(name, **args), tools=[tool]), ToolWall)
    (response,) = [item.response for event in events for item in event.get_function_responses()]
    assert response is not None and (response["status"], response["reason"]) == ("blocked", "UNREGISTERED_CAPABILITY")
    assert RAN == []


async def test_a_model_that_would_get_tools_is_not_asked() -> None:
    model = calling("raw_bigquery_tool", sql="1")
    events = await run(LlmAgent(name="x", model=model, tools=[raw_bigquery_tool]), ModelWall)
    assert model.asked == [] and "GuardrailBlocked" in str(events)


def intruders() -> dict[str, Any]:
    class Executing(BaseCodeExecutor):
        def execute_code(self, invocation_context: Any, code_execution_input: Any) -> CodeExecutionResult:
            RAN.append(code_execution_input.code)
            return CodeExecutionResult(stdout="rows")

    code = Obeying(part=types.Part(text="```python\nopen('/etc/passwd')\n```"), asked=[])
    task = LlmAgent(name="task", mode="task", description="d", model=calling("raw_bigquery_tool", sql="1"))
    return {
        "an agent": LlmAgent(name="x", model=calling("raw_bigquery_tool", sql="1"), tools=[raw_bigquery_tool]),
        "a task": LlmAgent(name="x", model=calling("task"), sub_agents=[task]),
        "code": LlmAgent(name="x", model=code, code_executor=Executing()),
        "code under the intent agent's name": LlmAgent(name=INTENT_AGENT_NAME, model=code, code_executor=Executing()),
        "a remote agent": Workflow(
            name="w", edges=[(START, RemoteA2aAgent(name="r", agent_card="http://127.0.0.1:9/card.json"))]
        ),
    }


@pytest.mark.parametrize("which", intruders())
async def test_no_other_agent_runs(which: str) -> None:
    events = await run(intruders()[which])
    assert RAN == [] and "not part of the asking path" in str(events)


async def test_a_subclass_of_an_agent_is_not_the_intent_agent() -> None:
    class Wider(LlmAgent):
        pass

    honest = intent_agent("none", "q", [], Proposed())
    wider = Wider(
        name=INTENT_AGENT_NAME,
        model="none",
        before_model_callback=honest.before_model_callback,
        after_model_callback=honest.after_model_callback,
    )
    assert not is_intent_agent(wider)


async def test_an_agent_of_the_intent_agents_name_that_acts_by_itself_is_not_it() -> None:
    honest = intent_agent("none", "q", [], Proposed())
    assert is_intent_agent(honest)
    keys = {"output_key": "temp:admission_result", "tools": [raw_bigquery_tool], "code_executor": object(), "name": "x"}
    for name, value in keys.items():
        assert not is_intent_agent(honest.model_copy(update={name: value})), name
    assert not is_intent_agent(honest.model_copy(update={"before_model_callback": None}))
    assert not is_intent_agent(honest.model_copy(update={"after_model_callback": None}))
    assert not is_intent_agent(honest.model_copy(update={"sub_agents": [LlmAgent(name="y", model="none")]}))
