"""What is published of a minimum group size, and where one may be declared."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from control_plane.descriptor import DatasetDescriptor
from control_plane.manifest import CapabilityManifest
from control_plane.registry import load_registry
from tests.control_plane.control_plane_world import DATASETS, raw_capability

RULE = {"subject": "subject_observation.subject_id", "size": 5, "round_counts_to": 5}


def test_callers_are_told_the_size_and_not_whose_column_is_counted() -> None:
    published = load_registry(DATASETS).datasets["clinical-private"].published()
    raw = json.loads(json.dumps(published.to_json()))
    told = {capability["name"]: capability.get("minimum_group") for capability in raw["capabilities"]}
    assert told == {"search": None, "aggregate": {"size": 5}}
    assert "subject_observation.subject_id" not in json.dumps(raw)
    assert DatasetDescriptor.model_validate(raw) == published


def test_a_published_rule_that_names_a_subject_is_refused() -> None:
    with pytest.raises(ValidationError, match="Extra inputs"):
        DatasetDescriptor.model_validate(
            load_registry(DATASETS).datasets["clinical-private"].published().to_json()
            | {"capabilities": [raw_capability(minimum_group=RULE)]}
        )


@pytest.mark.parametrize(
    "changes",
    [
        {"tool_name": None, "mcp_tool_name": "x", "template": None},
        {
            "tool_name": None,
            "sub_agent_name": "x",
            "cacheable": False,
            "delegates": {"agent": "urn:a", "dataset": "other", "capability": "c"},
            "supply": {"table": "given", "columns": [{"name": "a", "type": "STRING"}]},
        },
    ],
)
def test_only_a_template_over_the_own_dataset_can_be_held_to_a_minimum(changes: dict[str, Any]) -> None:
    raw = raw_capability(template="templates/x.sql", minimum_group=RULE)
    assert CapabilityManifest.model_validate(raw).minimum_group is not None
    with pytest.raises(ValidationError, match="minimum_group needs a template that reads this dataset alone"):
        CapabilityManifest.model_validate(raw | changes)
