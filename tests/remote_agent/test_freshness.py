"""A stored result is as old as its execution, however often it is read: at the end of its life the next call runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from contract.extension import CACHE_KEY
from tests.remote_agent.clocked_world import DATASET, Clocked, cache_at, clocked

pytestmark = pytest.mark.live

REUSE_S = 60


@pytest.fixture(scope="module", params=["sqlite", "redis"])
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clocked]:
    folder = tmp_path_factory.mktemp("freshness")
    with cache_at(request.param, folder) as at, clocked(folder, None, agents=1, **at) as world:
        store: Any = world.agents[0].lifecycle.service.cache.store
        if hasattr(store, "_lanes"):
            store._lanes._budget_s = 10.0  # what is tested is not the budget
        yield world


@pytest.fixture
def world(shared: Clocked) -> Clocked:
    """Whose publisher lets a result be reused for a minute."""
    publish(shared, reuse_s=REUSE_S)
    shared.executions = 0
    return shared


def publish(world: Clocked, **members: Any) -> None:
    service = world.agents[0].lifecycle.service
    served = service.world.datasets[DATASET]
    freshness = served.descriptor.freshness.model_copy(update=members)
    changed = replace(served, descriptor=served.descriptor.model_copy(update={"freshness": freshness}))
    service.world = replace(service.world, datasets={**service.world.datasets, DATASET: changed})


def outcome(world: Clocked, arguments: dict[str, str]) -> str:
    return str(world.ask(world.root_token(), arguments)["metadata"][CACHE_KEY]["outcome"])


def test_a_hit_every_ten_seconds_lengthens_no_life(world: Clocked) -> None:
    arguments = world.fresh()
    outcomes = [outcome(world, arguments)]
    for _ in range(5):
        world.move(10)
        outcomes.append(outcome(world, arguments))
    assert outcomes == ["MISS", *["HIT"] * 5]
    world.move(11)
    assert outcome(world, arguments) == "MISS"
    assert world.executions == 2
    assert outcome(world, arguments) == "HIT"


def test_a_shorter_reuse_time_finds_nothing_that_was_stored_under_a_longer_one(world: Clocked) -> None:
    arguments = world.fresh()
    publish(world, reuse_s=3_600)
    assert [outcome(world, arguments), outcome(world, arguments)] == ["MISS", "HIT"]
    publish(world, reuse_s=REUSE_S)
    world.move(1)
    assert [outcome(world, arguments), outcome(world, arguments)] == ["MISS", "HIT"]


def test_rows_as_of_an_earlier_instant_than_the_call_was_admitted_for_are_not_answered(world: Clocked) -> None:
    """The publisher says of the same revision that it is as of now: who needs young data is admitted for these."""
    arguments = world.fresh()
    assert [told(world, arguments)[0], told(world, arguments)[0]] == ["MISS", "HIT"]
    service = world.agents[0].lifecycle.service
    served = service.world.datasets[DATASET]
    later = served.descriptor.as_of + timedelta(hours=5)
    moved = replace(served, descriptor=served.descriptor.model_copy(update={"as_of": later}))
    service.world = replace(service.world, datasets={**service.world.datasets, DATASET: moved})
    again = [told(world, arguments), told(world, arguments)]
    assert again == [("MISS", moved.as_of), ("HIT", moved.as_of)]


def told(world: Clocked, arguments: dict[str, str]) -> tuple[str, str]:
    """What the cache had, and as of when the rows are."""
    cache = world.ask(world.root_token(), arguments)["metadata"][CACHE_KEY]
    return cache["outcome"], cache["as_of"]
