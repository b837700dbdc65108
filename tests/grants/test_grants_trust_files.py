"""What the trust file may be: a regular file of a bounded size, wherever links lead, that a parser reads to its end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from contract.errors import DatasetAgentError
from grants.trust import MAX_TRUST_BYTES, load_trust
from grants.trust_file import trust_text
from tests.grants.grants_world import TRUST


def refused(path: Path) -> str:
    with pytest.raises(DatasetAgentError) as stop:
        load_trust(path)
    assert stop.value.code == "grants.trust.invalid"
    return stop.value.message


def test_a_link_to_a_trust_file_is_one(tmp_path: Path) -> None:
    (tmp_path / "mounted.toml").write_text(trust_text(TRUST, tmp_path))
    (tmp_path / "trust.toml").symlink_to("mounted.toml")
    assert load_trust(tmp_path / "trust.toml") == TRUST


def test_what_is_no_file_is_not_waited_for_and_trusts_nobody_by_being_empty(tmp_path: Path) -> None:
    (tmp_path / "trust.toml").symlink_to(os.devnull)
    assert "no regular file" in refused(tmp_path / "trust.toml")


@pytest.mark.parametrize("text", ["a = " + "[" * 20_000 + "]" * 20_000, "a = " + "{b = " * 20_000])
def test_what_is_nested_without_end_is_a_fault_of_the_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "trust.toml").write_text(text)
    assert "nested too deeply" in refused(tmp_path / "trust.toml")


def test_no_more_is_read_than_may_be(tmp_path: Path) -> None:
    (tmp_path / "trust.toml").write_text("#" * (MAX_TRUST_BYTES + 1))
    assert "is larger than" in refused(tmp_path / "trust.toml")
