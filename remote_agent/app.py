"""The FastAPI composition of a dataset agent.

JSON-RPC at ``/``, HTTP+JSON beside it, the signed card, JWKS, health and readiness. Every
route but those last four is behind ``authentication.Gate``; ``/metrics`` and ``/admin`` have doors of
their own before it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from a2a.server.routes.fastapi_routes import add_a2a_routes_to_fastapi
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from starlette.middleware import Middleware
from starlette.routing import Route

from contract.errors import Component
from contract.key_ring import waits
from contract.shared_look import SharedLook
from contract.telemetry import quiet_content_loggers
from control_plane.descriptor import DatasetDescriptor
from grants.client import authenticate_client
from grants.key_sets import CACHE_CONTROL, agent_key_set
from metrics.door import PATH as METRICS_PATH
from metrics.door import MetricsDoor
from remote_agent.admin_approvals import approval_routes, served_desk
from remote_agent.admin_door import AdminDoor
from remote_agent.answer import answer
from remote_agent.approvers import Approvers
from remote_agent.authentication import PUBLIC, Authenticate, Gate, bearer
from remote_agent.caller import Caller
from remote_agent.card import card_version
from remote_agent.context import GovernedContextBuilder
from remote_agent.discover import discover
from remote_agent.executor import AdkExecutor
from remote_agent.extended_card import ExtendedCards
from remote_agent.handler import GovernedRequestHandler
from remote_agent.joining import join
from remote_agent.lifecycle import Lifecycle
from remote_agent.mcp_missing import NoMcpDoor
from remote_agent.negotiate import negotiate
from remote_agent.outcome import Answer
from remote_agent.outcome import Request as Governed
from remote_agent.problems import add_problem_handlers
from remote_agent.protocol import jsonrpc_dispatcher
from remote_agent.quotas import counting
from remote_agent.recalling import RecallApprovals
from remote_agent.rest_door import rest_routes
from remote_agent.results_door import PATH, ResultsDoor
from remote_agent.send_door import SendDoor
from remote_agent.service import Service
from remote_agent.siblings import Siblings
from remote_agent.tasks import TaskMemory
from remote_agent.telling import Telling
from remote_agent.underway import Underway
from telemetry.door import TraceDoor

if TYPE_CHECKING:
    from remote_agent.mcp_door import McpDoor


def create_app(lifecycle: Lifecycle) -> FastAPI:
    """The application of one dataset agent. ``lifecycle`` builds, reloads and closes its service."""
    settings = lifecycle.settings
    service = lifecycle.service
    executor = AdkExecutor(clock=service.clock, revision=lambda dataset: service.world.revision(dataset))
    quiet_content_loggers()

    async def respond(request: Governed, underway: Underway) -> Answer:
        if request.question is not None:
            return await negotiate(request, service, executor.discuss, underway)
        return await answer(request, service, executor.execute, underway)

    async def subscribe(request: Governed, joined: Underway, underway: Underway) -> Answer:
        return await join(request, joined, service, underway)

    cards = ExtendedCards(service, lifecycle.public_url)
    handler = GovernedRequestHandler(
        respond,
        subscribe,
        cards.of,
        TaskMemory(settings.max_tasks),
        clock=lambda: service.clock(),
        siblings=lifecycle.siblings,
        recall=RecallApprovals(service),
    )
    mcp_door = _mcp_door(service, respond, lifecycle.siblings)
    approvers = Approvers(settings, lambda: service.trust)
    telling = Telling(service, lambda: lifecycle.fault)
    contexts = GovernedContextBuilder()
    dispatcher = jsonrpc_dispatcher(handler, contexts, cards.told)
    app = FastAPI(
        title="Dataset agent",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,  # a path that is not there is 404, and is not said again in a header
        lifespan=_lifespan(handler, lifecycle, telling, mcp_door, approvers),
        middleware=[
            *_trace_door(service),
            _metrics_door(lifecycle, telling),
            Middleware(
                AdminDoor,
                desk=lifecycle.desk(),
                token=lambda: lifecycle.admin,
                further=approval_routes(served_desk(service, approvers)),
                refused=lambda: service.measures.refused("admin"),
            ),
            Middleware(
                Gate,
                authenticate=_authenticator(service),
                max_body=settings.max_body_bytes,
                refused=lambda: service.measures.refused("clients"),
                count=counting(service),
            ),
            Middleware(SendDoor, handler=handler, dispatcher=dispatcher),
        ],
    )

    add_problem_handlers(app)
    app.router.routes.append(Route("/", dispatcher.handle_requests, methods=["POST"]))
    # Before the SDK's, whose tenant mount would swallow every path of two parts.
    _add_public_routes(app, lifecycle)
    app.router.routes.append(Route(PATH, ResultsDoor(service, lifecycle.siblings)))
    app.router.routes.append(Route("/mcp/{dataset}", mcp_door))
    add_a2a_routes_to_fastapi(app, rest_routes=rest_routes(handler, contexts, cards.told))
    return app


def _mcp_door(
    service: Service, respond: Callable[[Governed, Underway], Awaitable[Answer]], siblings: Siblings
) -> McpDoor | NoMcpDoor:
    """The MCP servers of the datasets that have one, where the extra ``mcp`` is installed."""
    if find_spec("mcp") is None:
        return NoMcpDoor()
    from remote_agent.mcp_door import McpDoor

    async def discover_tools(asked: Governed) -> tuple[Answer, Sequence[DatasetDescriptor]]:
        return await discover(asked, service)

    return McpDoor(service, respond, discover_tools, siblings, version=card_version())


def _lifespan(
    handler: GovernedRequestHandler,
    lifecycle: Lifecycle,
    telling: Telling,
    mcp_door: McpDoor | NoMcpDoor,
    approvers: Approvers,
) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def run(_: FastAPI) -> AsyncIterator[None]:
        try:
            async with telling.to_siblings(), mcp_door.running():
                yield
        finally:
            await handler.close()
            await approvers.close()
            await lifecycle.close()

    return run


def _trace_door(service: Service) -> list[Middleware]:
    if not service.traces.on:
        return []
    return [Middleware(TraceDoor, traces=service.traces, untraced={*PUBLIC, METRICS_PATH})]


def _metrics_door(lifecycle: Lifecycle, telling: Telling) -> Middleware:
    measures = lifecycle.service.measures
    return Middleware(
        MetricsDoor,
        text=telling.text,
        token=lambda: lifecycle.metrics,
        at_home=not lifecycle.settings.production,
        refused=lambda: measures.refused("metrics"),
        component=Component.REMOTE_AGENT,
        clock=time.monotonic,
    )


def _authenticator(service: Service) -> Authenticate:
    def authenticate(header: str | None) -> Caller:
        client = authenticate_client(
            bearer(header), trust=service.trust, audience=service.agent_id, now=service.clock()
        )
        return Caller(client.agent, client.person)

    return authenticate


def _add_public_routes(app: FastAPI, lifecycle: Lifecycle) -> None:
    service = lifecycle.service
    look = SharedLook(lifecycle.readiness)

    @app.get("/.well-known/agent-card.json")
    async def agent_card(request: Request) -> Response:
        card = await asyncio.to_thread(lifecycle.public_card) if waits(service.signer) else lifecycle.public_card()
        headers = {"ETag": card.etag, "Cache-Control": "public, max-age=60"}
        if card.etag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(card.body, media_type="application/json", headers=headers)

    @app.get("/.well-known/jwks.json")
    async def jwks() -> Response:
        keys = agent_key_set(service.trust, service.agent_id, service.signer)
        return JSONResponse(keys, headers={"Cache-Control": CACHE_CONTROL})

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/readyz")
    async def readyz() -> Response:
        ready, report = await look()
        return JSONResponse(report | lifecycle.siblings.told, status_code=200 if ready else 503)
