"""An evaluator that another stands in for keeps its connections for the questions under way, and not longer."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from contract.settings import Settings
from control_plane.evaluator import EvaluatorTimeout, HttpEvaluator
from control_plane.policy import Outcome
from grants.keys import init_keys
from root_agent.opening import close_service, open_service, reload_service
from tests.control_plane.control_plane_world import make_question, permit
from tests.control_plane.policy_servers import served

PERMITTED = json.dumps({"result": permit().to_json()}).encode()


class Gate:
    """Answers when it is opened, and says when it was asked."""

    def __init__(self) -> None:
        self.asked, self.opened = asyncio.Event(), asyncio.Event()

    async def answer(self, _: dict[str, Any]) -> tuple[int, bytes]:
        self.asked.set()
        await self.opened.wait()
        return 200, PERMITTED


def is_open(evaluator: HttpEvaluator) -> bool:
    return evaluator._client is not None


async def test_a_question_under_way_is_answered_and_the_connections_are_closed_after_it() -> None:
    gate = Gate()
    async with served(gate.answer) as url:
        evaluator = HttpEvaluator(url, 30)
        asking = [asyncio.create_task(evaluator.evaluate(make_question())) for _ in range(3)]
        await gate.asked.wait()
        await evaluator.retire()
        assert is_open(evaluator)
        gate.opened.set()
        assert [answer.outcome for answer in await asyncio.gather(*asking)] == [Outcome.PERMIT] * 3
        assert not is_open(evaluator)


async def test_one_that_is_idle_is_closed_at_once_and_answers_who_still_holds_it() -> None:
    gate = Gate()
    gate.opened.set()
    async with served(gate.answer) as url:
        evaluator = HttpEvaluator(url, 30)
        await evaluator.evaluate(make_question())
        assert is_open(evaluator)
        await evaluator.retire()
        assert not is_open(evaluator)
        assert (await evaluator.evaluate(make_question())).outcome is Outcome.PERMIT
        assert not is_open(evaluator)


async def test_a_question_that_ends_late_or_is_given_up_leaves_nothing_open() -> None:
    gate = Gate()
    async with served(gate.answer) as url:
        evaluator = HttpEvaluator(url, 0.05)
        asking = asyncio.create_task(evaluator.evaluate(make_question()))
        await gate.asked.wait()
        await evaluator.retire()
        with pytest.raises(EvaluatorTimeout):
            await asking
        assert not is_open(evaluator)
        patient = HttpEvaluator(url, 30)
        gate.asked.clear()
        asking = asyncio.create_task(patient.evaluate(make_question()))
        await gate.asked.wait()
        await patient.retire()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert not is_open(patient)
        gate.opened.set()


async def test_a_root_agent_that_reloads_closes_the_evaluator_it_had(tmp_path: Path) -> None:
    gate = Gate()
    gate.opened.set()
    async with served(gate.answer) as url:
        settings = Settings(home=tmp_path, policy_url=url, policy_budget=5)
        init_keys(settings)
        service = open_service(settings)
        before = service.world.evaluator
        assert isinstance(before, HttpEvaluator)
        await before.evaluate(make_question())
        await reload_service(settings, service)
        assert service.world.evaluator is not before
        assert not is_open(before)
        await close_service(service)
