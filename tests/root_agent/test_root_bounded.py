"""Only bounded capabilities are there: in descriptors, as tools, on cards and in the root agent's own graph."""

from __future__ import annotations

import re
from typing import Any

import pytest
from google.adk.models.llm_response import LlmResponse
from google.adk.workflow import FunctionNode, Workflow
from google.genai import types

from control_plane.tools import tools_of
from root_agent.entry import build_app
from root_agent.holder import Desk
from root_agent.propose import Proposed, intent_agent
from tests.root_agent.scripted_remote import ScriptedRemote, TestSigner
from tests.shipped_registry import shipped_registry

DATASETS = shipped_registry().datasets
UNBOUNDED = re.compile(r"sql|raw|any_|execute|invoke|query_database|read_any|object", re.IGNORECASE)


@pytest.mark.parametrize("dataset", DATASETS)
def test_no_capability_and_no_tool_is_one_for_anything(dataset: str) -> None:
    descriptor = DATASETS[dataset]
    names = {name for item in descriptor.capabilities for name in (item.name, item.tool_name, item.mcp_tool_name)}
    parameters = {parameter.name for item in descriptor.capabilities for parameter in item.parameters}
    assert [name for name in names | parameters | set(tools_of(descriptor)) if name and UNBOUNDED.search(name)] == []


@pytest.mark.parametrize("dataset", DATASETS)
def test_a_tool_declares_name_description_and_every_parameter_and_nothing_of_governance(dataset: str) -> None:
    for tool in tools_of(DATASETS[dataset]).values():
        declared = tool.declaration()
        assert declared["name"] and declared["description"]
        assert set(declared["inputSchema"]["properties"]) >= {item.name for item in tool.capability.parameters}
        assert not re.search(r"BPD-|policy|grant|clearance|sensitivity", str(declared["inputSchema"]))


def test_a_card_offers_no_skill_for_anything() -> None:
    remote = ScriptedRemote(TestSigner(), [item.published() for item in DATASETS.values()], url="http://127.0.0.1:9")
    remote.publish()
    assert remote.card is not None
    assert [skill.id for skill in remote.card.skills if UNBOUNDED.search(skill.id)] == []


def test_the_root_agents_graph_holds_its_own_steps_and_no_tool_and_no_agent() -> None:
    """Each under a name of its own."""

    def no_service() -> Any:
        raise AssertionError("nothing is opened to look at the graph")

    root = build_app(no_service, Desk()).root_agent
    assert isinstance(root, Workflow) and root.graph is not None
    steps = [node for node in root.graph.nodes if node.name != "__START__"]
    assert all(type(step) is FunctionNode for step in steps)
    assert len({step.name for step in steps}) == len(steps)


def test_a_part_of_what_a_model_is_still_writing_is_no_proposal() -> None:
    proposed = Proposed()
    agent = intent_agent("none", "q", [], proposed)
    written: Any = agent.after_model_callback

    def said(text: str, *, partial: bool) -> None:
        content = types.Content(role="model", parts=[types.Part(text=text)])
        answer = written(callback_context=None, llm_response=LlmResponse(content=content, partial=partial))
        assert answer.content.parts[0].text == "proposed" and answer.partial is partial

    said('{"dataset": "clinical-private"}', partial=True)
    assert proposed.read() is None
    said('{"dataset": "purification-batches"}', partial=False)
    assert proposed.read() == {"dataset": "purification-batches"}
