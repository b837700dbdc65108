"""Admission is pure, keeps its order, and names a policy exactly where one decided."""

from __future__ import annotations

import ast
import inspect
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contract.scope import Constraint, Mask, Obligations, Sensitivity
from contract.verdict import Reason, Verdict
from control_plane import admission, admission_memo, admission_rules
from control_plane.admission import AdmissionRequest, EvaluatorFailure, admit, decide, explain
from control_plane.admission_rules import RULES
from control_plane.evaluator import EvaluatorTimeout, EvaluatorUnavailable, InProcessEvaluator
from control_plane.policy import Outcome, PolicyAnswer, PolicyRequest, load_policies
from control_plane.principals import load_directory
from control_plane.registry import InvalidDataset, load_registry
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

UNAVAILABLE = EvaluatorFailure(Reason.EVALUATOR_UNAVAILABLE)
LATE = EvaluatorFailure(Reason.EVALUATOR_TIMEOUT)


def _answer(outcome: Outcome, policy_id: str | None = None) -> PolicyAnswer:
    return PolicyAnswer(outcome, policy_id, VERSION)


class Scripted:
    """An evaluator double that counts how often it is asked."""

    def __init__(self, answer: PolicyAnswer | Exception) -> None:
        self.answer = answer
        self.questions: list[PolicyRequest] = []

    async def evaluate(self, request: PolicyRequest) -> PolicyAnswer:
        self.questions.append(request)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def version(self) -> str:
        return VERSION


# Each line breaks one rule more than the next, in the documented order: the first must win.
BROKEN: tuple[tuple[Reason, str | None, dict[str, Any]], ...] = (
    (Reason.UNKNOWN_PRINCIPAL, None, {"principal": None}),
    (Reason.MISSING_DESCRIPTOR, None, {"descriptor": None}),
    (Reason.DESCRIPTOR_INVALID, "AD-POL-002", {"descriptor": InvalidDataset("plants", "broken")}),
    (Reason.PROHIBITED_OPERATION, "AD-POL-004", {"prohibited": ("read",)}),
    (Reason.UNREGISTERED_CAPABILITY, "AD-POL-003", {"registered": False}),
    (Reason.UNKNOWN_DATASET_REVISION, None, {"stated_revision": "r0"}),
    (
        Reason.UNKNOWN_POLICY_VERSION,
        None,
        {"stated_policy_version": "0", "accepted_policy_versions": frozenset({VERSION})},
    ),
    (Reason.SCHEMA_VERSION_MISMATCH, "AD-POL-007", {"schema_version": "99"}),
    (Reason.INSUFFICIENT_PRIVILEGE, "AD-POL-005", {"answer": _answer(Outcome.NONE)}),
    (Reason.CLASSIFICATION_EXCEEDS_CLEARANCE, "AD-POL-006", {"sensitivity": "restricted"}),
    (Reason.EFFECT_NOT_PERMITTED, "AD-POL-009", {"effect": "write"}),
    (Reason.FRESHNESS_UNSATISFIABLE, "AD-POL-008", {"max_age_s": 1.0}),
    (Reason.INSUFFICIENT_RETENTION, None, {"retention_requirement": {"observations": 10}}),
    (Reason.REVIEW_REQUIRED, "AD-POL-010", {"requires_review": True}),
)
CAPABILITY_MEMBERS = frozenset({"sensitivity", "effect", "retention_requirement", "requires_review"})


def _broken(first: int) -> tuple[AdmissionRequest, PolicyAnswer]:
    """A request that breaks every rule from number ``first`` on."""
    changes = {key: value for _, _, change in BROKEN[first:] for key, value in change.items()}
    # The first descriptor of the table is the one that is meant: a later line cannot replace it.
    given_descriptor = next((c["descriptor"] for _, _, c in BROKEN[first:] if "descriptor" in c), "made")
    capability = raw_capability(policy_id="P-1", **{k: v for k, v in changes.items() if k in CAPABILITY_MEMBERS})
    if changes.get("registered") is False:
        capability["name"] = "other"
    made = make_descriptor(capability, policies=["P-1"], prohibited=changes.get("prohibited", ()))
    rest = {k: v for k, v in changes.items() if k in AdmissionRequest.__dataclass_fields__ and k != "descriptor"}
    request = make_request(descriptor=made if given_descriptor == "made" else given_descriptor, **rest)
    return request, changes.get("answer", permit())


