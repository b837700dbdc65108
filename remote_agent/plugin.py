"""Default deny for everything an agent runtime may call: tools, agents and models.

The second wall: the executor checks admission and authority itself, so either wall holds alone.
A raising plugin aborts the run, which fails closed. Function nodes pass no plugin hook; the executor
builds no workflow with one that is not its own.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from contract.authority import Authority
from contract.verdict import Reason
from delegation.remote import Delegate, Exchange
from delegation.tool_errors import blocked


@dataclass(frozen=True, slots=True)
class Admitted:
    """What one run may do: this authority, by this very tool or by one exchange with another agent, in this session.

    A tool runs once for it, and not after ``until`` (POSIX seconds), when its result could not be released any more, nor
    where the revision of the data is not ``stands`` any more. ``calls`` are the ids of the calls that ran, ``blocked`` why
    the admitted target itself did not.
    """

    authority: Authority
    target: BaseTool | Exchange
    session_id: str
    until: float = math.inf
    stands: Callable[[], bool] = field(default=lambda: True, compare=False)
    calls: list[str | None] = field(default_factory=list, compare=False)
    blocked: list[tuple[Reason, str]] = field(default_factory=list, compare=False)

    def block(self, reason: Reason, message: str) -> dict[str, Any]:
        """Block it, and remember why for who waits for it."""
        self.blocked.append((reason, message))
        return blocked(reason, message)


ADMITTED: ContextVar[Admitted | None] = ContextVar("dataset_agent_admitted", default=None)
"""Set by the executor around one run; empty everywhere else, so everything else is denied."""


def admitted_in(target: object, session_id: str) -> Admitted | None:
    """What was admitted for this very tool or exchange in this session; ``None`` where nothing was."""
    admitted = ADMITTED.get()
    if admitted is None or admitted.target is not target or admitted.session_id != session_id:
        return None
    return admitted


@dataclass(frozen=True, slots=True)
class Ran:
    """Which run a tool ran in, as session, invocation and function call, and what it calls its execution."""

    ids: tuple[str, str, str | None]
    execution_id: str


class RegisteredTool(BaseTool):
    """A tool that stands for a capability. The executor makes them, one for one admitted call, and nobody else does."""

    def ran_in(self) -> Ran | None:
        """Where it ran; ``None`` where it did not."""
        return None


class DatasetPolicyPlugin(BasePlugin):
    """Lets exactly the admitted tool or exchange run, once admitted, and blocks every other call.

    No agent runs but the delegate of an admitted exchange, and no model is asked: a dataset agent has
    none. So sub-agents, tasks, code executors and transfers have nobody to begin them. Framework tools
    (transfer, confirmation, finish, artifact loaders) are blocked like any unregistered tool.
    Identity is the registered object, not its name. What is looked at first is whether a tool is one of
    a capability, then whether a call is admitted here and its grant not over, then whether it is that call's, and
    whether its revision is served.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        super().__init__(name="dataset_policy")
        self._clock = clock

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> dict[str, Any] | None:
        if not isinstance(tool, RegisteredTool):
            return blocked(Reason.UNREGISTERED_CAPABILITY, "the tool stands for no capability of this agent")
        admitted = ADMITTED.get()
        if admitted is None:
            return blocked(Reason.NO_ACTIVE_GRANT, "no admitted call is active")
        if tool_context.session.id != admitted.session_id:
            return blocked(Reason.NO_ACTIVE_GRANT, "the admitted call belongs to another session")
        if self._clock() >= admitted.until:
            return admitted.block(Reason.GRANT_EXPIRED, "the grant of the admitted call has expired")
        if tool is not admitted.target:
            return blocked(Reason.UNREGISTERED_CAPABILITY, "the tool is not the admitted capability")
        if not admitted.stands():
            return admitted.block(
                Reason.UNKNOWN_DATASET_REVISION, "the revision that was admitted is not served any more"
            )
        if tool_args:
            return blocked(Reason.ARGUMENTS_INVALID, "the admitted call carries its own arguments")
        if admitted.calls:
            return blocked(Reason.BUDGET_EXCEEDED, "the admitted call has run already")
        admitted.calls.append(tool_context.function_call_id)
        return None

    async def before_agent_callback(
        self, *, agent: BaseAgent, callback_context: CallbackContext
    ) -> types.Content | None:
        """No agent runs but the one that carries an admitted exchange; what it would do is not looked at.

        ADK runs a copy of the agent, so what is compared is the exchange that it holds.
        """
        exchange = agent.exchange if type(agent) is Delegate else None
        if exchange is not None and admitted_in(exchange, callback_context.session.id) is not None:
            return None
        words = f"{Reason.NO_ACTIVE_GRANT}: nothing was admitted that this agent could do"
        return types.Content(role="model", parts=[types.Part(text=words)])

    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> LlmResponse | None:
        """No model is asked here, whatever it would be told."""
        return LlmResponse(error_code="GuardrailBlocked", error_message="a dataset agent asks no model")

    async def on_tool_error_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext, error: Exception
    ) -> dict[str, Any] | None:
        """An error stays an error: answering here would turn a failure into a result."""
        return None


def require_policy(plugins: list[BasePlugin]) -> None:
    """Raise where a Runner would be built without the policy plugin in first place."""
    if not plugins or type(plugins[0]) is not DatasetPolicyPlugin:
        raise RuntimeError("a Runner needs DatasetPolicyPlugin as its first plugin")
