"""A terminal row that the ledger cannot hold: nothing leaves, and a row that it can hold says so."""

from __future__ import annotations

from pathlib import Path

from tests.large_world import DATASET, Fetcher, write_world
from tests.running_agent import agent_home, decision_of, running_agent


def test_a_policy_whose_name_no_row_can_hold_leaves_one_row_all_the_same(tmp_path: Path) -> None:
    datasets = write_world(tmp_path / "datasets", rows=3)
    for policy in (datasets / "policies").glob("*.cedar"):
        policy.write_text(policy.read_text().replace('@id("T-1")', f'@id("T-{"1" * 250}")'))
    with running_agent(agent_home(tmp_path / "home", datasets=datasets)) as agent:
        task = Fetcher(agent.settings, agent.url).ask(DATASET, "few", {"below": 2})
        assert (decision_of(task)["reason"], "artifacts" in task) == ("EXECUTION_FAILED", False)
        (row,) = agent.rows()
        assert (row.cells["kind"], row.cells["reason"], row.cells["task_id"]) == (
            "terminal",
            "EXECUTION_FAILED",
            task["id"],
        )
