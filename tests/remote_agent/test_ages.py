"""How old rows may be is asked of the rows: a descriptor may be as of a later instant than what was made, or is rested on."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.large_world import DATASET as READINGS
from tests.large_world import Fetcher, large_agent
from tests.remote_agent.chain_world import TOTAL, ChainWorld, amounts, chain_world, dataset
from tests.remote_agent.long_tasks import detached, reasons
from tests.remote_agent.long_world import CAPABILITY, DATASET, Client, Held
from tests.running_agent import RunningAgent, decision_of

TOO_OLD = "FRESHNESS_UNSATISFIABLE"


@pytest.fixture
def served_anew() -> Iterator[Any]:
    """Serves a dataset as of an instant, with a capability that requires rows of an age; puts it back."""
    before: list[tuple[Any, Any]] = []

    def serve(agent: RunningAgent, name: str, capability: str, required_s: int, as_of: datetime | None = None) -> None:
        service = agent.lifecycle.service
        before.append((service, service.world))
        served = service.world.datasets[name]
        own = served.capabilities[capability]
        manifest = own.descriptor.model_copy(update={"freshness_requirement_s": required_s})
        others = tuple(manifest if one.name == capability else one for one in served.descriptor.capabilities)
        told = {"capabilities": others} | ({} if as_of is None else {"as_of": as_of})
        changed = replace(
            served,
            descriptor=served.descriptor.model_copy(update=told),
            capabilities={**served.capabilities, capability: replace(own, descriptor=manifest)},
        )
        service.world = replace(service.world, datasets={**service.world.datasets, name: changed})

    yield serve
    for service, world in reversed(before):
        service.world = world


def age_s(agent: RunningAgent, name: str) -> int:
    served = agent.lifecycle.service.world.datasets[name]
    return int(served.descriptor.age_s(agent.lifecycle.service.clock()))


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChainWorld]:
    with chain_world(tmp_path_factory.mktemp("two"), 2) as world:
        yield world


@pytest.mark.parametrize(("spare_s", "reason"), [(3_600, "PRINCIPAL_AUTHORIZED"), (-3_600, TOO_OLD)])
def test_rows_that_rest_on_older_ones_of_another_agent_are_as_old_as_these(
    two: ChainWorld, served_anew: Any, spare_s: int, reason: str
) -> None:
    first, second = two.agents
    own, other = age_s(first, dataset(1)), age_s(second, dataset(2))
    assert own + 3_600 < other, "the data of the agent that is asked are the older ones"
    served_anew(first, dataset(1), TOTAL, other + spare_s)
    task = two.ask()
    decision = decision_of(task)
    assert (decision["reason"], two.last(1)["reason"]) == (reason, reason)
    if reason == TOO_OLD:
        assert (decision["policy_id"], "artifacts" in task) == ("AD-POL-008", False)
    else:
        assert amounts(task) == [110]


def test_a_result_that_waits_is_as_old_as_when_it_was_made(
    tmp_path_factory: pytest.TempPathFactory, served_anew: Any
) -> None:
    with large_agent(tmp_path_factory.mktemp("ages"), rows=30_000) as agent:
        fetcher = Fetcher(agent.settings, agent.url)
        task = fetcher.large()
        required = age_s(agent, READINGS) - 3_600
        served_anew(agent, READINGS, "list", required, as_of=datetime.now(UTC) - timedelta(seconds=5))
        reply = fetcher.fetch(task)
        assert (reply.status_code, reply.json()["decision"]["reason"]) == (403, TOO_OLD)
        served_anew(agent, READINGS, "list", required + 7_200)
        assert fetcher.fetch(task).status_code == 200


@pytest.mark.live
def test_who_follows_a_call_gets_no_older_rows_than_may_be_had_when_they_began(
    agent: RunningAgent, rpc: Client, holding: Held, served_anew: Any
) -> None:
    task = detached(rpc, holding)
    required = age_s(agent, DATASET) - 3_600
    served_anew(agent, DATASET, CAPABILITY, required, as_of=datetime.now(UTC) - timedelta(seconds=5))

    def follow() -> Any:
        with rpc.followed(task["id"]) as events:
            events.next()
            holding.release()
            return events.rest()

    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(follow).result(60)
    assert (ended.reason, ended.artifacts) == (TOO_OLD, {})
    assert TOO_OLD in reasons(rpc, task["id"])
