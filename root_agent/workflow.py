"""The asking path as an ADK ``Workflow``: translation only, one node for one step.

A route is ``Asking.route`` and nothing a node, a model or a remote says. Events hold ids,
codes and counts. ``execute`` is the one node that sends something; it does so through a
``RemoteA2aAgent``, or through a tool of an MCP server, that is built after admission for the admitted agent.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from functools import partial
from time import perf_counter
from typing import Any, Final

from google.adk.agents.context import Context
from google.adk.events.event import Event
from google.adk.workflow import DEFAULT_ROUTE, START, FunctionNode, Workflow
from google.genai import types

from contract.key_ring import waits
from contract.result import ResultDocument
from contract.tracing import Kind, tracing
from contract.verdict import NotGranted, Reason, Route, Verdict
from control_plane.descriptor import DatasetDescriptor
from delegation.cards import CardBook, RemoteCard
from delegation.following import Follow
from delegation.mcp_tool import McpTool, ToolPlace
from delegation.remote import Delegate, Exchange
from delegation.reply import Reply
from delegation.trace import with_trace
from root_agent import ask
from root_agent.answer_view import summary, table
from root_agent.asking import Asking
from root_agent.holder import Desk
from root_agent.identity import APP_NAME
from root_agent.plugin import admitting
from root_agent.propose import Proposed, intent_agent
from root_agent.reading import may_ask_model, shown_to_model
from root_agent.service import Service

GRANTED: Final = Route.GRANTED.value
REVIEW: Final = Route.GRANTED_REQUIRES_REVIEW.value
REFUSED: Final = Route.REFUSED.value


class Nodes:
    """The nodes of one workflow over the askings on one desk."""

    def __init__(self, desk: Desk, service: Callable[[], Service]) -> None:
        self._desk = desk
        self._service = service

    async def interpret_intent(self, ctx: Context) -> Event:
        return await self._take(ctx, "interpret_intent", ask.interpret_intent, routed=False)

    async def discover_datasets(self, ctx: Context) -> Event:
        return await self._take(ctx, "discover_datasets", ask.discover_datasets, routed=False)

    async def resolve_capability(self, ctx: Context) -> Event:
        """By the offline reader, or by a model's proposal where one is configured and may read the question."""

        async def resolve(asking: Asking, service: Service) -> Asking:
            if not may_ask_model(asking, service):
                return await ask.resolve_capability(asking, service)
            now = service.clock()
            if (known := await ask.resolve_remembered(asking, service, now)) is not None:
                return known
            proposed = Proposed()
            readable = shown_to_model(asking)
            try:
                async with asyncio.timeout(service.call_timeout):
                    await ctx.run_node(intent_agent(service.model, asking.wanted.question or "", readable, proposed))
            except TimeoutError:
                proposed = Proposed()  # a model that says nothing in time is one that fails
            return await ask.resolve_proposed(asking, proposed.read(), service, now)

        return await self._take(ctx, "resolve_capability", resolve, routed=False)

    async def evaluate_admission(self, ctx: Context) -> Event:
        return await self._take(ctx, "evaluate_admission", ask.evaluate_admission)

    async def plan(self, ctx: Context) -> Event:
        return await self._take(ctx, "plan", ask.plan)

    async def execute(self, ctx: Context) -> Event:
        """One attempt, and a second one where card or grant turned out stale and admission holds again."""

        async def attempts(asking: Asking, service: Service) -> Asking:
            asking = self._desk.put(await self._attempt(ctx, asking, service))
            if not ask.is_stale(asking):
                return asking
            asking = self._desk.put(await ask.readmit(asking, service))
            return await self._attempt(ctx, asking, service) if asking.verdict is Verdict.GRANTED else asking

        return await self._take(ctx, "execute", attempts)

    async def validate(self, ctx: Context) -> Event:
        return await self._take(ctx, "validate", ask.validate)

    async def record_evidence(self, ctx: Context) -> Event:
        return await self._take(ctx, "record_evidence", ask.record_evidence, routed=False)

    async def explain_response(self, ctx: Context) -> AsyncGenerator[Event, None]:
        for event in await self._end(ctx, "explain_response", ask.explain_response):
            yield event

    async def record_refusal(self, ctx: Context) -> AsyncGenerator[Event, None]:
        for event in await self._end(ctx, "record_refusal", ask.record_stop):
            yield event

    async def record_indeterminate(self, ctx: Context) -> AsyncGenerator[Event, None]:
        for event in await self._end(ctx, "record_indeterminate", ask.record_stop):
            yield event

    async def await_approval(self, ctx: Context) -> AsyncGenerator[Event, None]:
        """The end of this run: a person decides at the dataset agent, and whoever asked sends the call again."""
        for event in await self._end(ctx, "await_approval", ask.record_stop):
            yield event

    async def _take(self, ctx: Context, node: str, step: ask.Step, *, routed: bool = True) -> Event:
        asking, began = self._desk.put(self._desk.running(ctx.invocation_id).visiting(node)), perf_counter()
        if asking.stop is None:  # what has stopped only passes through, to the node that records it
            with tracing(node) as span:
                asking = self._desk.put(await ask.take(step, asking, self._service()))
                span.tell(reason=asking.stop.reason.value if asking.stop else None)
            self._service().measures.step(node, perf_counter() - began, restricted=asking.is_restricted)
        event = Event(output=_public(node, asking), route=asking.route.value if routed else None)
        self._desk.put(asking.left(event.id))
        return event

    async def _attempt(self, ctx: Context, asking: Asking, service: Service) -> Asking:
        planned, cards = asking.plan, service.cards
        card = cards.verified(planned.agent_id) if planned and isinstance(cards, CardBook) else None
        if planned is None or card is None or not isinstance(cards, CardBook):
            reply = Reply.failed(Reason.REMOTE_CARD_INVALID, "there is no verified card of the planned agent")
            return ask.settle(asking, service, None, reply)
        looking = partial(_looking, asking, planned.agent_id, service)
        exchange = Exchange(
            planned.call,
            lambda: ask.prepare(asking, service),
            timeout=service.call_timeout,
            waits=waits(service.holder),
            media_type=planned.media_type,
            task_id=asking.continued,
            follow=_follow(asking, looking) if planned.tool is None else None,
            looking=looking,
        )
        carried = "a2a.call" if planned.tool is None else "mcp.call"
        with tracing(carried, Kind.CLIENT) as span, admitting(exchange, asking.verdict):
            if planned.tool is None:
                await ctx.run_node(Delegate(card, exchange, cards.http))
            else:
                await ctx.run_node(McpTool(_place(asking, card, planned.tool), exchange, cards.http))
            span.tell(agent_id=planned.agent_id, **exchange.reply.codes)
        service.measures.replied(exchange.reply.reason)
        return ask.settle(asking, service, exchange.sent, exchange.reply)

    async def _end(self, ctx: Context, node: str, step: ask.Step) -> list[Event]:
        invocation_id = ctx.invocation_id
        asking = self._desk.put(self._desk.running(invocation_id).visiting(node))
        began = perf_counter()
        with tracing(node):
            asking = self._desk.put(await step(asking, self._service()))
        self._service().measures.step(node, perf_counter() - began, restricted=asking.is_restricted)
        answer = asking.answer
        if answer is None:
            raise NotGranted(Reason.EXECUTION_FAILED, "the path ended without an answer")
        events = [_say(summary(answer), _public(node, asking))]
        if not self._desk.is_claimed(invocation_id) and isinstance(answer.document, ResultDocument):
            # Shown to the developer's terminal; a partial event is never appended to a session.
            events.insert(0, Event(partial=True, content=_text(table(answer.document))))
        self._desk.finish(invocation_id)
        return events


