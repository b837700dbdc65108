"""A call that another dataset agent passes on cannot wait for a person: nobody could send it again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.remote_agent.chain_world import TOTAL, chain_world
from tests.running_agent import decision_of


def reviewed(place: int, descriptor: dict[str, Any]) -> None:
    for capability in descriptor["capabilities"]:
        capability["requires_review"] = place == 2 and capability["name"] == TOTAL


def test_a_capability_that_completes_another_and_needs_review_is_refused_and_nothing_waits(tmp_path: Path) -> None:
    with chain_world(tmp_path, 2, edit=reviewed) as world:
        task = world.ask()
        assert (task["status"]["state"], decision_of(task)["reason"]) == ("TASK_STATE_REJECTED", "REVIEW_REQUIRED")
        assert world.counts() == [1, 1]
        second = world.agents[1]
        assert second.run(second.lifecycle.service.approvals.all()) == []
        assert world.last(2)["reason"] == "REVIEW_REQUIRED"
