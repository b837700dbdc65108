"""Traces decide nothing and prove nothing: with all of them lost the same is answered and recorded."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from contract.tracing import Span, Traces
from telemetry.logs import OWN
from tests.large_world import DATASET, large_agent
from tests.running_agent import Asker, decision_of

ROOT = Path(__file__).resolve().parents[2]
WRITES = {
    "Kind",
    "Traces",
    "is_plain",
    "settle",
    "take_in",
    "tell",
    "tracing",
    "under_way",
    "passed_on",
    "begun_trace_id",
}
_OWN_TO_EACH = ("salt", "commitment", "hash", "recorded_at", "_id", "jti", "txn", "session", "digest", "event_ids")


def imported(path: Path) -> set[str]:
    """What a file takes from the traces."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    named = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module == "contract.tracing"]
    return {alias.name for node in named for alias in node.names}


def files(*packages: str) -> list[Path]:
    return [path for package in packages for path in sorted((ROOT / package).rglob("*.py"))]


def test_what_decides_and_what_proves_knows_no_trace_but_to_write_one_step() -> None:
    for path in files("grants", "queries", "cache", "evidence", "approvals", "quota"):
        assert imported(path) == set(), path
    for path in files("control_plane"):
        assert imported(path) <= {"tracing"}, path


def test_nobody_reads_what_is_in_a_trace() -> None:
    for path in files(*(OWN - {"telemetry", "contract"})):
        assert imported(path) <= WRITES, path


def lost(_: Sequence[Span]) -> None:
    raise OSError("the collector is gone")


def answered(folder: Path, monkeypatch: pytest.MonkeyPatch, traces: Traces) -> tuple[list[Any], list[Any]]:
    """Decisions, and the rows of evidence without what is made anew for each."""
    monkeypatch.setattr("remote_agent.lifecycle.open_traces", lambda *_, **__: traces)
    with large_agent(folder, rows=60) as agent:
        asker = Asker(agent.settings, agent.url, principal="engineer")
        calls: list[dict[str, Any]] = [{"below": 30}, {"below": 30}, {}, {"below": "no number"}]
        told = [decision_of(asker.ask(DATASET, "few", call)) for call in calls]
        rows = [
            {name: value for name, value in row.cells.items() if not any(part in name for part in _OWN_TO_EACH)}
            for row in agent.rows()
        ]
    return [(one["verdict"], one["reason"], one["policy_id"]) for one in told], rows


def test_with_all_spans_lost_the_same_is_answered_and_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without = answered(tmp_path / "without", monkeypatch, Traces())
    losing = answered(tmp_path / "losing", monkeypatch, Traces(lost))
    assert len(without[1]) == 4
    assert losing == without
