"""The agent runtime behind a miss, a hop and a negotiation: an ADK Workflow, built after admission.

For an admitted call the workflow has one node, the governed tool of that capability or the
agent that carries one call to another dataset agent, and nothing else; no Runner is made for
another one. The tool asks by itself, beside the plugin, whether it was admitted. Rows go to the waiting
request path, not to ADK: sessions, events and models see an execution id and a row count.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from google.adk.apps import App
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext
from google.adk.workflow import START, BaseNode, FunctionNode, Workflow
from google.genai import types

from contract.authority import Authority
from contract.errors import Component
from contract.identity import AdkIdentity, person_user, try_execution_identity
from contract.ids import AppName, SessionId
from contract.result import CacheOutcome
from contract.run_limits import Steps
from contract.telemetry import refuse_content_capture
from contract.tracing import tracing
from contract.verdict import NotGranted, Reason
from delegation.remote import Delegate, Exchange
from delegation.tool_errors import failed
from grants.claims import SKEW
from remote_agent.outcome import BoundCall, Found, Perform, RunIds
from remote_agent.plugin import ADMITTED, Admitted, Ran, RegisteredTool, admitted_in, require_policy
from remote_agent.result_plugins import RESULT_SCHEMA, in_order, require_order

log = logging.getLogger(__name__)

APP_NAME = AppName("remote_agent")
_START = types.Content(role="user", parts=[types.Part(text="{}")])


class GovernedTool(RegisteredTool):
    """One admitted capability as an ADK tool. It takes no argument: the call was bound before.

    The declaration shows name and description only; dataset, policy and grant are not in it.
    """

    def __init__(self, name: str, description: str, perform: Perform) -> None:
        super().__init__(name=name.replace("-", "_"), description=description)
        self._perform = perform
        self.outcome: Found | None = None
        self.stopped: NotGranted | None = None

    def ran_in(self) -> Ran | None:
        if self.outcome is None:
            return None
        run = self.outcome.run
        return Ran((run.session_id, run.invocation_id, run.function_call_id), self.outcome.execution.execution_id)

    def _get_declaration(self) -> types.FunctionDeclaration:
        return types.FunctionDeclaration(
            name=self.name,
            description=self.description,
            parameters_json_schema={"type": "object", "properties": {}, "additionalProperties": False},
            response_json_schema=dict(RESULT_SCHEMA),
        )

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> dict[str, Any]:
        """Run the call that was bound, once it is admitted. ``args`` are ADK's and reach nothing."""
        try:
            check_admitted(self, tool_context.session.id)
            run = _run_of(tool_context, self.name)
            with tracing("tool"):
                document, execution = await self._perform()
        except NotGranted as stop:
            self.stopped = stop
        except Exception as fault:
            # ADK logs what a tool raises, text and all, and that may quote a row or an argument.
            log.error("the engine failed with %s", type(fault).__name__)
            self.stopped = NotGranted(Reason.EXECUTION_FAILED, "the dataset agent failed")
        if self.stopped is not None:
            return failed(self.stopped.reason)
        self.outcome = Found(document, execution, CacheOutcome("MISS"), run)
        return {"status": "executed", "execution_id": execution.execution_id, "row_count": document.row_count}


def check_admitted(tool: GovernedTool, session_id: str) -> None:
    """That this run was begun for this very tool: asked where it is used, whatever stands before it. Raises ``NotGranted``."""
    if admitted_in(tool, session_id) is None:
        raise NotGranted(Reason.NO_ACTIVE_GRANT, "no admitted call is active for this tool")


def _run_of(context: ToolContext, name: str) -> RunIds:
    """ADK's ids of this run. Raises ``NotGranted`` EXECUTION_FAILED where they are none: nothing could be joined to it."""
    ran = try_execution_identity(context, branch="", agent_name=name)
    if isinstance(ran, str):
        raise NotGranted(Reason.EXECUTION_FAILED, "the dataset agent failed: its run has no identity")
    return RunIds(ran.adk.session_id, ran.invocation_id, context.function_call_id)


def check_only(node: Workflow, target: BaseTool | Exchange | FunctionNode) -> None:
    """That a workflow is ``target`` and nothing else. Raises ``NotGranted`` UNREGISTERED_CAPABILITY."""
    steps = [] if node.graph is None else [step for step in node.graph.nodes if step.name != START.name]
    if len(steps) != 1 or not _is(steps[0], target):
        raise NotGranted(Reason.UNREGISTERED_CAPABILITY, "the workflow has another step than what was admitted")


