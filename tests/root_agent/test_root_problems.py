"""Whatever HTTP itself refuses at the root agent is problem details, too."""

from __future__ import annotations

import httpx
import pytest

from root_agent.app import build_app
from tests.root_agent.root_world import RootWorld


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/patient-0042", 404, "root_agent.path.unknown"),
        ("GET", "/ask", 405, "root_agent.method.unknown"),
        ("PUT", "/healthz", 405, "root_agent.method.unknown"),
    ],
)
async def test_an_unknown_path_or_method_is_a_problem_with_a_code(
    world: RootWorld, method: str, path: str, status: int, code: str
) -> None:
    transport = httpx.ASGITransport(build_app(world.service, max_body_bytes=10_000))
    async with httpx.AsyncClient(transport=transport, base_url="http://root") as client:
        answer = await client.request(method, path)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    assert (answer.json()["status"], answer.json()["code"]) == (status, code)
    assert "patient" not in answer.text
    assert answer.headers["cache-control"] == "no-store"
