"""A publisher lowers what a result may have: what was stored or derived before is no answer to a call of now.

The revision stays as it was, so that the key of the stored result does too.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

from contract.extension import CACHE_KEY
from contract.result import UNLIMITED
from contract.scope import Sensitivity
from remote_agent.admin_query import Asked
from tests.engine_taps import tap
from tests.remote_agent.clocked_world import Clocked, clocked
from tests.remote_agent.test_stale_calls import allow, patient, publish, settled
from tests.running_agent import decision_of

pytestmark = pytest.mark.live

DATASET, COMPARE, TOTALS = "purification-batches", "compare_batches", "step_totals"
YEAR = {"from_day": "2024-01-01", "to_day": "2025-01-01", "per": "day"}
SITES = {**YEAR, "per": "site"}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clocked]:
    with clocked(tmp_path_factory.mktemp("lowered"), None) as world:
        yield patient(world)


@pytest.fixture
def world(shared: Clocked) -> Iterator[Clocked]:
    before = [(agent.lifecycle.service, agent.lifecycle.service.world) for agent in shared.agents]
    most = before[0][0].max_result_bytes
    yield shared
    settled(shared)
    for service, first in before:
        service.world, service.max_result_bytes = first, most


def lower(world: Clocked, capability: str, **members: Any) -> None:
    for agent in world.agents:
        service = agent.lifecycle.service
        served = service.world.datasets[DATASET]
        old = served.capabilities[capability]
        new = replace(old, descriptor=old.descriptor.model_copy(update=members))
        changed = replace(served, capabilities=MappingProxyType({**served.capabilities, capability: new}))
        service.world = replace(service.world, datasets={**service.world.datasets, DATASET: changed})


def ask(world: Clocked, arguments: dict[str, Any], capability: str = COMPARE, agent: int = 0) -> tuple[str, str | None]:
    """The reason of the decision, and how the result was found; its statement holds to its own limits."""
    asker = world.asker(world.agents[agent])
    call = asker.call(DATASET, capability, arguments)
    scope = asker.scope(DATASET, capability, max_sensitivity=Sensitivity.INTERNAL)  # as a root agent asks
    root = world.root_token(scope)
    task = world.send(asker, call, asker.leaf(root, call))
    for part in task.get("artifacts", []):
        if part["name"] == "provenance":
            payload = json.loads(base64.b64decode(part["parts"][0]["raw"]))["payload"]
            told = json.loads(base64.b64decode(payload))["predicate"]
            limits, held = told["authorization"]["limits"], told["authorization"]
            assert held["rows_returned"] <= limits["max_rows"]
            assert told["result"]["size"] <= limits["max_bytes"]
    return decision_of(task)["reason"], task["metadata"].get(CACHE_KEY, {}).get("outcome")


TOO_LARGE = ("RESULT_TOO_LARGE", None)


def explained(world: Clocked, arguments: dict[str, Any]) -> str:
    agent = world.agents[0]
    asked = Asked("process_engineer", DATASET, COMPARE, arguments)
    return str(agent.run(agent.lifecycle.desk().explain(asked))["reason"])


def test_a_stored_result_of_more_rows_is_no_hit_and_the_call_ends_as_one_that_runs(world: Clocked) -> None:
    arguments = world.fresh()
    assert [ask(world, arguments)[1] for _ in range(2)] == ["MISS", "HIT"]
    lower(world, COMPARE, max_rows=1)
    assert ask(world, arguments) == ask(world, world.fresh()) == TOO_LARGE
    lower(world, COMPARE, max_rows=2)
    assert ask(world, arguments) == ("PRINCIPAL_AUTHORIZED", "HIT")


def test_where_the_publisher_cuts_the_call_runs_and_is_cut(world: Clocked) -> None:
    arguments = world.fresh()
    ask(world, arguments)
    lower(world, COMPARE, max_rows=1, truncate=True)
    assert ask(world, arguments) == ("PRINCIPAL_AUTHORIZED", "MISS")


def test_a_stored_result_of_more_bytes_is_no_hit(world: Clocked) -> None:
    arguments = world.fresh()
    ask(world, arguments)
    for agent in world.agents:
        agent.lifecycle.service.max_result_bytes = 100
    assert ask(world, arguments) == ("PRINCIPAL_AUTHORIZED", "MISS"), "it waits where large results wait"


def test_past_its_time_it_is_not_answered_once_more_either(world: Clocked) -> None:
    publish(world, reuse_s=60, stale_s=300)
    allow(world, 300)
    arguments = world.fresh()
    ask(world, arguments)
    world.move(90)
    lower(world, COMPARE, max_rows=1)
    assert ask(world, arguments) == TOO_LARGE


def test_nothing_is_derived_that_would_be_too_large(world: Clocked) -> None:
    assert ask(world, YEAR, TOTALS)[0] == "PRINCIPAL_AUTHORIZED"
    lower(world, TOTALS, max_rows=1)
    assert ask(world, SITES, TOTALS) == TOO_LARGE
    lower(world, TOTALS, truncate=True)
    assert ask(world, SITES, TOTALS) == ("PRINCIPAL_AUTHORIZED", "MISS"), "the engine cuts it"
    lower(world, TOTALS, max_rows=10, truncate=False)
    assert ask(world, SITES, TOTALS) == ("PRINCIPAL_AUTHORIZED", "HIT"), "the stored one may be larger than may be told"


def test_who_shares_what_another_ran_is_held_to_the_limits_of_its_own(world: Clocked) -> None:
    """One process has taken the lower limit over, the other one, which leads, has not yet."""
    arguments, leading = world.fresh(), world.agents[0]
    before = leading.lifecycle.service.world
    lower(world, COMPARE, max_rows=1)
    leading.lifecycle.service.world = before
    started, go = asyncio.Event(), asyncio.Event()

    async def held(_: Any) -> None:
        started.set()
        await go.wait()

    async def once(event: asyncio.Event) -> None:
        await event.wait()

    async def let() -> None:
        go.set()

    untap = tap(before.datasets[DATASET].engine, before=held)
    try:
        with ThreadPoolExecutor(2) as threads:
            leader = threads.submit(ask, world, arguments)
            leading.run(once(started))
            follower = threads.submit(ask, world, arguments, COMPARE, 1)
            leading.run(let())
            assert leader.result(60)[0] == "PRINCIPAL_AUTHORIZED"
            assert follower.result(60) == TOO_LARGE
    finally:
        untap()


def test_whatever_is_found_is_judged_before_it_is_described(world: Clocked, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = world.fresh()
    ask(world, arguments)
    monkeypatch.setattr("remote_agent.answer.inline_limits", lambda *_: UNLIMITED)
    lower(world, COMPARE, max_rows=1)
    assert ask(world, arguments) == TOO_LARGE


def test_who_asks_why_is_told(world: Clocked) -> None:
    arguments = world.fresh()
    ask(world, arguments)
    assert explained(world, arguments) == "hit"
    lower(world, COMPARE, max_rows=1)
    assert explained(world, arguments) == "too_large"
