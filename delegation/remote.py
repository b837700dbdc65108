"""Delegation over A2A by ADK's ``RemoteA2aAgent``, one agent object for one attempt.

ADK copies requests and replies into session events and would hand a refusal's text to the
next node as if it were output. So the reply is read and taken out in the transport, before
ADK sees it; what ADK gets is a task id and a state; and what leaves as an event is the typed
outcome and nothing else. The grant travels in service parameters only, which ADK keeps nowhere.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final

import httpx
from a2a.client.client import ClientCallContext, ClientConfig
from a2a.client.client_factory import ClientFactory
from a2a.client.errors import A2AClientTimeoutError
from a2a.client.transports.jsonrpc import JsonRpcTransport
from a2a.types.a2a_pb2 import (
    CancelTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    SendMessageRequest,
    SendMessageResponse,
    Task,
    TaskState,
    TaskStatus,
)
from google.adk.a2a.agent.config import A2aRemoteAgentConfig, ParametersConfig, RequestInterceptor
from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.remote_a2a_agent import RemoteA2aAgent
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from pydantic import PrivateAttr

from contract.call import CALL_MEDIA_TYPE, RESULT_MEDIA_TYPE, Call
from contract.errors import DatasetAgentError, SignerUnavailable
from contract.ids import new_id
from contract.verdict import VERDICTS, NotGranted, Reason
from delegation.cards import RemoteCard
from delegation.failures import failure
from delegation.following import Follow, Gathered
from delegation.reply import Outcome, Reply
from delegation.reply_reader import MAX_ID, from_response, plain
from delegation.roles import MODEL, a2a_role
from delegation.sending import Sent
from delegation.wire import service_parameters

log = logging.getLogger(__name__)

_UNSETTLED: Final = frozenset({Reason.REMOTE_TIMEOUT, Reason.REMOTE_UNREACHABLE})
"""Whether the call ran is not known: its task, where that was told already, is named, so that it can be looked up."""

DELEGATE_NAME: Final = "remote_dataset_agent"
_CANCEL_S: Final = 2.0
"""How long whoever leaves waits until the agent has stopped."""
_LOOK_S: Final = 2.0
"""How long it is asked which task was not answered."""
_JSONRPC: Final = "JSONRPC"
_SHOWN_STATE: Final = {
    Outcome.COMPLETED: TaskState.TASK_STATE_COMPLETED,
    Outcome.REFUSED: TaskState.TASK_STATE_REJECTED,
    Outcome.REVIEW: TaskState.TASK_STATE_REJECTED,  # ADK is told of no pause: what it would resume with is no approval
    Outcome.INDETERMINATE: TaskState.TASK_STATE_FAILED,
}


class Exchange:
    """One attempt: the call that leaves, how its headers are made, and the first reply to it.

    ``media_type`` is the form the result is wanted in. ``waits`` says that ``prepare`` asks another process for a signature.
    With ``task_id`` the call goes on with a task that waits for input; with ``follow`` it is sent as
    a stream, and cancelled where whoever waits for it leaves. It is sent in a context of its own, by which its task is found
    with the headers of ``looking`` where no answer came in time.
    """

    def __init__(
        self,
        call: Call,
        prepare: Callable[[], Sent],
        *,
        timeout: float,
        waits: bool = False,
        media_type: str = RESULT_MEDIA_TYPE,
        task_id: str = "",
        follow: Follow | None = None,
        looking: Callable[[], Mapping[str, str]] | None = None,
    ) -> None:
        self.call = call
        self.task_id = task_id
        self.follow = follow
        self.looking = looking
        self.context_id = "" if task_id else new_id("ctx")
        self.media_type = media_type
        self.prepare = prepare
        self.timeout = timeout
        self.waits = waits
        self.sent: Sent | None = None
        self._reply: Reply | None = None

    @property
    def reply(self) -> Reply:
        return self._reply or Reply.failed(Reason.REMOTE_FAULT, "the call was not sent")

    def settle(self, reply: Reply) -> None:
        if self._reply is None:
            self._reply = reply


class Delegate(RemoteA2aAgent):
    """Sends the exchange's call to the card's agent once. ADK sees no stream, also where there is one.

    Its events carry an outcome, a reason and a task id, and nothing foreign. Copies of it, such
    as ADK makes of a workflow's nodes, hold the same exchange.
    """

    _exchange: Exchange = PrivateAttr()

    def __init__(self, card: RemoteCard, exchange: Exchange, http: httpx.AsyncClient) -> None:
        config = ClientConfig(streaming=False, httpx_client=http, supported_protocol_bindings=[_JSONRPC])
        factory = ClientFactory(config)
        factory.register(_JSONRPC, lambda _card, _url, _config: SealedTransport(http, card, exchange))
        super().__init__(
            name=DELEGATE_NAME,
            agent_card=card.card,
            description="Carries one admitted call to the dataset agent that serves it.",
            a2a_client_factory=factory,
            context_builder=lambda _ctx, _name, _converter: ([_part(exchange.call)], None),
            config=A2aRemoteAgentConfig(request_interceptors=[_interceptor(exchange)]),
        )
        self._exchange = exchange

    @property
    def exchange(self) -> Exchange:
        return self._exchange

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        async with aclosing(super()._run_async_impl(ctx)) as events:
            async for event in events:
                # ADK's copies of request and reply, and its texts of errors, are not ours to store.
                event.custom_metadata = None
                event.content = None
                event.error_message = None
                yield event


class SealedTransport(JsonRpcTransport):
    """Reads the reply into the exchange and hands ADK a task with an id and a state only.

    Never raises: a reply that is late, missing or unreadable is an outcome like the others.
    """

    def __init__(self, http: httpx.AsyncClient, card: RemoteCard, exchange: Exchange) -> None:
        super().__init__(http, card.card, card.rpc_url, is_shared_httpx=True)
        self._exchange = exchange
        self._task_id = exchange.task_id

    async def send_message(
        self, request: SendMessageRequest, *, context: ClientCallContext | None = None
    ) -> SendMessageResponse:
        request.configuration.accepted_output_modes[:] = [self._exchange.media_type]
        try:
            async with asyncio.timeout(self._exchange.timeout):
                reply = from_response(await self._answered(request, context))
        except (TimeoutError, A2AClientTimeoutError):
            reply = Reply.failed(
                Reason.REMOTE_TIMEOUT, "the dataset agent did not answer in time; whether it ran is unknown"
            )
            await self._look_up()
        except Exception as fault:
            reply = failure(fault)
        if reply.reason in _UNSETTLED:
            reply = replace(reply, task_id=self._task_id)
        self._exchange.settle(reply)
        return _stub(reply)

    async def _answered(self, request: SendMessageRequest, context: ClientCallContext | None) -> SendMessageResponse:
        follow = self._exchange.follow
        if follow is None:
            return await super().send_message(request, context=context)
        gathered = Gathered()
        async with aclosing(super().send_message_streaming(request, context=context)) as events:
            try:
                async for event in events:
                    percent = gathered.take(event)
                    self._task_id = plain(gathered.task.id, MAX_ID)
                    if percent is not None:
                        follow.watch(percent)
            except asyncio.CancelledError:  # whoever waits left, or the time is over
                await self._cancel(follow, gathered.task.id)
                raise
        return SendMessageResponse(task=gathered.task if gathered.task.id else None)

    async def _cancel(self, follow: Follow, task_id: str) -> None:
        """Tell the agent to stop; the connection that ends tells it too, where nothing lies between."""
        if not task_id:
            return
        try:
            async with asyncio.timeout(_CANCEL_S):
                await super().cancel_task(CancelTaskRequest(id=task_id), context=await self._named(follow.headers))
        except Exception as fault:
            log.info("a task was not cancelled by name: %s", type(fault).__name__)

    async def _look_up(self) -> None:
        """Which task it is that was not answered, where the agent tells that."""
        looking, context_id = self._exchange.looking, self._exchange.context_id
        if self._task_id or looking is None:
            return
        try:
            async with asyncio.timeout(_LOOK_S):
                wanted = ListTasksRequest(context_id=context_id, page_size=1)
                found = (await super().list_tasks(wanted, context=await self._named(looking))).tasks
            if found and found[0].context_id == context_id:
                self._task_id = plain(found[0].id, MAX_ID)
        except Exception as fault:
            log.info("a task was not looked up: %s", type(fault).__name__)

    async def _named(self, headers: Callable[[], Mapping[str, str]]) -> ClientCallContext:
        """The context of a request about a person's task."""
        told = await asyncio.to_thread(headers) if self._exchange.waits else headers()
        return ClientCallContext(service_parameters=service_parameters(None, told))


