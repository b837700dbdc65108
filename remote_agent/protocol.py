"""The SDK's doors without its texts: a parse error quotes its input, and an input may hold an argument."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from a2a.server.context import ServerCallContext
from a2a.server.jsonrpc_models import InternalError as JSONRPCInternalError
from a2a.server.jsonrpc_models import JSONParseError, JSONRPCError
from a2a.server.request_handlers.request_handler import RequestHandler
from a2a.server.routes.common import ServerCallContextBuilder
from a2a.server.routes.jsonrpc_dispatcher import JsonRpcDispatcher
from a2a.types.a2a_pb2 import (
    AgentCard,
    DeleteTaskPushNotificationConfigRequest,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTaskPushNotificationConfigsResponse,
    TaskPushNotificationConfig,
)
from a2a.utils.errors import (
    A2AError,
    InternalError,
    InvalidParamsError,
    InvalidRequestError,
    PushNotificationNotSupportedError,
)
from google.protobuf.json_format import MessageToDict
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from contract.errors import DatasetAgentError
from remote_agent.a2a_faults import a2a_error, unforeseen

_LOGGERS: Final = (
    "a2a.server.routes.jsonrpc_dispatcher",
    "a2a.server.routes.rest_dispatcher",
    "a2a.utils.error_handlers",
)
MALFORMED: Final = "the parameters do not have the form of the method"


class _NoQuotes(logging.Filter):
    """Keeps the SDK's request errors as events, without the texts and tracebacks that quote requests."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = "a request was malformed or failed", None
        record.exc_info = record.exc_text = record.stack_info = None
        return True


class NotNow(HTTPException):
    """A fault of this agent's own that passes: an HTTP status, which JSON-RPC lets through, and no protocol error."""

    def __init__(self, fault: DatasetAgentError) -> None:
        super().__init__(fault.http_status_code(), fault.message)
        self.fault = fault


class NoPushNotifications(RequestHandler):
    """An agent that calls nobody back."""

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


class QuietDispatcher(JsonRpcDispatcher):
    """JSON-RPC errors that keep their code and lose what quotes the request.

    ``card_json`` writes the extended card, which the SDK would write anew each time.
    """

    card_json: Callable[[AgentCard], dict[str, Any]] = staticmethod(MessageToDict)

    async def _handle_get_extended_agent_card(
        self, request_obj: GetExtendedAgentCardRequest, context: ServerCallContext
    ) -> dict[str, Any]:
        return self.card_json(await self.request_handler.on_get_extended_agent_card(request_obj, context))

    def failed(self, request_id: str | int, error: Exception) -> Response:
        """The answer to a request that could not be answered."""
        return self._generate_error_response(request_id, error)

    def _generate_error_response(
        self, request_id: str | int | None, error: Exception | JSONRPCError | A2AError
    ) -> JSONResponse:
        return super()._generate_error_response(request_id, _without_quotes(error))


def _without_quotes(error: Exception | JSONRPCError | A2AError) -> Exception | JSONRPCError | A2AError:
    """The error with its code. Texts that came from an exception, and may quote a request, become fixed ones."""
    if isinstance(error, DatasetAgentError):
        return a2a_error(error)
    data = getattr(error, "data", None)
    if isinstance(error, (InvalidParamsError, InvalidRequestError)) and isinstance(data, dict) and "parseError" in data:
        return type(error)(message=MALFORMED)
    if isinstance(error, JSONParseError):
        return JSONParseError(message="the body is not valid JSON")
    if isinstance(error, (InternalError, JSONRPCInternalError)) or not isinstance(error, (A2AError, JSONRPCError)):
        is_ours = isinstance(error, InternalError) and isinstance(data, dict) and "code" in data
        return error if is_ours else unforeseen()
    return error


def jsonrpc_dispatcher(
    handler: RequestHandler,
    contexts: ServerCallContextBuilder,
    card_json: Callable[[AgentCard], dict[str, Any]] = MessageToDict,
) -> QuietDispatcher:
    """JSON-RPC, whatever is sent."""
    quiet_request_errors()
    dispatcher = QuietDispatcher(request_handler=handler, context_builder=contexts)
    dispatcher.card_json = card_json
    return dispatcher


def quiet_request_errors() -> None:
    """Filter the SDK's request-error loggers once."""
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        if not any(isinstance(held, _NoQuotes) for held in logger.filters):
            logger.addFilter(_NoQuotes())
