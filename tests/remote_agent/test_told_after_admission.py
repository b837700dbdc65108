"""What a capability takes, and which values that may have, is told to nobody whom this agent's own decision refuses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from delegation.reply import Reply
from tests.mcp_asker import McpAsker
from tests.running_agent import RunningAgent, agent_home, decision_of, running_agent

WRONG: list[dict[str, Any]] = [{"metric": "no such value"}, {"metric": 5}, {"nothing": 1}, {"metric": "x" * 999}]
RIGHT = {"purification-batches": {"metric": "recovery"}, "clinical-private": {"metric": "crp"}}
PLACES = [("purification-batches", "detect_outliers"), ("clinical-private", "aggregate")]


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAgent]:
    with running_agent(agent_home(tmp_path_factory.mktemp("told"))) as running:
        yield running


def told(agent: RunningAgent, who: str, dataset: str, capability: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """As its issuer admitted it, which this agent does not."""
    decision = decision_of(McpAsker(agent.settings, agent.url, principal=who).ask(dataset, capability, arguments))
    return {name: value for name, value in decision.items() if name != "decision_id"}


@pytest.mark.parametrize("who", ["analyst", "external_auditor"])
@pytest.mark.parametrize(("dataset", "capability"), PLACES)
def test_right_and_wrong_arguments_are_refused_alike(
    agent: RunningAgent, who: str, dataset: str, capability: str
) -> None:
    refused = told(agent, who, dataset, capability, RIGHT[dataset])
    assert refused["reason"] == "INSUFFICIENT_PRIVILEGE"
    for arguments in ({}, *WRONG):
        assert told(agent, who, dataset, capability, arguments) == refused


def test_a_tool_call_too(agent: RunningAgent) -> None:
    asker = McpAsker(agent.settings, agent.url, principal="analyst")

    def called(arguments: dict[str, Any]) -> Reply:
        grant = asker.tool_grant("detect_outliers", arguments)
        return asker.call_tool("detect_outliers", arguments, asker.mcp_headers(grant))

    assert {called(arguments).message for arguments in ({}, *WRONG)} == {called({"metric": "recovery"}).message}


def test_who_is_admitted_is_told_what_is_wrong_and_the_leaf_is_not_spent(agent: RunningAgent) -> None:
    for arguments in WRONG:
        assert told(agent, "process_engineer", *PLACES[0], arguments)["reason"] == "ARGUMENTS_INVALID"
    asker = McpAsker(agent.settings, agent.url)
    headers = asker.mcp_headers(asker.tool_grant("detect_outliers", WRONG[0]))
    reasons = [asker.call_tool("detect_outliers", WRONG[0], headers).reason for _ in range(2)]
    assert [str(reason) for reason in reasons] == ["ARGUMENTS_INVALID"] * 2
