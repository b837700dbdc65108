"""What has a name or an id at the root agent: agents once each, and a run only with ids that are some."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from google.adk.workflow import START, FunctionNode, Workflow
from google.genai import types

from contract.ids import SessionId
from delegation.trace import new_trace_id
from root_agent.asking import Asking
from root_agent.entry import begin
from root_agent.holder import Desk
from root_agent.identity import RequestContext
from root_agent.wanted import Wanted
from root_agent.workflow import Nodes, build_workflow
from tests.root_agent.root_world import RootWorld


def context(session_id: str, user_id: str, invocation_id: str = "i") -> Any:
    session = SimpleNamespace(id=session_id, app_name="root_agent", user_id=user_id)
    words = types.Content(role="user", parts=[types.Part(text="Calculate the yield for batch B003")])
    return SimpleNamespace(session=session, invocation_id=invocation_id, branch=None, user_content=words)


def test_every_agent_of_the_tree_has_a_name_of_its_own(world: RootWorld) -> None:
    workflow = build_workflow(Nodes(Desk(), lambda: world.service))
    assert workflow.graph is not None
    names = [node.name for node in workflow.graph.nodes] + [workflow.name]
    assert len(names) == len(set(names)) > 11


def test_a_tree_with_a_name_twice_is_not_built() -> None:
    twice = [FunctionNode(func=lambda: None, name="same") for _ in range(2)]
    with pytest.raises(ValueError, match="Duplicate node names"):
        Workflow(name="tree", edges=[(START, *twice)])


@pytest.mark.parametrize(
    ("session_id", "user_id", "invocation_id"),
    [("x" * 513, "u", "i"), ("a\x00b", "u", "i"), ("s", "", "i"), ("s", "u", "")],
)
def test_what_is_no_id_begins_nothing_however_it_comes(
    world: RootWorld, session_id: str, user_id: str, invocation_id: str
) -> None:
    world.service.development_principal = "process_engineer"
    desk = Desk()
    told = begin(context(session_id, user_id, invocation_id), lambda: world.service, desk)
    assert told is not None and "identity" in told
    assert len(desk) == 0


def test_nobody_elses_session_of_the_same_id_takes_what_waits_for_a_person(world: RootWorld) -> None:
    desk, person = Desk(), RequestContext("https://issuer", "u-1")
    desk.open(Asking(person, Wanted(question="q"), SessionId("s"), new_trace_id()))
    assert begin(context("s", "somebody"), lambda: world.service, desk) is not None
    assert begin(context("s", str(person.user_id)), lambda: world.service, desk) is None
    assert str(desk.running("i").adk.user_id) == str(person.user_id)
