"""``cache stats`` before anything was looked up: what there is not yet is told as that, to people and to programs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from dataset_agent.cli import run


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home in which nothing was ever asked."""
    monkeypatch.setenv("DATASET_AGENT_HOME", str(tmp_path))
    monkeypatch.delenv("DATASET_AGENT_CACHE_URL", raising=False)


def test_a_ratio_of_nothing_is_a_dash_in_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["cache", "stats"]) == 0
    told = capsys.readouterr().out
    assert re.search(r"^\s*hits +0\s*$", told, re.M)
    assert re.search(r"^\s*hit_ratio +-\s*$", told, re.M)


def test_a_ratio_of_nothing_is_null_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["cache", "stats", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["hits"], told["misses"], told["hit_ratio"]) == (0, 0, None)
