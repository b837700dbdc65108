"""Of what is hidden from a person no answer tells a part: not what a call of it takes, nor who was asked for it, nor one of its capabilities."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from control_plane.descriptor import DatasetDescriptor
from root_agent.answer_view import to_json
from root_agent.entry import RootAgent
from tests.root_agent.root_world import RootWorld, root_world
from tests.root_agent.scripted_remote import AgentServer, shipped

OWN = {"dataset", "capability", "arguments", "rationale", "trace_id", "decision_id", "evidence"}
"""What differs between any two askings: the person's own words, sentences about them, and ids."""
HIDDEN, UNUSED = "secret-runs", "no-such-dataset"
BY_PERIOD = [{"period": "2024"}, {"period": "last month"}, {"period": "banana"}, {"period": 5}, {}]


def with_hidden(world: RootWorld) -> RootWorld:
    """The dataset ``secret-runs``, on the extended card only; it takes a period."""
    secret = shipped("chromatography-results").model_copy(update={"dataset": HIDDEN})
    world.remote.publish(restricted=[secret])
    return world


def with_hidden_capability(world: RootWorld) -> RootWorld:
    """``detect_outliers`` is on the extended card only, of a dataset that everybody knows."""
    full = shipped("purification-batches")
    shown = tuple(item for item in full.capabilities if item.name != "detect_outliers")
    public: DatasetDescriptor = full.model_copy(update={"capabilities": shown})
    world.remote.descriptors = [full]
    world.remote.publish()
    world.remote.card = world.remote._signed([public])
    return world


@pytest.fixture
async def opaque(tmp_path: Path, agent_server: AgentServer) -> AsyncIterator[RootWorld]:
    async with root_world(tmp_path, agent_server, opaque_refusals=True) as built:
        yield built


async def ask(world: RootWorld, who: str, dataset: str, capability: str, arguments: dict[str, Any]) -> dict[str, Any]:
    root = RootAgent(world.service)
    try:
        call = {"dataset": dataset, "capability": capability, "arguments": arguments}
        return to_json(await root.ask(world.token(who), call=call))
    finally:
        await root.close()


def comparable(view: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in view.items() if name not in OWN}
    return kept | {"decision": {n: v for n, v in view["decision"].items() if n not in OWN}}


@pytest.mark.parametrize("arguments", BY_PERIOD)
async def test_a_refusal_says_the_arguments_of_a_hidden_dataset_as_they_were_said(
    world: RootWorld, arguments: dict[str, Any]
) -> None:
    view = await ask(with_hidden(world), "analyst", HIDDEN, "run_totals", arguments)
    assert (view["verdict"], view["arguments"], view["missing"]) == ("REFUSED", arguments, [])


@pytest.mark.parametrize("arguments", BY_PERIOD)
async def test_a_period_does_not_tell_a_hidden_dataset_from_a_name_that_nobody_uses(
    opaque: RootWorld, arguments: dict[str, Any]
) -> None:
    hidden = await ask(with_hidden(opaque), "analyst", HIDDEN, "run_totals", arguments)
    unknown = await ask(opaque, "analyst", UNUSED, "run_totals", arguments)
    assert comparable(hidden) == comparable(unknown)
    assert hidden["arguments"] == unknown["arguments"] == arguments


@pytest.mark.parametrize("hidden", [HIDDEN, "held-by-the-other"])
async def test_who_could_not_be_asked_does_not_tell_that_a_name_is_listed_for_somebody(
    opaque: RootWorld, hidden: str
) -> None:
    world = with_hidden(opaque)
    ((agent, url),) = world.service.agents
    here = replace(agent, datasets=frozenset({"purification-batches", "chromatography-results", HIDDEN}))
    away = replace(agent, id="urn:dataset-agent:away", datasets=frozenset({"held-by-the-other"}))
    world.service.agents = ((here, url), (away, "http://127.0.0.1:9"))
    told = await ask(world, "analyst", hidden, "search", {"query": "x"})
    assert comparable(told) == comparable(await ask(world, "analyst", UNUSED, "search", {"query": "x"}))


@pytest.mark.parametrize("who", ["analyst", "external_auditor"])
async def test_a_refusal_tells_nothing_that_a_capability_takes_that_no_public_card_shows(
    world: RootWorld, who: str
) -> None:
    view = await ask(with_hidden_capability(world), who, "purification-batches", "detect_outliers", {})
    assert (view["verdict"], view["missing"], view["arguments"]) == ("REFUSED", [], {})
    assert "recovery" not in str(view)


@pytest.mark.parametrize("who", ["analyst", "external_auditor"])
async def test_with_opaque_refusals_such_a_capability_is_one_that_is_not_registered(
    opaque: RootWorld, who: str
) -> None:
    world = with_hidden_capability(opaque)
    hidden = await ask(world, who, "purification-batches", "detect_outliers", {})
    unknown = await ask(world, who, "purification-batches", "no_such_thing", {})
    assert comparable(hidden) == comparable(unknown)
    assert hidden["rationale"] == unknown["rationale"]
    assert (hidden["reason"], hidden["decision"]["policy_id"]) == ("UNREGISTERED_CAPABILITY", "AD-POL-003")
    assert {entry.cells["reason"] for entry in world.service.ledger.rows()} >= {"UNREGISTERED_CAPABILITY"}
    assert len({entry.cells["reason"] for entry in world.service.ledger.rows()}) == 2  # the ledger has the true one


async def test_who_holds_the_capability_is_told_what_it_takes(opaque: RootWorld) -> None:
    world = with_hidden_capability(opaque)
    root = RootAgent(world.service)
    asked = to_json(await root.ask(world.token("process_engineer"), question="Flag unusual batches"))
    await root.close()
    assert asked["reason"] == "ARGUMENTS_MISSING"
    assert [item["name"] for item in asked["missing"]] == ["metric"]


async def test_a_prohibited_operation_is_refused_by_its_own_reason(opaque: RootWorld) -> None:
    view = await ask(with_hidden_capability(opaque), "analyst", "purification-batches", "delete_source", {})
    assert view["reason"] == "PROHIBITED_OPERATION"


async def test_who_holds_the_capability_is_told_why_it_is_refused(opaque: RootWorld) -> None:
    world = with_hidden_capability(opaque)
    root = RootAgent(world.service)
    call = {"dataset": "purification-batches", "capability": "detect_outliers", "arguments": {"metric": "recovery"}}
    asked = to_json(await root.ask(world.token("process_engineer"), call=call, max_age_s=0))
    await root.close()
    assert asked["reason"] == "FRESHNESS_UNSATISFIABLE"
