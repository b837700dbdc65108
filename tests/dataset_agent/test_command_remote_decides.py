"""The root's verdict alone is not enough: the dataset agent has a directory of its own."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from contract.settings import SHIPPED_DATASETS
from tests.dataset_agent.command_line import CommandLine
from tests.running_agent import RunningAgent, agent_home, running_agent

pytestmark = pytest.mark.live

QUESTION = "Compare the recovery of batches B001 and B002"


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAgent]:
    """It does not know that the analyst may compare batches; whoever asks it does."""
    folder = tmp_path_factory.mktemp("remote")
    datasets = Path(shutil.copytree(SHIPPED_DATASETS, folder / "datasets"))
    principals = datasets / "principals.yaml"
    text = principals.read_text()
    assert "purification-batches: [compare_batches, search]" in text
    principals.write_text(text.replace("[compare_batches, search]", "[search]"))
    with running_agent(agent_home(folder / "home", datasets=datasets)) as running:
        yield running


def test_an_entitlement_that_only_the_remote_lacks_refuses_there(agent: RunningAgent, command: CommandLine) -> None:
    run = command.ask(QUESTION, "analyst")
    assert run.code == 3
    answer = run.json
    assert answer["verdict"] == "REFUSED"
    assert answer["decision"]["verdict"] == "GRANTED"
    decided = answer["remote"]["decision"]
    assert (decided["verdict"], decided["reason"]) == ("REFUSED", "INSUFFICIENT_PRIVILEGE")
    assert decided["policy_id"]
    assert [answer[name] for name in ("result", "cache", "provenance")] == [None] * 3
    assert answer["a2a_calls"] == []
    assert answer["attempts"] == 1
    newest = agent.rows()[-1].cells
    assert (newest["reason"], newest["rows_returned"]) == ("INSUFFICIENT_PRIVILEGE", None)


def test_a_person_is_told_who_refused(command: CommandLine) -> None:
    run = command("ask", "--as", "analyst", QUESTION)
    assert run.code == 3
    line, read = run.err.splitlines()
    assert line.startswith("REFUSED INSUFFICIENT_PRIVILEGE by ")
    assert " at the dataset agent: " in line
    assert read.startswith("read as: ")


def test_others_are_served(command: CommandLine) -> None:
    assert command.ask(QUESTION).json["verdict"] == "GRANTED"