@pytest.mark.parametrize("number", range(len(BROKEN)), ids=[reason.value for reason, _, _ in BROKEN])
def test_the_first_broken_rule_decides_however_many_are_broken(number: int) -> None:
    decision = admit(*_broken(number))
    reason, policy_id, _ = BROKEN[number]
    assert (decision.reason, decision.policy_id) == (reason, policy_id)


def test_the_rules_stand_in_the_documented_order() -> None:
    documented = [line for line in (admission.__doc__ or "").splitlines() if line[:2].strip().isdigit()]
    ids = [line[31:43].strip() for line in documented]
    assert ids == [rule.policy_id or "–" for rule in RULES]
    assert [line[44:].strip() for line in documented] == [reason.value for reason, _, _ in BROKEN]


def test_a_request_that_breaks_nothing_is_granted_under_the_permitting_policy() -> None:
    decision = admit(make_request(), permit("BPD-DATA-014"))
    assert decision.verdict is Verdict.GRANTED
    assert (decision.reason, decision.policy_id) == (Reason.PRINCIPAL_AUTHORIZED, "BPD-DATA-014")


def test_a_granted_decision_carries_the_obligations() -> None:
    obligations = Obligations(rows={"plants.id": Constraint(max=3)}, masks={"plants.id": Mask.NULL})
    assert admit(make_request(), permit(obligations=obligations)).obligations == obligations


def test_a_refusal_carries_no_obligation() -> None:
    obligations = Obligations(columns=frozenset({"plants.id"}))
    decision = admit(make_request(max_age_s=0), permit(obligations=obligations))
    assert decision.obligations == Obligations()


def test_a_forbid_refuses_under_its_own_id() -> None:
    decision = admit(make_request(), _answer(Outcome.FORBID, "BPD-DATA-009"))
    assert (decision.reason, decision.policy_id) == (Reason.INSUFFICIENT_PRIVILEGE, "BPD-DATA-009")


def test_a_forbid_is_named_before_the_clearance() -> None:
    descriptor = make_descriptor(raw_capability(sensitivity="restricted", policy_id="P-1"), policies=["P-1"])
    decision = admit(make_request(descriptor=descriptor), _answer(Outcome.FORBID, "P-9"))
    assert decision.policy_id == "P-9"


def test_a_capability_is_granted_by_its_governing_policy_only() -> None:
    descriptor = make_descriptor(raw_capability(policy_id="P-2"), policies=["P-2"])
    refused, granted = (admit(make_request(descriptor=descriptor), permit(name)) for name in ("P-1", "P-2"))
    assert (refused.reason, refused.policy_id) == (Reason.INSUFFICIENT_PRIVILEGE, "AD-POL-005")
    assert granted.verdict is Verdict.GRANTED


def test_a_principal_of_another_tenant_is_refused_although_a_policy_permits() -> None:
    decision = admit(make_request(principal=make_principal(tenant="other")), permit())
    assert (decision.reason, decision.policy_id) == (Reason.INSUFFICIENT_PRIVILEGE, "AD-POL-005")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (UNAVAILABLE, Reason.EVALUATOR_UNAVAILABLE),
        (LATE, Reason.EVALUATOR_TIMEOUT),
        (_answer(Outcome.ERROR), Reason.EVALUATOR_UNAVAILABLE),
        (_answer(Outcome.MISSING_ATTRIBUTE), Reason.MISSING_PRINCIPAL_ATTRIBUTE),
    ],
)
def test_unknown_authority_is_indeterminate_and_names_no_policy(
    answer: PolicyAnswer | EvaluatorFailure, reason: Reason
) -> None:
    decision = admit(make_request(), answer)
    assert (decision.verdict, decision.reason, decision.policy_id) == (Verdict.INDETERMINATE, reason, None)
    assert decision.rationale


