"""Default deny for the root: one kind of tool, two kinds of agent, and no run that no door began.

What carries a call runs only for the exchange that was admitted, beside what ``ask.prepare`` checks when it leaves:
either wall holds alone. A raising plugin aborts the run, which fails closed. Workflow function nodes pass no plugin
hook, so the other half is that they find nothing to work on unless ``before_run`` let them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.invocation_context import InvocationContext
from google.adk.apps.app import App
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner
from google.adk.sessions.base_session_service import BaseSessionService
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from contract.errors import Category, Component, DatasetAgentError
from contract.verdict import Reason, Verdict
from delegation.mcp_tool import McpTool
from delegation.remote import Delegate, Exchange
from delegation.tool_errors import blocked
from root_agent.propose import is_intent_agent

Begin = Callable[[InvocationContext], str | None]
"""Begins the asking of an invocation, or says in one sentence why none begins."""


ADMITTED: ContextVar[Exchange | None] = ContextVar("dataset_agent_root_admitted", default=None)
"""The one exchange that may be carried; empty everywhere but in ``admitting``."""


@contextmanager
def admitting(exchange: Exchange, verdict: Verdict) -> Iterator[None]:
    """While it lasts this exchange may be carried, if ``verdict``, the asking's, is GRANTED."""
    token = ADMITTED.set(exchange if verdict is Verdict.GRANTED else None)
    try:
        yield
    finally:
        ADMITTED.reset(token)


class DatasetPolicyPlugin(BasePlugin):
    """Lets the delegate, the governed MCP tool and the intent agent run, and nothing else; every other tool is blocked."""

    def __init__(self, begin: Begin) -> None:
        super().__init__(name="dataset_policy")
        self._begin = begin

    async def before_run_callback(self, *, invocation_context: InvocationContext) -> types.Content | None:
        problem = self._begin(invocation_context)
        return None if problem is None else _said(problem)

    async def before_agent_callback(
        self, *, agent: BaseAgent, callback_context: CallbackContext
    ) -> types.Content | None:
        # By exact type: a subclass could override what makes these two safe. ADK runs a copy, so its exchange is compared.
        if is_intent_agent(agent):
            return None
        if type(agent) is not Delegate:
            return _said("blocked: the agent is not part of the asking path")
        if agent.exchange is not ADMITTED.get():
            return _said(f"blocked: {Reason.NO_ACTIVE_GRANT}")
        return None

    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> LlmResponse | None:
        if llm_request.tools_dict or (llm_request.config and llm_request.config.tools):
            return LlmResponse(error_code="GuardrailBlocked", error_message="a model of the root agent gets no tools")
        return None

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> dict[str, Any] | None:
        # By exact type, as for agents; what it calls was admitted before, and is no argument.
        if type(tool) is not McpTool:
            return blocked(Reason.UNREGISTERED_CAPABILITY, "the root agent has no tools")
        if tool.exchange is not ADMITTED.get():
            return blocked(Reason.NO_ACTIVE_GRANT, "no admitted call is active")
        if tool_args:
            return blocked(Reason.ARGUMENTS_INVALID, "the admitted call carries its own arguments")
        return None

    async def on_tool_error_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext, error: Exception
    ) -> dict[str, Any] | None:
        """An error stays an error: answering here would turn a failure into a result."""
        return None


def require_policy(plugins: Sequence[BasePlugin]) -> None:
    """Raise where a Runner would be built without the policy plugin in first place."""
    if not plugins or type(plugins[0]) is not DatasetPolicyPlugin:
        raise DatasetAgentError(
            Component.ROOT_AGENT,
            Category.CONFIGURATION,
            "root_agent.plugin.missing",
            "a Runner of the root agent needs DatasetPolicyPlugin as its first plugin",
        )


def open_runner(app: App, sessions: BaseSessionService) -> Runner:
    """The only place of the root that builds a Runner."""
    require_policy(app.plugins)
    return Runner(app=app, session_service=sessions)


def _said(text: str) -> types.Content:
    return types.Content(role="model", parts=[types.Part(text=text)])
