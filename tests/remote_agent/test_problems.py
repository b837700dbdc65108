"""Every fault at a door is problem details or an error of the protocol, by one table, and quotes nothing."""

from __future__ import annotations

import json

import httpx
import pytest
from a2a.utils.errors import InternalError, InvalidParamsError, TaskNotFoundError
from fastapi import FastAPI

from contract.errors import Category, Component, DatasetAgentError
from remote_agent.a2a_faults import A2A_ERRORS, a2a_error
from remote_agent.problems import add_problem_handlers
from remote_agent.protocol import _without_quotes

SECRET = "patient-0042"


@pytest.fixture
def app() -> FastAPI:
    made = FastAPI(openapi_url=None)
    add_problem_handlers(made)

    @made.get("/number/{value}")
    async def number(value: int) -> int:
        if value == 1:
            raise RuntimeError(SECRET)
        if value == 2:
            raise DatasetAgentError(Component.REMOTE_AGENT, Category.RATE_LIMITED, "a.b", "wait", retry_after=0.2)
        return value

    return made


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", f"/{SECRET}", 404, "remote_agent.path.unknown"),
        ("DELETE", "/number/3", 405, "remote_agent.method.unknown"),
        ("GET", f"/number/{SECRET}", 422, "remote_agent.request.form"),
        ("GET", "/number/1", 500, "remote_agent.request.failed"),
        ("GET", "/number/2", 429, "a.b"),
    ],
)
async def test_every_fault_of_http_is_problem_details(
    app: FastAPI, method: str, path: str, status: int, code: str
) -> None:
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://agent") as client:
        answer = await client.request(method, path)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    told = answer.json()
    assert (told["status"], told["code"], told["retryable"]) == (status, code, status == 429)
    assert SECRET not in answer.text
    assert answer.headers.get("allow") == ("GET" if status == 405 else None)
    assert answer.headers.get("retry-after") == ("1" if status == 429 else None)


def test_every_category_has_an_error_of_the_protocol_with_the_faults_code_in_its_data() -> None:
    assert set(A2A_ERRORS) == set(Category)
    for category in Category:
        error = a2a_error(DatasetAgentError(Component.REMOTE_AGENT, category, "remote_agent.test.case", "do this"))
        assert (type(error), error.message) == (A2A_ERRORS[category], "do this")
        assert error.data and (error.data["code"], error.data["category"]) == ("remote_agent.test.case", category.value)
    assert A2A_ERRORS[Category.INVALID_INPUT] is InvalidParamsError
    assert A2A_ERRORS[Category.NOT_FOUND] is TaskNotFoundError
    assert A2A_ERRORS[Category.INTERNAL] is InternalError


def test_an_exception_of_no_form_is_an_internal_error_without_its_text() -> None:
    error = _without_quotes(RuntimeError(SECRET))
    assert type(error) is InternalError and SECRET not in json.dumps([error.message, error.data])
