"""When rows that were made earlier, or for another request, are those that would be made now."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from contract.scope import Sensitivity
from contract.verdict import Decision, Reason
from remote_agent.outcome import BoundCall
from remote_agent.standing import same_policy, same_rows, same_template
from tests.authority_builder import make_authority


def test_equal_authorities_that_came_about_by_different_grants_and_decisions_have_the_same_rows() -> None:
    one, other = make_authority(), make_authority()
    assert one.decision.decision_id != other.decision.decision_id
    assert same_rows(one, other)
    assert same_rows(one, one)


def test_what_has_no_authority_has_no_rows_in_common_with_anybody() -> None:
    assert not same_rows(None, make_authority())


@pytest.mark.parametrize(
    "change",
    [
        {"subject": "u-other"},
        {"tenant": "other"},
        {"principal_class": "analyst"},
        {"sensitivity": Sensitivity.RESTRICTED},
        {"rows": {"t.c": {"one_of": ["a"]}}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_another_person_class_sensitivity_or_narrowing_has_other_rows(change: dict[str, Any]) -> None:
    assert not same_rows(make_authority(), make_authority(**change))
    assert not same_rows(make_authority(**change), make_authority())


def decided(policy: str, version: str) -> Any:
    return SimpleNamespace(decision=Decision(Reason.PRINCIPAL_AUTHORIZED, policy, version, "it is permitted"))


@pytest.mark.parametrize(
    ("policy", "version", "same"), [("P", "1", True), ("Q", "1", False), ("P", "2", False), ("Q", "2", False)]
)
def test_the_same_policy_is_one_id_in_one_version(policy: str, version: str, same: bool) -> None:
    assert same_policy(decided("P", "1"), decided(policy, version)) is same


def calling(digest: str) -> BoundCall:
    capability = SimpleNamespace(template=SimpleNamespace(digest=digest))
    return cast(BoundCall, SimpleNamespace(place=lambda: (None, capability)))


def test_the_same_template_is_one_text() -> None:
    assert same_template(calling("a"), calling("a"))
    assert not same_template(calling("a"), calling("b"))
