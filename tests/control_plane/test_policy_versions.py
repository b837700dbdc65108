"""Several versions of a policy set, one in force: read whole, told by name, and an edit without another version told."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from contract.errors import DatasetAgentError
from control_plane import cedar_versions
from control_plane.cedar_versions import find_versions
from control_plane.policy import Outcome, load_policies
from control_plane.policy_seen import SEEN_FILE, told_apart
from tests.control_plane.control_plane_world import make_question, write_policies

PERMIT = '@id("P-1") permit (principal, action, resource) when { context.entitled };'
FORBID = '@id("P-1") forbid (principal, action, resource);'


def _versions(folder: Path, current: str = "2026.09", **sets: str) -> Path:
    for name, text in sets.items():
        written = write_policies(folder / name.replace("v", "").replace("_", "."), text)
        (written / "version").unlink()
    (folder / "current").write_text(f"{current}\n", encoding="utf-8")
    return folder


def _both(folder: Path, current: str = "2026.09") -> Path:
    return _versions(folder, current, v2026_09=PERMIT, v2026_10=FORBID)


def test_the_version_that_current_names_is_in_force(tmp_path: Path) -> None:
    folder = _both(tmp_path)
    assert load_policies(folder).version == "2026.09"
    (folder / "current").write_text("2026.10", encoding="utf-8")
    assert load_policies(folder).version == "2026.10"


def test_another_version_is_read_by_name_and_decides_for_itself(tmp_path: Path) -> None:
    folder = _both(tmp_path)
    answers = [load_policies(folder, version).evaluate(make_question()) for version in ("2026.09", "2026.10")]
    assert [(answer.outcome, answer.policy_version) for answer in answers] == [
        (Outcome.PERMIT, "2026.09"),
        (Outcome.FORBID, "2026.10"),
    ]


def test_one_set_without_current_is_the_version_it_states(tmp_path: Path) -> None:
    folder = write_policies(tmp_path, PERMIT)
    assert find_versions(folder).current == load_policies(folder, "2026.09.01").version == "2026.09.01"


def test_two_versions_may_use_one_id(tmp_path: Path) -> None:
    assert set(load_policies(_both(tmp_path)).policies) == {"P-1"}


def test_a_place_is_told_with_its_version(tmp_path: Path) -> None:
    folder = _both(tmp_path)
    assert load_policies(folder, "2026.10").policies["P-1"].place == "2026.10/p0.cedar:1"


@pytest.mark.parametrize(
    ("break_it", "told"),
    [
        (lambda f: (f / "current").write_text("2026.11"), "policies/current: names 2026.11, and there is no such folder"),
        (lambda f: (f / "current").write_text("two words"), "policies/current: must hold one version"),
        (lambda f: (f / "current").unlink(), "policies/current: is missing: it names the version in force, one of 2026.09"),
        (lambda f: (f / "version").write_text("1"), "stands beside policies of no version"),
        (lambda f: (f / "p.cedar").write_text(PERMIT), "stands beside policies of no version"),
        (lambda f: (f / "2026.10" / "version").write_text("7"), "policies/2026.10/version: says 7"),
        (lambda f: (f / "2026.09" / "p0.cedar").write_text(PERMIT + PERMIT), 'policies/2026.09/p0.cedar:1: @id("P-1") is already'),
        (lambda f: (f / "2026.09" / "schema.cedarschema").unlink(), "exactly one .cedarschema"),
        (lambda f: (f / "2026.09" / "p0.cedar").write_text("permit"), "policies/2026.09/p0.cedar:1: "),
    ],
)  # fmt: skip
def test_versions_that_cannot_be_used_are_told_by_file(tmp_path: Path, break_it: Any, told: str) -> None:
    folder = _both(tmp_path)
    break_it(folder)
    with pytest.raises(DatasetAgentError) as caught:
        load_policies(folder)
    assert told in caught.value.message


def test_a_version_that_is_not_there_is_told_with_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(DatasetAgentError, match=r"there is no version 1: 2026.09, 2026.10"):
        load_policies(_both(tmp_path), "1")


def test_a_broken_version_that_is_not_in_force_does_not_keep_the_other_from_it(tmp_path: Path) -> None:
    folder = _both(tmp_path)
    (folder / "2026.10" / "p0.cedar").write_text("permit", encoding="utf-8")
    assert load_policies(folder).version == "2026.09"
    with pytest.raises(DatasetAgentError):
        load_policies(folder, "2026.10")


def test_too_many_versions_are_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cedar_versions, "MAX_VERSIONS", 1)
    with pytest.raises(DatasetAgentError, match="more than 1 versions"):
        load_policies(_both(tmp_path))


def test_hidden_folders_are_no_versions(tmp_path: Path) -> None:
    folder = _both(tmp_path)
    (folder / "..data").mkdir()
    assert set(find_versions(folder).folders) == {"2026.09", "2026.10"}


def _edited_while_read(monkeypatch: pytest.MonkeyPatch, edit: Any, times: int) -> list[int]:
    """``edit`` between the first and the last file of the first ``times`` reads."""
    reads: list[int] = []
    original = cedar_versions.examine_policies

    def examine(folder: Path, **options: Any) -> Any:
        found = original(folder, **options)
        reads.append(len(reads))
        if len(reads) <= times:
            edit(len(reads))
        return found

    monkeypatch.setattr(cedar_versions, "examine_policies", examine)
    return reads


def test_a_set_that_changes_while_it_is_read_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_policies(tmp_path, PERMIT)

    def edit(number: int) -> None:
        (folder / "p0.cedar").write_text(f"{FORBID} // {number}", encoding="utf-8")

    reads = _edited_while_read(monkeypatch, edit, 1)
    assert load_policies(folder).evaluate(make_question()).outcome is Outcome.FORBID
    assert len(reads) == 2


def test_a_fault_of_a_set_that_is_being_written_is_not_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_policies(tmp_path, "permit (")

    def edit(number: int) -> None:
        (folder / "p0.cedar").write_text(PERMIT, encoding="utf-8")

    _edited_while_read(monkeypatch, edit, 1)
    assert load_policies(folder).evaluate(make_question()).outcome is Outcome.PERMIT


def test_a_set_that_never_stands_still_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_policies(tmp_path, PERMIT)

    def edit(number: int) -> None:
        (folder / "p0.cedar").write_text(PERMIT + " " * number, encoding="utf-8")

    _edited_while_read(monkeypatch, edit, 99)
    with pytest.raises(DatasetAgentError, match="its files change while they are read"):
        load_policies(folder)


def test_current_that_is_replaced_while_a_set_is_read_gives_one_of_the_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = _both(tmp_path)

    def edit(number: int) -> None:
        (folder / "new").write_text("2026.10", encoding="utf-8")
        os.replace(folder / "new", folder / "current")

    _edited_while_read(monkeypatch, edit, 1)
    policies = load_policies(folder)
    assert (policies.version, policies.evaluate(make_question()).outcome) == ("2026.10", Outcome.FORBID)


def test_an_edit_without_another_version_is_told_until_there_is_one(tmp_path: Path) -> None:
    folder, home = tmp_path / "policies", tmp_path / "home"

    def loaded(text: str, version: str = "1") -> Any:
        return load_policies(write_policies(folder, text, version=version))

    assert told_apart(loaded(PERMIT), folder, home, remember=True) is None
    assert told_apart(loaded(PERMIT), folder, home, remember=True) is None
    for _ in range(2):
        told = told_apart(loaded(FORBID), folder, home, remember=True)
        assert told is not None
        assert "edited and are still version 1" in told
    assert told_apart(loaded(FORBID, "2"), folder, home, remember=True) is None
    assert told_apart(loaded(PERMIT), folder, home, remember=True) is None
    assert told_apart(loaded(FORBID), tmp_path / "another", home, remember=True) is None


def test_the_memory_of_versions_is_its_owner_s_alone(tmp_path: Path) -> None:
    told_apart(load_policies(write_policies(tmp_path / "policies", PERMIT)), tmp_path, tmp_path, remember=True)
    assert (tmp_path / SEEN_FILE).stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == [SEEN_FILE]


def test_who_only_looks_remembers_nothing(tmp_path: Path) -> None:
    policies = load_policies(write_policies(tmp_path / "policies", PERMIT))
    assert told_apart(policies, tmp_path, tmp_path / "home") is None
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("held", ["", "[]", '{"1": 2}', "\x00", '{"a": "b"'])
def test_a_memory_that_cannot_be_read_tells_nothing(tmp_path: Path, held: str) -> None:
    policies = load_policies(write_policies(tmp_path / "policies", PERMIT, version="1"))
    (tmp_path / SEEN_FILE).write_text(held, encoding="utf-8")
    assert told_apart(policies, tmp_path, tmp_path, remember=True) is None


def test_a_home_that_cannot_be_written_tells_nothing(tmp_path: Path) -> None:
    policies = load_policies(write_policies(tmp_path / "policies", PERMIT))
    (tmp_path / "home").write_text("no folder", encoding="utf-8")
    assert told_apart(policies, tmp_path, tmp_path / "home", remember=True) is None
