"""What is said of time is resolved at the root agent: a dataset agent is asked with plain bounds, or not at all."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from contract.errors import Category, DatasetAgentError
from contract.zone import read_zone
from root_agent.answer_view import to_json
from root_agent.app import build_app
from root_agent.entry import RootAgent
from root_agent.propose import prompt
from tests.root_agent.root_world import RootWorld
from tests.root_agent.scripted_remote import shipped

LATE = datetime(2027, 1, 31, 23, 30, tzinfo=UTC).timestamp()  # already February in Zurich
DATASET, CAPABILITY = "purification-batches", "step_totals"
UNREAD = "03/04/2024"


@pytest.fixture
async def root(world: RootWorld) -> AsyncIterator[RootAgent]:
    world.clock.now = LATE
    agent = RootAgent(world.service)
    yield agent
    await agent.close()


async def asked(root: RootAgent, world: RootWorld, *, zone: object = None, **wanted: Any) -> dict[str, Any]:
    if "arguments" in wanted:
        wanted = {"call": {"dataset": DATASET, "capability": CAPABILITY, "arguments": wanted["arguments"]}}
    return to_json(await root.ask(world.token("process_engineer"), zone=zone, **wanted))


def sent(world: RootWorld) -> list[dict[str, Any]]:
    return [json.loads(arrived.call)["arguments"] for arrived in world.remote.arrived]


async def test_every_way_to_say_a_period_is_one_call(root: RootAgent, world: RootWorld) -> None:
    bounds = {"from_day": "2024-03-01", "to_day": "2024-04-01"}
    for said in ("2024-03", "in March 2024", "2024-03-01..2024-03-31", "between 2024-03-01 and 31 March 2024"):
        view = await asked(root, world, arguments={"period": said})
        assert view["arguments"] == bounds
    await asked(root, world, arguments=bounds)
    await asked(root, world, question="Total the pool masses in March 2024")
    assert sent(world) == [bounds] * 6
    assert len({arrived.call for arrived in world.remote.arrived}) == 1


async def test_today_is_the_day_where_it_is_asked(root: RootAgent, world: RootWorld) -> None:
    for zone in (None, "UTC", "Europe/Zurich"):
        await asked(root, world, question="Total the pool masses this month", zone=zone)
        await asked(root, world, arguments={"period": "this month"}, zone=zone)
    january, february = (
        {"from_day": "2027-01-01", "to_day": "2027-02-01"},
        {"from_day": "2027-02-01", "to_day": "2027-03-01"},
    )
    assert sent(world) == [january] * 4 + [february] * 2
    world.service.zone = read_zone("Asia/Tokyo")
    view = await asked(root, world, arguments={"period": "today"})
    assert (view["arguments"], view["zone"]) == ({"from_day": "2027-02-01", "to_day": "2027-02-02"}, "Asia/Tokyo")


@pytest.mark.parametrize("said", [UNREAD, "until 2024-03", "", 2024, None, ["2024"], {"from": "2024"}, "x" * 5_000])
async def test_a_period_that_is_not_read_is_told_and_nothing_is_sent(
    said: object, root: RootAgent, world: RootWorld
) -> None:
    view = await asked(root, world, arguments={"period": said, "per": "site"})
    assert (view["reason"], [item["name"] for item in view["missing"]]) == ("ARGUMENTS_MISSING", ["period"])
    assert "write period as one of: 2024, 2024-03" in view["missing"][0]["description"]
    assert (view["arguments"], sent(world)) == ({"per": "site"}, [])


async def test_a_question_that_says_it_unclearly_is_told_what_can_be_written(root: RootAgent, world: RootWorld) -> None:
    view = await asked(root, world, question=f"Total the pool masses on {UNREAD}")
    assert (view["reason"], [item["name"] for item in view["missing"]]) == ("ARGUMENTS_MISSING", ["period"])
    assert UNREAD in view["missing"][0]["description"] and sent(world) == []
    assert UNREAD not in str(list(world.service.ledger.rows())[-1].cells)


async def test_a_period_beside_its_own_bound_is_no_period(root: RootAgent, world: RootWorld) -> None:
    view = await asked(root, world, arguments={"period": "2024-03", "to_day": "2024-03-15"})
    assert (view["reason"], sent(world)) == ("ARGUMENTS_MISSING", [])
    assert "say one of them" in view["missing"][0]["description"]
    assert view["arguments"] == {}  # so that what completes the call does not say both again


async def test_one_bound_may_be_given_and_a_period_may_be_open(root: RootAgent, world: RootWorld) -> None:
    await asked(root, world, arguments={"to_day": "2024-03-15"})
    await asked(root, world, arguments={"period": "since 2024-03-15"})
    assert sent(world) == [{"to_day": "2024-03-15"}, {"from_day": "2024-03-15"}]


async def test_a_name_that_is_no_period_stays_an_argument(root: RootAgent, world: RootWorld) -> None:
    await asked(root, world, arguments={"produced": "2024-03"})
    assert sent(world) == [{"produced": "2024-03"}]


@pytest.mark.parametrize("zone", ["europe/zurich", "../UTC", "", 3, ["UTC"], "Mars/Base"])
async def test_a_zone_that_is_none_is_refused_at_the_door(zone: object, root: RootAgent, world: RootWorld) -> None:
    with pytest.raises(DatasetAgentError, match="IANA name") as refused:
        await asked(root, world, arguments={"period": "today"}, zone=zone)
    assert refused.value.category is Category.INVALID_INPUT


async def test_an_application_says_its_zone(world: RootWorld) -> None:
    world.clock.now = LATE
    transport = httpx.ASGITransport(app=build_app(world.service, max_body_bytes=10_000))
    bearer = {"Authorization": f"Bearer {world.token('process_engineer')}"}
    call = {"dataset": DATASET, "capability": CAPABILITY, "arguments": {"period": "today"}}
    async with httpx.AsyncClient(transport=transport, base_url="http://root") as client:
        view = (await client.post("/ask", json=call | {"zone": "Europe/Zurich"}, headers=bearer)).json()
        words = {"question": "Total the pool masses today", "zone": "Europe/Zurich"}
        spoken = (await client.post("/ask", json=words, headers=bearer)).json()
        wrong = await client.post("/ask", json=words | {"zone": "nowhere"}, headers=bearer)
    assert view["arguments"] == spoken["arguments"] == {"from_day": "2027-02-01", "to_day": "2027-02-02"}
    assert (view["zone"], wrong.status_code) == ("Europe/Zurich", 400)


def test_a_model_is_told_of_periods_where_there_are_some() -> None:
    told = json.loads(prompt("Step totals in March 2024", [shipped(DATASET)]))["datasets"][0]["capabilities"]
    named = {item["capability"]: item.get("periods") for item in told}
    assert named[CAPABILITY] == [{"name": "period", "instead_of": ["from_day", "to_day"]}]
    assert named["compare_batches"] is None
