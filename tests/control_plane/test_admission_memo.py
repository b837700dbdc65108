"""What was granted before is granted again exactly where judging it again would grant it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contract.scope import Sensitivity
from contract.verdict import Reason, Verdict
from control_plane import admission_memo
from control_plane.admission import AdmissionRequest, Review, admit, decide, question_of
from control_plane.admission_memo import Granted
from control_plane.admission_rules import case_of
from control_plane.evaluator import HttpEvaluator, InProcessEvaluator
from control_plane.policy import Outcome, PolicyAnswer, load_policies
from control_plane.principals import load_directory
from tests.control_plane.control_plane_world import (
    DATASETS,
    NOW,
    VERSION,
    make_descriptor,
    make_principal,
    make_request,
    permit,
    raw_capability,
)
from tests.shipped_registry import shipped_registry

POLICIES = load_policies(DATASETS / "policies")
REGISTRY = shipped_registry()
DIRECTORY = load_directory(DATASETS / "principals.yaml")
NAMES = ("process_engineer", "analyst", "clinical_reviewer", "external_auditor")
PEOPLE = [person for name in NAMES if (person := DIRECTORY.named(name)) is not None]
# Two of each that are served, and their likes that are not the same objects or not quite the same.
DESCRIPTORS = [REGISTRY.datasets[name] for name in ("purification-batches", "chromatography-results")]
DESCRIPTORS += [descriptor.model_copy(update={"revision": "r9"}) for descriptor in DESCRIPTORS]
BASE = make_request(principal=PEOPLE[0], dataset="purification-batches", capability="compare_batches")
CHANGES: dict[str, list[Any]] = {
    "principal": [None, *PEOPLE, *[replace(person, clearance=Sensitivity.PUBLIC) for person in PEOPLE]],
    "dataset": ["purification-batches", "chromatography-results"],
    "capability": ["compare_batches", "search", "detect_outliers", "export"],
    "descriptor": [*DESCRIPTORS, None],
    "policy_version": [POLICIES.version, "old"],
    "now": [NOW, NOW + 1e9],
    "stated_dataset_version": [None, *[item.version for item in DESCRIPTORS], "x"],
    "stated_revision": [None, *[item.revision for item in DESCRIPTORS]],
    "stated_policy_version": [None, "1", "2"],
    "accepted_policy_versions": [None, frozenset({"1"}), frozenset({"2"})],
    "schema_version": [None, DESCRIPTORS[0].schema_version, "99"],
    "max_age_s": [None, 1.0, 1e12, float("nan")],
    "review": list(Review),
    "decision_id": ["dec-1", "dec-2"],
}
STEPS = st.sampled_from([(name, value) for name, values in CHANGES.items() for value in values])


@settings(max_examples=40, deadline=None)
@given(st.lists(STEPS, min_size=20, max_size=40))
def test_a_decision_is_the_same_whatever_was_decided_before(steps: list[tuple[str, Any]]) -> None:
    """From a request that is granted one thing is changed, or two, and back."""
    evaluator = InProcessEvaluator(POLICIES, 60)
    base = replace(BASE, descriptor=DESCRIPTORS[0], policy_version=POLICIES.version)
    base = replace(base, stated_policy_version="1", accepted_policy_versions=frozenset({"1"}))
    assert asyncio.run(decide(base, evaluator)).verdict is Verdict.GRANTED
    for (name, value), (second, other) in pairwise(steps):
        for changes in ({name: value}, {name: value, second: other}, {}):
            request = replace(base, **changes)
            assert asyncio.run(decide(request, evaluator)) == _judged(request)


def _judged(request: AdmissionRequest) -> Any:
    try:
        answer = POLICIES.evaluate(question_of(case_of(request)))
    except LookupError:
        answer = PolicyAnswer(Outcome.NONE, None, VERSION)
    return admit(request, answer)


class _Counted:
    """A policy set that counts how often it is asked."""

    version = VERSION

    def __init__(self, answer: PolicyAnswer) -> None:
        self.answer, self.asked = answer, 0

    def evaluate(self, request: object) -> PolicyAnswer:
        self.asked += 1
        return self.answer


def _evaluator(answer: PolicyAnswer) -> tuple[InProcessEvaluator, _Counted]:
    counted = _Counted(answer)
    return InProcessEvaluator(counted, 60), counted  # type: ignore[arg-type]


async def test_what_was_granted_keeps_its_reason_and_has_an_id_of_its_own() -> None:
    evaluator, counted = _evaluator(permit())
    request = make_request()
    first = await decide(request, evaluator)
    again = await decide(replace(request, decision_id="dec-2"), evaluator)
    assert again == replace(first, decision_id="dec-2")
    assert counted.asked == 1


@pytest.mark.parametrize("descriptor_changes", [{}, {"freshness_requirement_s": 100}])
async def test_data_that_grew_old_are_refused_to_who_was_granted_them(descriptor_changes: dict[str, Any]) -> None:
    descriptor = make_descriptor(raw_capability(**descriptor_changes))
    fresh = make_request(descriptor=descriptor, max_age_s=100.0, now=descriptor.as_of.timestamp() + 100)
    if descriptor_changes:
        fresh = replace(fresh, max_age_s=None)
    evaluator, _ = _evaluator(permit())
    for later, reason in ((0, Reason.PRINCIPAL_AUTHORIZED), (1, Reason.FRESHNESS_UNSATISFIABLE)) * 2:
        decision = await decide(replace(fresh, now=fresh.now + later), evaluator)
        assert decision.reason is reason


def test_people_who_come_and_go_are_never_taken_for_one_another() -> None:
    """An object that is gone leaves its place in memory to the next one."""
    granted, descriptor = Granted(), make_descriptor()

    def visit(number: int) -> None:
        request = make_request(principal=make_principal(subject=f"u-{number}"), descriptor=descriptor)
        assert granted.find(request) is None
        granted.keep(request, admit(request, permit()))
        assert granted.find(request) is not None

    for number in range(50):
        visit(number)


@pytest.mark.parametrize("outcome", [Outcome.NONE, Outcome.ERROR, Outcome.MISSING_ATTRIBUTE])
async def test_nothing_but_a_grant_is_remembered(outcome: Outcome) -> None:
    request, granted = make_request(), Granted()
    granted.keep(request, admit(request, PolicyAnswer(outcome, None, VERSION)))
    assert granted.find(request) is None


async def test_a_policy_set_does_not_inherit_what_another_granted() -> None:
    request = make_request()
    assert (await decide(request, _evaluator(permit())[0])).verdict is Verdict.GRANTED
    assert (await decide(request, _evaluator(PolicyAnswer(Outcome.NONE, None, VERSION))[0])).verdict is Verdict.REFUSED


async def test_a_policy_server_is_asked_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluator = HttpEvaluator("http://127.0.0.1:1")
    answers = [permit(), PolicyAnswer(Outcome.NONE, None, VERSION)]
    monkeypatch.setattr(evaluator, "evaluate", _told(answers))
    request = make_request()
    verdicts = [(await decide(request, evaluator)).verdict for _ in range(2)]
    assert verdicts == [Verdict.GRANTED, Verdict.REFUSED]


def _told(answers: list[PolicyAnswer]) -> Any:
    async def evaluate(_: object) -> PolicyAnswer:
        return answers.pop(0)

    return evaluate


async def test_the_memo_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission_memo, "MAX_REMEMBERED", 8)
    evaluator, _ = _evaluator(permit())
    for number in range(50):
        await decide(make_request(principal=make_principal(subject=f"u-{number}")), evaluator)
        assert len(evaluator.granted._held) <= 8


async def test_what_was_granted_with_an_approval_is_not_granted_without_one() -> None:
    descriptor = make_descriptor(raw_capability(requires_review=True))
    evaluator, _ = _evaluator(permit())
    approved = make_request(descriptor=descriptor, review=Review.GIVEN)
    for review, reason in (
        (Review.GIVEN, Reason.PRINCIPAL_AUTHORIZED),
        (Review.OUTSTANDING, Reason.REVIEW_REQUIRED),
    ) * 2:
        assert (await decide(replace(approved, review=review), evaluator)).reason is reason