def _is(step: BaseNode, target: BaseTool | Exchange | FunctionNode) -> bool:
    carried = step.exchange if type(step) is Delegate else getattr(step, "tool", None)
    return step is target if isinstance(target, FunctionNode) else carried is target


@dataclass(slots=True)
class AdkExecutor:
    """Runs admitted calls through ADK. ``extra_plugins`` come after those of the product.

    ``revision`` says which one of a dataset is served now; without it none is compared.
    """

    extra_plugins: list[BasePlugin] = field(default_factory=list)
    clock: Callable[[], float] = time.time
    revision: Callable[[str], str | None] | None = None
    sessions: InMemorySessionService = field(default_factory=InMemorySessionService)

    def __post_init__(self) -> None:
        refuse_content_capture(Component.REMOTE_AGENT)

    def runner(self, node: Workflow, target: BaseTool | Exchange | FunctionNode) -> Runner:
        """A Runner of ``target`` alone, under the policy plugin; there is no other way to get one here."""
        check_only(node, target)
        plugins = in_order(self.extra_plugins, clock=self.clock)
        require_policy(plugins)
        require_order(plugins)
        return Runner(app=App(name=APP_NAME, root_agent=node, plugins=plugins), session_service=self.sessions)

    async def execute(self, authority: Authority, call: BoundCall, perform: Perform) -> Found:
        """Run one admitted call once. Raises ``NotGranted`` where it was blocked or stopped."""
        _, capability, _ = call.parts()
        descriptor = capability.descriptor
        tool = GovernedTool(descriptor.tool_name or descriptor.name, descriptor.description, perform)
        node = Workflow(name="authorized_dataset_executor", edges=[(START, tool)])
        admitted = await self._run_admitted(authority, node, tool)
        if tool.stopped is not None:
            raise tool.stopped
        if tool.outcome is None:
            why = (Reason.NO_ACTIVE_GRANT, "the policy plugin blocked the tool")
            raise NotGranted(*(admitted.blocked[0] if admitted.blocked else why))
        return tool.outcome

    async def send(self, authority: Authority, name: str, delegate: Delegate) -> None:
        """Run the agent that carries one call to another dataset agent, and nothing beside it.

        ``name`` is the publisher's ``sub_agent_name``. What came of it is in the delegate's exchange.
        """
        node = Workflow(name=name.replace("-", "_"), edges=[(START, delegate)])
        await self._run_admitted(authority, node, delegate.exchange)

    async def _run_admitted(self, authority: Authority, node: Workflow, target: BaseTool | Exchange) -> Admitted:
        at = AdkIdentity(APP_NAME, person_user(*authority.principal.key), SessionId.generate())
        session_id, user_id = at.session_id, at.user_id
        runner = self.runner(node, target)
        await self.sessions.create_session(app_name=APP_NAME, user_id=user_id, session_id=session_id)
        until, steps = authority.grant.root_expires_at + SKEW, Steps()
        admitted = Admitted(authority, target, session_id, until, partial(self._stands, authority))
        token = ADMITTED.set(admitted)
        try:
            # Ended here and not whenever it is collected, also where a step is one too many.
            async with aclosing(runner.run_async(user_id=user_id, session_id=session_id, new_message=_START)) as events:
                async for _ in events:
                    steps.take()
        finally:
            ADMITTED.reset(token)
            await self.sessions.delete_session(app_name=APP_NAME, user_id=user_id, session_id=session_id)
        return admitted

    def _stands(self, authority: Authority) -> bool:
        return self.revision is None or self.revision(authority.dataset) == authority.revision

    async def discuss(self, propose: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Run the proposing step of a negotiation as an agent of its own, without any tool."""
        proposed: list[dict[str, Any]] = []
        stopped: list[NotGranted] = []

        def propose_call() -> dict[str, str]:
            try:
                proposed.append(propose())
            except NotGranted as stop:
                stopped.append(stop)
            return {"status": "proposed" if proposed else "not understood"}

        session_id = SessionId.generate()
        step = FunctionNode(func=propose_call, name=propose_call.__name__)
        runner = self.runner(Workflow(name="dataset_negotiator", edges=[(START, step)]), step)
        await self.sessions.create_session(app_name=APP_NAME, user_id=APP_NAME, session_id=session_id)
        try:
            async for _ in runner.run_async(user_id=APP_NAME, session_id=session_id, new_message=_START):
                pass
        finally:
            await self.sessions.delete_session(app_name=APP_NAME, user_id=APP_NAME, session_id=session_id)
        if stopped:
            raise stopped[0]
        return proposed[0]
