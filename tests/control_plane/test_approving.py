"""Who may approve: another person, of the dataset's tenant, cleared, and permitted by the same policies."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest
from pydantic import ValidationError

from contract.scope import Sensitivity
from contract.verdict import Reason, Route
from control_plane.admission import AdmissionRequest, EvaluatorFailure, Review, admit
from control_plane.approving import decide_approver
from control_plane.evaluator import EvaluatorUnavailable, InProcessEvaluator
from control_plane.policy import Outcome, PolicyAnswer, PolicyRequest
from tests.control_plane.control_plane_world import VERSION, make_descriptor, make_principal, make_request, permit
from tests.control_plane.control_plane_world import raw_capability as raw

REVIEWED = make_descriptor(raw(requires_review=True))
REQUESTER = ("https://issuer.example", "u-somebody-else")


class _Set:
    """A policy set that answers one thing, and remembers what it was asked."""

    version = VERSION

    def __init__(self, answer: PolicyAnswer | Exception) -> None:
        self.answer = answer
        self.asked: list[PolicyRequest] = []

    def evaluate(self, request: PolicyRequest) -> PolicyAnswer:
        self.asked.append(request)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


async def _decided(
    answer: PolicyAnswer | Exception | None = None, requester: tuple[str, str] = REQUESTER, **changes: Any
) -> tuple[Any, _Set]:
    policies = _Set(answer or permit())
    request = make_request(**{"descriptor": REVIEWED, **changes})
    return await decide_approver(request, requester, InProcessEvaluator(policies, 60)), policies  # type: ignore[arg-type]


async def test_policies_are_asked_about_approving_with_what_the_capability_is() -> None:
    approver = replace(make_principal(), entitlements=MappingProxyType({"plants": frozenset({"approve"})}))
    decision, policies = await _decided(principal=approver)
    (asked,) = policies.asked
    assert decision.reason is Reason.PRINCIPAL_AUTHORIZED
    assert (asked.capability, asked.entitled, asked.policy_id) == ("approve", True, None)
    assert asked.sensitivity is REVIEWED.capabilities[0].sensitivity


async def test_nobody_approves_a_call_of_their_own_whatever_the_policies_say() -> None:
    decision, policies = await _decided(requester=make_principal().key)
    assert (decision.reason, decision.policy_id) == (Reason.INSUFFICIENT_PRIVILEGE, "AD-POL-011")
    assert policies.asked == []


@pytest.mark.parametrize(
    ("changes", "answer", "reason"),
    [
        ({"principal": None}, permit(), Reason.UNKNOWN_PRINCIPAL),
        ({"principal": make_principal(tenant="other")}, permit(), Reason.INSUFFICIENT_PRIVILEGE),
        ({}, PolicyAnswer(Outcome.NONE, None, VERSION), Reason.INSUFFICIENT_PRIVILEGE),
        ({}, PolicyAnswer(Outcome.FORBID, "P-9", VERSION), Reason.INSUFFICIENT_PRIVILEGE),
        ({}, EvaluatorUnavailable("away"), Reason.EVALUATOR_UNAVAILABLE),
        ({"capability": "other"}, permit(), Reason.UNREGISTERED_CAPABILITY),
        ({"descriptor": None}, permit(), Reason.MISSING_DESCRIPTOR),
    ],
)
async def test_who_is_not_permitted_to_approve_is_told_why(
    changes: dict[str, Any], answer: Any, reason: Reason
) -> None:
    decision, _ = await _decided(answer, **changes)
    assert decision.reason is reason


async def test_an_approver_is_cleared_for_what_is_shown_to_them() -> None:
    secret = make_descriptor(raw(requires_review=True, sensitivity="restricted", policy_id="P-1"), policies=["P-1"])
    low = replace(make_principal(), clearance=Sensitivity.INTERNAL)
    decision, _ = await _decided(descriptor=secret, principal=low)
    assert decision.reason is Reason.CLASSIFICATION_EXCEEDS_CLEARANCE


async def test_what_concerns_running_it_is_not_asked_of_an_approver() -> None:
    demanding = make_descriptor(
        raw(requires_review=True, effect="write", freshness_requirement_s=1, retention_requirement={"days": 9})
    )
    decision, _ = await _decided(descriptor=demanding)
    assert decision.reason is Reason.PRINCIPAL_AUTHORIZED


def test_approve_is_no_name_of_a_capability() -> None:
    with pytest.raises(ValidationError, match="no name of a capability"):
        make_descriptor(raw(name="approve"))


def test_a_review_that_is_all_that_is_missing_is_a_route_to_a_person() -> None:
    outstanding = make_request(descriptor=REVIEWED)
    assert admit(outstanding, permit()).route is Route.GRANTED_REQUIRES_REVIEW
    for settled in (Review.GIVEN, Review.ELSEWHERE):
        assert admit(replace(outstanding, review=settled), permit()).route is Route.GRANTED


@pytest.mark.parametrize(
    "answer", [PolicyAnswer(Outcome.NONE, None, VERSION), EvaluatorFailure(Reason.EVALUATOR_TIMEOUT)]
)
def test_an_approval_settles_the_review_and_no_other_rule(answer: Any) -> None:
    def decided(request: AdmissionRequest) -> Reason:
        return admit(request, answer).reason

    reviewed = make_request(descriptor=REVIEWED)
    plain = make_request(descriptor=make_descriptor(raw()))
    assert {decided(replace(reviewed, review=review)) for review in Review} == {decided(plain)}
