"""What the protocol itself demands of a request, before the governed path: who calls, and in which form."""

from __future__ import annotations

from typing import Final

from a2a.server.context import ServerCallContext
from a2a.types.a2a_pb2 import Message, SendMessageRequest, Task, TaskState
from a2a.utils.errors import (
    ContentTypeNotSupportedError,
    ExtensionSupportRequiredError,
    InternalError,
    InvalidParamsError,
    PushNotificationNotSupportedError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from a2a.utils.proto_utils import validate_proto_required_fields

from contract.call import ARROW_MEDIA_TYPE, RESULT_MEDIA_TYPE
from contract.extension import EXTENSION_URI
from contract.ids import MAX_ID_BYTES, InvalidId, SessionId
from remote_agent.caller import Caller, CallerUser, PresentedGrants

GRANTS_KEY: Final = "dataset_agent.grants"
_FORMS: Final = {
    RESULT_MEDIA_TYPE: RESULT_MEDIA_TYPE,
    ARROW_MEDIA_TYPE: ARROW_MEDIA_TYPE,
    "application/*": RESULT_MEDIA_TYPE,
    "*/*": RESULT_MEDIA_TYPE,
}
TERMINAL: Final = frozenset(
    {
        TaskState.TASK_STATE_COMPLETED,
        TaskState.TASK_STATE_FAILED,
        TaskState.TASK_STATE_CANCELED,
        TaskState.TASK_STATE_REJECTED,
    }
)


def caller_of(context: ServerCallContext) -> Caller:
    """The authenticated client agent."""
    user = context.user
    if not isinstance(user, CallerUser):
        raise InternalError(message="the request was not authenticated")
    return user.caller


def grants_of(context: ServerCallContext) -> tuple[str, ...]:
    """The grant header's lines, taken out of the SDK's context for good."""
    presented = context.state.pop(GRANTS_KEY, None)
    return presented.take() if isinstance(presented, PresentedGrants) else ()


def require_extension(context: ServerCallContext) -> None:
    """Raises ``ExtensionSupportRequiredError`` unless the client activated the extension."""
    if EXTENSION_URI not in context.requested_extensions:
        raise ExtensionSupportRequiredError(message=f"activate {EXTENSION_URI} in the A2A-Extensions header")


def check_required(params: SendMessageRequest) -> None:
    """What the protocol requires to be there, as ``validate_request_params`` asks it. Raises ``InvalidParamsError``.

    The SDK walks every field of every part for it, which costs more than to verify a signature:
    only where something may be missing.
    """
    message, push = params.message, params.configuration.HasField("task_push_notification_config")
    if push or not (message.message_id and message.role and message.parts):
        validate_proto_required_fields(params)


def check_message(params: SendMessageRequest) -> None:
    """Ids that are ids, no push notifications, and an answer in a form that this agent has."""
    message, configuration = params.message, params.configuration
    for value in (message.message_id, message.task_id, message.context_id):
        check_id(value)
    if configuration.HasField("task_push_notification_config"):
        raise PushNotificationNotSupportedError
    if wanted_form(params) is None:
        raise ContentTypeNotSupportedError(message=f"this agent answers in {RESULT_MEDIA_TYPE} or {ARROW_MEDIA_TYPE}")


def wanted_form(params: SendMessageRequest) -> str | None:
    """The first of the accepted output modes that a result comes in; JSON where none is named."""
    accepted = list(params.configuration.accepted_output_modes)
    forms = (_FORMS.get(mode) for mode in accepted or [RESULT_MEDIA_TYPE])
    return next((form for form in forms if form is not None), None)


def check_follow_up(message: Message, earlier: Task) -> None:
    """That the task still waits for input, and the message is of its context, which it then has."""
    if earlier.status.state in TERMINAL:
        raise UnsupportedOperationError(message="the task has ended: send the call without a task id")
    if message.context_id not in ("", earlier.context_id):
        raise TaskNotFoundError
    message.context_id = earlier.context_id


def check_id(value: str) -> None:
    """Ids are kept and returned: one that is no id is not taken in."""
    try:
        SessionId(value or "none")
    except InvalidId:
        raise InvalidParamsError(message=f"an id is text of at most {MAX_ID_BYTES} bytes without NUL") from None
