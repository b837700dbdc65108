"""What the approval commands see at a home where nothing is served."""

from __future__ import annotations

from pathlib import Path

from dataset_agent.approval_source import approval_source
from tests.running_agent import agent_home


def test_what_waits_at_a_home_is_listed_whatever_datasets_there_are(tmp_path: Path) -> None:
    assert approval_source(agent_home(tmp_path / "home"), None).listed(everything=True) == {"approvals": []}
