"""A folder of datasets is read strictly, and a broken dataset stops no other."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from contract.errors import Category, DatasetAgentError
from control_plane.manifest import DatasetManifest
from control_plane.registry import InvalidDataset, load_registry
from control_plane.yaml_reader import UnreadableFile, parse_document, read_document
from tests.control_plane.control_plane_world import DATASETS, raw_capability, raw_manifest


def _write(root: Path, name: str, raw: Any, file: str = "descriptor.yaml") -> Path:
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "read.sql").write_text("SELECT id FROM plants", encoding="utf-8")
    text = raw if isinstance(raw, str) else json.dumps(raw) if file.endswith("json") else yaml.safe_dump(raw)
    (folder / file).write_text(text, encoding="utf-8")
    return folder


def test_the_shipped_world_is_valid() -> None:
    registry = load_registry(DATASETS)
    assert not registry.invalid
    assert sorted(registry.datasets) == ["chromatography-results", "clinical-private", "purification-batches"]


def test_a_broken_dataset_is_listed_with_its_file_and_the_others_stay(tmp_path: Path) -> None:
    _write(tmp_path, "plants", raw_manifest())
    _write(tmp_path, "broken", "dataset: broken\nversion: [\n")
    registry = load_registry(tmp_path)
    assert list(registry.datasets) == ["plants"]
    assert registry.invalid["broken"].startswith("broken/descriptor.yaml: line ")


def test_lookup_tells_a_broken_dataset_from_an_unknown_one(tmp_path: Path) -> None:
    _write(tmp_path, "folder", raw_manifest(dataset="broken", version=None))
    registry = load_registry(tmp_path)
    assert isinstance(registry.lookup("broken"), InvalidDataset)
    assert registry.lookup("nothing") is None


def test_json_is_a_descriptor_format_too(tmp_path: Path) -> None:
    _write(tmp_path, "plants", raw_manifest(), file="descriptor.json")
    assert isinstance(load_registry(tmp_path).lookup("plants"), DatasetManifest)


def test_two_folders_that_describe_one_dataset_are_both_refused(tmp_path: Path) -> None:
    _write(tmp_path, "a", raw_manifest())
    _write(tmp_path, "b", raw_manifest())
    registry = load_registry(tmp_path)
    assert not registry.datasets
    assert "2 folders" in registry.invalid["plants"]


def test_a_folder_with_sql_and_no_descriptor_is_listed(tmp_path: Path) -> None:
    (tmp_path / "lost").mkdir()
    (tmp_path / "lost" / "q.sql").write_text("SELECT 1", encoding="utf-8")
    assert "no descriptor.yaml" in load_registry(tmp_path).invalid["lost"]


def test_policies_hidden_and_empty_folders_are_no_datasets(tmp_path: Path) -> None:
    for name in ("policies", ".git", "__pycache__", "empty"):
        (tmp_path / name).mkdir()
    (tmp_path / "policies" / "a.yaml").write_text("a: 1", encoding="utf-8")
    registry = load_registry(tmp_path)
    assert not registry.datasets
    assert not registry.invalid


@pytest.mark.parametrize("name", ["../read.sql", "/etc/hostname", "missing.sql"])
def test_a_template_is_a_file_inside_the_folder(tmp_path: Path, name: str) -> None:
    _write(tmp_path, "plants", raw_manifest(capabilities=[raw_capability(template=name)]))
    assert "plants" in load_registry(tmp_path).invalid


def test_a_template_behind_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    folder = _write(tmp_path, "plants", raw_manifest(capabilities=[raw_capability(template="link.sql")]))
    (tmp_path / "outside.sql").write_text("SELECT 1", encoding="utf-8")
    (folder / "link.sql").symlink_to(tmp_path / "outside.sql")
    assert "leaves the dataset's folder" in load_registry(tmp_path).invalid["plants"]


def test_a_missing_folder_says_which_setting_to_change(tmp_path: Path) -> None:
    with pytest.raises(DatasetAgentError, match="DATASET_AGENT_DATASETS") as caught:
        load_registry(tmp_path / "none")
    assert caught.value.category is Category.CONFIGURATION


def test_registering_a_malformed_descriptor_takes_the_old_one_away(tmp_path: Path) -> None:
    _write(tmp_path, "plants", raw_manifest())
    registry = load_registry(tmp_path).register("plants", {"dataset": "plants", "version": "1"})
    assert isinstance(registry.lookup("plants"), InvalidDataset)


def test_registering_a_descriptor_of_another_name_is_refused(tmp_path: Path) -> None:
    registry = load_registry(tmp_path).register("trees", raw_manifest())
    assert isinstance(registry.lookup("trees"), InvalidDataset)


def test_registering_replaces_and_leaves_the_first_registry_as_it_was(tmp_path: Path) -> None:
    _write(tmp_path, "plants", raw_manifest())
    first = load_registry(tmp_path)
    second = first.register("plants", raw_manifest(revision="r2"))
    assert [r.datasets["plants"].revision for r in (first, second)] == ["r1", "r2"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: 1\na: 2\n", "stands twice"),
        ("a: {b: 1, b: 2}\n", "stands twice"),
        ("a: &x [1]\nb: *x\n", "aliases"),
        ("1: a\n", "must be text"),
        ("a: !!python/object/apply:os.system [id]\n", "could not determine a constructor"),
        ("a: 1\n---\nb: 2\n", "another document"),
        ("[" * 200 + "]" * 200, "nested deeper"),
        ("a: 2024-99-99\n", "not valid"),
        ("a: \x01\n", "not allowed"),
    ],
)
def test_yaml_that_is_not_strict_is_refused_in_one_line(text: str, problem: str) -> None:
    with pytest.raises(UnreadableFile, match=problem) as caught:
        parse_document(text.encode())
    assert "\n" not in str(caught.value)


def test_a_merge_key_cannot_smuggle_an_alias() -> None:
    with pytest.raises(UnreadableFile, match="aliases"):
        parse_document(b"a: &x {k: 1}\nb:\n  <<: *x\n")


def test_a_file_over_a_megabyte_is_not_parsed(tmp_path: Path) -> None:
    path = tmp_path / "big.yaml"
    path.write_text("a: " + "x" * 1_000_001, encoding="utf-8")
    with pytest.raises(UnreadableFile, match="larger than"):
        read_document(path)


def test_bytes_that_are_not_utf8_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "latin.yaml"
    path.write_bytes(b"a: \xff\xfe")
    with pytest.raises(UnreadableFile, match="UTF-8"):
        read_document(path)


def _invalid(tmp_path: Path, raw: Any, name: str = "plants") -> str:
    _write(tmp_path, name, raw)
    return load_registry(tmp_path).invalid["plants"]


def test_a_fault_names_the_line_the_index_and_the_name(tmp_path: Path) -> None:
    parameter = {"name": "lot", "type": "TEXT", "description": "A lot."}
    second = raw_capability("count", template="read.sql", parameters=[parameter])
    text = yaml.safe_dump(raw_manifest(capabilities=[raw_capability(template="read.sql"), second]))
    line = text[: text.index("TEXT")].count("\n") + 1
    told = _invalid(tmp_path, text)
    assert told.startswith(f"plants/descriptor.yaml: line {line}: capabilities[1] (count).parameters[0] (lot).type: ")


def test_up_to_three_faults_are_told_and_the_others_counted(tmp_path: Path) -> None:
    raw = raw_manifest(version=None, revision=None, tenant=None, as_of=None)
    told = _invalid(tmp_path, raw)
    assert re.findall(r"line \d+: (\w+): ", told) == ["tenant", "version", "revision"]
    assert told.endswith("; and 1 more")
    (tmp_path / "plants" / "descriptor.yaml").write_text(yaml.safe_dump(raw | {"as_of": raw_manifest()["as_of"]}))
    assert "more" not in load_registry(tmp_path).invalid["plants"]


def test_every_template_that_is_not_there_is_told_by_its_capability(tmp_path: Path) -> None:
    gone = [raw_capability(name, template=f"{name}.sql") for name in ("read", "count", "list", "sum")]
    told = _invalid(tmp_path, raw_manifest(capabilities=[*gone[1:], raw_capability(template="read.sql")]))
    assert re.findall(r"\((\w+)\)\.template: '(\w+)\.sql' does not exist", told) == [
        (name, name) for name in ("count", "list", "sum")
    ]


def test_what_a_fault_repeats_of_a_file_stays_one_bounded_printable_line(tmp_path: Path) -> None:
    odd = {'x\x1b[31m\n"' + "y" * 2_000: 1, "name": "not a name " * 50}
    told = _invalid(tmp_path, raw_manifest(tables=[odd]))
    assert told.isprintable()
    assert len(told) < 1_100


def test_a_registered_descriptor_is_told_by_index_and_name_without_lines(tmp_path: Path) -> None:
    _write(tmp_path, "plants", raw_manifest())
    raw = raw_manifest(capabilities=[raw_capability(template="read.sql", effect="think")])
    told = load_registry(tmp_path).register("plants", raw).invalid["plants"]
    assert told.startswith("capabilities[0] (read).effect: ")
