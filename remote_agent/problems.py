"""Faults at the doors that are plain HTTP, as problem details (RFC 9457).

JSON-RPC and the HTTP+JSON binding have error forms of their own (``a2a_faults.py``). Nothing here quotes a
request, an exception or a framework.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from contract.errors import Component, DatasetAgentError, fault_of_status
from remote_agent.protocol import NotNow

log = logging.getLogger(__name__)


def add_problem_handlers(app: FastAPI) -> None:
    """Every fault of a route, and every path or method that there is none for."""

    @app.exception_handler(DatasetAgentError)
    async def fault(_: Request, error: DatasetAgentError) -> JSONResponse:
        return _problem(error)

    @app.exception_handler(NotNow)
    async def not_now(_: Request, error: NotNow) -> JSONResponse:
        return _problem(error.fault)

    @app.exception_handler(HTTPException)
    async def refused(_: Request, error: HTTPException) -> JSONResponse:
        return _problem(fault_of_status(Component.REMOTE_AGENT, error.status_code), error.status_code, error.headers)

    @app.exception_handler(RequestValidationError)
    async def misshapen(_: Request, __: RequestValidationError) -> JSONResponse:
        return _problem(fault_of_status(Component.REMOTE_AGENT, 422), 422)

    @app.exception_handler(Exception)
    async def unforeseen(_: Request, error: Exception) -> JSONResponse:
        log.error("a request failed with %s", type(error).__name__)
        return _problem(fault_of_status(Component.REMOTE_AGENT, 500))


def _problem(
    error: DatasetAgentError, status: int | None = None, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    status = status or error.http_status_code()
    told = error.to_problem_json() | {"status": status}
    more = {**(headers or {})}
    if error.retry_after is not None:
        more["Retry-After"] = str(max(1, round(error.retry_after)))
    return JSONResponse(told, status, headers=more, media_type="application/problem+json")
