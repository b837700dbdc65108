"""Whoever may not use a dataset that no public card shows learns nothing about it, and with opaque refusals not that it is there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from contract.verdict import Reason
from control_plane.identity import issue_identity
from root_agent.answer_view import to_json
from root_agent.entry import RootAgent
from tests.root_agent.root_world import ISSUER, ROOT_ID, RootWorld, root_world
from tests.root_agent.scripted_remote import AgentServer

PEOPLE = ("process_engineer", "analyst", "external_auditor")
HIDDEN = [("clinical-private", name) for name in ("search", "aggregate", "materialize", "delete_source", "nope")]
OWN = {"dataset", "capability", "trace_id", "decision_id", "evidence"}
"""What differs between any two askings: the person's own words, and ids."""


@pytest.fixture
async def opaque(tmp_path: Path, agent_server: AgentServer) -> AsyncIterator[RootWorld]:
    async with root_world(tmp_path, agent_server, opaque_refusals=True) as built:
        yield built


async def ask(world: RootWorld, who: str, dataset: str, capability: str = "search", **extra: Any) -> dict[str, Any]:
    root = RootAgent(world.service)
    call = {"dataset": dataset, "capability": capability, "arguments": {"query": "x"}}
    try:
        return to_json(await root.ask(world.token(who), call=call, **extra))
    finally:
        await root.close()


def comparable(view: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in view.items() if name not in OWN}
    return kept | {"decision": {n: v for n, v in view["decision"].items() if n not in OWN}}


@pytest.mark.parametrize("who", PEOPLE)
@pytest.mark.parametrize(("dataset", "capability"), HIDDEN)
async def test_a_hidden_dataset_and_a_name_that_nobody_uses_get_one_answer(
    opaque: RootWorld, who: str, dataset: str, capability: str
) -> None:
    hidden = await ask(opaque, who, dataset, capability)
    unknown = await ask(opaque, who, "no-such-dataset", capability)
    assert comparable(hidden) == comparable(unknown)
    assert (hidden["verdict"], hidden["reason"]) == ("INDETERMINATE", "MISSING_DESCRIPTOR")
    assert hidden.keys() == unknown.keys() and hidden["evidence"].keys() == unknown["evidence"].keys()


@pytest.mark.parametrize("bound", [{"max_age_s": 1}, {"schema_version": "99"}])
async def test_bounds_on_age_or_schema_tell_nothing_either(opaque: RootWorld, bound: dict[str, Any]) -> None:
    hidden = await ask(opaque, "analyst", "clinical-private", **bound)
    assert comparable(hidden) == comparable(await ask(opaque, "analyst", "no-such-dataset", **bound))


async def test_the_ledger_keeps_the_true_decision(opaque: RootWorld) -> None:
    view = await ask(opaque, "analyst", "clinical-private")
    (entry,) = opaque.service.ledger.rows()
    assert entry.cells["reason"] == "INSUFFICIENT_PRIVILEGE"
    assert entry.cells["decision_id"] == view["decision"]["decision_id"]


async def test_who_may_use_it_is_told_the_true_reason(opaque: RootWorld) -> None:
    view = await ask(opaque, "clinical_reviewer", "clinical-private", "materialize")
    assert (view["reason"], view["decision"]["policy_id"]) == ("PROHIBITED_OPERATION", "AD-POL-004")


async def test_a_public_dataset_is_refused_by_its_true_reason(opaque: RootWorld) -> None:
    view = await ask(opaque, "analyst", "purification-batches", "detect_outliers")
    assert view["reason"] == "INSUFFICIENT_PRIVILEGE"


async def test_an_agent_that_is_away_does_not_tell_which_names_it_serves(opaque: RootWorld) -> None:
    opaque.service.cards.forget_all()
    opaque.service.agents = tuple((agent, "http://127.0.0.1:9") for agent, _ in opaque.service.agents)
    hidden = await ask(opaque, "analyst", "clinical-private")
    assert comparable(hidden) == comparable(await ask(opaque, "analyst", "no-such-dataset"))


async def test_no_count_of_hidden_datasets_is_told(opaque: RootWorld) -> None:
    """Whether words match a descriptor that is hidden would be an oracle on its text."""
    root = RootAgent(opaque.service)
    told = []
    for words in ("headache observations of subjects", "unicorns on the moon"):
        view = to_json(await root.ask(opaque.token("external_auditor"), question=words))
        told.append((view["discovery"]["registered"], view["discovery"]["matching"]))
    await root.close()
    assert told[0] == told[1]


async def test_without_opaque_refusals_the_refusal_holds_nothing_of_the_hidden_card(world: RootWorld) -> None:
    view = await ask(world, "analyst", "clinical-private")
    assert view["reason"] == "INSUFFICIENT_PRIVILEGE"
    told = [view[name] for name in ("dataset_version", "revision", "agent", "missing", "result", "remote")]
    assert told == [None, None, None, [], None, None]


@pytest.mark.parametrize("dataset", ["clinical-private", "no-such-dataset"])
async def test_a_stranger_to_the_directory_gets_one_answer_for_every_name(opaque: RootWorld, dataset: str) -> None:
    token = issue_identity(opaque.identity, issuer_url=ISSUER, subject="u-nobody", audience=ROOT_ID, now=opaque.clock())
    root = RootAgent(opaque.service)
    call = {"dataset": dataset, "capability": "search", "arguments": {}}
    answer = await root.ask(token, call=call)
    await root.close()
    assert answer.decision.reason is Reason.UNKNOWN_PRINCIPAL and to_json(answer)["agent"] is None


async def test_a_hidden_name_takes_the_steps_of_an_unknown_one(opaque: RootWorld) -> None:
    hidden = await ask(opaque, "analyst", "clinical-private")
    unknown = await ask(opaque, "analyst", "no-such-dataset")
    assert hidden["visited_nodes"] == unknown["visited_nodes"]
    assert len(list(opaque.service.ledger.rows())) == 2 and opaque.remote.arrived == []
