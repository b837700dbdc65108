"""Our own A2A request handler: it verifies and decides before anything of ADK runs.

A cache hit or a refusal is answered here; the agent runtime is entered only to execute an
admitted call or to negotiate one. JSON-RPC and HTTP+JSON both arrive here, so a rule that
holds on one binding holds on the other.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Final

from a2a.server.context import ServerCallContext
from a2a.server.events import Event
from a2a.server.request_handlers.request_handler import validate_request_params
from a2a.types.a2a_pb2 import (
    AgentCard,
    CancelTaskRequest,
    GetExtendedAgentCardRequest,
    GetTaskRequest,
    ListTasksRequest,
    ListTasksResponse,
    Message,
    SendMessageRequest,
    SubscribeToTaskRequest,
    Task,
    TaskState,
    TaskStatus,
)
from a2a.utils.errors import (
    InternalError,
    InvalidParamsError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)

from contract.errors import DatasetAgentError, SignerUnavailable
from contract.ids import new_id
from remote_agent.a2a_faults import a2a_error
from remote_agent.caller import Caller
from remote_agent.door import FollowUp, subscription_request, tell, to_request, without_rows
from remote_agent.events import ending, updates, working
from remote_agent.half_calls import HalfCalls
from remote_agent.incoming import (
    TERMINAL,
    caller_of,
    check_follow_up,
    check_id,
    check_message,
    check_required,
    grants_of,
    require_extension,
)
from remote_agent.outcome import Answer, Request
from remote_agent.owners import Owner, owner_of
from remote_agent.proposal import call_of
from remote_agent.protocol import NoPushNotifications, NotNow
from remote_agent.recalling import NoRecall, Recall, WaitingTasks, review_of
from remote_agent.running import Faulty, Running
from remote_agent.siblings import Siblings
from remote_agent.siblings_tasks import listed
from remote_agent.tasks import TaskMemory
from remote_agent.underway import Underway
from remote_agent.wire import TaskJson, task_of

Answerer = Callable[[Request, Underway], Awaitable[Answer]]
Joiner = Callable[[Request, Underway, Underway], Awaitable[Answer]]
"""Answers a subscription: what was asked, the call that runs, and what is told of the subscription itself."""
CardFor = Callable[[Caller, tuple[str, ...]], Awaitable[AgentCard]]

MAX_DETACHED: Final = 64
"""Tasks of one client agent that run with nobody waiting; one more is answered when it has ended."""
MAX_DETACHED_OF_PERSON: Final = 16
"""Of these, so that one person's leave room for those of others."""

_SOON_S: Final = 0.1
"""How long a call that should return immediately is waited for all the same: a hit is there by then."""


