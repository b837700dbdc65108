"""A terminal row that the ledger cannot hold: nothing leaves, and a row that it can hold says so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from control_plane.evaluator import Evaluator
from control_plane.policy import PolicyAnswer, PolicyRequest
from tests.large_world import DATASET, Fetcher, write_world
from tests.running_agent import agent_home, decision_of, running_agent


class Unnameable:
    """An evaluator that names its policy as no row of the ledger can hold it; what is read from files and servers cannot."""

    def __init__(self, inner: Evaluator) -> None:
        self._inner = inner

    async def evaluate(self, request: PolicyRequest) -> PolicyAnswer:
        return replace(await self._inner.evaluate(request), policy_id="T-" + "1" * 250)

    def version(self) -> str:
        return self._inner.version()


def test_a_policy_whose_name_no_row_can_hold_leaves_one_row_all_the_same(tmp_path: Path) -> None:
    datasets = write_world(tmp_path / "datasets", rows=3)
    with running_agent(agent_home(tmp_path / "home", datasets=datasets)) as agent:
        service = agent.lifecycle.service
        capability = service.world.datasets[DATASET].capabilities["few"]
        unnamed = replace(capability, descriptor=capability.descriptor.model_copy(update={"policy_id": None}))
        served = replace(service.world.datasets[DATASET], capabilities={"few": unnamed})
        service.world = replace(
            service.world, evaluator=Unnameable(service.world.evaluator), datasets={DATASET: served}
        )
        task = Fetcher(agent.settings, agent.url).ask(DATASET, "few", {"below": 2})
        assert (decision_of(task)["reason"], "artifacts" in task) == ("EXECUTION_FAILED", False)
        (row,) = agent.rows()
        assert (row.cells["kind"], row.cells["reason"], row.cells["task_id"]) == (
            "terminal",
            "EXECUTION_FAILED",
            task["id"],
        )
