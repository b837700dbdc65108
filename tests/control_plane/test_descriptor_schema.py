"""The JSON Schema for editors is the published one, takes what the models take and marks what they refuse."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from control_plane.descriptor_schema import descriptor_schema, schema_text
from control_plane.manifest import DatasetManifest
from control_plane.yaml_reader import read_document
from tests.control_plane.control_plane_world import DATASETS, raw_capability, raw_manifest

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = descriptor_schema()
CHECK = Draft202012Validator(SCHEMA)


def test_the_published_schema_is_the_one_that_the_models_give() -> None:
    published = (ROOT / "docs" / "descriptor.schema.json").read_text(encoding="utf-8")
    assert published == schema_text(), "run: dataset-agent datasets schema > docs/descriptor.schema.json"


def test_it_is_a_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("path", sorted(DATASETS.glob("*/descriptor.yaml")), ids=lambda path: path.parent.name)
def test_every_shipped_descriptor_fits(path: Path) -> None:
    assert [error.message for error in CHECK.iter_errors(read_document(path).value)] == []


@pytest.mark.parametrize("as_of", ["auto", "2024-02-29T00:00:00Z", None])
def test_what_is_left_to_the_source_fits(as_of: str | None) -> None:
    raw = raw_manifest(revision="auto") | {"as_of": as_of}
    if as_of is None:
        del raw["as_of"], raw["revision"]
    assert CHECK.is_valid(raw)
    assert DatasetManifest.model_validate(raw).asks_its_source


@pytest.mark.parametrize(
    "change",
    [
        {"dataset": "Not A Name"},
        {"version": None},
        {"owner": "somebody"},
        {"capabilities": []},
        {"capabilities": [raw_capability(effect="think")]},
        {"capabilities": [raw_capability(max_rows="many")]},
        {"freshness": {"maximum_age_s": 0}},
    ],
)
def test_what_the_models_refuse_is_marked(change: dict[str, Any]) -> None:
    raw = raw_manifest(**change)
    assert not CHECK.is_valid(raw)
    with pytest.raises(ValueError, match="validation error"):
        DatasetManifest.model_validate(raw)


def test_a_member_of_the_dataset_and_of_a_capability_says_what_it_means() -> None:
    for model in (SCHEMA, SCHEMA["$defs"]["CapabilityManifest"]):
        untold = [name for name, member in model["properties"].items() if "description" not in member]
        assert len(untold) < len(model["properties"]) / 2


def test_a_pattern_is_one_that_every_editor_reads() -> None:
    for pattern in re.findall(r'"pattern": "(.*)"', schema_text()):
        re.compile(pattern.encode().decode("unicode_escape"))