def test_a_missing_attribute_is_named_and_its_policy_is_not() -> None:
    lacking = replace(_answer(Outcome.MISSING_ATTRIBUTE), attributes=("level", "sites"), detail="P-2 reads level")
    decision = admit(make_request(), lacking)
    assert decision.rationale.endswith("does not hold for the principal (level, sites)")
    assert "P-2" not in decision.rationale


@pytest.mark.parametrize("stated", ["stated_revision", "stated_dataset_version"])
def test_a_stale_revision_is_told_as_a_revision(stated: str) -> None:
    decision = admit(make_request(**{stated: "old"}), permit())
    assert decision.reason is Reason.UNKNOWN_DATASET_REVISION
    assert "revision" in decision.rationale


def test_what_is_stated_and_current_stops_nothing() -> None:
    request = make_request(
        stated_revision="r1",
        stated_dataset_version="1.0",
        stated_policy_version=VERSION,
        accepted_policy_versions=frozenset({VERSION}),
        schema_version="1",
    )
    assert admit(request, permit()).verdict is Verdict.GRANTED


def test_any_policy_version_is_accepted_where_none_are_listed() -> None:
    assert admit(make_request(stated_policy_version="0"), permit()).verdict is Verdict.GRANTED


def test_data_of_exactly_the_allowed_age_are_fresh() -> None:
    age = make_descriptor().age_s(NOW)
    verdicts = [admit(make_request(max_age_s=limit), permit()).verdict for limit in (age, age - 1)]
    assert verdicts == [Verdict.GRANTED, Verdict.REFUSED]


def test_a_freshness_that_is_not_a_number_is_not_satisfied() -> None:
    assert admit(make_request(max_age_s=float("nan")), permit()).reason is Reason.FRESHNESS_UNSATISFIABLE


def test_the_capabilitys_own_freshness_counts_too() -> None:
    descriptor = make_descriptor(raw_capability(freshness_requirement_s=60))
    assert admit(make_request(descriptor=descriptor), permit()).reason is Reason.FRESHNESS_UNSATISFIABLE


@pytest.mark.parametrize(("asked", "required"), [(1e12, 60), (60, 10**12)])
def test_data_are_young_enough_for_who_asks_and_for_the_capability(asked: float, required: int) -> None:
    request = make_request(
        max_age_s=asked, descriptor=make_descriptor(raw_capability(freshness_requirement_s=required))
    )
    assert admit(request, permit()).reason is Reason.FRESHNESS_UNSATISFIABLE


def test_an_evaluator_fails_by_being_away_or_late_and_by_nothing_that_grants() -> None:
    with pytest.raises(ValueError, match="unavailable or late"):
        EvaluatorFailure(Reason.PRINCIPAL_AUTHORIZED)


@pytest.mark.parametrize("held", [("write",), ("external", "write")])
def test_a_write_needs_the_effect_among_the_principals_attributes(held: tuple[str, ...]) -> None:
    descriptor = make_descriptor(raw_capability(effect="write"))
    request = make_request(descriptor=descriptor, principal=make_principal(attributes={"effects": held}))
    assert admit(request, permit()).verdict is Verdict.GRANTED


@pytest.mark.parametrize("held", ["write", True, ("read",)])
def test_an_effect_that_is_not_listed_is_not_held(held: Any) -> None:
    descriptor = make_descriptor(raw_capability(effect="write"))
    request = make_request(descriptor=descriptor, principal=make_principal(attributes={"effects": held}))
    assert admit(request, permit()).reason is Reason.EFFECT_NOT_PERMITTED


def test_retention_that_is_shown_satisfies() -> None:
    descriptor = make_descriptor(
        raw_capability(retention_requirement={"observations": 10}), retention={"observations": 10}
    )
    assert admit(make_request(descriptor=descriptor), permit()).verdict is Verdict.GRANTED


