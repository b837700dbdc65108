"""The root agent for applications: ``POST /ask`` with a person's bearer token, ``GET /decisions/{id}`` of what they asked.

Who asks is settled before anything else of a request is read. A verdict is an answer: 200
whatever it is. Faults are problem details (RFC 9457); a request without a verified person is
one, and leaves a line in the log and no row in the ledger.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect
from starlette.routing import Route

from contract.canonical import InvalidJson, parse_json
from contract.errors import Category, Component, DatasetAgentError, fault_of_status
from contract.shared_look import SharedLook
from contract.tracing import take_in
from contract.verdict import NotGranted
from grants.key_sets import CACHE_CONTROL, issuer_key_set
from metrics.door import PATH as METRICS_PATH
from metrics.door import MetricsDoor
from root_agent.answer_view import to_json
from root_agent.asking import Answer
from root_agent.decisions import PATH as DECISIONS_PATH
from root_agent.decisions import Decisions
from root_agent.entry import RootAgent
from root_agent.opening import close_service
from root_agent.results_relay import PATH, RelayDoor, Waiting
from root_agent.service import NOBODY_NAMED, Service
from root_agent.telling import Telling
from telemetry.door import TraceDoor

log = logging.getLogger(__name__)

_QUESTION: Final = frozenset({"question"})
_CALL: Final = frozenset({"dataset", "capability", "arguments"})
# How either is answered: the form of the rows, the zone in which words of time are read, which data are taken, by which door.
_FORM: Final = frozenset({"media_type", "zone", "max_age_s", "schema_version", "via"})
# Nobody reads it: the code that proxies log for a client that closed its request.
_GONE: Final = 499
_UNTRACED: Final = frozenset({"/.well-known/jwks.json", "/healthz", "/readyz", METRICS_PATH})
_NO_STORE: Final = {"Cache-Control": "no-store"}


def build_app(service: Service, *, max_body_bytes: int) -> FastAPI:
    """The HTTP application. Closes the service when it shuts down."""
    root, waiting, decisions = RootAgent(service), Waiting(service.clock), Decisions()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await root.close()
        await close_service(service)

    app = FastAPI(
        title="dataset-agent root",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
        middleware=[*_trace_door(service), _metrics_door(service)],
    )
    app.state.root = root

    @app.post("/ask")
    async def ask(request: Request) -> JSONResponse:
        try:
            person = await service.person(_bearer(request))
            take_in(request.scope["headers"])
            wanted = _wanted(await _body(request, max_body_bytes))
            answer = await _unless_gone(request, root.ask_for(person, **wanted))
            waiting.keep(answer)
            told = to_json(answer)
            decisions.keep(answer, told)
            return JSONResponse(told, headers=_NO_STORE)
        except (ClientDisconnect, DatasetAgentError):
            raise
        except Exception as error:  # a server prints what it is not told about, with arguments and all
            return _failed(error)

    @app.get(DECISIONS_PATH)
    async def decided(decision_id: str, request: Request) -> Response:
        found = decisions.find(decision_id, await service.person(_bearer(request)))
        return Response(found, media_type="application/json", headers=_NO_STORE)

    app.router.routes.append(Route(PATH, RelayDoor(service, waiting, _bearer)))

    @app.get("/.well-known/jwks.json")
    async def jwks() -> JSONResponse:
        """The issuer's grant keys: it runs in this process."""
        keys = issuer_key_set(service.trust, service.issuer_url, service.issuer)
        return JSONResponse(keys, headers={"Cache-Control": CACHE_CONTROL})

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    look = SharedLook(lambda: _readiness(service))

    @app.get("/readyz")
    async def readyz() -> JSONResponse:
        return JSONResponse(*await look())

    @app.exception_handler(DatasetAgentError)
    async def fault(_: Request, error: DatasetAgentError) -> JSONResponse:
        if error.category is Category.UNAUTHENTICATED:
            log.info("a request without a verified person was refused: %s", error.code)
            service.measures.refused("people")
        return _problem(error)

    @app.exception_handler(HTTPException)
    async def refused(_: Request, error: HTTPException) -> JSONResponse:
        return _problem(fault_of_status(Component.ROOT_AGENT, error.status_code), error.status_code, error.headers)

    @app.exception_handler(RequestValidationError)
    async def misshapen(_: Request, __: RequestValidationError) -> JSONResponse:
        return _problem(fault_of_status(Component.ROOT_AGENT, 422), 422)

    @app.exception_handler(ClientDisconnect)
    async def gone(_: Request, __: ClientDisconnect) -> Response:
        return Response(status_code=_GONE)

    @app.exception_handler(Exception)
    async def unforeseen(_: Request, error: Exception) -> JSONResponse:
        return _failed(error)

    return app


