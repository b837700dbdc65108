"""The tool of the README does what the page says: five members whatever comes, and no token in reach of a model."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCK = re.search(r"^```python\n(.*?)^```$", README, re.M | re.S)
GRANTED = {
    "verdict": "GRANTED",
    "reason": "PRINCIPAL_AUTHORIZED",
    "rationale": "policy P-1 permits it",
    "missing": [],
    "result": {"schema": [{"name": "id"}, {"name": "level"}], "rows": [["a", 1], ["b", None]], "row_count": 2},
    "provenance": {"envelope": {}},
    "trace_id": "0" * 32,
}
REFUSED = GRANTED | {"verdict": "REFUSED", "reason": "INSUFFICIENT_PRIVILEGE", "result": None}
PROBLEM = {"status": 401, "code": "control_plane.identity.expired", "detail": "the token has expired", "title": "x"}


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names that the block defines; saving and importing it needs no key of a model."""
    assert BLOCK is not None
    monkeypatch.delenv("GOOGLE_API_KEY", raising=False)
    monkeypatch.setenv("PERSON_TOKEN", "a-token")
    names: dict[str, Any] = {}
    exec(compile(BLOCK[1], "assistant.py", "exec"), names)
    return names


def _answering(monkeypatch: pytest.MonkeyPatch, answer: Callable[[httpx.Request], httpx.Response]) -> None:
    client = httpx.AsyncClient

    def mocked(**options: Any) -> httpx.AsyncClient:
        return client(transport=httpx.MockTransport(answer), **options)

    monkeypatch.setattr(httpx, "AsyncClient", mocked)


async def test_rows_come_under_their_column_names_and_the_rest_stays_away(
    tool: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json=GRANTED)

    _answering(monkeypatch, answer)
    assert await tool["ask_dataset"]("a question") == {
        "verdict": "GRANTED",
        "reason": "PRINCIPAL_AUTHORIZED",
        "rationale": "policy P-1 permits it",
        "missing": [],
        "approval": None,
        "rows": [{"id": "a", "level": 1}, {"id": "b", "level": None}],
    }
    assert seen[0].headers["authorization"] == "Bearer a-token"


@pytest.mark.parametrize(
    ("response", "verdict", "reason"),
    [
        (httpx.Response(200, json=REFUSED), "REFUSED", "INSUFFICIENT_PRIVILEGE"),
        (httpx.Response(401, json=PROBLEM), "INDETERMINATE", "control_plane.identity.expired"),
        (httpx.Response(502, text="<html>"), "INDETERMINATE", "root_agent.unreachable"),
        (httpx.ConnectError("refused"), "INDETERMINATE", "root_agent.unreachable"),
        (httpx.ReadTimeout("slow"), "INDETERMINATE", "root_agent.unreachable"),
    ],
)
async def test_whatever_comes_has_the_same_members_and_no_row(
    tool: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    response: httpx.Response | httpx.HTTPError,
    verdict: str,
    reason: str,
) -> None:
    def answer(_: httpx.Request) -> httpx.Response:
        if isinstance(response, httpx.Response):
            return response
        raise response

    _answering(monkeypatch, answer)
    told = await tool["ask_dataset"]("a question")
    assert set(told) == {"verdict", "reason", "rationale", "missing", "approval", "rows"}
    assert (told["verdict"], told["reason"], told["missing"], told["rows"]) == (verdict, reason, [], [])
    assert told["rationale"]


def test_the_model_gives_a_question_and_nothing_else(tool: dict[str, Any]) -> None:
    assert list(inspect.signature(tool["ask_dataset"]).parameters) == ["question"]
    assert tool["agent"].tools == [tool["ask_dataset"]]
