"""A baseline holds for the product as it is, and names what changed where one thing was changed on purpose."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.workflow import DEFAULT_ROUTE, START, FunctionNode, Workflow
from google.genai import types

from conformance.facade import Facade
from conformance.processes import command
from conformance.replay import BASELINES, SCENARIOS, baseline, check, drift, served
from root_agent import entry, propose
from root_agent.workflow import GRANTED, Nodes

BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}


def test_there_are_three_to_five_scenarios_and_each_verdict_has_one() -> None:
    assert 3 <= len(SCENARIOS) <= 5
    assert {name.partition("/")[0] for name in BY_NAME} == {"granted", "refused", "indeterminate"}
    for name in BY_NAME:
        assert baseline(name)["answer"]["verdict"] == name.partition("/")[0].upper()
    kept = {str(path.relative_to(BASELINES).with_suffix("")) for path in BASELINES.glob("*/*.json")}
    assert kept == set(BY_NAME)


@pytest.mark.parametrize(
    ("recorded", "now", "told"),
    [
        ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]}, ["a[1].b: recorded 2, now 3"]),
        ({"a": 1}, {}, ["a: recorded 1, now null"]),
        ({}, {"a": {"b": 1}}, ['a: recorded null, now {"b": 1}']),
        ({"a": [1]}, {"a": [1, 2]}, ["a: recorded [1], now [1, 2]"]),
        ({"a": [1]}, {"a": [1]}, []),
    ],
)
def test_drift_names_each_place_and_both_values(recorded: Any, now: Any, told: list[str]) -> None:
    assert drift(recorded, now) == told


@pytest.fixture(scope="module")
def facade(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Facade]:
    with served(tmp_path_factory.mktemp("replay")) as made:
        yield made


@contextmanager
def edited(facade: Facade, change: Callable[[dict[str, Any]], None]) -> Iterator[None]:
    """The dataset agent over a changed descriptor."""
    path = Path(facade.settings.datasets) / "purification-batches" / "descriptor.yaml"
    sound = path.read_text(encoding="utf-8")
    raw = yaml.safe_load(sound)
    change(next(item for item in raw["capabilities"] if item["name"] == "compare_batches"))
    path.write_text(yaml.safe_dump(raw, sort_keys=False), encoding="utf-8")
    try:
        command("reload", "--wait", "--json")
        facade.reload()
        yield
    finally:
        path.write_text(sound, encoding="utf-8")
        command("reload", "--wait", "--json")
        facade.reload()


def places(lines: list[str]) -> set[str]:
    return {line.partition(":")[0].partition("[")[0].partition(".")[0] for line in lines}


@pytest.mark.live
@pytest.mark.parametrize("name", BY_NAME)
def test_the_product_is_as_it_was_recorded(facade: Facade, name: str) -> None:
    assert check(facade, BY_NAME[name]) == []


@pytest.mark.live
def test_another_prompt_is_named(facade: Facade, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(propose, "_INSTRUCTION", propose._INSTRUCTION + " Be bold.")
    (line,) = check(facade, BY_NAME["granted/model-proposal"])
    assert line.startswith("model[0].system_instruction: recorded")


@pytest.mark.live
def test_another_answer_of_a_model_is_named(facade: Facade) -> None:
    other = replace(BY_NAME["granted/model-proposal"], proposal={})
    lines = check(facade, other)
    assert 'answer.verdict: recorded "GRANTED", now "INDETERMINATE"' in lines
    assert {"steps", "answer", "minted"} <= places(lines)


@pytest.mark.live
def test_another_schema_of_a_tool_is_named(facade: Facade) -> None:
    def narrow(capability: dict[str, Any]) -> None:
        capability["parameters"][0]["description"] = "said in other words"

    with edited(facade, narrow):
        lines = check(facade, BY_NAME["granted/typed-call"])
    assert lines and all(line.startswith("declared.") for line in lines)


@pytest.mark.live
def test_another_tool_of_the_mcp_server_is_named(facade: Facade) -> None:
    def rename(capability: dict[str, Any]) -> None:
        capability["mcp_tool_name"] = "compare_two_batches"

    with edited(facade, rename):
        lines = check(facade, BY_NAME["granted/mcp-tool"])
    assert any(line.startswith("declared.mcp_tool.name") for line in lines)
    assert any(line.startswith("calls.mcp_calls[0].tool") for line in lines)


@pytest.mark.live
def test_another_callback_is_named(facade: Facade) -> None:
    class Blocking(BasePlugin):
        async def before_agent_callback(self, **_: Any) -> Any:
            return types.Content(role="model", parts=[types.Part(text="no")])

    plugins = facade.root._runner.plugin_manager.plugins
    plugins.append(Blocking(name="blocking"))
    try:
        lines = check(facade, BY_NAME["granted/typed-call"])
    finally:
        plugins.pop()
    assert any(line.startswith("callbacks.plugins: recorded") and "Blocking" in line for line in lines)
    assert any(line.startswith('answer.verdict: recorded "GRANTED"') for line in lines)


def rewired(nodes: Nodes) -> Workflow:
    """After admission straight to the end: nothing is planned, sent, verified or recorded."""
    funcs = (nodes.interpret_intent, nodes.discover_datasets, nodes.resolve_capability, nodes.evaluate_admission)
    steps = [FunctionNode(func=func, name=func.__name__) for func in funcs]
    end, unknown = (
        FunctionNode(func=func, name=func.__name__) for func in (nodes.explain_response, nodes.record_indeterminate)
    )
    return Workflow(name="root_agent", edges=[(START, *steps), (steps[-1], {GRANTED: end, DEFAULT_ROUTE: unknown})])


@pytest.mark.live
def test_another_edge_of_the_workflow_is_named(facade: Facade, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry, "build_workflow", rewired)
    other = Facade(facade.settings)
    try:
        lines = check(other, BY_NAME["granted/typed-call"])
    finally:
        other.close()
    assert any(line.startswith("answer.visited_nodes") for line in lines)
    assert 'answer.decision.reason: recorded "PRINCIPAL_AUTHORIZED", now "EVIDENCE_UNAVAILABLE"' in lines
