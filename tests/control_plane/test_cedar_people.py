"""What is parsed once of a person is never another person's, nor that of the same person as the directory had it before."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest

from contract.principal import Principal
from contract.scope import Sensitivity
from control_plane import cedar_people
from control_plane.cedar_people import People
from control_plane.descriptor import Effect
from control_plane.policy import Outcome, PolicyRequest, PolicySet, load_policies
from tests.control_plane.control_plane_world import make_principal

SCHEMA = """
entity Principal = {
  tenant: String, principal_class: String, clearance: String, attributes: { sites: Set<String> },
};
entity Dataset;
type Request = { entitled: Bool, effect: String, sensitivity: String, tenant: String };
action search, compare appliesTo { principal: [Principal], resource: [Dataset], context: Request };
"""
TEXT = """
@id("P-SITES") @rows("{\\"t.site\\": {\\"one_of\\": {\\"principal\\": \\"sites\\"}}}")
permit (principal, action, resource) when { principal.principal_class == "analyst" };
@id("P-HALF") @columns("[\\"t.site\\"]")
permit (principal, action == Action::"compare", resource);
"""


@pytest.fixture
def policies(tmp_path: Path) -> PolicySet:
    (tmp_path / "version").write_text("1", encoding="utf-8")
    (tmp_path / "s.cedarschema").write_text(SCHEMA, encoding="utf-8")
    (tmp_path / "p.cedar").write_text(TEXT, encoding="utf-8")
    return load_policies(tmp_path)


def person(*sites: str, principal_class: str = "analyst") -> Principal:
    attributes = MappingProxyType({"sites": sites})
    return replace(make_principal(), principal_class=principal_class, attributes=attributes)


def ask(principal: Principal, capability: str = "search", policy_id: str | None = None) -> PolicyRequest:
    return PolicyRequest(principal, "d", capability, Effect.READ, Sensitivity.INTERNAL, "acme", policy_id)


def test_the_same_policies_bind_each_person_to_their_own_rows(policies: PolicySet) -> None:
    people = {site: person(site) for site in ("Cork", "Dublin", "Basel")}
    for _ in range(2):
        for site, principal in people.items():
            rows = policies.evaluate(ask(principal)).obligations.rows
            assert rows["t.site"].one_of == frozenset({site})


def test_a_person_whose_attributes_changed_is_bound_by_what_they_are_now(policies: PolicySet) -> None:
    before = person("Cork")
    assert policies.evaluate(ask(before)).outcome is Outcome.PERMIT
    now = replace(before, attributes=MappingProxyType({"sites": ("Basel",)}))
    assert policies.evaluate(ask(now)).obligations.rows["t.site"].one_of == frozenset({"Basel"})
    demoted = replace(before, principal_class="visitor")
    assert policies.evaluate(ask(demoted)).outcome is Outcome.NONE


def test_what_one_policy_permits_is_no_answer_where_two_do(policies: PolicySet) -> None:
    principal = person("Cork")
    one, two = policies.evaluate(ask(principal)), policies.evaluate(ask(principal, "compare"))
    assert one.obligations.columns is None
    assert two.obligations.columns == frozenset({"t.site"})
    assert policies.evaluate(ask(principal)) == one


def test_the_policy_that_governs_the_capability_is_the_one_that_is_named(policies: PolicySet) -> None:
    principal = person("Cork")
    named = [policies.evaluate(ask(principal, "compare", governing)).policy_id for governing in (None, "P-SITES")]
    assert named == ["P-HALF", "P-SITES"]


def test_an_attribute_that_is_missing_is_missing_each_time(policies: PolicySet) -> None:
    principal = replace(person(), attributes=MappingProxyType({}))
    for _ in range(2):
        assert policies.evaluate(ask(principal)).outcome is Outcome.MISSING_ATTRIBUTE


def test_people_are_parsed_once_and_not_all_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cedar_people, "MAX_PEOPLE", 4)
    people = People()
    first = person("Cork")
    assert people.known(first) is people.known(first)
    for _ in range(20):
        made = person("Cork")
        assert people.known(made).principal is made
    assert len(people._held) <= 4


def test_what_is_kept_of_one_person_is_bounded(policies: PolicySet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cedar_people, "MAX_PERMITS", 4)
    principal = person("Cork")
    for number in range(20):
        assert policies.evaluate(ask(principal, policy_id=f"P-{number}")).policy_id == "P-SITES"
    assert len(policies._people.known(principal)._permits) <= 4