def _part(call: Call) -> Part:
    return Part(raw=call.raw, media_type=CALL_MEDIA_TYPE)


def _stub(reply: Reply) -> SendMessageResponse:
    task = Task(id=reply.task_id or "none", context_id="none", status=TaskStatus(state=_SHOWN_STATE[reply.outcome]))
    # Without a message ADK makes no event of the task, and then runs no interceptor.
    task.status.message.CopyFrom(
        Message(message_id="none", role=a2a_role(MODEL), parts=[Part(text=reply.outcome.value)])
    )
    return SendMessageResponse(task=task)


def _interceptor(exchange: Exchange) -> RequestInterceptor:
    async def before_request(
        ctx: InvocationContext, message: Message, params: ParametersConfig
    ) -> tuple[Message | Event, ParametersConfig]:
        try:
            exchange.sent = await asyncio.to_thread(exchange.prepare) if exchange.waits else exchange.prepare()
        except NotGranted as stop:
            verdict = VERDICTS[stop.reason].value
            exchange.settle(Reply(outcome=Outcome(verdict), reason=stop.reason, message=stop.message))
            return _event(ctx, exchange.reply), params
        except SignerUnavailable:
            exchange.settle(Reply.failed(Reason.KEYS_UNAVAILABLE, "a key of this agent cannot be used now"))
            return _event(ctx, exchange.reply), params
        except DatasetAgentError:
            return _event(ctx, exchange.reply), params
        context = params.client_call_context or ClientCallContext()
        context.service_parameters = service_parameters(context.service_parameters, exchange.sent.headers)
        params.client_call_context = context
        message.task_id, message.context_id = exchange.task_id, exchange.context_id
        return message, params

    async def after_request(ctx: InvocationContext, response: Any, event: Event) -> Event | None:
        outcome = _event(ctx, exchange.reply)
        event.output, event.actions = outcome.output, outcome.actions
        event.content = None
        return event

    return RequestInterceptor(before_request=before_request, after_request=after_request)


def _event(ctx: InvocationContext, reply: Reply) -> Event:
    """The typed outcome as an event: a route, a code and an id."""
    return Event(
        author=DELEGATE_NAME,
        invocation_id=ctx.invocation_id,
        branch=ctx.branch,
        output={
            "outcome": reply.outcome.value,
            "reason": reply.reason.value if reply.reason else None,
            "task_id": reply.task_id,
        },
        actions=EventActions(route=reply.outcome.value),
    )
