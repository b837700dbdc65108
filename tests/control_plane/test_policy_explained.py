"""An explanation says what was decided, why, and what would change it; each of it is checked by deciding so."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import cedarpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contract.scope import Sensitivity
from contract.verdict import Reason, Verdict
from control_plane.admission import AdmissionRequest, EvaluatorFailure, ask_policies, decide
from control_plane.admission_rules import RULES
from control_plane.cedar_clauses import clauses, literals, text_of
from control_plane.evaluator import InProcessEvaluator
from control_plane.policy import PolicyRequest, PolicySet, load_policies
from control_plane.policy_changes import changes
from control_plane.policy_explain import Explanation, explain_call
from control_plane.policy_trace import State, trace
from control_plane.principals import load_directory
from tests.control_plane.control_plane_world import (
    DATASETS,
    make_descriptor,
    make_policies,
    make_principal,
    make_question,
    make_request,
    raw_capability,
)
from tests.shipped_registry import shipped_registry

SHIPPED = load_policies(DATASETS / "policies")
REGISTRY = shipped_registry()
DIRECTORY = load_directory(DATASETS / "principals.yaml")
CLASSES = tuple(sorted({person.principal_class for person in DIRECTORY.by_name.values()}))
TEXT = """
@id("P-1") @columns("[\\"plants.id\\"]") permit (principal, action == Action::"read", resource)
when { context.entitled && principal.principal_class == "gardener" };
@id("P-2") @mask("{\\"plants.id\\": \\"hash\\"}") permit (principal, action == Action::"read", resource) when { context.entitled };
@id("P-3") forbid (principal, action, resource) when { principal.principal_class == "stranger" } unless { context.effect == "compute" };
@id("P-4") permit (principal, action == Action::"count", resource) when { principal.attributes.level > 3 };
@id("P-5") @rows("{\\"plants.site\\": {\\"one_of\\": {\\"principal\\": \\"sites\\"}}}") permit (principal, action == Action::"compare", resource);
@id("P-6") permit (principal, action, resource == Dataset::"trees");
"""


async def _ask(policies: PolicySet | None, question: PolicyRequest) -> Any:
    assert policies is not None
    return await ask_policies(InProcessEvaluator(policies, 60), question)


def _explained(request: AdmissionRequest, policies: PolicySet, **options: Any) -> Explanation:
    return asyncio.run(explain_call(request, _ask, policies, **options))


def _shipped(name: str, dataset: str, capability: str, **changes: Any) -> AdmissionRequest:
    return make_request(
        principal=DIRECTORY.named(name),
        dataset=dataset,
        capability=capability,
        descriptor=REGISTRY.lookup(dataset),
        policy_version=SHIPPED.version,
        **changes,
    )


CALLS = [
    _shipped(person, dataset, capability)
    for person in (*DIRECTORY.by_name, "nobody")
    for dataset, names in {
        "purification-batches": ["search", "compare_batches", "detect_outliers", "delete_source", "export"],
        "clinical-private": ["search"],
        "nowhere": ["search"],
    }.items()
    for capability in names
]


@pytest.mark.parametrize(
    "request_", CALLS, ids=lambda r: f"{r.principal and r.principal.name}-{r.dataset}-{r.capability}"
)
def test_an_explanation_explains_the_decision_that_is_made(request_: AdmissionRequest) -> None:
    one = _explained(request_, SHIPPED, classes=CLASSES)
    assert one.decision == asyncio.run(decide(request_, InProcessEvaluator(SHIPPED, 60)))
    reached = [rule for rule in one.rules if rule.status != "not reached"]
    assert len(one.rules) == len(RULES)
    assert [rule.status for rule in reached[:-1]] == ["holds"] * (len(reached) - 1)
    if one.decision.verdict is Verdict.GRANTED:
        assert reached[-1].status == "holds"
        assert len(reached) == len(RULES)
    else:
        assert (reached[-1].status, reached[-1].rationale) == ("decides", one.decision.rationale)


@pytest.mark.parametrize("request_", CALLS[:6], ids=lambda r: f"{r.principal.name}-{r.capability}")
def test_every_change_that_is_told_changes_the_decision_so(request_: AdmissionRequest) -> None:
    one = _explained(request_, SHIPPED, classes=CLASSES)
    possible = {change.text: change for change in changes(request_, SHIPPED.about(request_.dataset), CLASSES)}
    for effect in one.effects:
        (text,) = effect.changed
        if not text.startswith("without the policy"):
            again = asyncio.run(decide(possible[text].request, InProcessEvaluator(SHIPPED, 60)))
            assert replace(again, decision_id="") == replace(effect.decision, decision_id="")
        assert effect.decision.reason is not one.decision.reason or effect.decision.policy_id != one.decision.policy_id


def test_two_facts_that_must_both_change_are_found_together() -> None:
    one = _explained(_shipped("analyst", "purification-batches", "detect_outliers"), SHIPPED, classes=CLASSES)
    assert one.decision.reason is Reason.INSUFFICIENT_PRIVILEGE
    assert [effect.changed for effect in one.ways] == [("entitled to the capability", "cleared for confidential")]
    assert all(effect.decision.verdict is Verdict.REFUSED for effect in one.effects)


def test_no_change_of_a_person_undoes_what_is_prohibited() -> None:
    one = _explained(_shipped("process_engineer", "purification-batches", "delete_source"), SHIPPED, classes=CLASSES)
    assert one.decision.reason is Reason.PROHIBITED_OPERATION
    assert one.ways == ()
    assert [effect.changed for effect in one.effects] == [("prohibited without it",)]
    assert (one.asked, one.answer, one.policies) == (None, None, ())


def test_a_forbid_is_shown_with_what_would_hold_without_it() -> None:
    one = _explained(_shipped("external_auditor", "purification-batches", "compare_batches"), SHIPPED, classes=CLASSES)
    states = {trace.policy.policy_id: trace.state for trace in one.policies}
    assert states["BPD-DATA-009"] is State.MATCHES
    without = next(effect for effect in one.effects if effect.changed == ("without the policy BPD-DATA-009",))
    assert (without.decision.policy_id, without.of_person) == ("AD-POL-005", False)


def _states(policies: PolicySet, **changes: Any) -> dict[str, tuple[State, tuple[str, ...], tuple[str, ...]]]:
    traced = trace(policies, make_question(**changes))
    return {one.policy.policy_id: (one.state, one.unmet, one.lacks) for one in traced}


def test_each_policy_says_what_kept_it_from_matching(tmp_path: Path) -> None:
    policies = make_policies(tmp_path, TEXT)
    stranger = make_principal(principal_class="stranger", entitlements={})
    assert _states(policies, principal=stranger) == {
        "P-1": (State.UNMET, ("context.entitled", 'principal.principal_class == "gardener"'), ()),
        "P-2": (State.UNMET, ("context.entitled",), ()),
        "P-3": (State.MATCHES, (), ()),
        "P-4": (State.OTHER_SCOPE, (), ()),
        "P-5": (State.OTHER_SCOPE, (), ()),
    }


def test_an_attribute_that_is_missing_is_named_with_its_policy(tmp_path: Path) -> None:
    policies = make_policies(tmp_path, TEXT)
    assert _states(policies, capability="count")["P-4"] == (State.MISSING_ATTRIBUTE, (), ("level",))
    assert _states(policies, capability="compare")["P-5"] == (State.MISSING_ATTRIBUTE, (), ("sites",))
    text = make_principal(attributes={"level": "3"})
    assert _states(policies, capability="count", principal=text)["P-4"][0] is State.FAILED
    endless = make_principal(attributes={"level": 2**70})
    assert {state for state, _, _ in _states(policies, principal=endless).values()} == {State.FAILED}


def test_an_unless_is_told_as_a_whole(tmp_path: Path) -> None:
    policies = make_policies(tmp_path, TEXT)
    question = make_question(principal=make_principal(principal_class="stranger"))
    from_wire = PolicyRequest.from_json(question.to_json() | {"effect": "compute"})
    unmet = {one.policy.policy_id: one.unmet for one in trace(policies, from_wire)}
    assert unmet["P-3"] == ('unless context.effect == "compute"',)


def test_obligations_are_told_of_each_permit_and_together(tmp_path: Path) -> None:
    one = _explained(make_request(), make_policies(tmp_path, TEXT))
    demanded = {trace.policy.policy_id: trace.obligations for trace in one.policies if trace.obligations is not None}
    assert set(demanded) == {"P-1", "P-2"}
    assert demanded["P-1"].meet(demanded["P-2"]) == one.decision.obligations
    without = {effect.changed[0]: effect.decision.obligations for effect in one.effects}
    assert without["without the policy P-2"] == demanded["P-1"]


@pytest.mark.parametrize(
    ("capability", "changed", "reason"),
    [
        ("count", "with the attribute level 4", Reason.PRINCIPAL_AUTHORIZED),
        ("count", "with the attribute level 3", Reason.INSUFFICIENT_PRIVILEGE),
        ("compare", "with the attribute sites [(any)]", Reason.PRINCIPAL_AUTHORIZED),
    ],
)
def test_a_missing_attribute_is_tried_with_the_values_that_policies_compare_with(
    tmp_path: Path, capability: str, changed: str, reason: Reason
) -> None:
    descriptor = make_descriptor(raw_capability(capability))
    one = _explained(make_request(capability=capability, descriptor=descriptor), make_policies(tmp_path, TEXT))
    assert one.decision.reason is Reason.MISSING_PRINCIPAL_ATTRIBUTE
    assert {effect.changed[0]: effect.decision.reason for effect in one.effects}[changed] is reason


@pytest.mark.parametrize(
    ("capability", "request_changes", "changed"),
    [
        ({"requires_review": True}, {}, "the capability without requires_review"),
        ({"requires_review": True}, {}, "approved by another person"),
        ({"retention_requirement": {"days": 1}}, {}, "the capability without retention_requirement"),
        ({"freshness_requirement_s": 1}, {}, "the capability without freshness_requirement_s"),
        ({"policy_id": "P-9"}, {}, "the capability without policy_id"),
        ({"effect": "write"}, {}, "with the attribute effects [write]"),
        ({}, {"max_age_s": 1.0}, "any age of the data accepted"),
        ({}, {"schema_version": "9"}, "no other schema version expected"),
        ({}, {"stated_revision": "r0"}, "no other revision relied on"),
        ({}, {"stated_dataset_version": "0"}, "no other dataset version relied on"),
        (
            {},
            {"stated_policy_version": "0", "accepted_policy_versions": frozenset()},
            "no unlisted policy version relied on",
        ),
    ],
)
def test_whatever_stops_a_call_is_found_as_what_would_let_it_go_on(
    tmp_path: Path, capability: dict[str, Any], request_changes: dict[str, Any], changed: str
) -> None:
    governed = [capability["policy_id"]] if "policy_id" in capability else []
    descriptor = make_descriptor(raw_capability(**capability), policies=governed)
    one = _explained(make_request(descriptor=descriptor, **request_changes), make_policies(tmp_path, TEXT))
    assert one.decision.verdict is not Verdict.GRANTED
    granting = [effect.changed for effect in one.effects if effect.decision.verdict is Verdict.GRANTED]
    assert (changed,) in granting


def test_a_tenant_and_a_clearance_are_found(tmp_path: Path) -> None:
    policies = make_policies(tmp_path, TEXT)
    descriptor = make_descriptor(raw_capability(sensitivity="confidential", policy_id="P-2"), policies=["P-2"])
    for changes_, changed in (({"tenant": "other"}, "of the tenant acme"), ({}, "cleared for confidential")):
        person = make_principal(clearance=Sensitivity.CONFIDENTIAL if changes_ else Sensitivity.INTERNAL, **changes_)
        one = _explained(make_request(principal=person, descriptor=descriptor), policies)
        granting = [effect.changed for effect in one.effects if effect.decision.verdict is Verdict.GRANTED]
        assert (changed,) in granting


def test_an_evaluator_that_fails_is_explained_as_that(tmp_path: Path) -> None:
    async def late(policies: PolicySet | None, question: PolicyRequest) -> EvaluatorFailure:
        return EvaluatorFailure(Reason.EVALUATOR_TIMEOUT)

    one = asyncio.run(explain_call(make_request(), late, None, known=make_policies(tmp_path, TEXT)))
    assert (one.decision.reason, one.decision.policy_id) == (Reason.EVALUATOR_TIMEOUT, None)
    assert one.rules[8].reads["answer"] == {"failed": "EVALUATOR_TIMEOUT"}
    assert not any(effect.changed[0].startswith("without the policy") for effect in one.effects)


@pytest.mark.parametrize(("version", "shown"), [("2026.09.01", True), ("7", False)])
def test_the_policies_here_are_shown_of_a_server_that_answers_under_their_version(
    tmp_path: Path, version: str, shown: bool
) -> None:
    policies = make_policies(tmp_path, TEXT)

    async def server(_: PolicySet | None, question: PolicyRequest) -> Any:
        return replace(policies.evaluate(question), policy_version=version)

    one = asyncio.run(explain_call(make_request(), server, None, known=policies))
    assert bool(one.policies) is shown
    assert one.decision.policy_version == version


def test_nothing_that_a_rule_read_is_a_name_of_a_person_or_an_identity(tmp_path: Path) -> None:
    person = make_principal(subject="very-own-subject")
    one = _explained(make_request(principal=person), make_policies(tmp_path, TEXT))
    assert "very-own-subject" not in str([rule.reads for rule in one.rules])


CONDITIONS = [
    "context.entitled",
    "!context.entitled",
    'principal.principal_class == "a \\"b\\" (c)"',
    "principal.attributes.level + 1 > 3 - 2",
    "(principal.attributes.level > 1 || context.entitled) == true",
    'principal.attributes.sites.contains("x")',
    'principal.attributes.sites.containsAny(["x", "y"])',
    'principal.attributes has site && principal.attributes.site like "n*"',
    'if context.entitled then context.effect == "read" else false',
    'action in [Action::"read", Action::"count"]',
    'resource == Dataset::"plants"',
    "principal.attributes.level * 2 == -4",
]


def _document(condition: str) -> Any:
    text = f"permit (principal, action, resource) when {{ {condition} }};"
    return json.loads(cedarpy.policies_to_json_str(text))["staticPolicies"]["policy0"]


def _flat(node: Any) -> Any:
    """Chains of && and of || as lists: ``a && (b && c)`` is ``(a && b) && c``."""
    if isinstance(node, list):
        return [_flat(item) for item in node]
    if not isinstance(node, dict):
        return node
    (name, *_) = node
    if name in ("&&", "||"):
        sides = [_flat(node[name][side]) for side in ("left", "right")]
        return [name, *(part for side in sides for part in (side[1:] if side[:1] == [name] else [side]))]
    return [[key, _flat(value)] for key, value in sorted(node.items())]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(CONDITIONS), min_size=1, max_size=4), st.sampled_from(["&&", "||"]))
def test_the_text_of_a_condition_is_cedar_that_means_the_same(parts: list[str], joint: str) -> None:
    document = _document(f" {joint} ".join(f"({part})" for part in parts))
    (condition,) = document["conditions"]
    (again,) = _document(text_of(condition["body"]))["conditions"]
    assert _flat(again["body"]) == _flat(condition["body"])


def test_clauses_are_the_conjuncts_of_a_condition() -> None:
    document = _document(
        "context.entitled && (principal.attributes.level > 1 || context.entitled) && !context.entitled"
    )
    assert [clause.text for clause in clauses(document)] == [
        "context.entitled",
        "(principal.attributes.level > 1) || context.entitled",
        "!context.entitled",
    ]


def test_literals_are_those_that_facts_of_a_person_are_compared_with() -> None:
    document = _document(
        'principal.attributes.level > 3 && ["a", "b"].contains(principal.principal_class) && context.effect == "read"'
        ' && principal.attributes.sites.contains("x") && "north" == principal.attributes.site'
    )
    assert sorted(literals(document), key=str) == [
        ("attributes.level", 3),
        ("attributes.site", "north"),
        ("attributes.sites", "x"),
        ("principal_class", "a"),
        ("principal_class", "b"),
    ]
