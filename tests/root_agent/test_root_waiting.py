"""Which answers a root agent remembers until their rows are fetched: everybody's, whatever one person asks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from contract.errors import DatasetAgentError
from contract.result import StoredResult
from root_agent.asking import Answer
from root_agent.identity import RequestContext
from root_agent.results_relay import Waiting

ALICE, BOB = (RequestContext("https://issuer.example", subject) for subject in ("alice", "bob"))
END = 1_000.0


def answer(person: RequestContext, result_id: str, expires_at: float = END) -> Answer:
    """An answer as far as it is looked at here."""
    stored = StoredResult(
        result_id=result_id,
        url=f"http://127.0.0.1/results/{result_id}",
        media_type="application/json",
        digest="0" * 64,
        size=1,
        row_count=1,
        truncated=False,
        as_of="2026-08-31T22:00:00.000000Z",
        expires_at=expires_at,
    )
    asking: Any = SimpleNamespace(person=person)
    return cast(Answer, SimpleNamespace(asking=asking, document=stored))


def finds(waiting: Waiting, result_id: str, person: RequestContext) -> bool:
    try:
        waiting.find(result_id, person)
    except DatasetAgentError:
        return False
    return True


def test_a_person_who_asks_for_many_results_makes_only_their_own_be_forgotten() -> None:
    waiting = Waiting(lambda: 0.0, limit=8)
    waiting.keep(answer(BOB, "bob"))
    for number in range(20):
        waiting.keep(answer(ALICE, f"alice-{number}"))
    assert finds(waiting, "bob", BOB)
    assert [number for number in range(20) if finds(waiting, f"alice-{number}", ALICE)] == [18, 19]


def test_where_many_people_ask_the_oldest_of_all_is_forgotten() -> None:
    waiting = Waiting(lambda: 0.0, limit=4)
    people = [RequestContext("https://issuer.example", f"person-{number}") for number in range(6)]
    for number, person in enumerate(people):
        waiting.keep(answer(person, str(number)))
    assert [number for number, person in enumerate(people) if finds(waiting, str(number), person)] == [2, 3, 4, 5]


@pytest.mark.parametrize("now", [END, END + 1])
def test_what_has_expired_takes_no_place(now: float) -> None:
    clock = [0.0]
    waiting = Waiting(lambda: clock[0], limit=8)
    for number in range(2):
        waiting.keep(answer(ALICE, str(number)))
    clock[0] = now
    waiting.keep(answer(ALICE, "new", END + 10))
    assert [name for name in ("0", "1", "new") if finds(waiting, name, ALICE)] == ["new"]


def test_an_agent_that_names_a_result_as_another_persons_takes_it_from_nobody() -> None:
    waiting = Waiting(lambda: 0.0)
    for person in (ALICE, BOB):
        waiting.keep(answer(person, "task-of-alice"))
    for person in (ALICE, BOB):
        assert waiting.find("task-of-alice", person)[1].asking.person is person
