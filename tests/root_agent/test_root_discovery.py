"""How a question finds its dataset is counted: all of it in the ledger, and to its person only what they may know of."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from control_plane.descriptor import DatasetDescriptor
from delegation.offer import Offer
from root_agent.answer_view import to_json
from root_agent.entry import RootAgent
from root_agent.finder import MAX_READ, Finder
from tests.root_agent.root_world import QUESTION, RootWorld
from tests.root_agent.scripted_remote import shipped


def funnels(home: Path) -> list[str | None]:
    with sqlite3.connect(home / "root.sqlite") as connection:
        return [row[0] for row in connection.execute("SELECT funnel FROM entries ORDER BY idx")]


async def test_the_record_of_a_question_counts_its_way_from_all_datasets_to_those_that_were_shown(
    world: RootWorld, tmp_path: Path
) -> None:
    root = RootAgent(world.service)
    answer = await root.ask(world.token("process_engineer"), question=QUESTION)
    await root.close()
    told = to_json(answer)["discovery"]
    assert (told["registered"], told["known"], told["shown"]) == (2, 2, told["admissible"])
    assert 0 < told["admissible"] <= told["matching"] <= 2 < told["capabilities"]
    (recorded,) = funnels(tmp_path)
    assert recorded == ">".join(str(count) for count in [3, *list(told.values())[1:]])


async def test_a_typed_call_finds_nothing_and_counts_nothing(world: RootWorld, tmp_path: Path) -> None:
    root = RootAgent(world.service)
    call = {"dataset": "purification-batches", "capability": "calculate_yield", "arguments": {"batch_id": "B001"}}
    answer = await root.ask(world.token("process_engineer"), call=call)
    await root.close()
    assert (to_json(answer)["discovery"], funnels(tmp_path)) == ({}, [None])


@pytest.mark.parametrize("question", ["What is the mean CRP per treatment arm", "clinical subject observations"])
async def test_no_question_tells_whether_a_dataset_exists_that_its_person_may_not_know_of(
    world: RootWorld, question: str
) -> None:
    root = RootAgent(world.service)

    async def told() -> dict[str, object]:
        answer = to_json(await root.ask(world.token("process_engineer"), question=question))
        assert "clinical" not in str(answer).replace(question, "")
        return {name: answer[name] for name in ("verdict", "reason", "rationale", "discovery", "missing", "unasked")}

    there = await told()
    world.remote.publish()
    world.service.cards.forget_all()
    assert await told() == there
    await root.close()


async def test_the_index_is_built_once_for_as_long_as_the_cards_do_not_change(world: RootWorld) -> None:
    agent, url = world.service.agents[0]
    finder = Finder()
    first = await finder.over(await world.service.cards.offers(agent, url, world.clock()))
    assert await finder.over(await world.service.cards.offers(agent, url, world.clock())) is first
    world.remote.publish()
    world.service.cards.forget_all()
    assert await finder.over(await world.service.cards.offers(agent, url, world.clock())) is not first


def offer(descriptor: DatasetDescriptor, number: int) -> Offer:
    named = descriptor.model_copy(update={"dataset": f"{descriptor.dataset}-{number}"})
    return Offer("urn:a", "http://127.0.0.1:1", "a", named, named)


async def test_of_very_many_public_datasets_a_question_is_read_over_those_it_fits_best() -> None:
    runs = [offer(shipped("chromatography-results"), number) for number in range(200)]
    batches = offer(shipped("purification-batches"), 0)
    catalogue = await Finder().over([*runs, batches])
    readable = catalogue.readable(QUESTION)
    assert readable[0] == batches
    assert len(readable) <= MAX_READ
    assert len((await Finder().over(runs[: MAX_READ - 1])).readable(QUESTION)) == MAX_READ - 1
