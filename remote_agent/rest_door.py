"""HTTP+JSON beside JSON-RPC, with the same faults: the SDK's routes know its own errors only, and drop every other one.

A fault leaves in the binding's own form (``error`` with ``code``, ``status``, ``message`` and ``details``), and its
``details`` name our code as the ``data`` of a JSON-RPC error does. What this agent cannot do now is no protocol
error in either binding: it is problem details with 503 and ``Retry-After``.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager
from contextvars import ContextVar
from typing import Any, Final

from a2a.server.context import ServerCallContext
from a2a.server.events.event_queue import Event
from a2a.server.request_handlers.request_handler import RequestHandler
from a2a.server.routes import create_rest_routes
from a2a.server.routes.common import ServerCallContextBuilder
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
)
from a2a.utils.constants import PROTOCOL_VERSION_1_0
from a2a.utils.error_handlers import rest_error_handler
from a2a.utils.errors import A2AError, InternalError
from a2a.utils.version_validator import validate_version
from google.protobuf.json_format import MessageToDict
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route

from contract.errors import DatasetAgentError
from remote_agent.a2a_faults import a2a_error, unforeseen
from remote_agent.protocol import MALFORMED, NoPushNotifications, NotNow, quiet_request_errors

log = logging.getLogger(__name__)

_NOT_NOW: ContextVar[NotNow | None] = ContextVar("dataset_agent_rest_not_now", default=None)
"""What the SDK's route is about to drop, for the route around it."""
_BAD_REQUEST: Final = 400
_CARD: Final = "/extendedAgentCard"
Endpoint = Callable[[Request], Awaitable[Response]]


def rest_routes(
    handler: RequestHandler,
    contexts: ServerCallContextBuilder,
    card_json: Callable[[AgentCard], dict[str, Any]] = MessageToDict,
) -> list[BaseRoute]:
    """The routes, also under a tenant's path; a body that does not parse is 400 without a quote of it.

    ``card_json`` writes the extended card, which the SDK would write anew each time.
    """
    quiet_request_errors()
    told_by = Told(handler)
    card = _card_endpoint(told_by, contexts, card_json)
    return [_quiet(route, card) for route in create_rest_routes(told_by, context_builder=contexts)]


class Told(NoPushNotifications):
    """The handler, whose faults are errors of the protocol before they reach the SDK's routes."""

    def __init__(self, handler: RequestHandler) -> None:
        self._handler = handler

    async def on_message_send(self, params: SendMessageRequest, context: ServerCallContext) -> Task | Message:
        with told():
            return await self._handler.on_message_send(params, context)

    async def on_message_send_stream(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event, None]:
        with told():
            async with aclosing(self._handler.on_message_send_stream(params, context)) as events:
                async for event in events:
                    yield event

    async def on_subscribe_to_task(
        self, params: SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event, None]:
        with told():
            async with aclosing(self._handler.on_subscribe_to_task(params, context)) as events:
                async for event in events:
                    yield event

    async def on_get_task(self, params: GetTaskRequest, context: ServerCallContext) -> Task | None:
        with told():
            return await self._handler.on_get_task(params, context)

    async def on_list_tasks(self, params: ListTasksRequest, context: ServerCallContext) -> ListTasksResponse:
        with told():
            return await self._handler.on_list_tasks(params, context)

    async def on_cancel_task(self, params: CancelTaskRequest, context: ServerCallContext) -> Task | None:
        with told():
            return await self._handler.on_cancel_task(params, context)

    async def on_get_extended_agent_card(
        self, params: GetExtendedAgentCardRequest, context: ServerCallContext
    ) -> AgentCard:
        with told():
            return await self._handler.on_get_extended_agent_card(params, context)


@contextmanager
def told() -> Iterator[None]:
    """Inside, every fault becomes an error of the protocol that quotes nothing, or is left for the route."""
    try:
        yield
    except NotNow as fault:
        _NOT_NOW.set(fault)
        raise
    except DatasetAgentError as fault:
        raise a2a_error(fault) from None
    except InternalError as error:
        raise (error if isinstance(error.data, dict) and "code" in error.data else unforeseen()) from None
    except A2AError:
        raise
    except Exception as error:
        log.error("a request failed with %s", type(error).__name__)
        raise unforeseen() from None


def _card_endpoint(
    handler: Told, contexts: ServerCallContextBuilder, card_json: Callable[[AgentCard], dict[str, Any]]
) -> Endpoint:
    @validate_version(PROTOCOL_VERSION_1_0)
    async def found(context: ServerCallContext) -> AgentCard:
        return await handler.on_get_extended_agent_card(GetExtendedAgentCardRequest(), context)

    @rest_error_handler
    async def answer(request: Request) -> Response:
        return JSONResponse(card_json(await found(contexts.build(request))))

    return answer


def _quiet(route: BaseRoute, card: Endpoint) -> BaseRoute:
    if isinstance(route, Mount):
        return Mount(route.path, routes=[_quiet(inner, card) for inner in route.routes])
    if not isinstance(route, Route):
        raise TypeError("the SDK's HTTP+JSON routes are routes and mounts")
    endpoint: Endpoint = card if route.path == _CARD else route.endpoint

    async def answer(request: Request) -> Response:
        token = _NOT_NOW.set(None)
        try:
            response = await endpoint(request)
            if (fault := _NOT_NOW.get()) is not None:
                raise fault
            return _malformed_reply() if _is_parse_error(response) else response
        finally:
            _NOT_NOW.reset(token)

    return Route(route.path, answer, methods=sorted(route.methods or ()))


def _is_parse_error(response: Response) -> bool:
    """Whether the SDK answers with the text of a parse error (its reason for those is INVALID_REQUEST)."""
    return response.status_code == _BAD_REQUEST and b'"INVALID_REQUEST"' in bytes(getattr(response, "body", b""))


def _malformed_reply() -> Response:
    error = {"code": _BAD_REQUEST, "status": "INVALID_ARGUMENT", "message": MALFORMED}
    return JSONResponse({"error": error}, status_code=_BAD_REQUEST)
