"""People and policies are replaced while people ask: an asking is decided in the world that it began in, whole, and none is lost."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import pytest

from contract.verdict import Reason, Verdict
from control_plane.evaluator import InProcessEvaluator
from control_plane.policy import load_policies
from control_plane.principals import Directory
from delegation.cards import CardBook
from root_agent.entry import RootAgent
from root_agent.service import World
from tests.control_plane.control_plane_world import write_policies
from tests.root_agent.root_world import QUESTION, RootWorld
from tests.root_agent.scripted_remote import rejected

CALLERS: Final = 4
RELOADS: Final = 6
WHO: Final = "process_engineer"


def world_of(number: int, home: Path, directory: Directory) -> World:
    """The policies permit whom the directory of the same world gives its number, and nobody else."""
    policies = home / f"policies-{number}"
    text = (
        f'@id("BPD-DATA-014") permit (principal, action, resource) when {{ principal.attributes.level == {number} }};'
    )
    write_policies(policies, text)
    (policies / "version").write_text(f"w{number}\n")
    loaded = load_policies(policies)
    old = directory.named(WHO)
    assert old is not None
    person = replace(old, attributes=MappingProxyType({"level": number}))
    known = replace(directory, by_identity={**directory.by_identity, old.key: person})
    return World(known, InProcessEvaluator(loaded, 5), loaded.version)


@pytest.fixture
def worlds(world: RootWorld, tmp_path: Path) -> list[World]:
    directory = world.service.world.directory
    return [world_of(number, tmp_path, directory) for number in range(RELOADS + 1)]


async def test_no_asking_is_of_two_worlds_and_none_is_lost(world: RootWorld, worlds: list[World]) -> None:
    root, told, over = RootAgent(world.service), Counter[str](), asyncio.Event()
    world.service.world = worlds[0]

    async def caller(number: int) -> None:
        while not over.is_set():
            arguments = {"batch_a": f"B{number:03d}", "batch_b": "B100"}
            call = {"dataset": "purification-batches", "capability": "compare_batches", "arguments": arguments}
            wanted: dict[str, Any] = {"question": QUESTION} if number % 2 else {"call": call}
            answer = await root.ask(world.token(WHO), **wanted)
            assert answer.verdict is Verdict.GRANTED, answer.decision
            told[answer.decision.policy_version] += 1

    async def reloading() -> None:
        for number, fresh in enumerate(worlds):
            world.service.world = fresh
            while told[f"w{number}"] < CALLERS:
                await asyncio.sleep(0)
                if any(task.done() for task in callers):
                    break
        over.set()

    callers = [asyncio.create_task(caller(number)) for number in range(CALLERS)]
    await reloading()
    await asyncio.gather(*callers)
    await root.close()
    assert sorted(told) == sorted(f"w{number}" for number in range(RELOADS + 1))
    assert world.service.ledger.checkpoint().size == told.total()


@pytest.mark.parametrize("how", ["question", "call"])
async def test_an_asking_that_waits_for_a_card_is_decided_in_the_world_it_began_in(
    world: RootWorld, worlds: list[World], monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    cards = world.service.cards
    assert isinstance(cards, CardBook)
    fetched, world.service.world = cards.offers, worlds[0]

    async def slow(*place: Any) -> Any:
        world.service.world = worlds[1]
        return await fetched(*place)

    monkeypatch.setattr(cards, "offers", slow)
    call = {"dataset": "purification-batches", "capability": "search", "arguments": {"query": "B001"}}
    root = RootAgent(world.service)
    answer = await root.ask(world.token(WHO), **({"question": QUESTION} if how == "question" else {"call": call}))
    later = await root.ask(world.token(WHO), question=QUESTION)
    await root.close()
    assert (answer.verdict, answer.decision.policy_version) == (Verdict.GRANTED, "w0")
    assert (later.verdict, later.decision.policy_version) == (Verdict.GRANTED, "w1")


async def test_what_is_admitted_once_more_is_admitted_in_the_world_of_then(
    world: RootWorld, worlds: list[World]
) -> None:
    """A stale revision: the person, too, is who they are by now."""
    honest = world.remote.script
    world.service.world = worlds[0]

    async def stale(arrived: Any) -> Any:
        world.service.world, world.remote.script = worlds[1], honest
        return rejected("UNKNOWN_DATASET_REVISION", "INDETERMINATE")

    world.remote.script = stale
    root = RootAgent(world.service)
    answer = await root.ask(world.token(WHO), question=QUESTION)
    await root.close()
    assert (answer.verdict, answer.asking.attempts, answer.decision.policy_version) == (Verdict.GRANTED, 2, "w1")


async def test_who_is_not_known_any_more_is_not_admitted_once_more(world: RootWorld, worlds: list[World]) -> None:
    world.service.world = worlds[0]
    nobody = replace(worlds[1], directory=replace(worlds[1].directory, by_identity={}))

    async def stale(arrived: Any) -> Any:
        world.service.world = nobody
        return rejected("UNKNOWN_DATASET_REVISION", "INDETERMINATE")

    world.remote.script = stale
    root = RootAgent(world.service)
    answer = await root.ask(world.token(WHO), question=QUESTION)
    await root.close()
    assert (answer.decision.reason, len(world.remote.arrived)) == (Reason.UNKNOWN_PRINCIPAL, 1)
    assert world.service.ledger.checkpoint().size == 1