REQUESTS = st.builds(
    make_request,
    principal=st.sampled_from(
        [None, make_principal(), make_principal(clearance=Sensitivity.PUBLIC), make_principal(tenant="other")]
    ),
    capability=st.sampled_from(["read", "drop", "other"]),
    descriptor=st.sampled_from(
        [
            None,
            InvalidDataset("plants", "broken"),
            make_descriptor(),
            make_descriptor(prohibited=["drop"]),
            make_descriptor(raw_capability(effect="write")),
            make_descriptor(raw_capability(sensitivity="restricted", policy_id="P-1"), policies=["P-1"]),
            make_descriptor(raw_capability(requires_review=True)),
            make_descriptor(raw_capability(retention_requirement={"days": 1})),
        ]
    ),
    stated_revision=st.sampled_from([None, "r1", "r0"]),
    schema_version=st.sampled_from([None, "1", "2"]),
    max_age_s=st.sampled_from([None, 1.0, 1e12]),
    now=st.floats(min_value=0, max_value=4e9),
)
ANSWERS = st.sampled_from(
    [
        permit(),
        permit("P-2", Obligations(columns=frozenset())),
        _answer(Outcome.FORBID, "P-9"),
        _answer(Outcome.NONE),
        _answer(Outcome.ERROR),
        _answer(Outcome.MISSING_ATTRIBUTE),
        UNAVAILABLE,
        LATE,
    ]
)


@settings(max_examples=300, deadline=None)
@given(request=REQUESTS, answer=ANSWERS)
def test_equal_inputs_give_an_equal_decision(
    request: AdmissionRequest, answer: PolicyAnswer | EvaluatorFailure
) -> None:
    first, again = admit(request, answer), admit(replace(request), answer)
    assert first == again
    assert first.decision_id == request.decision_id


@settings(max_examples=300, deadline=None)
@given(request=REQUESTS, answer=ANSWERS)
def test_only_a_permit_grants_and_indeterminate_names_nothing(
    request: AdmissionRequest, answer: PolicyAnswer | EvaluatorFailure
) -> None:
    decision = admit(request, answer)
    if decision.verdict is Verdict.GRANTED:
        assert isinstance(answer, PolicyAnswer)
        assert answer.outcome is Outcome.PERMIT
        assert decision.policy_id == answer.policy_id
    if decision.verdict is Verdict.INDETERMINATE:
        assert decision.policy_id is None
    if decision.verdict is Verdict.REFUSED:
        assert decision.policy_id


@settings(max_examples=200, deadline=None)
@given(request=REQUESTS, answer=ANSWERS)
def test_an_explanation_ends_with_the_rule_that_decided(
    request: AdmissionRequest, answer: PolicyAnswer | EvaluatorFailure
) -> None:
    decision, told = admit(request, answer), explain(request, answer)
    assert [outcome.rule for outcome in told] == [rule.name for rule in RULES[: len(told)]]
    assert all(outcome.passed for outcome in told[:-1])
    assert told[-1].passed == (decision.verdict is Verdict.GRANTED)
    if not told[-1].passed:
        assert (told[-1].policy_id, told[-1].rationale) == (decision.policy_id, decision.rationale)


@pytest.mark.parametrize("number", range(8), ids=[reason.value for reason, _, _ in BROKEN[:8]])
async def test_rules_before_the_policies_do_not_ask_them(number: int) -> None:
    evaluator = Scripted(permit())
    decision = await decide(_broken(number)[0], evaluator)
    assert decision.reason is BROKEN[number][0]
    assert evaluator.questions == []


