"""Whatever one dataset's folder holds, it is told by name, costs little, and takes no other dataset and no card with it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from contract.canonical import canonical_json
from control_plane.registry import MAX_PUBLISHED_BYTES, load_registry
from control_plane.yaml_reader import UnreadableFile, parse_document
from tests.control_plane.control_plane_world import raw_manifest


def _write(root: Path, name: str, raw: Any) -> Path:
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "read.sql").write_text("SELECT id FROM plants", encoding="utf-8")
    text = raw if isinstance(raw, str) else yaml.safe_dump(raw)
    (folder / "descriptor.yaml").write_bytes(text.encode("utf-8", "surrogatepass"))
    return folder


def _beside(root: Path, raw: Any) -> str:
    """What is wrong with a dataset that stands beside one that is right, which stays."""
    _write(root, "plants", raw_manifest())
    _write(root, "evil", raw)
    registry = load_registry(root)
    assert list(registry.datasets) == ["plants"]
    return registry.invalid["evil"]


def _text(find: str, put: str) -> str:
    text = yaml.safe_dump(raw_manifest(dataset="evil"))
    assert find in text
    return text.replace(find, put, 1)


UNWRITABLE = {
    "an integer that no JSON number holds": raw_manifest(dataset="evil", freshness={"maximum_age_s": 2**53}),
    "an integer of more digits than Python writes": _text(
        "description: Plants", f"retention: {{a: 0x{'f' * 30}}}\ndescription: Plants"
    ),
    "text that is no Unicode": _text("description: Plants", 'schemas: ["a\\ud800"]\ndescription: Plants'),
    "more than its share of a card": raw_manifest(dataset="evil", schemas=["x" * MAX_PUBLISHED_BYTES]),
    "more values than its share": raw_manifest(dataset="evil", schemas=["x"] * 9_000),
}


@pytest.mark.parametrize("name", UNWRITABLE)
def test_what_cannot_be_on_a_card_is_no_dataset(tmp_path: Path, name: str) -> None:
    assert "cannot be on a card" in _beside(tmp_path, UNWRITABLE[name])


def test_what_is_served_has_a_canonical_form(tmp_path: Path) -> None:
    _write(tmp_path, "plants", raw_manifest(schemas=["x" * (MAX_PUBLISHED_BYTES // 2)]))
    (manifest,) = load_registry(tmp_path).datasets.values()
    assert len(canonical_json(manifest.on_card())) < MAX_PUBLISHED_BYTES


@pytest.mark.parametrize(
    "value",
    [
        "!!bool x",
        '!!int ""',
        '!!float ""',
        "!!timestamp x",
        ":".join(["1"] + ["59"] * 300) + ".5",
    ],
)
def test_a_value_that_the_yaml_library_stumbles_over_is_an_unreadable_file(tmp_path: Path, value: str) -> None:
    with pytest.raises(UnreadableFile):
        parse_document(f"a: {value}\n".encode())
    assert "evil/descriptor.yaml" in _beside(tmp_path, f"a: {value}\n")


@pytest.mark.parametrize("number", ["0x" + "f" * 40, "9" * 40, "1" * 40 + ".5", "12:30:45"])
def test_a_number_that_is_endless_or_of_base_sixty_is_refused_with_its_line(number: str) -> None:
    with pytest.raises(UnreadableFile, match="line 2: a number"):
        parse_document(f"a: 1\nb: {number}\n".encode())
    assert parse_document(f'a: "{number}"\n'.encode()).value == {"a": number}


class _Read(list[Any]):
    """How often it was read from its start."""

    times = 0

    def __iter__(self) -> Any:
        self.times += 1
        return super().__iter__()


def test_members_are_listed_once_however_many_of_them_are_faulty() -> None:
    document = parse_document("".join(f"x{number}: 1\n" for number in range(200)).encode())
    assert document.node is not None
    document.node.value = members = _Read(document.node.value)
    assert [document.where((f"x{number}",))[0] for number in range(200)] == list(range(1, 201))
    assert members.times == 1


def test_every_unknown_member_is_counted_and_a_misspelt_one_is_told_with_what_it_stands_for(tmp_path: Path) -> None:
    raw = raw_manifest(dataset="evil") | {f"x{number}": 1 for number in range(500)}
    raw["tenantt"] = raw.pop("tenant")
    told = _beside(tmp_path, yaml.safe_dump(raw, sort_keys=False))
    assert "and 498 more" in told
    raw = raw_manifest(dataset="evil")
    raw["tenantt"] = raw.pop("tenant")
    assert "tenantt: is unknown here; write tenant" in _beside(tmp_path, raw)


def test_a_folder_that_cannot_be_looked_into_stops_no_other(tmp_path: Path) -> None:
    evil = _write(tmp_path, "evil", raw_manifest(dataset="evil"))
    (evil / "descriptor.yaml").unlink()
    (evil / "descriptor.yaml").symlink_to("descriptor.yaml")
    _write(tmp_path, "plants", raw_manifest())
    assert list(load_registry(tmp_path).datasets) == ["plants"]


@pytest.mark.parametrize("place", ["a\0b.csv", "a\ud800.csv", "circle.csv", "x" * 1_900])
def test_a_place_that_is_none_is_told_and_stops_no_other(tmp_path: Path, place: str) -> None:
    columns = [{"name": "id", "type": "INT64"}]
    evil = _write(tmp_path, "evil", "")
    (evil / "circle.csv").symlink_to("circle.csv")
    text = yaml.safe_dump(raw_manifest(dataset="evil", tables=[{"name": "plants", "file": "HERE", "columns": columns}]))
    spelled = place.encode("unicode_escape", "surrogatepass").decode()
    assert _beside(tmp_path, text.replace("HERE", f'"{spelled}"'))


def test_a_pipe_is_no_table(tmp_path: Path) -> None:
    raw = raw_manifest(dataset="evil")
    evil = _write(tmp_path, "evil", raw)
    pipe = evil / raw["tables"][0]["file"]
    pipe.parent.mkdir(exist_ok=True)
    os.mkfifo(pipe)
    assert "no regular file" in _beside(tmp_path, raw)


def test_a_folder_has_the_dataset_of_its_own_name_and_no_other_folder_takes_it(tmp_path: Path) -> None:
    _write(tmp_path, "plants", raw_manifest())
    _write(tmp_path, "copy", raw_manifest())
    registry = load_registry(tmp_path)
    assert registry.path("plants").name == "plants"
    assert "give this one its own name" in registry.invalid["copy"]


def test_nobody_stands_in_for_a_folder_that_is_broken(tmp_path: Path) -> None:
    _write(tmp_path, "plants", "dataset: [\n")
    _write(tmp_path, "copy", raw_manifest())
    registry = load_registry(tmp_path)
    assert not registry.datasets
    assert sorted(registry.faults) == ["copy", "plants"]


def test_a_broken_folder_that_claims_a_name_does_not_make_it_a_broken_dataset(tmp_path: Path) -> None:
    _write(tmp_path, "plants", raw_manifest())
    _write(tmp_path, "evil", raw_manifest(version=None))
    registry = load_registry(tmp_path)
    assert list(registry.datasets) == ["plants"]
    assert sorted(registry.invalid) == ["evil"]


def test_every_fault_is_kept_where_both_of_its_names_are_served(tmp_path: Path) -> None:
    _write(tmp_path, "roots", raw_manifest(dataset="plants"))
    _write(tmp_path, "leaves", raw_manifest(dataset="trees"))
    _write(tmp_path, "trees", raw_manifest(dataset="plants", version=None))
    registry = load_registry(tmp_path)
    assert sorted(registry.datasets) == ["plants", "trees"]
    assert sorted(registry.invalid) == ["trees/descriptor.yaml"]
