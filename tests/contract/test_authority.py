"""An authority is what a verified grant and a granted decision allow together, and there is no other way to one."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from typing import Any

import pytest

from contract.authority import Authority
from contract.grant import VerifiedGrant
from contract.scope import Obligations, Sensitivity, parse_rows
from contract.verdict import Decision, NotGranted, Reason
from tests.authority_builder import make_authority, make_grant


def of(authority: Authority, **changes: Any) -> Authority:
    """``Authority.of`` with what made ``authority``, one argument changed."""
    given: dict[str, Any] = {
        "grant": authority.grant,
        "decision": authority.decision,
        "principal": authority.principal,
        "scope": authority.scope,
        "capability": authority.capability,
        "schema_version": authority.schema_version,
        "sensitivity": authority.sensitivity,
        **changes,
    }
    return Authority.of(given.pop("grant"), given.pop("decision"), given.pop("principal"), **given)


def refusal(authority: Authority, **changes: Any) -> Reason:
    with pytest.raises(NotGranted) as stop:
        of(authority, **changes)
    return stop.value.reason


@pytest.fixture
def authority() -> Authority:
    return make_authority()


def test_the_same_grant_and_decision_make_the_same_authority(authority: Authority) -> None:
    assert of(authority) == authority


def test_an_authority_is_not_made_by_hand(authority: Authority) -> None:
    members = {field.name: getattr(authority, field.name) for field in dataclasses.fields(authority)}
    with pytest.raises(TypeError, match=r"Authority\.of"):
        Authority(**members, proof=object())


def test_a_verified_grant_is_not_made_by_hand(authority: Authority) -> None:
    grant = authority.grant
    members = {field.name: getattr(grant, field.name) for field in dataclasses.fields(grant)}
    with pytest.raises(TypeError, match=r"grants\.verify"):
        VerifiedGrant(**members, proof=object())


@pytest.mark.parametrize("reason", [Reason.INSUFFICIENT_PRIVILEGE, Reason.EVALUATOR_TIMEOUT])
def test_a_decision_that_is_not_granted_makes_none(authority: Authority, reason: Reason) -> None:
    assert refusal(authority, decision=Decision(reason, None, "1", "no")) is reason


def test_a_discovery_grant_makes_none(authority: Authority) -> None:
    assert refusal(authority, grant=make_grant(None), scope=None) is Reason.NO_ACTIVE_GRANT


def test_a_scope_that_is_not_the_grants_makes_none(authority: Authority) -> None:
    other = replace(authority.scope, dataset="clinical-private")
    assert refusal(authority, scope=other) is Reason.NO_ACTIVE_GRANT


@pytest.mark.parametrize("member", ["issuer", "subject", "tenant"])
def test_a_decision_about_another_person_makes_none(authority: Authority, member: str) -> None:
    other = replace(authority.principal, **{member: "https://other.example"})
    assert refusal(authority, principal=other) is Reason.NO_ACTIVE_GRANT


def test_a_capability_outside_the_scope_makes_none(authority: Authority) -> None:
    assert refusal(authority, capability="export") is Reason.GRANT_WIDENED


def test_a_capability_more_sensitive_than_the_scope_makes_none() -> None:
    authority = make_authority(max_sensitivity=Sensitivity.INTERNAL)
    assert refusal(authority, sensitivity=Sensitivity.CONFIDENTIAL) is Reason.GRANT_WIDENED


def test_constraints_that_cannot_hold_together_make_none() -> None:
    authority = make_authority(grant_rows={"batches.lot": {"prefix": "B"}})
    rows = parse_rows({"batches.lot": {"prefix": "C"}})
    decision = replace(authority.decision, obligations=Obligations(rows=rows))
    assert refusal(authority, decision=decision) is Reason.GRANT_WIDENED