class GovernedRequestHandler(NoPushNotifications):
    """Translates, enforces the extension and remembers tasks; ``answer`` and ``join`` do the work."""

    def __init__(
        self,
        answer: Answerer,
        join: Joiner,
        card_for: CardFor,
        tasks: TaskMemory,
        *,
        clock: Callable[[], float] = time.time,
        siblings: Siblings | None = None,
        recall: Recall | None = None,
    ) -> None:
        self._answer = answer
        self._join = join
        self._card_for = card_for
        self._tasks = tasks
        self._half_calls = HalfCalls()
        self._running: dict[str, Running] = {}
        self._clock = clock
        self._siblings = siblings or Siblings()
        self._waiting_tasks = WaitingTasks(recall or NoRecall(), tasks, self._siblings)

    async def on_message_send(self, params: SendMessageRequest, context: ServerCallContext) -> Task | Message:
        await self._recalled(context, params.message.task_id)
        running = self._begin(params, context, "SendMessage")
        async with running.watched():
            if params.configuration.return_immediately:
                await running.accepted()
                # Asked when it is detached, and nothing is awaited between: of those sent at once no more are than may be.
                if not await running.wait(_SOON_S) and self._may_detach(running) and running.detach():
                    return working(running.task_id, running.context_id, running.progress)
            return task_of(await _whole(running))

    async def send(self, params: SendMessageRequest, context: ServerCallContext) -> TaskJson:
        """``on_message_send`` for those who wait for the answer."""
        await self._recalled(context, params.message.task_id)
        running = self._begin(params, context, "SendMessage")
        async with running.watched():
            return await _whole(running)

    @validate_request_params
    async def on_message_send_stream(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event]:
        await self._recalled(context, params.message.task_id)
        running = self._begin(params, context, "SendStreamingMessage")
        async with running.watched():
            async for event in _followed(running, running):
                yield event
            for event in ending(task_of(await _whole(running))):
                yield event

    @validate_request_params
    async def on_subscribe_to_task(
        self, params: SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event]:
        """The events of a task that runs. Its rows only under a fresh leaf for them; without one as ``GetTask``."""
        check_id(params.id)
        self._siblings.route(params.id)
        caller, grants = caller_of(context), grants_of(context)
        require_extension(context)
        running = self._running_of(caller.owner, params.id)
        if running is None:
            yield self._waiting(caller.owner, params.id)
            return
        if running.is_full:
            raise UnsupportedOperationError(message="the task has as many subscribers as it may have")
        async with running.watched():
            if grants:
                async for event in self._joined(caller, grants, running):
                    yield event
                return
            async for event in _followed(running, running):
                yield event
            for event in ending(task_of(without_rows(await _whole(running)))):
                yield event

    @validate_request_params
    async def on_get_task(self, params: GetTaskRequest, context: ServerCallContext) -> Task | None:
        check_id(params.id)
        self._siblings.route(params.id)
        await self._recalled(context, params.id, live=True)
        return self._owned(caller_of(context).owner, params.id)

    @validate_request_params
    async def on_list_tasks(self, params: ListTasksRequest, context: ServerCallContext) -> ListTasksResponse:
        owner = caller_of(context).owner
        for task_id, running in self._running.items():
            # The end takes the place of what is remembered here; one that is there already must not lose it.
            if running.owner == owner and not running.is_over:
                self._tasks.remember(owner, working(task_id, running.context_id, running.progress))
        return await listed(params, lambda part: self._tasks.page(owner, part), self._siblings)

    @validate_request_params
    async def on_cancel_task(self, params: CancelTaskRequest, context: ServerCallContext) -> Task | None:
        check_id(params.id)
        self._siblings.route(params.id)
        owner = caller_of(context).owner
        await self._recalled(context, params.id, live=True)
        if (running := self._running_of(owner, params.id)) is not None:
            return await _stopped(running)
        task = self._owned(owner, params.id)
        if task.status.state in TERMINAL:
            raise TaskNotCancelableError
        if review_of(task) is not None:
            await self._waiting_tasks.withdraw(owner, params.id)
            # The store was waited for: a further message may run by now what was approved, or have ended.
            if (running := self._running_of(owner, params.id)) is not None:
                return await _stopped(running)
            if self._owned(owner, params.id).status.state in TERMINAL:
                raise TaskNotCancelableError
        # It waits for input: nothing runs, and each try has its row.
        task.status.state = TaskState.TASK_STATE_CANCELED
        self._half_calls.drop(owner, params.id)
        self._tasks.remember(owner, task)
        return task

    async def on_get_extended_agent_card(
        self, params: GetExtendedAgentCardRequest, context: ServerCallContext
    ) -> AgentCard:
        try:
            return await self._card_for(caller_of(context), grants_of(context))
        except SignerUnavailable as away:  # as for the public card: whoever asks may try again
            raise NotNow(away) from away
        except DatasetAgentError as fault:
            raise a2a_error(fault) from None

    async def close(self) -> None:
        """Stop what still runs, detached or not, and wait until it is recorded."""
        await asyncio.gather(*(running.end() for running in list(self._running.values())))

    def _begin(self, params: SendMessageRequest, context: ServerCallContext, method: str) -> Running:
        """The message under way, after what the protocol itself demands of it. Nothing is awaited in here.

        So of two further messages of one task, at the same time, only one is taken.
        """
        check_required(params)
        self._siblings.route(params.message.task_id)
        caller, grants = caller_of(context), grants_of(context)
        require_extension(context)
        check_message(params)
        message, follows = params.message, bool(params.message.task_id)
        if follows:
            if message.task_id in self._running:
                self._owned(caller.owner, message.task_id)
                raise UnsupportedOperationError(message="the task is being answered: wait for it or cancel it")
            earlier = self._owned(caller.owner, message.task_id)
            check_follow_up(message, earlier)
        task_id = message.task_id or self._siblings.new_task_id()
        context_id = message.context_id = message.context_id or new_id("ctx")
        further = None
        if follows:
            further = FollowUp(self._half_calls.find(caller.owner, task_id, self._clock()), review_of(earlier))
        request = to_request(params, caller, grants, method, task_id, further)
        running = self._running[task_id] = Running(
            caller.owner,
            task_id,
            context_id,
            lambda underway: self._answer(request, underway),
            lambda answer: self._keep(answer, caller, task_id, context_id),
            lambda: self._ended(task_id),
        )
        return running

    def _keep(self, answer: Answer, caller: Caller, task_id: str, context_id: str) -> TaskJson:
        """The complete task, after what may be remembered of it is remembered, and the call it may yet complete."""
        told, owner = tell(answer, task_id, context_id), _owner(answer, caller)
        self._tasks.remember_told(owner, told)
        call = None if answer.proposal is None else call_of(answer.proposal)
        if call is None:
            self._half_calls.drop(owner, task_id)
        else:
            self._half_calls.keep(owner, task_id, call, self._clock())
        return told

    def _ended(self, task_id: str) -> None:
        running = self._running.pop(task_id)
        if running.has_failed:  # by a fault outside the path: it is remembered that it ended
            failed = TaskStatus(state=TaskState.TASK_STATE_FAILED)
            self._tasks.remember(running.owner, Task(id=task_id, context_id=running.context_id, status=failed))

    async def _joined(self, caller: Caller, grants: tuple[str, ...], running: Running) -> AsyncIterator[Event]:
        """The same execution, for a subscriber who is judged for it, and recorded, like any caller."""
        await running.accepted()
        call = running.underway.call
        if call is None:
            raise UnsupportedOperationError(message="the task has no result to wait for")
        request = subscription_request(running.task_id, call.call, caller, grants)
        mine = Running(
            caller.owner,
            running.task_id,
            running.context_id,
            lambda underway: self._join(request, running.underway, underway),
            lambda answer: tell(answer, running.task_id, running.context_id),
        )
        async with mine.watched():
            await mine.accepted()
            decision = mine.underway.decision
            if mine.underway.authority is None and decision is not None:
                raise InvalidParamsError(message=f"{decision.reason}: {decision.rationale}")
            async for event in _followed(running, mine):
                yield event
            for event in ending(task_of(await _whole(mine))):
                yield event

    async def _recalled(self, context: ServerCallContext, task_id: str, *, live: bool = False) -> None:
        if task_id and task_id not in self._running:
            await self._waiting_tasks.recall(caller_of(context).owner, task_id, live=live)

    def _may_detach(self, running: Running) -> bool:
        """Whether there is room for one more of its client agent, and of the verified person."""
        agent = [one for one in self._running.values() if one.detached and one.owner[0] == running.owner[0]]
        return len(agent) < MAX_DETACHED and sum(one.owner == running.owner for one in agent) < MAX_DETACHED_OF_PERSON

    def _running_of(self, owner: Owner, task_id: str) -> Running | None:
        running = self._running.get(task_id)
        return running if running is not None and running.is_of(owner) else None

    def _owned(self, owner: Owner, task_id: str) -> Task:
        running = self._running_of(owner, task_id)
        if running is not None and not running.is_over:
            return working(task_id, running.context_id, running.progress)
        task = self._tasks.find(owner, task_id)
        if task is None:
            raise TaskNotFoundError
        return task

    def _waiting(self, owner: Owner, task_id: str) -> Task:
        """A task that waits for input, which has nothing to follow; one that ended cannot be followed."""
        task = self._owned(owner, task_id)
        if task.status.state in TERMINAL:
            raise UnsupportedOperationError(message="the task has ended: send the call again with a fresh grant")
        return task


async def _followed(running: Running, until: Running) -> AsyncIterator[Event]:
    """That ``running`` works, and how far it is, until ``until`` has its outcome."""
    first = working(running.task_id, running.context_id, running.progress)
    yield first
    async for event in updates(first, running.progress, until.wait):
        yield event


async def _stopped(running: Running) -> Task:
    """The task, once it is stopped. Raises ``TaskNotCancelableError`` where it had its outcome before."""
    if not await running.end():
        raise TaskNotCancelableError
    return task_of(without_rows(await _whole(running)))


async def _whole(running: Running) -> TaskJson:
    try:
        return await running.finish()
    except Faulty:
        # The SDK would put the text of the fault, and what it quotes, into the response.
        raise InternalError(message=InternalError.message) from None


def _owner(answer: Answer, caller: Caller) -> Owner:
    """A task belongs to the verified person; without one, to the agent alone."""
    return caller.owner if answer.grant is None else owner_of(answer.grant)
