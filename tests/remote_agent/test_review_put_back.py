"""An old copy of the approvals that is put back revives none that was used: the memory of spent leaves knows it."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from approvals.approval import State
from contract.settings import Settings
from grants.state import SEEN_FILE, STATE_FILE
from remote_agent.approvals_place import approvals_file
from tests.remote_agent.long_world import Client, held, until
from tests.remote_agent.review_world import (
    DONE,
    REJECTED,
    again,
    approval_of,
    ask,
    decide,
    reviewed_datasets,
    state_of,
)
from tests.running_agent import agent_home, decision_of, running_agent

pytestmark = pytest.mark.live
A = {"batch_a": "B001", "batch_b": "B002"}


def nothing(_: Settings) -> None:
    return None


def without_memory(settings: Settings) -> None:
    """Of what was spent: what knows it is gone, and what knows that there was one is there."""
    for file in settings.home.glob(f"{STATE_FILE}*"):
        file.unlink()
    assert (settings.home / SEEN_FILE).exists()


@pytest.mark.parametrize(
    ("lost", "reason"), [(nothing, "APPROVAL_ALREADY_DECIDED"), (without_memory, "APPROVAL_EXPIRED")]
)
def test_an_approval_that_was_used_is_not_used_again_from_an_old_copy(
    tmp_path: Path, lost: Callable[[Settings], None], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Fresh grants are taken at once and not some seconds later, which is all that this changes.
    monkeypatch.setattr("grants.state_file.armed_after_loss", int)
    settings = agent_home(tmp_path / "home", datasets=reviewed_datasets(tmp_path), watch_interval=0)
    copy = tmp_path / "copy"
    with running_agent(settings) as agent:
        task: dict[str, Any] = ask(Client(agent), **A)
        decided = decide(agent, task).at
        shutil.copy(approvals_file(settings), copy)
        assert state_of(again(Client(agent), task, **A)) == DONE
    shutil.copy(copy, approvals_file(settings))
    lost(settings)
    until(lambda: time.time() >= int(decided) + 1)
    with running_agent(settings) as agent, held(agent) as executions:
        executions.release()
        assert approval_of(agent, task).state is State.APPROVED
        refused = again(Client(agent), task, **A)
        assert (state_of(refused), decision_of(refused)["reason"]) == (REJECTED, reason)
        assert (executions.began, approval_of(agent, task).state) == (0, State.USED)


def test_an_approval_that_was_not_used_is_used_after_a_restart(tmp_path: Path) -> None:
    settings = agent_home(tmp_path / "home", datasets=reviewed_datasets(tmp_path), watch_interval=0)
    with running_agent(settings) as agent:
        task = ask(Client(agent), **A)
        decide(agent, task)
    with running_agent(settings) as agent:
        assert state_of(again(Client(agent), task, **A)) == DONE
