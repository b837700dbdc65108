"""The root agent and its memo: a model is asked once, the reader is never overridden, and nothing is shared that may not be."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cache.memo import Memo
from cache.memo_keys import MemoKeys
from cache.sqlite_store import SqliteStore
from contract.verdict import Reason, Verdict
from control_plane.interpret import Proposal
from control_plane.memo import agrees
from root_agent import remembering
from root_agent.asking import Answer
from root_agent.entry import RootAgent
from tests.root_agent.root_world import RootWorld
from tests.root_agent.test_root_model import ScriptedModel, scripted

WORDS = "Put the recoveries of batches B001 and B002 beside one another"
ALIKE = "please put the recovery of batch B001 and batch B002 beside one another"
GOOD = {
    "dataset": "purification-batches",
    "capability": "compare_batches",
    "arguments": {"batch_a": "B001", "batch_b": "B002"},
}


@pytest.fixture
async def remembering_world(world: RootWorld, tmp_path: Path) -> RootWorld:
    world.service.memo = Memo(SqliteStore(tmp_path / "memo.sqlite", max_bytes=2**20), MemoKeys(bytes(32)), ttl_s=86_400)
    return world


async def ask(
    world: RootWorld,
    text: str = WORDS,
    *,
    model: ScriptedModel | None = None,
    who: str = "process_engineer",
    zone: str = "UTC",
) -> Answer:
    world.service.model = model
    root = RootAgent(world.service)
    try:
        return await root.ask(world.token(who), question=text, zone=zone)
    finally:
        await root.close()


def said(answer: Answer) -> dict[str, Any] | None:
    target = answer.asking.target
    return None if target is None else dict(target.call.arguments)


def calls(model: ScriptedModel) -> int:
    return len(model.requests)


async def test_the_same_words_are_put_to_a_model_once(remembering_world: RootWorld) -> None:
    model = scripted(GOOD)
    first, second = [await ask(remembering_world, model=model) for _ in range(2)]
    assert (calls(model), said(first), said(second)) == (1, GOOD["arguments"], GOOD["arguments"])
    assert second.verdict is Verdict.GRANTED and len(remembering_world.remote.arrived) == 2


async def test_words_that_provably_mean_the_same_are_not_put_to_it(remembering_world: RootWorld) -> None:
    model = scripted(GOOD)
    await ask(remembering_world, model=model)
    answer = await ask(remembering_world, ALIKE, model=model)
    assert (calls(model), said(answer)) == (1, GOOD["arguments"])


@pytest.mark.parametrize(
    "text",
    [
        WORDS.replace("B002", "B003"),
        WORDS.replace("Put", "Do not put"),
        WORDS + " without capture",
    ],
)
async def test_words_that_may_mean_another_thing_are_put_to_it(remembering_world: RootWorld, text: str) -> None:
    model = scripted(GOOD)
    await ask(remembering_world, model=model)
    await ask(remembering_world, text, model=model)
    assert calls(model) == 2


async def test_what_a_memo_said_is_not_kept_again(remembering_world: RootWorld) -> None:
    model = scripted(GOOD)
    await ask(remembering_world, model=model)
    remembering_world.clock.now += 80_000
    await ask(remembering_world, ALIKE, model=model)
    remembering_world.clock.now += 10_000  # the one record there was is over
    await ask(remembering_world, ALIKE, model=model)
    assert calls(model) == 2


async def test_a_memo_is_over_when_it_was_meant_to_be_however_often_it_is_asked(remembering_world: RootWorld) -> None:
    model = scripted(GOOD)
    for _ in range(4):
        await ask(remembering_world, model=model)
        remembering_world.clock.now += 28_799
    assert calls(model) == 1
    remembering_world.clock.now += 5
    await ask(remembering_world, model=model)
    assert calls(model) == 2


@pytest.mark.parametrize("change", ["policy", "model", "descriptor", "class", "tenant", "zone"])
async def test_nothing_is_remembered_across_what_a_reading_depends_on(
    remembering_world: RootWorld, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, model = remembering_world, scripted(GOOD)
    await ask(world, model=model)
    other, zone = model, "UTC"
    if change == "policy":
        world.service.world = replace(world.service.world, policy_version="another")
    elif change == "model":
        other = ScriptedModel(model="another", says=json.dumps(GOOD), requests=[])
    elif change == "descriptor":
        monkeypatch.setattr(remembering, "_digest", lambda descriptor: "another")
    elif change == "zone":
        zone = "Asia/Tokyo"
    else:
        found = world.service.principal_of

        def moved(person: Any) -> Any:
            changed = {"class": {"principal_class": "another"}, "tenant": {"tenant": "another"}}[change]
            return replace(found(person), **changed)

        monkeypatch.setattr(type(world.service), "principal_of", lambda self, person, world=None: moved(person))
    await ask(world, model=other, zone=zone)
    asked = calls(model) + (calls(other) if other is not model else 0)
    assert asked == 2 or change == "tenant"  # whom another tenant's datasets are not offered is asked nothing
    if change == "tenant":
        assert len(world.remote.arrived) == 1


async def test_another_person_of_the_class_may_be_given_the_reading_and_is_admitted_alone(
    remembering_world: RootWorld,
) -> None:
    model = scripted(GOOD)
    await ask(remembering_world, model=model)
    answer = await ask(remembering_world, model=model, who="external_auditor")
    assert answer.verdict is not Verdict.GRANTED and len(remembering_world.remote.arrived) == 1


async def test_words_of_a_day_do_not_survive_its_midnight_where_they_were_said(remembering_world: RootWorld) -> None:
    text, model = WORDS + " as of yesterday", scripted(GOOD)
    remembering_world.clock.now = 1_800_050_000.0  # 2027-01-15, 21:53 in UTC
    await ask(remembering_world, text, model=model)
    await ask(remembering_world, text, model=model)
    assert calls(model) == 1
    remembering_world.clock.now += 3_600
    await ask(remembering_world, text, model=model)
    assert calls(model) == 1
    remembering_world.clock.now += 7_200
    await ask(remembering_world, text, model=model)
    assert calls(model) == 2


async def test_midnight_is_that_of_who_asks(remembering_world: RootWorld) -> None:
    text, model = WORDS + " as of yesterday", scripted(GOOD)
    remembering_world.clock.now = 1_800_050_000.0  # 22:53 in Zurich
    await ask(remembering_world, text, model=model, zone="Europe/Zurich")
    remembering_world.clock.now += 5_400  # past midnight there, not yet in UTC
    await ask(remembering_world, text, model=model, zone="Europe/Zurich")
    assert calls(model) == 2


async def test_words_of_this_moment_are_not_remembered(remembering_world: RootWorld) -> None:
    model = scripted(GOOD)
    for _ in range(2):
        await ask(remembering_world, WORDS + " now", model=model)
    assert calls(model) == 2


async def test_long_questions_are_not_remembered(remembering_world: RootWorld) -> None:
    model = scripted(GOOD)
    for _ in range(2):
        await ask(remembering_world, WORDS + " please" * 80, model=model)
    assert calls(model) == 2


async def test_what_was_not_granted_is_not_remembered(remembering_world: RootWorld) -> None:
    wrong = scripted(GOOD | {"arguments": {"batch_a": "B001"}})
    assert (await ask(remembering_world, model=wrong)).decision.reason is Reason.ARGUMENTS_MISSING
    model = scripted(GOOD)
    await ask(remembering_world, model=model)
    assert calls(model) == 1


async def test_questions_about_restricted_data_are_written_nowhere(remembering_world: RootWorld) -> None:
    text = "Search the subject observations for headache"
    answer = await ask(remembering_world, text, who="clinical_reviewer")
    memo = remembering_world.service.memo
    assert answer.asking.target is not None and answer.asking.target.call.dataset == "clinical-private"
    assert memo is not None and [entry async for entry in memo.store.entries()] == []


READ = "Compare batches B001 and B002"
UNREAD = "Compare batches B001:B002"  # the reader takes this for one word, and asks for both batches


async def test_offline_words_that_are_not_read_are_given_a_proven_reading(remembering_world: RootWorld) -> None:
    assert (await ask(remembering_world, UNREAD)).decision.reason is Reason.ARGUMENTS_MISSING
    await ask(remembering_world, READ)
    answer = await ask(remembering_world, UNREAD)
    assert (answer.verdict, said(answer)) == (Verdict.GRANTED, GOOD["arguments"])


@pytest.mark.parametrize("text", [UNREAD.replace("B002", "B003"), UNREAD + ", but not B002", "never " + UNREAD])
async def test_offline_words_that_mean_another_thing_stay_unread(remembering_world: RootWorld, text: str) -> None:
    await ask(remembering_world, READ)
    answer = await ask(remembering_world, text)
    assert answer.decision.reason in (Reason.INTENT_NOT_UNDERSTOOD, Reason.ARGUMENTS_MISSING)


async def test_offline_a_whole_reading_asks_no_memo(
    remembering_world: RootWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    async def found(self: Memo, *args: Any, **named: Any) -> None:
        asked.append("recent")

    monkeypatch.setattr(Memo, "recent", found)
    monkeypatch.setattr(Memo, "keep", found)
    await ask(remembering_world, READ)
    await ask(remembering_world, READ)
    assert asked == ["recent", "recent"]  # to keep it, each time, and never to read it


@pytest.mark.parametrize(
    ("reading", "proposed", "stands"),
    [
        (None, {"batch_a": "B001", "batch_b": "B002"}, True),
        ({"batch_a": "B001"}, {"batch_a": "B001", "batch_b": "B002"}, True),
        ({"batch_a": "B003"}, {"batch_a": "B001", "batch_b": "B002"}, False),
    ],
)
def test_what_the_reader_found_stands(reading: Any, proposed: dict[str, str], stands: bool) -> None:
    def call(arguments: dict[str, str]) -> Proposal:
        return Proposal("purification-batches", "compare_batches", arguments, (), 1.0)

    assert agrees(call(proposed), None if reading is None else call(reading)) is stands


def test_another_capability_than_the_reader_found_is_no_addition() -> None:
    one = Proposal("purification-batches", "compare_batches", {}, (), 1.0)
    assert not agrees(one, replace(one, capability="search"))


async def test_a_memo_that_breaks_is_none_and_tells_no_word(
    remembering_world: RootWorld, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*args: Any, **named: Any) -> Any:
        raise RuntimeError(WORDS)

    for name in ("exact", "recent", "keep"):
        monkeypatch.setattr(Memo, name, broken)
    model = scripted(GOOD)
    with caplog.at_level(logging.DEBUG):
        answer = await ask(remembering_world, model=model)
    assert (answer.verdict, calls(model)) == (Verdict.GRANTED, 1)
    assert "RuntimeError" in caplog.text and "beside one another" not in caplog.text


async def test_without_a_memo_a_model_is_asked_each_time(world: RootWorld) -> None:
    model = scripted(GOOD)
    for _ in range(2):
        await ask(world, model=model)
    assert calls(model) == 2
