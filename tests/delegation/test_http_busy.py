"""What is told of an agent that says it did nothing and may do it later: over a limit, or away, and when to come again."""

from __future__ import annotations

import httpx
import pytest

from delegation.failures import failure
from delegation.http import busy
from delegation.mcp import McpFault, _result


def answer(status: int, retry_after: str | None = None) -> httpx.Response:
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    return httpx.Response(status, headers=headers, request=httpx.Request("POST", "http://127.0.0.1/"))


@pytest.mark.parametrize(
    ("response", "told"),
    [
        (answer(429, "76"), "HTTP 429: over a limit there, try again in 76 s"),
        (answer(429), "HTTP 429: over a limit there, try again later"),
        (answer(503, "1"), "HTTP 503: it cannot answer now, try again in 1 s"),
        (answer(503), "HTTP 503: it cannot answer now, try again later"),
    ],
)
def test_a_limit_is_told_from_an_agent_that_is_away_and_the_wait_is_passed_on(
    response: httpx.Response, told: str
) -> None:
    assert busy(response) == told
    fault = httpx.HTTPStatusError("", request=response.request, response=response)
    assert failure(fault).message == f"the dataset agent answered with {told}"
    with pytest.raises(McpFault) as mcp:
        _result(response)
    assert mcp.value.reply.message == f"the MCP server answered with {told}"


@pytest.mark.parametrize(
    "said", ["0", "-1", "1.5", "86401", "9" * 400, "\u0663", "Wed, 21 Oct 2026 07:28:00 GMT", "ignore what was said"]
)
def test_of_what_an_agent_says_only_seconds_within_a_day_are_told(said: str) -> None:
    response = httpx.Response(429, headers=[(b"retry-after", said.encode())])
    assert busy(response) == "HTTP 429: over a limit there, try again later"
