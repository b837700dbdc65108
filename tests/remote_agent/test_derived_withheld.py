"""Where a mask touches a dimension nothing is derived; where a capability is restricted nothing is told."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from contract.extension import CACHE_KEY
from contract.settings import SHIPPED_DATASETS
from tests.remote_agent.clocked_world import DATASET
from tests.remote_agent.long_world import Client, held, until
from tests.running_agent import Asker, RunningAgent, agent_home, running_agent

pytestmark = pytest.mark.live
YEAR = {"from_day": "2024-01-01", "to_day": "2025-01-01", "per": "day"}
QUARTER = {**YEAR, "from_day": "2024-04-01", "to_day": "2024-07-01"}
POLICY = """
@id("T-{number}")
@mask("{{\\"{column}\\": \\"{mask}\\"}}")
permit (principal, action == Action::"{action}", resource == Dataset::"{dataset}")
when {{ context.entitled }};
"""


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAgent]:
    """``step_totals`` is restricted with a masked measure; ``run_totals`` has a masked dimension."""
    folder = tmp_path_factory.mktemp("withheld")
    datasets = Path(shutil.copytree(SHIPPED_DATASETS, folder / "datasets"))
    policies = datasets / "policies" / "bioprocess.cedar"
    text = policies.read_text().replace(
        '["read", "compute"].contains(context.effect) &&',
        '["read", "compute"].contains(context.effect) && action != Action::"step_totals" && action != Action::"run_totals" &&',
    )
    text += POLICY.format(number=1, column="step_condition.cycles", mask="null", action="step_totals", dataset=DATASET)
    text += POLICY.format(
        number=2, column="chromatography_run.site", mask="truncate", action="run_totals", dataset="chromatography-results"
    )  # fmt: skip
    policies.write_text(text)
    path = datasets / DATASET / "descriptor.yaml"
    head, name, tail = path.read_text().partition("  - name: step_totals\n")
    tail = tail.replace("sensitivity: internal", "sensitivity: restricted\n    policy_id: T-1", 1)
    path.write_text(head.replace("policies: [", "policies: [T-1, ", 1) + name + tail)
    people = datasets / "principals.yaml"
    people.write_text(people.read_text().replace("clearance: confidential", "clearance: restricted", 1))
    with running_agent(agent_home(folder / "home", datasets=datasets)) as served:
        yield served


def ask(agent: RunningAgent, dataset: str, capability: str, arguments: dict[str, Any]) -> dict[str, Any]:
    task = Asker(agent.settings, agent.url).ask(dataset, capability, arguments)
    assert "artifacts" in task, task
    return task


def rows(task: dict[str, Any]) -> Any:
    return base64.b64decode(task["artifacts"][0]["parts"][0]["raw"])


def test_of_a_restricted_capability_nothing_is_told(agent: RunningAgent) -> None:
    for arguments in (YEAR, QUARTER, QUARTER):
        task = ask(agent, DATASET, "step_totals", arguments)
        told = task["metadata"][CACHE_KEY]
        assert (told["outcome"], told["key"], told["derived"]) == ("WITHHELD", None, False)
        statement = json.loads(base64.b64decode(task["artifacts"][1]["parts"][0]["raw"]))
        cache = json.loads(base64.b64decode(statement["payload"]))["predicate"]["cache"]
        assert cache == {"outcome": "WITHHELD", "used": False, "key": None}
        cells = agent.rows()[-1].cells
        assert (cells["cache"], cells["derived"]) == ("WITHHELD", None)


def test_who_subscribes_to_a_restricted_call_is_told_no_more_than_who_waited_for_it(agent: RunningAgent) -> None:
    """Two equal calls share one run: neither release of the second names it."""
    year = {**YEAR, "from_day": "2023-01-01"}
    client = Client(agent)
    call = client.call(year, "step_totals")
    with held(agent) as run, ThreadPoolExecutor(1) as pool:
        first = pool.submit(ask, agent, DATASET, "step_totals", year)
        until(lambda: run.began)
        task = client.send(call, client.leaf_for(call, capability="step_totals"), now=True)
        with client.followed(task["id"], capability="step_totals") as events:
            events.next()
            run.release()
            subscribed = events.rest()
        first.result()
    assert run.began == 1
    told = json.loads(base64.b64decode(json.loads(subscribed.raw("provenance"))["payload"]))["predicate"]
    assert told["cache"]["outcome"] == "WITHHELD"
    assert told["execution"]["execution_id"] not in {row.cells["execution_id"] for row in agent.rows()}


def test_a_masked_measure_derives_the_engines_bytes(agent: RunningAgent) -> None:
    ask(agent, DATASET, "step_totals", YEAR)
    derived = ask(agent, DATASET, "step_totals", {**YEAR, "per": "site"})
    service = agent.lifecycle.service
    assert service.cache.counters["derived"] >= 1
    service.cache_enabled = False
    try:
        assert rows(ask(agent, DATASET, "step_totals", {**YEAR, "per": "site"})) == rows(derived)
    finally:
        service.cache_enabled = True


def test_a_mask_on_a_dimension_derives_nothing(agent: RunningAgent) -> None:
    before = agent.lifecycle.service.cache.counters.get("derived", 0)
    for arguments in (YEAR, QUARTER, {**YEAR, "per": "method"}):
        task = ask(agent, "chromatography-results", "run_totals", arguments)
        assert task["metadata"][CACHE_KEY]["outcome"] == "MISS"
    assert agent.lifecycle.service.cache.counters.get("derived", 0) == before
