"""What a log says of a policy that cannot be read: where, and not its text."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from contract.errors import DatasetAgentError
from contract.settings import SHIPPED_DATASETS
from contract.telemetry import unquoted
from control_plane.policy import load_policies

BROKEN = '\n@id("Z-1") permit (principal == zebra "lark-9000", action, resource);\n'


def test_a_policy_that_cannot_be_read_is_named_by_file_and_line_alone(tmp_path: Path) -> None:
    policies = shutil.copytree(SHIPPED_DATASETS / "policies", tmp_path / "policies")
    with (policies / "bioprocess.cedar").open("a") as file:
        file.write(BROKEN)
    with pytest.raises(DatasetAgentError) as fault:
        load_policies(policies)
    assert "lark-9000" in fault.value.message
    said = unquoted(fault.value.message)
    assert "bioprocess.cedar:" in said and "unexpected token" in said
    assert "lark-9000" not in said


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ("nothing is quoted", "nothing is quoted"),
        ("a `b` c `d`", "a `…` c `…`"),
        ("a `b c", "a `…`"),
        ("a `b\nc` d", "a `…` d"),
    ],
)
def test_whatever_is_in_backquotes_is_left_out(said: str, left: str) -> None:
    assert unquoted(said) == left
