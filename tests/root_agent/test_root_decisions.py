"""``GET /decisions/{id}``: who asked is told once more what was decided, without the question and without rows; nobody else is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import httpx
import pytest

from contract.errors import DatasetAgentError
from contract.ids import SessionId
from contract.verdict import Decision, Reason
from root_agent.answer_view import to_json
from root_agent.app import build_app
from root_agent.asking import Answer, Asking
from root_agent.decisions import Decisions
from root_agent.identity import RequestContext
from root_agent.wanted import Wanted
from tests.root_agent.root_world import ISSUER, MARKER_ROW, QUESTION, RootWorld

CALL = {"dataset": "purification-batches", "capability": "search", "arguments": {"query": "patient-0042"}}


@pytest.fixture
async def client(world: RootWorld) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=build_app(world.service, max_body_bytes=10_000), raise_app_exceptions=True)
    async with httpx.AsyncClient(transport=transport, base_url="http://root") as opened:
        yield opened


def bearer(world: RootWorld, who: str = "process_engineer") -> dict[str, str]:
    return {"Authorization": f"Bearer {world.token(who)}"}


async def asked(client: httpx.AsyncClient, world: RootWorld, who: str, body: dict[str, Any]) -> dict[str, Any]:
    told: dict[str, Any] = (await client.post("/ask", json=body, headers=bearer(world, who))).json()
    return told


@pytest.mark.parametrize("body", [CALL, {"question": QUESTION}], ids=["call", "question"])
@pytest.mark.parametrize(
    ("who", "verdict"), [("process_engineer", "GRANTED"), ("external_auditor", "REFUSED")], ids=["granted", "refused"]
)
async def test_what_was_decided_is_told_as_it_was_then(
    client: httpx.AsyncClient, world: RootWorld, who: str, verdict: str, body: dict[str, Any]
) -> None:
    told = await asked(client, world, who, body)
    response = await client.get(f"/decisions/{told['decision']['decision_id']}", headers=bearer(world, who))
    again = response.json()
    assert (response.status_code, response.headers["cache-control"], again["verdict"]) == (200, "no-store", verdict)
    assert {name: value for name, value in told.items() if name in again and name != "remote"} == {
        name: value for name, value in again.items() if name != "remote"
    }


async def test_it_holds_no_argument_no_word_of_the_question_and_no_row(
    client: httpx.AsyncClient, world: RootWorld
) -> None:
    told = await asked(client, world, "process_engineer", CALL)
    assert told["arguments"] == CALL["arguments"] and told["result"]["rows"]
    found = await client.get(f"/decisions/{told['decision']['decision_id']}", headers=bearer(world))
    assert not {"arguments", "missing", "not_understood", "approval", "result", "provenance"} & set(found.json())
    assert "patient-0042" not in found.text and MARKER_ROW not in found.text


async def test_the_dataset_agents_own_decision_leads_to_it_too(client: httpx.AsyncClient, world: RootWorld) -> None:
    told = await asked(client, world, "process_engineer", CALL)
    theirs = told["remote"]["decision"]["decision_id"]
    assert theirs != told["decision"]["decision_id"]
    found = await client.get(f"/decisions/{theirs}", headers=bearer(world))
    assert found.json()["trace_id"] == told["trace_id"]


async def test_another_persons_decision_is_as_if_it_never_was(client: httpx.AsyncClient, world: RootWorld) -> None:
    told = await asked(client, world, "process_engineer", CALL)
    theirs = await client.get(f"/decisions/{told['decision']['decision_id']}", headers=bearer(world, "analyst"))
    never = await client.get("/decisions/dec-0", headers=bearer(world, "analyst"))
    assert (theirs.status_code, theirs.json()["code"]) == (404, "root_agent.decision.not_found")
    assert theirs.json() == never.json()


async def test_without_a_verified_person_nothing_is_told(client: httpx.AsyncClient, world: RootWorld) -> None:
    told = await asked(client, world, "process_engineer", CALL)
    found = await client.get(f"/decisions/{told['decision']['decision_id']}")
    assert (found.status_code, found.json()["code"]) == (401, "root_agent.person.missing")


def ended(person: str, number: int) -> Answer:
    """An asking of a person that ended, with a decision of that number."""
    asking = Asking(RequestContext(ISSUER, person), Wanted.of(question="x"), SessionId.generate(), "0" * 32)
    decision = Decision(Reason.MISSING_DESCRIPTOR, None, "1", "there is none", decision_id=f"dec-{person}-{number}")
    return Answer(replace(asking, stop=decision), decision)


def kept_of(kept: Decisions, person: str, most: int) -> list[int]:
    found = []
    for number in range(most):
        try:
            kept.find(f"dec-{person}-{number}", RequestContext(ISSUER, person))
        except DatasetAgentError:
            continue
        found.append(number)
    return found


def test_a_dataset_agent_that_names_its_decision_as_another_persons_hides_none() -> None:
    """It was shown that name, in the grant."""
    kept, theirs, mine = Decisions(), ended("few", 0), ended("many", 0)
    kept.keep(theirs, to_json(theirs))
    kept.keep(
        mine, to_json(mine) | {"remote": {"decision": {"decision_id": "dec-few-0"}, "error": None, "task_id": ""}}
    )
    assert b"dec-few-0" in kept.find("dec-few-0", RequestContext(ISSUER, "few"))
    assert b"dec-many-0" in kept.find("dec-few-0", RequestContext(ISSUER, "many"))


def test_whoever_asks_much_makes_their_own_oldest_be_forgotten_and_nobody_elses() -> None:
    kept = Decisions(limit=8)
    for person, number in [("few", 0), *(("many", number) for number in range(20))]:
        answer = ended(person, number)
        kept.keep(answer, to_json(answer))
    assert (kept_of(kept, "few", 1), kept_of(kept, "many", 20)) == ([0], [18, 19])


def test_there_are_never_more_than_so_many_of_all_people_together() -> None:
    kept = Decisions(limit=8)
    people = [f"p{number}" for number in range(20)]
    for person in people:
        answer = ended(person, 0)
        kept.keep(answer, to_json(answer))
    assert [person for person in people if kept_of(kept, person, 1)] == people[-8:]
