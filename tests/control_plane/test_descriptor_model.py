"""The descriptor is strict, and crosses a boundary without loss."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

import control_plane.descriptor as descriptor_module
from control_plane.descriptor import DatasetCapability, DatasetDescriptor
from control_plane.manifest import DatasetManifest
from control_plane.registry import load_registry
from tests.control_plane.control_plane_world import DATASETS, raw_capability, raw_descriptor


@pytest.mark.parametrize("dataset", ["chromatography-results", "clinical-private", "purification-batches"])
def test_a_published_descriptor_survives_json_unchanged(dataset: str) -> None:
    published = load_registry(DATASETS).datasets[dataset].published()
    assert DatasetDescriptor.model_validate(json.loads(json.dumps(published.to_json()))) == published


def test_the_published_half_names_no_table_and_no_file() -> None:
    text = json.dumps(load_registry(DATASETS).datasets["clinical-private"].published().to_json())
    assert "parquet" not in text
    assert ".sql" not in text
    assert '"tables"' not in text


COLUMN = {"name": "id", "type": "STRING"}
DAY = {"name": "day", "type": "DATE", "description": "a day"}
PERIOD = {"name": "period", "from": "day", "to": "end"}
TOOL = {"tool_name": None, "mcp_tool_name": "read_rows"}
PRIVATE = raw_capability(sensitivity="restricted", policy_id="P-1")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"version": ""}, "version"),
        ({"version": None}, "version"),
        ({"version": 3}, "version"),
        ({"owner": "me"}, "Extra inputs"),
        ({"as_of": "2026-09-01T00:00:00"}, "time zone"),
        ({"provenance": {"system": "LIMS\n", "source": "runs"}}, "provenance.system"),
        ({"provenance": {"system": "LIMS", "source": "\u202eruns"}}, "provenance.source"),
        ({"provenance": {"system": "LIMS", "source": "s" * 256}}, "provenance.source"),
        ({"capabilities": []}, "at least 1"),
        ({"capabilities": [raw_capability(), raw_capability()]}, "a capability twice"),
        ({"capabilities": [raw_capability(effect="delete")]}, "effect"),
        ({"capabilities": [raw_capability(sensitivity="confidential")]}, "must name its policy_id"),
        ({"capabilities": [raw_capability(sensitivity="restricted")]}, "must name its policy_id"),
        ({"capabilities": [raw_capability(policy_id="P-1")]}, "does not list policy P-1"),
        ({"capabilities": [raw_capability(tool_name=None)]}, "names no tool_name"),
        ({"capabilities": [raw_capability(mcp_tool_name="x")]}, "mark one as preferred"),
        ({"capabilities": [raw_capability(preferred="mcp")]}, "prefers a target"),
        ({"capabilities": [raw_capability(extra=1)]}, "Extra inputs"),
        ({"capabilities": [raw_capability(name="approve")]}, "no name of a capability"),
        ({"capabilities": [raw_capability(results=[COLUMN, COLUMN])]}, "a result column twice"),
        ({"capabilities": [raw_capability(parameters=[DAY, DAY])]}, "a parameter twice"),
        ({"capabilities": [raw_capability(parameters=[DAY], periods=[PERIOD])]}, "period"),
        ({"capabilities": [raw_capability("a", **TOOL), raw_capability("b", **TOOL)]}, "an mcp_tool_name twice"),
        ({"endpoints": {"mcp": "/mcp/others"}}, "the endpoint mcp is /mcp/plants"),
        (
            {"freshness": {"maximum_age_s": 9, "stale_s": 9}, "policies": ["P-1"], "capabilities": [PRIVATE]},
            "of whose stored results nothing may be told",
        ),
    ],
)
def test_a_descriptor_that_breaks_a_rule_is_refused(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        DatasetDescriptor.model_validate(raw_descriptor(**changes))


def test_several_targets_are_fine_where_one_is_preferred() -> None:
    raw = raw_descriptor(capabilities=[raw_capability(mcp_tool_name="x", preferred="tool")])
    assert DatasetDescriptor.model_validate(raw).capabilities[0].preferred == "tool"


def test_a_manifest_capability_with_a_tool_needs_a_template() -> None:
    table = {"name": "t", "file": "t.parquet", "columns": [{"name": "id", "type": "STRING"}]}
    with pytest.raises(ValidationError, match="needs a template"):
        DatasetManifest.model_validate(raw_descriptor(tables=[table]))


ASKED: dict[str, Any] = {
    "tool_name": None,
    "sub_agent_name": "ask_soils",
    "cacheable": False,
    "delegates": {"agent": "https://soils.example", "dataset": "soils", "capability": "read"},
    "parameters": [{"name": "plant", "type": "STRING", "description": "Which plant."}],
}
SUPPLIED: dict[str, Any] = {
    **ASKED,
    "template": "read.sql",
    "supply": {"table": "soil", "arguments": {"id": "plant"}, "columns": [{"name": "ph", "type": "FLOAT64"}]},
}


def supplied(**changes: Any) -> DatasetManifest:
    table = {"name": "plants", "file": "plants.parquet", "columns": [{"name": "id", "type": "STRING"}]}
    capability = raw_capability(**(SUPPLIED | changes))
    return DatasetManifest.model_validate(raw_descriptor(tables=[table], capabilities=[capability]))


def test_what_a_capability_asks_of_another_agent_is_published_and_how_it_is_supplied_is_not() -> None:
    published = supplied().published()
    assert DatasetDescriptor.model_validate(json.loads(json.dumps(published.to_json()))) == published
    capability = published.capabilities[0]
    assert capability.delegates is not None
    assert capability.delegates.model_dump() == ASKED["delegates"]
    assert "supply" not in json.dumps(published.to_json())


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"delegates": None}, "sub_agent_name and delegates go together"),
        ({"tool_name": "read", "preferred": "tool"}, "sub_agent_name and delegates go together"),
        ({"tool_name": "read", "sub_agent_name": None}, "sub_agent_name and delegates go together"),
        ({"cacheable": True}, "must say cacheable: false"),
        ({"delegates": ASKED["delegates"] | {"agent": ""}}, "delegates.agent"),
        ({"delegates": ASKED["delegates"] | {"agent": "a\u202eb"}}, "delegates.agent"),
        ({"delegates": ASKED["delegates"] | {"dataset": "Soils"}}, "delegates.dataset"),
        ({"delegates": ASKED["delegates"] | {"url": "https://soils.example"}}, "Extra inputs"),
    ],
)
def test_a_capability_that_asks_another_agent_says_exactly_what(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        DatasetCapability.model_validate(raw_capability(**(ASKED | changes)))


def test_a_capability_may_name_a_tool_beside_the_agent_it_prefers() -> None:
    raw = raw_capability(**(ASKED | {"tool_name": "read", "preferred": "sub_agent"}))
    assert DatasetCapability.model_validate(raw).delegates is not None


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"template": None}, "needs a template"),
        ({"supply": None}, "delegates and supply go together"),
        ({"supply": SUPPLIED["supply"] | {"table": "plants"}}, "supply rows by another name"),
        ({"supply": SUPPLIED["supply"] | {"arguments": {"id": "colour"}}}, "passes on colour"),
        ({"supply": SUPPLIED["supply"] | {"columns": []}}, "at least 1"),
        ({"supply": SUPPLIED["supply"] | {"columns": [{"name": "ph", "type": "FLOAT64"}] * 2}}, "a column twice"),
    ],
)
def test_a_manifest_says_how_a_template_is_supplied(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        supplied(**changes)


def test_rows_are_supplied_only_to_a_capability_that_asks_for_them() -> None:
    raw = raw_capability(template="read.sql", parameters=ASKED["parameters"], supply=SUPPLIED["supply"])
    table = {"name": "plants", "file": "plants.parquet", "columns": [{"name": "id", "type": "STRING"}]}
    with pytest.raises(ValidationError, match="delegates and supply go together"):
        DatasetManifest.model_validate(raw_descriptor(tables=[table], capabilities=[raw]))


def test_age_is_counted_from_as_of_and_is_never_negative() -> None:
    descriptor = DatasetDescriptor.model_validate(raw_descriptor())
    assert descriptor.age_s(descriptor.as_of.timestamp() + 7) == 7
    assert descriptor.age_s(0) == 0


def test_the_descriptor_imports_no_framework() -> None:
    tree = ast.parse(Path(str(descriptor_module.__file__)).read_text(encoding="utf-8"))
    imported = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    imported |= {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    assert not {name.split(".")[0] for name in imported} & {"google", "a2a", "mcp", "fastapi", "starlette"}
