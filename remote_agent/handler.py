"""Our own A2A request handler: it verifies and decides before anything of ADK runs.

A cache hit or a refusal is answered here; the agent runtime is entered only to execute an
admitted call or to negotiate one. JSON-RPC and HTTP+JSON both arrive here, so a rule that
holds on one binding holds on the other.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable

from a2a.server.context import ServerCallContext
from a2a.server.events import Event
from a2a.server.request_handlers.request_handler import RequestHandler, validate_request_params
from a2a.types.a2a_pb2 import (
    AgentCard,
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTaskPushNotificationConfigsResponse,
    ListTasksRequest,
    ListTasksResponse,
    Message,
    SendMessageRequest,
    SubscribeToTaskRequest,
    Task,
    TaskArtifactUpdateEvent,
    TaskPushNotificationConfig,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from a2a.utils.errors import (
    ContentTypeNotSupportedError,
    ExtensionSupportRequiredError,
    InternalError,
    InvalidParamsError,
    PushNotificationNotSupportedError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)

from contract.call import RESULT_MEDIA_TYPE
from contract.errors import SignerUnavailable
from contract.extension import EXTENSION_URI
from contract.ids import MAX_ID_BYTES, InvalidId, SessionId, new_id
from remote_agent.caller import Caller, CallerUser, PresentedGrants
from remote_agent.door import to_request, to_task
from remote_agent.outcome import Answer, Request
from remote_agent.protocol import NotNow
from remote_agent.running import Faulty, Owner, Running
from remote_agent.tasks import TaskMemory

Answerer = Callable[[Request], Awaitable[Answer]]
CardFor = Callable[[Caller, tuple[str, ...]], Awaitable[AgentCard]]

GRANTS_KEY = "dataset_agent.grants"
_TERMINAL = {
    TaskState.TASK_STATE_COMPLETED,
    TaskState.TASK_STATE_FAILED,
    TaskState.TASK_STATE_CANCELED,
    TaskState.TASK_STATE_REJECTED,
}


class GovernedRequestHandler(RequestHandler):
    """Translates, enforces the extension and remembers tasks; ``answer`` does the work."""

    def __init__(self, answer: Answerer, card_for: CardFor, tasks: TaskMemory) -> None:
        self._answer = answer
        self._card_for = card_for
        self._tasks = tasks
        self._running: dict[str, Running] = {}

    @validate_request_params
    async def on_message_send(self, params: SendMessageRequest, context: ServerCallContext) -> Task | Message:
        caller, request = self._admit_message(params, context, "SendMessage")
        task_id, context_id = _ids(params.message)
        running = self._begin(caller, request, task_id, context_id)
        try:
            answer = await self._answered(running)
        finally:
            await self._end(task_id, running)
        return self._finish(answer, caller, task_id, context_id)

    @validate_request_params
    async def on_message_send_stream(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event]:
        caller, request = self._admit_message(params, context, "SendStreamingMessage")
        task_id, context_id = _ids(params.message)
        running = self._begin(caller, request, task_id, context_id)
        try:
            yield _working(task_id, context_id)
            answer = await self._answered(running)
        finally:
            await self._end(task_id, running)
        task = self._finish(answer, caller, task_id, context_id)
        for artifact in task.artifacts:
            yield TaskArtifactUpdateEvent(task_id=task_id, context_id=context_id, artifact=artifact, last_chunk=True)
        yield TaskStatusUpdateEvent(task_id=task_id, context_id=context_id, status=task.status, metadata=task.metadata)

    @validate_request_params
    async def on_get_task(self, params: GetTaskRequest, context: ServerCallContext) -> Task | None:
        return self._owned(_caller(context).owner, params.id)

    @validate_request_params
    async def on_list_tasks(self, params: ListTasksRequest, context: ServerCallContext) -> ListTasksResponse:
        return self._tasks.page(_caller(context).owner, params)

    @validate_request_params
    async def on_cancel_task(self, params: CancelTaskRequest, context: ServerCallContext) -> Task | None:
        owner = _caller(context).owner
        task = self._owned(owner, params.id)
        running = self._running.get(params.id)
        if running is None:
            raise TaskNotCancelableError
        if not await running.end():
            raise TaskNotCancelableError  # it had its outcome before it could be stopped
        task.status.state = TaskState.TASK_STATE_CANCELED
        self._tasks.remember(owner, task)
        return task

    def on_subscribe_to_task(self, params: SubscribeToTaskRequest, context: ServerCallContext) -> AsyncGenerator[Event]:
        """Not offered: rows are released only to the request that asked for them, and a repeat is a cache hit."""
        caller = _caller(context)
        _require_extension(context)
        self._owned(caller.owner, params.id)
        raise UnsupportedOperationError(message="send the call again with a fresh grant instead of subscribing")

    async def on_get_extended_agent_card(
        self, params: GetExtendedAgentCardRequest, context: ServerCallContext
    ) -> AgentCard:
        try:
            return await self._card_for(_caller(context), _grants(context))
        except SignerUnavailable as away:  # as for the public card: whoever asks may try again
            raise NotNow(away) from away

    async def on_create_task_push_notification_config(
        self, params: TaskPushNotificationConfig, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        raise PushNotificationNotSupportedError

    async def on_get_task_push_notification_config(
        self, params: GetTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        raise PushNotificationNotSupportedError

    async def on_list_task_push_notification_configs(
        self, params: ListTaskPushNotificationConfigsRequest, context: ServerCallContext
    ) -> ListTaskPushNotificationConfigsResponse:
        raise PushNotificationNotSupportedError

    async def on_delete_task_push_notification_config(
        self, params: DeleteTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> None:
        raise PushNotificationNotSupportedError

    def _admit_message(
        self, params: SendMessageRequest, context: ServerCallContext, method: str
    ) -> tuple[Caller, Request]:
        """What the protocol itself demands of a message, before the governed path."""
        caller, grants = _caller(context), _grants(context)
        _require_extension(context)
        _check_ids(params.message)
        configuration = params.configuration
        if configuration.HasField("task_push_notification_config"):
            raise PushNotificationNotSupportedError
        accepted = set(configuration.accepted_output_modes)
        if accepted and not accepted & {RESULT_MEDIA_TYPE, "application/*", "*/*"}:
            raise ContentTypeNotSupportedError(message=f"this agent answers in {RESULT_MEDIA_TYPE}")
        if params.message.task_id:
            earlier = self._owned(caller.owner, params.message.task_id)
            if earlier.status.state in _TERMINAL:
                raise UnsupportedOperationError(message="the task has ended: send the call without a task id")
            if params.message.context_id not in ("", earlier.context_id):
                raise TaskNotFoundError
            params.message.context_id = earlier.context_id
        return caller, to_request(params, caller, grants, method)

    def _begin(self, caller: Caller, request: Request, task_id: str, context_id: str) -> Running:
        if task_id in self._running:
            raise UnsupportedOperationError(message="the task is being answered: wait for it or cancel it")
        self._running[task_id] = Running(caller.owner, context_id, lambda: self._answer(request))
        return self._running[task_id]

    async def _answered(self, running: Running) -> Answer:
        try:
            return await running.finish()
        except Faulty:
            # The SDK would put the text of the fault, and what it quotes, into the response.
            raise InternalError(message=InternalError.message) from None

    async def _end(self, task_id: str, running: Running) -> None:
        """Also where the caller left: what runs for nobody is stopped, and recorded."""
        try:
            await running.end()
        finally:
            del self._running[task_id]

    def _finish(self, answer: Answer, caller: Caller, task_id: str, context_id: str) -> Task:
        task = to_task(answer, task_id, context_id)
        self._tasks.remember(_owner(answer, caller), task)
        return task

    def _owned(self, owner: Owner, task_id: str) -> Task:
        running = self._running.get(task_id)
        if running is not None and running.owner == owner:
            return _working(task_id, running.context_id)
        task = self._tasks.find(owner, task_id)
        if task is None:
            raise TaskNotFoundError
        return task


def _check_ids(message: Message) -> None:
    """Ids are kept and returned: one that is no id is not taken in."""
    for value in (message.message_id, message.task_id, message.context_id):
        try:
            SessionId(value or "none")
        except InvalidId:
            raise InvalidParamsError(message=f"an id is text of at most {MAX_ID_BYTES} bytes without NUL") from None


def _ids(message: Message) -> tuple[str, str]:
    return message.task_id or new_id("task"), message.context_id or new_id("ctx")


def _working(task_id: str, context_id: str) -> Task:
    return Task(id=task_id, context_id=context_id, status=TaskStatus(state=TaskState.TASK_STATE_WORKING))


def _owner(answer: Answer, caller: Caller) -> Owner:
    """A task belongs to the verified person; without one, to the agent alone."""
    grant = answer.grant
    return caller.owner if grant is None else (caller.agent, grant.issuer, grant.tenant, grant.subject)


def _caller(context: ServerCallContext) -> Caller:
    user = context.user
    if not isinstance(user, CallerUser):
        raise InternalError(message="the request was not authenticated")
    return user.caller


def _grants(context: ServerCallContext) -> tuple[str, ...]:
    presented = context.state.pop(GRANTS_KEY, None)
    return presented.take() if isinstance(presented, PresentedGrants) else ()


def _require_extension(context: ServerCallContext) -> None:
    if EXTENSION_URI not in context.requested_extensions:
        raise ExtensionSupportRequiredError(message=f"activate {EXTENSION_URI} in the A2A-Extensions header")
