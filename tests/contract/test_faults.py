"""A fault is one structured error: a code with its component's name, one status, one line, and nothing of a framework."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from contract.errors import Category, Component, DatasetAgentError, fault_of_status

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("cache", "contract", "control_plane", "dataset_agent", "delegation", "evidence", "grants", "metrics", "queries", "remote_agent", "root_agent")  # fmt: skip
_CODE = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*){1,3}")


def codes() -> Iterator[tuple[str, str]]:
    """Every code that stands as text where a fault is made, with its place."""
    for package in PRODUCT:
        for file in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "DatasetAgentError":
                    for value in node.args[2:3]:
                        if isinstance(value, ast.Constant):
                            yield f"{file.relative_to(ROOT)}:{node.lineno}", value.value


def test_every_code_is_dotted_lower_case_and_none_is_a_leftover() -> None:
    found = dict(codes())
    assert len(found) > 40
    wrong = {place: code for place, code in found.items() if not _CODE.fullmatch(code) or code.endswith(".legacy")}
    assert wrong == {}


STATUS = {
    Category.INVALID_INPUT: 400,
    Category.UNAUTHENTICATED: 401,
    Category.FORBIDDEN: 403,
    Category.NOT_FOUND: 404,
    Category.CONFLICT: 409,
    Category.TIMEOUT: 504,
    Category.RATE_LIMITED: 429,
    Category.UNAVAILABLE: 503,
    Category.CONFIGURATION: 500,
    Category.INTERNAL: 500,
}


def test_every_category_has_one_status_and_exactly_three_may_be_tried_again() -> None:
    faults = [DatasetAgentError(Component.COMMAND, category, "command.test", "do this") for category in Category]
    assert {fault.category: fault.http_status_code() for fault in faults} == STATUS
    retryable = {fault.category for fault in faults if fault.is_retryable}
    assert retryable == {Category.RATE_LIMITED, Category.UNAVAILABLE, Category.TIMEOUT}
    assert {fault.category for fault in faults if fault.is_not_found} == {Category.NOT_FOUND}


def test_what_is_too_large_has_its_own_status() -> None:
    fault = DatasetAgentError(Component.COMMAND, Category.INVALID_INPUT, "command.body.too_large", "send less")
    assert (fault.http_status_code(), fault.to_problem_json()["status"]) == (413, 413)


def test_problem_details_have_all_members_and_the_retry_hint_where_there_is_one() -> None:
    fault = DatasetAgentError(
        Component.COMMAND, Category.RATE_LIMITED, "command.busy", "try again", retry_after=2.0, details={"n": 1}
    )
    assert fault.to_problem_json() == {
        "type": "urn:dataset-agent:error:command.busy",
        "title": "rate limited",
        "status": 429,
        "detail": "try again",
        "component": "command",
        "code": "command.busy",
        "retryable": True,
        "retry_after": 2.0,
        "details": {"n": 1},
    }


@pytest.mark.parametrize("status", [400, 404, 405, 413, 415, 422, 431, 500, 502])
def test_a_frameworks_bare_status_is_a_fault_with_a_code(status: int) -> None:
    fault = fault_of_status(Component.ROOT_AGENT, status)
    assert _CODE.fullmatch(fault.code) and fault.code.startswith("root_agent.")
    assert (fault.http_status_code() >= 500) is (status >= 500)
