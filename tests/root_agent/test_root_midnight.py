"""A question that is asked as midnight passes: what its words meant on one day is never kept for the next."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from a2a.types.a2a_pb2 import Task
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse

from cache.memo import Memo
from cache.memo_keys import MemoKeys
from cache.sqlite_store import SqliteStore
from contract.call import Call
from root_agent.entry import RootAgent
from tests.root_agent.root_world import _CELLS, RootWorld, result
from tests.root_agent.scripted_remote import Arrived, shipped
from tests.root_agent.test_root_model import ScriptedModel, scripted

LATE = datetime(2027, 1, 15, 23, 59, 59, tzinfo=UTC).timestamp()
MIDNIGHT = LATE + 1
READ = "Total the pool masses yesterday"
PUT = "Put the pool masses of yesterday into one sum"
DAYS = {"2027-01-15": "2027-01-14", "2027-01-16": "2027-01-15"}
"""Which day is yesterday, by the day it is."""


@dataclass
class MidnightAt:
    """A clock that stands before midnight until it was read so many times, and after it from then on."""

    reading: int
    read: int = 0

    def __call__(self) -> float:
        self.read += 1
        return LATE if self.read < self.reading else MIDNIGHT


class LateModel(ScriptedModel):
    """Its answer, which names a day, comes after midnight."""

    clock: Any = None

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self.clock.now = MIDNIGHT + 1
        async for response in super().generate_content_async(llm_request, stream):
            yield response


@dataclass
class Keeping:
    """What a memo was given to keep: the day that it is for, and the first day that the call asks for."""

    days: list[tuple[str, str]] = field(default_factory=list)

    def of(self, scope: Any, arguments: Any) -> None:
        self.days.append((scope[-1], arguments["from_day"]))


@pytest.fixture
def kept(world: RootWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Keeping:
    world.service.memo = Memo(SqliteStore(tmp_path / "memo.sqlite", max_bytes=2**20), MemoKeys(bytes(32)), ttl_s=86_400)
    keeping, keep = Keeping(), Memo.keep

    async def totals(arrived: Arrived) -> Task:
        call = Call.parse(arrived.call)
        capability = shipped(call.dataset).capability(call.capability)
        assert capability is not None
        row = [_CELLS[column.type] for column in capability.results]
        return world.answer(world.grant(arrived), call, body=result(call, rows=[row, row]))

    world.remote.script = totals

    async def watched(memo: Memo, scope: Any, words: str, **told: Any) -> None:
        keeping.of(scope, told["arguments"])
        await keep(memo, scope, words, **told)

    monkeypatch.setattr(Memo, "keep", watched)
    return keeping


async def ask(world: RootWorld, token: str, text: str) -> None:
    root = RootAgent(world.service)
    try:
        await root.ask(token, question=text, zone="UTC")
    finally:
        await root.close()


async def test_words_are_kept_for_the_day_that_they_were_read_on_whenever_midnight_comes(
    world: RootWorld, kept: Keeping
) -> None:
    world.clock.now = LATE
    token = world.token("process_engineer")
    counted = MidnightAt(10**9)
    world.service.clock = counted
    await ask(world, token, READ)
    for reading in range(1, counted.read + 1):
        world.service.clock = MidnightAt(reading)
        await ask(world, token, READ)
    assert len(kept.days) > 1
    assert dict(kept.days) == DAYS
    assert all(DAYS[day] == first for day, first in kept.days)


async def test_what_a_model_read_before_midnight_is_not_what_the_words_mean_after_it(
    world: RootWorld, kept: Keeping
) -> None:
    world.clock.now = LATE
    call = {"dataset": "purification-batches", "capability": "step_totals"}
    late = LateModel(says=scripted({**call, "arguments": {"from_day": "2027-01-14", "to_day": "2027-01-15"}}).says)
    late.clock = world.clock
    world.service.model = late
    await ask(world, world.token("process_engineer"), PUT)
    model = world.service.model = scripted({**call, "arguments": {"period": "yesterday"}})
    await ask(world, world.token("process_engineer"), PUT)
    assert len(model.requests) == 1, "the words are put to it again on the day after"
    assert kept.days == list(DAYS.items())
