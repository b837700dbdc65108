"""A kit's world as files, and the faults that the kit must notice: each fits the tree as it is."""

from __future__ import annotations

import ast
from collections import Counter
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from conformance.faults import FAULTS
from conformance.planting import Edit, Fault
from conformance.world import WorldFiles
from contract.scope import Sensitivity
from control_plane.policy import load_policies
from control_plane.principals import load_directory
from control_plane.registry import InvalidDataset, load_registry

ROOT = Path(__file__).resolve().parents[2]
BEGAN = 1_800_000_000.0
COMPARE = {
    "name": "compare_batches",
    "description": "compare two batches",
    "effect": "read",
    "sensitivity": "internal",
    "policy": "BPD-DATA-014",
    "arguments": ["batch_a", "batch_b"],
}
DATASET = {
    "dataset": "purification-batches",
    "version": "7",
    "revision": "rev-7",
    "schema_version": "3",
    "description": "batches",
    "age_s": 3600,
    "capabilities": [COMPARE],
    "prohibited": ["delete_source"],
    "policies": ["BPD-DATA-014"],
    "provenance": {"system": "volume", "source": "s3"},
    "freshness": {"maximum_age_s": 60},
    "endpoints": {},
}
WORLD = {
    "policy_version": "2030.01.01",
    "datasets": [DATASET],
    "principals": {
        "analyst": {
            "principal_class": "analyst",
            "principal_id": "u-1",
            "clearance": "internal",
            "grants": {"purification-batches": ["compare_batches"]},
        }
    },
}


@pytest.fixture
def files(tmp_path: Path) -> WorldFiles:
    made = WorldFiles(tmp_path / "datasets", BEGAN)
    made.adopt(deepcopy(WORLD))
    made.write()
    return made


def registered(files: WorldFiles, name: str) -> Any:
    return load_registry(files.folder).lookup(name)


def test_a_world_is_written_as_descriptors_principals_and_policies(files: WorldFiles) -> None:
    found = registered(files, "purification-batches")
    assert (found.version, found.revision, found.age_s(BEGAN), found.prohibited) == (
        "7",
        "rev-7",
        3600,
        ("delete_source",),
    )
    assert [capability.name for capability in found.capabilities] == ["compare_batches"]
    analyst = load_directory(files.folder / "principals.yaml").named("analyst")
    assert analyst is not None and analyst.clearance is Sensitivity.INTERNAL
    assert analyst.holds("purification-batches", "compare_batches")
    assert load_policies(files.folder / "policies").version == "2030.01.01"


def test_an_equal_world_changes_no_file(files: WorldFiles) -> None:
    files.adopt(deepcopy(WORLD))
    assert not files.write()


@pytest.mark.parametrize("change", ["revision", "policy", "principal", "dataset"])
def test_whatever_is_another_changes_a_file(files: WorldFiles, change: str) -> None:
    if change == "revision":
        files.dataset("purification-batches")["revision"] = "rev-8"
    elif change == "policy":
        files.world["policy_version"] = "2030.01.02"
    elif change == "principal":
        files.holdings("analyst").pop("purification-batches")
    else:
        files.put({"dataset": "other", "version": "1"})
    assert files.write() and not files.write()


def test_a_malformed_descriptor_stays_malformed(files: WorldFiles) -> None:
    files.put({"dataset": "broken-dataset", "version": "1", "description": "no revision, no capabilities"})
    files.write()
    assert isinstance(registered(files, "broken-dataset"), InvalidDataset)


def test_what_nothing_answers_is_advertised_all_the_same(files: WorldFiles) -> None:
    phantom = {**COMPARE, "name": "phantom_export", "policy": None, "arguments": []}
    files.put({**DATASET, "capabilities": [COMPARE, phantom], "endpoints": {"mcp": "stdio://x"}})
    files.write()
    found = registered(files, "purification-batches").capability("phantom_export")
    assert (found.template, found.tool_name) == (None, None)


def test_a_dataset_of_another_world_is_gone_with_it(files: WorldFiles) -> None:
    files.put({"dataset": "broken-dataset", "version": "1"})
    files.write()
    files.adopt(deepcopy(WORLD))
    assert files.write() and not (files.folder / "broken-dataset").exists()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_fits_the_tree_and_leaves_it_readable(fault: Fault) -> None:
    for text in fault.planted(ROOT).values():
        ast.parse(text)


def test_every_assertion_has_a_fault_of_its_own() -> None:
    targets = Counter(fault.target for fault in FAULTS)
    assert (len(FAULTS), sorted(targets)) == (19, [f"AD-{number:03}" for number in range(1, 16)])


def test_a_text_that_is_not_there_once_is_no_place_for_a_fault() -> None:
    for source in ("a = 1\n", "a = 2\na = 2\n"):
        with pytest.raises(ValueError, match="holds"):
            Edit("x.py", "a = 2\n", "").planted(source)
