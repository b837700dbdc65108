"""What a policy set answers: errors first, forbids before permits, obligations met together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from contract.scope import Mask, Obligations, Sensitivity
from control_plane.policy import Outcome, PolicyAnswer, PolicyRequest, load_policies
from control_plane.principals import load_directory
from control_plane.registry import load_registry
from tests.control_plane.control_plane_world import DATASETS, make_policies, make_principal, make_question

PERMIT = '@id("P-1") permit (principal, action, resource) when { context.entitled };'
ANYBODY = "permit (principal, action, resource);"


def _with(text: str) -> str:
    return text.replace("'", '\\"')


def test_a_permit_is_named(tmp_path: Path) -> None:
    answer = make_policies(tmp_path, PERMIT).evaluate(make_question())
    assert (answer.outcome, answer.policy_id, answer.policy_version) == (Outcome.PERMIT, "P-1", "2026.09.01")


def test_no_match_names_nothing(tmp_path: Path) -> None:
    answer = make_policies(tmp_path, PERMIT).evaluate(make_question(capability="compare"))
    assert (answer.outcome, answer.policy_id) == (Outcome.NONE, None)


def test_a_forbid_wins_over_a_permit_and_is_named(tmp_path: Path) -> None:
    forbid = '@id("P-0") forbid (principal, action, resource) when { principal.principal_class == "gardener" };'
    answer = make_policies(tmp_path, PERMIT, forbid).evaluate(make_question())
    assert (answer.outcome, answer.policy_id) == (Outcome.FORBID, "P-0")


def test_a_forbid_that_fails_is_an_error_although_cedar_would_allow(tmp_path: Path) -> None:
    overflow = "principal.attributes.level + 9223372036854775807 > 0"
    forbid = f'@id("P-2") forbid (principal, action, resource) when {{ {overflow} }};'
    question = make_question(principal=make_principal(attributes={"level": 9}))
    answer = make_policies(tmp_path, PERMIT, forbid).evaluate(question)
    assert (answer.outcome, answer.policy_id) == (Outcome.ERROR, None)


def test_an_attribute_the_principal_lacks_is_missing_and_not_a_default(tmp_path: Path) -> None:
    forbid = '@id("P-2") forbid (principal, action, resource) when { principal.attributes.site == "north" };'
    answer = make_policies(tmp_path, PERMIT, forbid).evaluate(make_question())
    assert (answer.outcome, answer.policy_id) == (Outcome.MISSING_ATTRIBUTE, None)
    assert (answer.detail, answer.attributes) == ("P-2 reads attribute site", ("site",))


def test_an_attribute_of_another_type_than_the_schema_says_is_an_error(tmp_path: Path) -> None:
    policy = '@id("P-2") permit (principal, action, resource) when { principal.attributes.level > 3 };'
    question = make_question(principal=make_principal(attributes={"level": "high"}))
    assert make_policies(tmp_path, policy).evaluate(question).outcome is Outcome.ERROR


def test_a_missing_attribute_beside_another_failure_is_an_error(tmp_path: Path) -> None:
    policies = make_policies(
        tmp_path,
        '@id("P-2") permit (principal, action, resource) when { principal.attributes.level > 3 };',
        '@id("P-3") permit (principal, action, resource) when { principal.attributes.site == "x" };',
    )
    question = make_question(principal=make_principal(attributes={"level": "high"}))
    assert policies.evaluate(question).outcome is Outcome.ERROR


def test_a_policy_about_one_dataset_is_not_evaluated_for_another(tmp_path: Path) -> None:
    about = (
        '@id("P-2") permit (principal, action, resource == Dataset::"trees") when { principal.attributes.level > 3 };'
    )
    assert make_policies(tmp_path, PERMIT, about).evaluate(make_question()).outcome is Outcome.PERMIT


def test_a_value_cedar_cannot_hold_is_an_error_and_no_exception(tmp_path: Path) -> None:
    question = make_question(principal=make_principal(attributes={"level": 2**70}))
    assert make_policies(tmp_path, PERMIT).evaluate(question).outcome is Outcome.ERROR


def test_the_governing_policy_is_named_where_several_permit(tmp_path: Path) -> None:
    policies = make_policies(tmp_path, PERMIT, PERMIT.replace("P-1", "P-9"))
    assert policies.evaluate(make_question()).policy_id == "P-1"
    assert policies.evaluate(make_question(policy_id="P-9")).policy_id == "P-9"


def test_obligations_of_all_matching_permits_hold_together(tmp_path: Path) -> None:
    first = _with(
        "@rows(\"{'plants.site': {'one_of': ['a', 'b']}}\") @columns(\"['plants.id', 'plants.site']\")"
        " @mask(\"{'plants.id': 'truncate'}\") "
    )
    second = _with(
        "@rows(\"{'plants.site': {'one_of': ['b', 'c']}}\") @columns(\"['plants.id']\") @mask(\"{'plants.id': 'hash'}\") "
    )
    policies = make_policies(tmp_path, first + PERMIT, second + PERMIT.replace("P-1", "P-2"))
    obligations = policies.evaluate(make_question()).obligations
    assert obligations.rows["plants.site"].one_of == {"b"}
    assert obligations.columns == {"plants.id"}
    assert obligations.masks == {"plants.id": Mask.HASH}


@pytest.mark.parametrize(
    ("written", "allowed"),
    [(["60"], 60), (["60", "30"], 30), (["60", None], 0), ([None, None], 0), (["604800"], 604_800)],
)
def test_past_its_time_a_result_is_answered_as_long_as_every_permit_allows(
    tmp_path: Path, written: list[str | None], allowed: int
) -> None:
    texts = [
        f'@id("P-{number}") ' + ("" if seconds is None else f'@stale("{seconds}") ') + ANYBODY
        for number, seconds in enumerate(written)
    ]
    answer = make_policies(tmp_path, *texts).evaluate(make_question())
    assert (answer.outcome, answer.obligations.stale_s) == (Outcome.PERMIT, allowed)
    assert PolicyAnswer.from_json(answer.to_json()) == answer
    assert ("stale_s" in answer.to_json()["obligations"]) == (allowed > 0)


def test_a_time_is_read_beside_rows_that_are_bound_from_the_principal(tmp_path: Path) -> None:
    rows = '@rows("{\\"plants.site\\": {\\"one_of\\": {\\"principal\\": \\"sites\\"}}}")'
    policies = make_policies(tmp_path, f'@id("P-1") @stale("60") {rows} ' + ANYBODY)
    asked = make_question(principal=make_principal(attributes={"sites": ("north",)}))
    assert policies.evaluate(asked).obligations.stale_s == 60


@pytest.mark.parametrize("told", [-1, 604_801, "60", 60.0, True, None])
def test_a_policy_server_that_allows_no_time_that_there_is_decides_nothing(told: Any) -> None:
    permit = PolicyAnswer(Outcome.PERMIT, "P-1", "1", Obligations(stale_s=60)).to_json()
    assert PolicyAnswer.from_json(permit).obligations.stale_s == 60
    permit["obligations"]["stale_s"] = told
    with pytest.raises(ValueError, match="stale_s"):
        PolicyAnswer.from_json(permit)


def test_obligations_that_cannot_hold_together_are_an_error(tmp_path: Path) -> None:
    first = _with("@rows(\"{'plants.id': {'prefix': 'a'}}\") ") + PERMIT
    second = _with("@rows(\"{'plants.id': {'prefix': 'b'}}\") ") + PERMIT.replace("P-1", "P-2")
    assert make_policies(tmp_path, first, second).evaluate(make_question()).outcome is Outcome.ERROR


def test_a_bound_row_value_comes_from_the_principal(tmp_path: Path) -> None:
    bound = _with("@rows(\"{'plants.site': {'one_of': {'principal': 'sites'}}}\") ") + PERMIT
    question = make_question(principal=make_principal(attributes={"sites": ("north", "south")}))
    answer = make_policies(tmp_path, bound).evaluate(question)
    assert answer.obligations.rows["plants.site"].one_of == {"north", "south"}


def test_two_principals_do_not_share_a_bound_value(tmp_path: Path) -> None:
    bound = _with("@rows(\"{'plants.site': {'one_of': {'principal': 'site'}}}\") ") + PERMIT
    policies = make_policies(tmp_path, bound)
    found = [
        policies.evaluate(make_question(principal=make_principal(attributes={"site": site}))).obligations.rows
        for site in ("north", "south")
    ]
    assert [rows["plants.site"].one_of for rows in found] == [{"north"}, {"south"}]


def test_a_bound_attribute_that_is_missing_is_missing(tmp_path: Path) -> None:
    bound = _with("@rows(\"{'plants.site': {'one_of': {'principal': 'sites'}}}\") ") + PERMIT
    answer = make_policies(tmp_path, bound).evaluate(make_question())
    assert (answer.outcome, answer.attributes) == (Outcome.MISSING_ATTRIBUTE, ("sites",))
    assert PolicyAnswer.from_json(answer.to_json()) == answer


def test_a_bound_attribute_of_the_wrong_type_is_an_error(tmp_path: Path) -> None:
    bound = _with("@rows(\"{'plants.site': {'prefix': {'principal': 'level'}}}\") ") + PERMIT
    question = make_question(principal=make_principal(attributes={"level": 3}))
    assert make_policies(tmp_path, bound).evaluate(question).outcome is Outcome.ERROR


def test_a_principal_of_another_issuer_with_the_same_subject_is_another_entity(tmp_path: Path) -> None:
    policy = '@id("P-1") permit (principal == Principal::"https://issuer.dataset-agent.example#u-1", action, resource);'
    policies = make_policies(tmp_path, policy)
    mine = make_principal()
    other = type(mine)(
        issuer="https://other.example",
        subject=mine.subject,
        tenant=mine.tenant,
        name=mine.name,
        principal_class=mine.principal_class,
        clearance=mine.clearance,
    )
    assert policies.evaluate(make_question(principal=mine)).outcome is Outcome.PERMIT
    assert policies.evaluate(make_question(principal=other)).outcome is Outcome.NONE


def test_an_answer_names_a_policy_exactly_where_one_decided() -> None:
    with pytest.raises(ValueError, match="names its policy"):
        PolicyAnswer(Outcome.PERMIT, None, "1")
    with pytest.raises(ValueError, match="names its policy"):
        PolicyAnswer(Outcome.ERROR, "P-1", "1")


def test_a_question_survives_json_in_all_that_a_policy_can_read(tmp_path: Path) -> None:
    principal = make_principal(attributes={"sites": ("a", "b"), "level": 3, "trained": True})
    question = make_question(principal=principal, policy_id="P-1")
    assert PolicyRequest.from_json(question.to_json()).to_json() == question.to_json()


SHIPPED = {
    ("process_engineer", "purification-batches", "search"): "BPD-DATA-014",
    ("process_engineer", "purification-batches", "compare_batches"): "BPD-DATA-014",
    ("process_engineer", "purification-batches", "calculate_yield"): "BPD-DATA-014",
    ("process_engineer", "purification-batches", "detect_outliers"): "BPD-DATA-021",
    ("process_engineer", "chromatography-results", "search"): "BPD-DATA-014",
    ("process_engineer", "chromatography-results", "aggregate"): "BPD-DATA-014",
    ("process_engineer", "chromatography-results", "run_totals"): "BPD-DATA-014",
    ("process_engineer", "purification-batches", "step_totals"): "BPD-DATA-014",
    ("analyst", "purification-batches", "search"): "BPD-DATA-014",
    ("analyst", "purification-batches", "compare_batches"): "BPD-DATA-014",
    ("analyst", "chromatography-results", "search"): "BPD-DATA-014",
    ("clinical_reviewer", "clinical-private", "search"): "BPD-CLIN-002",
    ("clinical_reviewer", "clinical-private", "aggregate"): "BPD-CLIN-002",
    ("clinical_reviewer", "purification-batches", "search"): "BPD-DATA-014",
    ("external_auditor", "purification-batches", "search"): "BPD-DATA-014",
}


def test_the_shipped_policies_permit_exactly_the_entitlements() -> None:
    policies, permitted = load_policies(DATASETS / "policies"), {}
    for principal in load_directory(DATASETS / "principals.yaml").by_name.values():
        for manifest in load_registry(DATASETS).datasets.values():
            for item in manifest.capabilities:
                question = PolicyRequest(
                    principal,
                    manifest.dataset,
                    item.name,
                    item.effect,
                    item.sensitivity,
                    manifest.tenant,
                    item.policy_id,
                )
                answer = policies.evaluate(question)
                if answer.outcome is Outcome.PERMIT:
                    permitted[principal.name, manifest.dataset, item.name] = answer.policy_id
    assert permitted == SHIPPED


def test_the_subject_identifier_is_masked_for_clinical_reviewers() -> None:
    reviewer = load_directory(DATASETS / "principals.yaml").named("clinical_reviewer")
    question = make_question(
        principal=reviewer, dataset="clinical-private", capability="search", sensitivity=Sensitivity.RESTRICTED
    )
    obligations = load_policies(DATASETS / "policies").evaluate(question).obligations
    assert obligations.masks == {"subject_observation.subject_id": Mask.HASH}
    assert obligations.columns is not None
