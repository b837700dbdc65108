"""Tools and revision are those of the moment: what a descriptor newly names can be called, and what is stale is admitted anew."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from contract.settings import SHIPPED_DATASETS
from dataset_agent.login import identity_token
from root_agent.answer_view import to_json
from root_agent.entry import RootAgent
from root_agent.opening import close_service, open_service
from tests.mcp_asker import DATASET, McpAsker
from tests.running_agent import COMPARE, RunningAgent, agent_home, running_agent

pytestmark = pytest.mark.live

CALL = {"dataset": DATASET, "capability": "compare_batches", "arguments": COMPARE}


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[RunningAgent]:
    shutil.copytree(SHIPPED_DATASETS, tmp_path / "datasets")
    settings = agent_home(tmp_path / "home", datasets=tmp_path / "datasets")
    with running_agent(settings) as served:
        yield served


def edit(agent: RunningAgent, **changes: Any) -> None:
    path = agent.settings.datasets / DATASET / "descriptor.yaml"
    raw = yaml.safe_load(path.read_text())
    for capability in raw["capabilities"]:
        if capability["name"] == "compare_batches":
            for name in ("mcp_tool_name", "preferred"):
                capability.pop(name, None)
                if changes.get(name):
                    capability[name] = changes[name]
    raw["revision"] = changes["revision"]
    path.write_text(yaml.safe_dump(raw, sort_keys=False))
    agent.run(agent.lifecycle.reload())


async def test_tools_and_revision_are_read_when_they_are_asked_for(agent: RunningAgent) -> None:
    settings = agent.settings.model_copy(update={"url": agent.url})
    service, caller = open_service(settings), McpAsker(agent.settings, agent.url)
    root, token = RootAgent(service), identity_token(settings, "process_engineer")
    try:
        stale = caller.tool_grant("compare_batches", COMPARE)
        first = to_json(await root.ask(token, call=CALL, via="mcp"))
        assert (first["verdict"], first["attempts"]) == ("GRANTED", 1)

        edit(agent, revision="r2", mcp_tool_name="compare_batches", preferred="mcp")
        reply = await caller.called("compare_batches", COMPARE, caller.mcp_headers(stale))
        assert (reply.reason, reply.body) == ("UNKNOWN_DATASET_REVISION", b"")
        second = to_json(
            await root.ask(token, call=CALL)
        )  # the card is old: admitted anew, and by the tool now preferred
        assert (second["verdict"], second["revision"], second["attempts"]) == ("GRANTED", "r2", 2)
        assert len(second["mcp_calls"]) == 1

        edit(agent, revision="r2")  # no tool any more, whatever a card that is kept says
        gone = to_json(await root.ask(token, call={**CALL, "arguments": {"batch_a": "B003", "batch_b": "B004"}}))
        assert (gone["verdict"], gone["reason"], gone["mcp_calls"]) == ("INDETERMINATE", "REMOTE_RESPONSE_INVALID", [])
        grant = caller.tool_grant("compare_batches", COMPARE)
        reply = await caller.called("compare_batches", COMPARE, caller.mcp_headers(grant))
        assert (reply.reason, reply.body) == ("UNREGISTERED_CAPABILITY", b"")

        edit(agent, revision="r2", mcp_tool_name="compare_two", preferred="tool")
        service.cards.forget_all()
        named = to_json(await root.ask(token, call=CALL, via="mcp"))
        assert (named["verdict"], [call["tool"] for call in named["mcp_calls"]]) in (
            ("GRANTED", ["compare_two"]),
            ("GRANTED", []),  # found where the other tool's answer was stored
        )
    finally:
        await root.close()
        await close_service(service)
