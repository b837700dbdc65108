"""The Python of docs/audit.md is what an auditor runs: on answers from before and after a change of keys, or edited."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path

import pytest

from tests.dataset_agent.command_line import HOUSE, CommandLine, command_for, from_nothing
from tests.running_agent import agent_home, running_agent

pytestmark = pytest.mark.live

BLOCKS = re.findall(r"^```python\n(.*?)^```$", (HOUSE / "docs" / "audit.md").read_text(encoding="utf-8"), re.M | re.S)
PROGRAM = "import os; os.chdir(os.environ['WHERE'])\n" + "".join(BLOCKS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``old/answer.json`` from before every key was changed, ``new/answer.json`` from after it, and the home of both."""
    folder = tmp_path_factory.mktemp("audit")
    home = agent_home(folder / "home")
    for name in ("old", "new"):
        (folder / name).mkdir()
        with running_agent(home) as agent:
            run = _ask(command_for(home, URL=agent.url), folder / name / "answer.json")
            assert run == 0
        if name == "old":
            assert command_for(home)("keys", "init", "--force").code == 0
    return folder


def _ask(command: CommandLine, file: Path) -> int:
    question = "Compare the recovery of batches B001 and B002"
    return command("ask", "--as", "process_engineer", question, "--save", str(file)).code


def _audited(folder: Path, name: str) -> tuple[int, str, str]:
    told = from_nothing(
        program=PROGRAM.replace("os.environ['WHERE']", repr(str(folder / name))), HOME=str(folder / "home")
    )
    return told.code, told.out, told.err


@pytest.mark.parametrize(("name", "retired"), [("old", True), ("new", False)])
def test_an_answer_verifies_with_all_it_rests_on_whichever_key_signed_it(
    folder: Path, name: str, retired: bool
) -> None:
    code, out, err = _audited(folder, name)
    assert code == 0, err
    first, *branches = out.splitlines()
    assert first.rstrip().endswith("(retired)") is retired
    assert branches == ["urn:dataset-agent:remote asked by urn:dataset-agent:root"]


def test_an_edited_answer_is_named_by_its_check(folder: Path) -> None:
    (folder / "edited").mkdir()
    saved = json.loads((folder / "new" / "answer.json").read_text())
    saved["result_base64"] = base64.b64encode(b"{}").decode()
    (folder / "edited" / "answer.json").write_text(json.dumps(saved))
    code, _, err = _audited(folder, "edited")
    assert code == 1
    assert "InvalidProvenance: the provenance is for other result bytes" in err


def test_of_each_place_that_evidence_or_its_like_lies_in_all_four_properties_are_told() -> None:
    page = (HOUSE / "docs" / "audit.md").read_text(encoding="utf-8")
    table = page.split("| store | retention | integrity | access | immutability |")[1].split("\n\n")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.strip().splitlines()[1:]]
    assert all(len(row) == 5 and all(row) for row in rows)
    named = " ".join(row[0] for row in rows)
    assert all(
        place in named for place in ("SQLite", "segments", "PostgreSQL", "exports", "Agent Analytics", "sessions")
    )
