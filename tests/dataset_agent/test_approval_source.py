"""What the approval commands see at a home where nothing is served."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from dataset_agent import console
from dataset_agent.approval_commands import approval_table
from dataset_agent.approval_source import approval_source
from tests.running_agent import agent_home


def test_what_waits_at_a_home_is_listed_whatever_datasets_there_are(tmp_path: Path) -> None:
    assert approval_source(agent_home(tmp_path / "home"), None).listed(everything=True) == {"approvals": []}


def test_a_list_tells_how_long_ago_each_was_asked_for_and_how_long_it_is_open(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "out", Console(width=80, height=25, soft_wrap=True))
    asked = {
        "dataset": "tank-levels",
        "capability": "mean_level",
        "requester": "operator",
        "created_at": "2026-09-01T00:00:00.000000Z",
        "expires_at": "2026-09-02T00:00:00.000000Z",
    }
    states = ("pending", "approved", "used", "denied", "withdrawn", "expired")
    found = [asked | {"id": f"apr-{number:032x}", "state": state} for number, state in enumerate(states)]
    approval_table(found, 1_788_220_800.0 + 5 * 3_600)
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines[0].split() == ["id", "state", "asked", "ends"]
    told = [line.split()[1:] for line in lines[2:] if line.startswith("apr-")]
    assert told == [
        *([state, "5h", "ago", "in", "19h"] for state in states[:2]),
        *([state, "5h", "ago"] for state in states[2:]),
    ]
    assert lines[3] == "    dataset tank-levels, capability mean_level, requester operator"


def test_clocks_that_differ_make_no_time_that_is_still_to_come(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "out", Console(width=200, height=25, soft_wrap=True))
    one = {"id": "apr-1", "state": "pending", "dataset": "a", "capability": "b", "requester": "c"}
    times = {"created_at": "2026-09-01T00:00:01.000000Z", "expires_at": "2026-09-01T00:00:02.000000Z"}
    approval_table([one | times], 1_788_220_800.0)
    assert capsys.readouterr().out.splitlines()[2].split() == [
        "apr-1",
        "pending",
        "0s",
        "ago",
        "in",
        "2s",
        "a",
        "b",
        "c",
    ]
