"""Over MCP, too: a large result is linked and fetched under a leaf of its own, and who leaves stops the query."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from contract.result import StoredResult
from dataset_agent.login import identity_token
from dataset_agent.result_output import write_result
from root_agent.answer_view import to_json
from root_agent.entry import RootAgent
from root_agent.opening import close_service, open_service
from tests.engine_taps import hold_all
from tests.mcp_asker import DATASET
from tests.running_agent import RunningAgent, agent_home, running_agent

pytestmark = pytest.mark.live

CALL = {"dataset": DATASET, "capability": "search", "arguments": {"query": "a"}}


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[RunningAgent]:
    with running_agent(agent_home(tmp_path / "home", max_result_bytes=4_096)) as served:
        yield served


async def test_a_large_result_of_a_tool_is_fetched_from_the_agent_that_signed_it(
    agent: RunningAgent, tmp_path: Path
) -> None:
    settings = agent.settings.model_copy(update={"url": agent.url})
    service = open_service(settings)
    root = RootAgent(service)
    try:
        answer = await root.ask(identity_token(settings, "process_engineer"), call=CALL, via="mcp")
        told = to_json(answer)
        assert isinstance(answer.document, StoredResult), told["rationale"]
        assert (told["result"]["rows"], len(told["mcp_calls"])) == (None, 1)
        await write_result(answer, service, tmp_path / "rows.json")
        assert json.loads((tmp_path / "rows.json").read_bytes())["row_count"] == told["result"]["row_count"] > 0
    finally:
        await root.close()
        await close_service(service)


async def test_who_leaves_a_tool_call_stops_it_and_both_have_a_row(agent: RunningAgent) -> None:
    settings = agent.settings.model_copy(update={"url": agent.url})
    service = open_service(settings)
    root, begun = RootAgent(service), asyncio.Event()
    loop = asyncio.get_running_loop()

    async def wait() -> None:
        loop.call_soon_threadsafe(begun.set)
        await asyncio.sleep(60)

    undo = hold_all(wait)
    try:
        asking = asyncio.ensure_future(root.ask(identity_token(settings, "process_engineer"), call=CALL, via="mcp"))
        await asyncio.wait_for(begun.wait(), 30)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        for _ in range(200):
            if agent.rows() and agent.rows()[-1].cells["reason"] == "CANCELLED":
                break
            await asyncio.sleep(0.05)
        assert agent.rows()[-1].cells["reason"] == "CANCELLED"
        assert list(service.ledger.rows())[-1].cells["reason"] == "CANCELLED"
    finally:
        undo()
        await root.close()
        await close_service(service)
