"""Over HTTP+JSON a fault has the binding's own form with our code in it, and nothing of what raised it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import httpx
import pytest
from a2a.server.context import ServerCallContext
from a2a.types.a2a_pb2 import GetTaskRequest, SendMessageRequest, SubscribeToTaskRequest, Task
from a2a.utils.errors import InternalError, TaskNotFoundError
from fastapi import FastAPI

from contract.errors import Category, Component, DatasetAgentError, SignerUnavailable
from remote_agent.problems import add_problem_handlers
from remote_agent.protocol import NotNow
from remote_agent.rest_door import Told, rest_routes

SECRET = "patient-0042"
AWAY = SignerUnavailable("the signer is away")
VERSION = {"A2A-Version": "1.0"}
MESSAGE = {"message": {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "hello"}]}}


class Failing(Told):
    """A handler that fails as it is told."""

    def __init__(self, fault: Exception) -> None:
        self._fault: Exception | None = fault

    async def on_get_task(self, params: GetTaskRequest, context: ServerCallContext) -> Task | None:
        raise self._fault or AWAY

    async def on_message_send(self, params: SendMessageRequest, context: ServerCallContext) -> Any:
        raise self._fault or AWAY

    async def on_message_send_stream(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[Any, None]:
        if self._fault is not None:
            raise self._fault
        yield

    async def on_subscribe_to_task(
        self, params: SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[Any, None]:
        if self._fault is not None:
            raise self._fault
        yield


async def answer(fault: Exception, method: str, path: str) -> httpx.Response:
    app = FastAPI(openapi_url=None)
    add_problem_handlers(app)
    app.router.routes.extend(rest_routes(Failing(fault), None))  # type: ignore[arg-type]
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://agent", headers=VERSION) as client:
        return await client.request(method, path, json=MESSAGE if method == "POST" else None)


DOORS = [("GET", "/tasks/t-1"), ("POST", "/message:send"), ("POST", "/message:stream"), ("GET", "/tasks/t-1:subscribe")]


@pytest.mark.parametrize(("method", "path"), DOORS)
@pytest.mark.parametrize("fault", [RuntimeError(SECRET), KeyError(SECRET), InternalError(message=SECRET)])
async def test_what_nobody_foresaw_has_a_code_and_no_text(fault: Exception, method: str, path: str) -> None:
    answered = await answer(fault, method, path)
    error = answered.json()["error"]
    assert (answered.status_code, error["code"], error["status"]) == (500, 500, "INTERNAL")
    assert error["message"] == "the dataset agent failed"
    told = error["details"][0]["metadata"]
    assert (told["code"], told["category"], told["retryable"]) == ("remote_agent.request.failed", "internal", False)
    assert SECRET not in answered.text


@pytest.mark.parametrize(("method", "path"), DOORS)
async def test_a_fault_of_ours_keeps_its_code_and_sentence(method: str, path: str) -> None:
    fault = DatasetAgentError(Component.REMOTE_AGENT, Category.INVALID_INPUT, "remote_agent.test.form", "send a call")
    answered = await answer(fault, method, path)
    error = answered.json()["error"]
    assert (answered.status_code, error["status"], error["message"]) == (400, "INVALID_ARGUMENT", "send a call")
    assert error["details"][0]["metadata"]["code"] == "remote_agent.test.form"


@pytest.mark.parametrize(("method", "path"), DOORS)
async def test_what_cannot_be_done_now_is_503_as_over_json_rpc(method: str, path: str) -> None:
    answered = await answer(NotNow(AWAY), method, path)
    assert (answered.status_code, answered.headers["content-type"]) == (503, "application/problem+json")
    assert (answered.json()["code"], answered.json()["retryable"]) == ("grants.signer.unavailable", True)


async def test_an_error_of_the_protocol_stays_as_it_is() -> None:
    answered = await answer(TaskNotFoundError(), "GET", "/tasks/t-1")
    assert (answered.status_code, answered.json()["error"]["status"]) == (404, "NOT_FOUND")
