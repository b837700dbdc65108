"""What a message of the protocol is before it is a request: who sends it, in which extension, about which task."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from a2a.auth.user import UnauthenticatedUser
from a2a.server.context import ServerCallContext
from a2a.types.a2a_pb2 import (
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    Task,
    TaskPushNotificationConfig,
    TaskState,
    TaskStatus,
)
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

from contract.extension import EXTENSION_URI
from remote_agent.incoming import caller_of, check_follow_up, check_message, check_required, require_extension


def asked(message: Message | None = None, **configuration: object) -> SendMessageRequest:
    return SendMessageRequest(
        message=message or Message(message_id="m"), configuration=SendMessageConfiguration(**configuration)
    )


def earlier(state: str) -> Task:
    return Task(id="t", context_id="c", status=TaskStatus(state=TaskState.Value(f"TASK_STATE_{state}")))


def test_who_was_not_authenticated_is_nobody() -> None:
    with pytest.raises(InternalError, match="not authenticated"):
        caller_of(ServerCallContext(user=UnauthenticatedUser()))


def test_the_extension_is_activated_or_nothing_is_done() -> None:
    require_extension(ServerCallContext(requested_extensions={EXTENSION_URI}))
    with pytest.raises(ExtensionSupportRequiredError):
        require_extension(ServerCallContext(requested_extensions={EXTENSION_URI + "x"}))


def test_a_message_wants_a_form_that_there_is_and_no_push() -> None:
    check_message(asked(accepted_output_modes=["text/html", "application/json"]))
    with pytest.raises(ContentTypeNotSupportedError):
        check_message(asked(accepted_output_modes=["text/html"]))
    with pytest.raises(PushNotificationNotSupportedError):
        check_message(asked(task_push_notification_config=TaskPushNotificationConfig(url="https://a.example")))


@pytest.mark.parametrize("url", [None, "", "https://a.example"])
@pytest.mark.parametrize("message_id", ["", "m"])
@pytest.mark.parametrize("role", [Role.ROLE_UNSPECIFIED, Role.ROLE_USER])
@pytest.mark.parametrize("parts", [[], [Part()], [Part(text="t"), Part(raw=b"r")]])
def test_what_the_protocol_requires_is_there(url: str | None, message_id: str, role: Role, parts: list[Part]) -> None:
    push = {} if url is None else {"task_push_notification_config": TaskPushNotificationConfig(url=url)}
    params = asked(Message(message_id=message_id, role=role, parts=parts), **push)
    assert fault_of(check_required, params) == fault_of(validate_proto_required_fields, params)


def test_no_message_is_none() -> None:
    assert fault_of(check_required, SendMessageRequest()) is not None


def fault_of(check: Callable[[SendMessageRequest], None], params: SendMessageRequest) -> str | None:
    try:
        check(params)
    except InvalidParamsError as error:
        return f"{error.message} {error.data}"
    return None


@pytest.mark.parametrize("member", ["message_id", "task_id", "context_id"])
def test_what_is_no_id_is_not_taken_in(member: str) -> None:
    with pytest.raises(InvalidParamsError):
        check_message(asked(Message(**{"message_id": "m", member: "x" * 5_000})))


def test_a_follow_up_is_of_a_task_that_waits_and_of_its_context() -> None:
    message = Message(message_id="m", task_id="t")
    check_follow_up(message, earlier("INPUT_REQUIRED"))
    assert message.context_id == "c"
    with pytest.raises(TaskNotFoundError):
        check_follow_up(Message(message_id="m", task_id="t", context_id="other"), earlier("INPUT_REQUIRED"))
    with pytest.raises(UnsupportedOperationError):
        check_follow_up(message, earlier("COMPLETED"))
