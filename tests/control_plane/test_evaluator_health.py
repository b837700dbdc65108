"""A policy server is asked how it is, for whoever watches it; what it says decides nothing."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from contract.settings import SHIPPED_DATASETS
from control_plane.evaluator import DECISION_PATH, EvaluatorUnavailable, HttpEvaluator
from dataset_agent.policy_server import PolicyFile, create_policy_app
from tests.control_plane.control_plane_world import make_question
from tests.control_plane.policy_servers import listening


async def test_a_policy_server_that_is_well_says_so(tmp_path: Path) -> None:
    async with listening(create_policy_app(PolicyFile(SHIPPED_DATASETS, tmp_path))) as url:
        evaluator = HttpEvaluator(url, 5.0)
        await evaluator.health()
        await evaluator.close()


@pytest.mark.parametrize("origin", ["http://pages.example", "null", ""])
async def test_a_page_in_a_browser_learns_nothing_of_the_policies(origin: str, tmp_path: Path) -> None:
    """One of the same origin too: a browser looks up a name again, and then it is this machine's."""
    question = json.dumps({"input": make_question().to_json()})
    async with (
        listening(create_policy_app(PolicyFile(SHIPPED_DATASETS, tmp_path))) as url,
        httpx.AsyncClient(base_url=url, trust_env=False) as client,
    ):
        headers = {"Host": "pages.example:8802", "Content-Type": "text/plain"}
        asked = await client.post(DECISION_PATH, content=question, headers=headers)
        paged = await client.post(DECISION_PATH, content=question, headers=headers | {"Origin": origin})
    assert (asked.status_code, paged.status_code) == (200, 403)
    assert "result" not in paged.text


async def test_one_that_is_away_or_says_anything_else_is_not_well() -> None:
    async def unwell(scope: object, receive: object, send: object) -> None:
        await send({"type": "http.response.start", "status": 503, "headers": []})  # type: ignore[operator]
        await send({"type": "http.response.body", "body": b""})  # type: ignore[operator]

    async with listening(unwell) as url:
        evaluator = HttpEvaluator(url, 5.0)
        with pytest.raises(EvaluatorUnavailable):
            await evaluator.health()
    with pytest.raises(httpx.HTTPError):
        await evaluator.health()
    await evaluator.close()
