"""What whoever asks may state of the data: how old they may be, and in which shape they are expected."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from a2a.types.a2a_pb2 import Task

from contract.call import Call
from contract.errors import DatasetAgentError
from control_plane.descriptor import DatasetDescriptor
from root_agent.answer_view import to_json
from root_agent.app import build_app
from root_agent.entry import RootAgent
from tests.root_agent.root_world import QUESTION, RootWorld, result
from tests.root_agent.scripted_remote import Arrived

CALL = {"dataset": "purification-batches", "capability": "search", "arguments": {"query": "B001"}}


@pytest.fixture
async def root(world: RootWorld) -> AsyncIterator[RootAgent]:
    agent = RootAgent(world.service)
    yield agent
    await agent.close()


@pytest.fixture
def age_s(world: RootWorld) -> float:
    """How old the data of purification-batches are."""
    found = next(item for item in world.remote.descriptors if item.dataset == "purification-batches")
    assert isinstance(found, DatasetDescriptor)
    return found.age_s(world.clock())


@pytest.mark.parametrize("wanted", [{"question": QUESTION}, {"call": CALL}])
async def test_data_older_than_stated_are_refused_before_anything_is_minted(
    root: RootAgent, world: RootWorld, age_s: float, wanted: dict[str, Any]
) -> None:
    answer = await root.ask(world.token("process_engineer"), **wanted, max_age_s=age_s - 60)
    assert (answer.decision.reason, answer.decision.policy_id) == ("FRESHNESS_UNSATISFIABLE", "AD-POL-008")
    assert answer.asking.plan is None


async def test_data_as_young_as_stated_are_answered(root: RootAgent, world: RootWorld, age_s: float) -> None:
    answer = await root.ask(world.token("process_engineer"), call=CALL, max_age_s=age_s + 3_600)
    assert answer.verdict == "GRANTED"


async def test_rows_that_are_older_than_stated_are_not_shown_whatever_the_card_says(
    root: RootAgent, world: RootWorld, age_s: float
) -> None:
    """A remote's stored rows, or those of the agent that it asks, may be older than its own card."""
    earlier = "2026-08-30T22:00:00.000000Z"

    async def older(arrived: Arrived) -> Task:
        call = Call.parse(arrived.call)
        return world.answer(world.grant(arrived), call, body=result(call, as_of=earlier), as_of=earlier)

    world.remote.script = older
    shown = await root.ask(world.token("process_engineer"), call=CALL, max_age_s=age_s + 25 * 3_600)
    assert shown.verdict == "GRANTED"
    answer = await root.ask(world.token("process_engineer"), call=CALL, max_age_s=age_s + 3_600)
    assert (answer.decision.reason, answer.document) == ("FRESHNESS_UNSATISFIABLE", None)
    assert to_json(answer)["result"] is None
    assert world.ran == 2


@pytest.mark.parametrize(("version", "reason"), [("3", "PRINCIPAL_AUTHORIZED"), ("99", "SCHEMA_VERSION_MISMATCH")])
async def test_data_of_another_schema_than_stated_are_refused(
    root: RootAgent, world: RootWorld, version: str, reason: str
) -> None:
    answer = await root.ask(world.token("process_engineer"), call=CALL, schema_version=version)
    assert to_json(answer)["reason"] == reason


async def test_an_application_states_both_beside_its_question(world: RootWorld) -> None:
    transport = httpx.ASGITransport(app=build_app(world.service, max_body_bytes=10_000))
    headers = {"Authorization": f"Bearer {world.token('process_engineer')}"}
    async with httpx.AsyncClient(transport=transport, base_url="http://root") as client:
        for stated, reason in (
            ({"max_age_s": 0}, "FRESHNESS_UNSATISFIABLE"),
            ({"schema_version": "99"}, "SCHEMA_VERSION_MISMATCH"),
        ):
            for wanted in ({"question": QUESTION}, CALL):
                told = (await client.post("/ask", json={**wanted, **stated}, headers=headers)).json()
                assert told["reason"] == reason


@pytest.mark.parametrize(
    "stated",
    [{"max_age_s": -1}, {"max_age_s": True}, {"max_age_s": "60"}, {"schema_version": 3}, {"schema_version": ""}],
)
async def test_what_is_stated_in_another_form_is_no_question(
    root: RootAgent, world: RootWorld, stated: dict[str, Any]
) -> None:
    with pytest.raises(DatasetAgentError, match=next(iter(stated))):
        await root.ask(world.token("process_engineer"), question=QUESTION, **stated)