async def test_the_policies_are_asked_about_this_services_own_descriptor() -> None:
    evaluator = Scripted(permit())
    await decide(make_request(), evaluator)
    (question,) = evaluator.questions
    assert (question.dataset, question.capability, question.tenant) == ("plants", "read", "acme")
    assert question.principal == make_principal()


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (EvaluatorTimeout("late"), Reason.EVALUATOR_TIMEOUT),
        (EvaluatorUnavailable("gone"), Reason.EVALUATOR_UNAVAILABLE),
        (RuntimeError("a bug"), Reason.EVALUATOR_UNAVAILABLE),
        (KeyError("x"), Reason.EVALUATOR_UNAVAILABLE),
    ],
)
async def test_whatever_an_evaluator_throws_is_indeterminate(error: Exception, reason: Reason) -> None:
    decision = await decide(make_request(), Scripted(error))
    assert (decision.verdict, decision.reason, decision.policy_id) == (Verdict.INDETERMINATE, reason, None)


async def test_every_decision_states_the_policy_version() -> None:
    asked = await decide(make_request(policy_version="old"), Scripted(permit()))
    unasked = await decide(make_request(principal=None, policy_version="old"), Scripted(permit()))
    assert (asked.policy_version, unasked.policy_version) == (VERSION, "old")


SHIPPED = {
    ("process_engineer", "compare_batches"): (Reason.PRINCIPAL_AUTHORIZED, "BPD-DATA-014"),
    ("process_engineer", "detect_outliers"): (Reason.PRINCIPAL_AUTHORIZED, "BPD-DATA-021"),
    ("process_engineer", "delete_source"): (Reason.PROHIBITED_OPERATION, "AD-POL-004"),
    ("process_engineer", "export"): (Reason.UNREGISTERED_CAPABILITY, "AD-POL-003"),
    ("analyst", "compare_batches"): (Reason.PRINCIPAL_AUTHORIZED, "BPD-DATA-014"),
    ("analyst", "detect_outliers"): (Reason.INSUFFICIENT_PRIVILEGE, "AD-POL-005"),
    ("clinical_reviewer", "compare_batches"): (Reason.INSUFFICIENT_PRIVILEGE, "AD-POL-005"),
    ("external_auditor", "compare_batches"): (Reason.INSUFFICIENT_PRIVILEGE, "BPD-DATA-009"),
    ("external_auditor", "search"): (Reason.CLASSIFICATION_EXCEEDS_CLEARANCE, "AD-POL-006"),
}


@pytest.mark.parametrize(("name", "capability"), SHIPPED)
async def test_the_shipped_world_decides_as_published(name: str, capability: str) -> None:
    evaluator = InProcessEvaluator(load_policies(DATASETS / "policies"), 5)
    request = make_request(
        principal=load_directory(DATASETS / "principals.yaml").named(name),
        dataset="purification-batches",
        capability=capability,
        descriptor=load_registry(DATASETS).lookup("purification-batches"),
    )
    decision = await decide(request, evaluator)
    assert (decision.reason, decision.policy_id) == SHIPPED[name, capability]


async def test_an_entitlement_above_clearance_is_refused_by_classification() -> None:
    analyst = load_directory(DATASETS / "principals.yaml").named("analyst")
    assert analyst is not None
    entitled = replace(analyst, entitlements={"purification-batches": frozenset({"detect_outliers"})})
    request = make_request(
        principal=entitled,
        dataset="purification-batches",
        capability="detect_outliers",
        descriptor=load_registry(DATASETS).lookup("purification-batches"),
    )
    decision = await decide(request, InProcessEvaluator(load_policies(DATASETS / "policies"), 5))
    assert (decision.reason, decision.policy_id) == (Reason.CLASSIFICATION_EXCEEDS_CLEARANCE, "AD-POL-006")


def test_an_entitlement_without_a_policy_grants_nothing(tmp_path: Path) -> None:
    decision = admit(make_request(), _answer(Outcome.NONE))
    assert (decision.verdict, decision.policy_id) == (Verdict.REFUSED, "AD-POL-005")


def test_the_judging_modules_reach_no_clock_no_io_and_no_model() -> None:
    forbidden = {"time", "datetime", "os", "httpx", "asyncio", "random", "google", "litellm", "openai"}
    for module in (admission, admission_memo, admission_rules):
        tree = ast.parse(inspect.getsource(module))
        names = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        names |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        assert not {name.split(".")[0] for name in names} & forbidden
