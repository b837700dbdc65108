"""The Python of docs/ask.md runs as it stands beside a served dataset agent, whichever of its keys signs."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from contract.settings import SHIPPED_DATASETS
from grants.key_store import KeyName
from grants.rotation import AHEAD, stage, switch
from tests.dataset_agent.command_line import HOUSE, Run, command_for, from_nothing
from tests.running_agent import RunningAgent, agent_home, running_agent

pytestmark = pytest.mark.live

PAGE = (HOUSE / "docs" / "ask.md").read_text(encoding="utf-8")
BLOCKS = dict(re.findall(r"^##+ ([^\n]+)\n(?:(?!^##).)*?^```python\n(.*?)^```$", PAGE, re.M | re.S))


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAgent]:
    """One whose next key is in ``trust.toml`` as the present one, while it still signs with the one before."""
    with running_agent(agent_home(tmp_path_factory.mktemp("agent"))) as running:
        now = time.time()
        stage(running.settings, KeyName.REMOTE, now=now)
        running.run(running.lifecycle.reload())
        switch(running.settings, KeyName.REMOTE, now=now + AHEAD)
        yield running


def run(agent: RunningAgent, title: str, folder: Path, *, edit: tuple[str, str] = ("", ""), **settings: str) -> Run:
    program = f"import os; os.chdir({str(folder)!r})\n{BLOCKS[title].replace(*edit)}"
    return from_nothing(program=program, HOME=str(agent.settings.home), URL=agent.url, **settings)


def test_in_process_a_person_is_answered(agent: RunningAgent, tmp_path: Path) -> None:
    done = run(agent, "5. Python, in process", tmp_path)
    assert done.code == 0, done.err
    assert done.out.startswith("GRANTED {'outcome': ")


def test_a_client_of_ones_own_calls_and_verifies_what_comes_back(agent: RunningAgent, tmp_path: Path) -> None:
    done = run(agent, "6. An A2A client of your own", tmp_path)
    assert done.code == 0, done.err
    assert done.out == "BPD-DATA-014 6\n"


def test_a_client_of_ones_own_relies_on_the_revision_that_the_card_says(agent: RunningAgent, tmp_path: Path) -> None:
    shutil.copytree(SHIPPED_DATASETS, tmp_path / "datasets")
    descriptor = tmp_path / "datasets" / "purification-batches" / "descriptor.yaml"
    text, changed = re.subn("^revision: .*$", "revision: auto", descriptor.read_text(encoding="utf-8"), flags=re.M)
    assert changed == 1
    descriptor.write_text(text, encoding="utf-8")
    done = run(agent, "6. An A2A client of your own", tmp_path, DATASETS=str(tmp_path / "datasets"))
    assert (done.code, done.out) == (0, "BPD-DATA-014 6\n"), done.err


def test_a_client_of_ones_own_is_told_why_nothing_ran(agent: RunningAgent, tmp_path: Path) -> None:
    done = run(agent, "6. An A2A client of your own", tmp_path, edit=('"B001"', '"B1"'))
    assert done.code == 0, done.err
    assert done.out.startswith("REFUSED: ARGUMENTS_INVALID. parameter batch_id does not match the declared pattern")


def test_the_grant_that_is_printed_can_be_inspected_and_would_be_accepted_for_its_call(
    agent: RunningAgent, tmp_path: Path
) -> None:
    done = run(agent, "A grant to look at", tmp_path)
    assert done.code == 0, done.err
    assert done.out.count(",") == 1
    command = command_for(agent.settings, URL=agent.url)
    told = command("grant", "inspect", "-", "--json", stdin=done.out).json
    assert (told["signatures"], told["refusal"]) == ("verified", None)
    call = str(tmp_path / "call.json")
    assert command("grant", "verify", "-", "--call", call, stdin=done.out).code == 0
    other = tmp_path / "other.json"
    other.write_bytes((tmp_path / "call.json").read_bytes() + b" ")
    assert command("grant", "verify", "-", "--call", str(other), stdin=done.out).code == 3