def build_workflow(nodes: Nodes) -> Workflow:
    """The seed's graph. ``record_*``, ``await_approval`` and ``explain_response`` have no way out but the end."""
    interpret, discover, resolve, admit, plan, execute, validate, evidence, explain, refusal, unknown, approval = (
        FunctionNode(func=func, name=func.__name__, rerun_on_resume=func.__name__ in ("resolve_capability", "execute"))
        for func in (
            nodes.interpret_intent,
            nodes.discover_datasets,
            nodes.resolve_capability,
            nodes.evaluate_admission,
            nodes.plan,
            nodes.execute,
            nodes.validate,
            nodes.record_evidence,
            nodes.explain_response,
            nodes.record_refusal,
            nodes.record_indeterminate,
            nodes.await_approval,
        )
    )

    def on_verdict(granted: FunctionNode) -> dict[Any, Any]:
        return {GRANTED: granted, REFUSED: refusal, DEFAULT_ROUTE: unknown}

    return Workflow(
        name=str(APP_NAME),
        description="Asks governed datasets on behalf of a verified person.",
        edges=[
            (START, interpret, discover, resolve, admit),
            (admit, on_verdict(plan)),
            (plan, on_verdict(execute)),
            (execute, {REVIEW: approval, **on_verdict(validate)}),
            (validate, on_verdict(evidence)),
            (evidence, explain),
        ],
    )


def _place(asking: Asking, card: RemoteCard, tool: str) -> ToolPlace:
    """Where the planned tool is, as the card says that was admitted on. Raises UNREGISTERED_CAPABILITY."""
    descriptor = asking.target.descriptor if asking.target else None
    if not isinstance(descriptor, DatasetDescriptor):
        raise NotGranted(Reason.UNREGISTERED_CAPABILITY, "no card offers the capability")
    return ToolPlace.of(card, descriptor, tool)


def _looking(asking: Asking, agent_id: str, service: Service) -> Mapping[str, str]:
    return {**service.looking(agent_id, asking.principal), **with_trace()}


def _follow(asking: Asking, looking: Callable[[], Mapping[str, str]]) -> Follow | None:
    return None if asking.watch is None else Follow(asking.watch, looking)


def _public(node: str, asking: Asking) -> dict[str, Any]:
    """What of an asking may enter a session: a node, codes, ids and counts."""
    decision = asking.decision
    return {
        "node": node,
        "verdict": asking.verdict.value if decision else None,
        "reason": decision.reason.value if decision else None,
        "decision_id": decision.decision_id if decision else None,
        "attempts": asking.attempts,
        "candidates": len(asking.candidates),
    }


def _say(text: str, output: dict[str, Any]) -> Event:
    return Event(content=_text(text), output=output)


def _text(text: str) -> types.Content:
    return types.Content(role="model", parts=[types.Part(text=text)])
