"""What the policies refuse to a person takes no slot of discovery, and no model reads of it; what nobody decides is shown."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest

from contract.principal import Principal
from contract.scope import Sensitivity
from contract.verdict import Reason, Verdict
from control_plane import discovery_admitted
from control_plane.discovery import CatalogueEntry, DiscoveryIndex
from control_plane.discovery_admitted import discover_admitted
from control_plane.evaluator import EvaluatorTimeout, InProcessEvaluator
from control_plane.policy import Outcome, PolicyAnswer, PolicyRequest, load_policies
from root_agent.entry import RootAgent
from tests.adversarial.hostile_model import HostileModel
from tests.control_plane.control_plane_world import make_descriptor, make_principal, raw_capability, write_policies
from tests.root_agent.root_world import NOW, QUESTION, RootWorld

POLICIES = """
@id("P-1") permit (principal, action, resource) when { context.entitled };
@id("P-9") forbid (principal, action, resource) when { principal.principal_class == "analyst" }
  unless { resource == Dataset::"own" };
@id("P-8") forbid (principal, action == Action::"count", resource);
"""
CLOSED = [f"closed-{number:02}" for number in range(12)]


def entries(names: list[str], words: str = "roses roses") -> list[CatalogueEntry]:
    public = frozenset({"read", "count"})
    described = [
        make_descriptor(raw_capability("read"), raw_capability("count"), dataset=name, description=words)
        for name in names
    ]
    return [CatalogueEntry(item, "urn:a", "http://127.0.0.1:1", public) for item in described]


def person(principal_class: str = "analyst") -> Principal:
    held = {name: frozenset({"read", "count"}) for name in (*CLOSED, "own")}
    return make_principal(principal_class=principal_class, entitlements=held)


@pytest.fixture
def evaluator(tmp_path: Path) -> InProcessEvaluator:
    write_policies(tmp_path / "policies", POLICIES)
    return InProcessEvaluator(load_policies(tmp_path / "policies"), 5)


INDEX = DiscoveryIndex([*entries(CLOSED), *entries(["own"], "roses and tulips")])


async def test_what_the_policies_refuse_takes_no_slot(evaluator: InProcessEvaluator) -> None:
    found = await discover_admitted(INDEX, "roses", person(), evaluator, "1", NOW, limit=2)
    assert [(item.entry.descriptor.dataset, item.capabilities) for item in found.candidates] == [("own", ("read",))]
    assert (found.funnel.matching, found.funnel.admissible, found.funnel.capabilities, found.funnel.shown) == (
        13,
        1,
        1,
        1,
    )


async def test_who_is_permitted_finds_as_before_but_for_the_capability_that_is_forbidden(
    evaluator: InProcessEvaluator,
) -> None:
    found = await discover_admitted(INDEX, "roses", person("engineer"), evaluator, "1", NOW, limit=3)
    plain = INDEX.discover("roses", person("engineer"), limit=3)
    assert [item.entry for item in found.candidates] == [item.entry for item in plain.candidates]
    assert {item.capabilities for item in found.candidates} == {("read",)}


async def test_no_more_datasets_are_asked_about_than_may_be(
    evaluator: InProcessEvaluator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discovery_admitted, "MAX_LOOKED_AT", 6)
    found = await discover_admitted(INDEX, "roses", person(), evaluator, "1", NOW, limit=2)
    assert found.candidates == ()


class Asked:
    """An evaluator that is away, or refuses all, and counts how often it is asked."""

    def __init__(self, answer: PolicyAnswer | None) -> None:
        self.answer = answer
        self.times = 0

    async def evaluate(self, request: PolicyRequest) -> PolicyAnswer:
        self.times += 1
        if self.answer is None:
            raise EvaluatorTimeout("late")
        return self.answer

    def version(self) -> str:
        return "1"


async def test_what_nobody_can_decide_is_shown_and_the_evaluator_is_not_waited_for_again_and_again() -> None:
    away = Asked(None)
    found = await discover_admitted(INDEX, "roses", person(), away, "1", NOW, limit=20)
    assert len(found.candidates) == 13 and {len(item.capabilities) for item in found.candidates} == {2}
    assert away.times <= discovery_admitted.AT_ONCE


async def test_a_capability_is_asked_about_once_for_one_question() -> None:
    refusing = Asked(PolicyAnswer(Outcome.NONE, None, "1"))
    found = await discover_admitted(INDEX, "roses", person(), refusing, "1", NOW, limit=2)
    assert found.candidates == () and refusing.times == 2 * 13


def entitled(world: RootWorld, name: str, capability: str) -> None:
    """The person is entitled and cleared, by the directory; what policies say of the class is another matter."""
    directory = world.service.world.directory
    old = directory.named(name)
    assert old is not None
    held = MappingProxyType({"purification-batches": frozenset({capability})})
    new = replace(old, clearance=Sensitivity.CONFIDENTIAL, entitlements=held)
    world.service.world = replace(
        world.service.world, directory=replace(directory, by_identity={**directory.by_identity, old.key: new})
    )


async def test_a_model_reads_nothing_of_what_the_policies_refuse(world: RootWorld) -> None:
    """BPD-DATA-009 forbids everything but the search to auditors, whatever the directory says."""
    entitled(world, "external_auditor", "compare_batches")
    model = HostileModel(script="[[say {}]]", requests=[])
    world.service.model = model
    root = RootAgent(world.service)
    answer = await root.ask(world.token("external_auditor"), question="Put the two batches beside one another")
    refused = await root.ask(world.token("external_auditor"), question=QUESTION)
    await root.close()
    assert (answer.asking.candidates, model.requests) == ((), [])
    assert (refused.verdict, refused.decision.policy_id) == (Verdict.REFUSED, "BPD-DATA-009")


async def test_a_question_while_no_policy_can_be_asked_ends_in_that_and_not_as_misunderstood(world: RootWorld) -> None:
    world.service.world = replace(world.service.world, evaluator=Asked(None))
    root = RootAgent(world.service)
    answer = await root.ask(world.token("process_engineer"), question=QUESTION)
    await root.close()
    assert answer.decision.reason is Reason.EVALUATOR_TIMEOUT
