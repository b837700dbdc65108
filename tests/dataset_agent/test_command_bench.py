"""``bench`` runs the benchmarks of this very tree, and says where they are when they are not here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from dataset_agent import AGENTS_DIR
from dataset_agent.bench import tree
from dataset_agent.cli import app


@pytest.mark.live
def test_a_section_is_measured_and_told_as_one_object() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from dataset_agent.cli import main; main()",
            "bench",
            "rubbish",
            "--blocks",
            "3",
            "--json",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    told = json.loads(done.stdout)
    assert (done.returncode, set(told)) == (0, {"rubbish"})
    assert all({"what", "measured", "unit", "goal", "met"} == set(figure) for figure in told["rubbish"]["figures"])


@pytest.mark.live
def test_a_section_that_there_is_not_is_a_fault_of_use() -> None:
    assert CliRunner().invoke(app, ["bench", "no-such-section"]).exit_code == 2


def test_where_the_source_tree_is_not_here_it_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "benchmarks").mkdir()  # somebody else's
    with pytest.raises(typer.Exit) as stopped:
        tree(tmp_path)
    assert stopped.value.exit_code == 2 and "make bench" in capsys.readouterr().err
    assert tree() == AGENTS_DIR
