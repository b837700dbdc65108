"""A plain SendMessage goes from the gate straight to the handler; the application answers every other request."""

from __future__ import annotations

import orjson
from a2a.server.request_handlers.response_helpers import build_error_response
from a2a.utils.constants import PROTOCOL_VERSION_1_0
from a2a.utils.errors import A2AError
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from remote_agent.authentication import BODY
from remote_agent.context import VERSION, context_of
from remote_agent.handler import GovernedRequestHandler
from remote_agent.protocol import QuietDispatcher
from remote_agent.wire import Sent, read_sent


class SendDoor:
    """Answers as the SDK's own JSON-RPC door does, without its conversions and without a router.

    Plain is a POST to ``/`` that says version 1.0 and waits for its answer, with a body that ``read_sent`` reads.
    What is malformed is not, so that there is one place that says what is wrong with it.
    """

    def __init__(self, app: ASGIApp, handler: GovernedRequestHandler, dispatcher: QuietDispatcher) -> None:
        self._app = app
        self._handler = handler
        self._dispatcher = dispatcher

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != "/" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        sent, context = read_sent(scope[BODY]), context_of(scope)
        if sent is None or not _waits(sent) or context.state["headers"].get(VERSION) != PROTOCOL_VERSION_1_0:
            await self._app(scope, receive, send)
            return
        try:
            told = await self._handler.send(sent.params, context)
            body = orjson.dumps({"result": {"task": told}, "id": sent.id, "jsonrpc": "2.0"})
        except A2AError as error:
            await JSONResponse(build_error_response(sent.id, error))(scope, receive, send)
        except Exception as error:
            await self._dispatcher.failed(sent.id, error)(scope, receive, send)
        else:
            headers = [(b"content-length", b"%d" % len(body)), (b"content-type", b"application/json")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": body})


def _waits(sent: Sent) -> bool:
    """Whether the sender waits for the answer, which ``send`` is for."""
    return not sent.params.configuration.return_immediately