async def _readiness(service: Service) -> tuple[dict[str, str], int]:
    """What anybody may read, and its status."""
    try:
        await asyncio.to_thread(service.ledger.health)  # it may lie on a server
    except NotGranted as problem:
        return {"status": "unready", "ledger": problem.message}, 503
    people = service.identity_provider
    if people is not None and not people.available(service.clock()):
        return {"status": "unready", "identity_provider": "its keys cannot be read"}, 503
    return {"status": "ready", "policy_version": service.world.policy_version}, 200


def _trace_door(service: Service) -> list[Middleware]:
    return [Middleware(TraceDoor, traces=service.traces, untraced=_UNTRACED)] if service.traces.on else []


def _metrics_door(service: Service) -> Middleware:
    return Middleware(
        MetricsDoor,
        text=Telling(service).text,
        token=lambda: service.metrics_token,
        at_home=service.metrics_at_home,
        refused=lambda: service.measures.refused("metrics"),
        component=Component.ROOT_AGENT,
        clock=time.monotonic,
    )


async def _unless_gone(request: Request, asking: Coroutine[Any, Any, Answer]) -> Answer:
    """The answer. A caller who goes away cancels the run, which is recorded. Raises ``ClientDisconnect``."""
    run = asyncio.ensure_future(asking)
    gone = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait({run, gone}, return_when=asyncio.FIRST_COMPLETED)
        if run.done():
            return run.result()
        raise ClientDisconnect
    finally:
        gone.cancel()
        if run.cancel():
            await asyncio.wait({run})


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _bearer(request: Request) -> str | None:
    lines = request.headers.getlist("authorization")
    scheme, _, token = (lines[0] if len(lines) == 1 else "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


async def _body(request: Request, limit: int) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise DatasetAgentError(
                Component.ROOT_AGENT,
                Category.INVALID_INPUT,
                "root_agent.body.too_large",
                f"the request body is over {limit} bytes",
            )
    return bytes(body)


def _wanted(body: bytes) -> dict[str, Any]:
    try:
        value = parse_json(body, limit=len(body))
    except InvalidJson as error:
        raise _invalid(f"the body is not acceptable: {error}") from error
    form = {name: value[name] for name in _FORM if name in value} if isinstance(value, dict) else {}
    if isinstance(value, dict) and set(value) - _FORM == _QUESTION:
        return {"question": value["question"], **form}
    if isinstance(value, dict) and set(value) - _FORM - {"task"} == _CALL:
        return {"call": {name: value[name] for name in _CALL}, "task": value.get("task"), **form}
    raise _invalid(
        'send {"question"} or {"dataset", "capability", "arguments"}, the call perhaps with "task", '
        f"and beside them only {', '.join(sorted(_FORM))}"
    )


def _invalid(message: str) -> DatasetAgentError:
    return DatasetAgentError(Component.ROOT_AGENT, Category.INVALID_INPUT, "root_agent.ask.body", message)


def _failed(error: Exception) -> JSONResponse:
    log.error("a request failed with %s", type(error).__name__)
    return _problem(
        DatasetAgentError(Component.ROOT_AGENT, Category.INTERNAL, "root_agent.request.failed", "the root agent failed")
    )


def _challenge(error: DatasetAgentError) -> str:
    """RFC 6750, section 3: no error code for who brought no token. The fault's text is fixed and ASCII."""
    realm = 'Bearer realm="dataset-agent"'
    if error.code == NOBODY_NAMED:
        return realm
    return f'{realm}, error="invalid_token", error_description="{error.message}"'


def _problem(
    error: DatasetAgentError, status: int | None = None, more: Mapping[str, str] | None = None
) -> JSONResponse:
    status = status or error.http_status_code()
    headers = {**(more or {}), **_NO_STORE}
    if status == 401:
        headers["WWW-Authenticate"] = _challenge(error)
    if error.retry_after is not None:
        headers["Retry-After"] = str(max(1, round(error.retry_after)))
    return JSONResponse(
        error.to_problem_json() | {"status": status}, status, headers=headers, media_type="application/problem+json"
    )
