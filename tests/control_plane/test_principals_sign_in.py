"""Whose an identity of a provider is, and what its claims may add to what the directory says."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.errors import DatasetAgentError
from contract.principal import Principal
from contract.scope import Sensitivity
from contract.verdict import NotGranted, Reason
from control_plane.principals import Directory, load_directory, with_claims
from tests.control_plane.control_plane_world import ISSUER

IDP = "https://idp.example/realms/acme"
ANN = """\
  - name: ann
    subject: u-1
    tenant: acme
    principal_class: gardener
    clearance: internal
    signs_in_as: [{issuer: "https://idp.example/realms/acme", subject: 8f3c}, {issuer: "https://old.example", subject: a1}]
"""
BOB = "  - {name: bob, subject: u-2, tenant: acme, principal_class: gardener, clearance: public%s}\n"


def _load(folder: Path, *entries: str) -> Directory:
    path = folder / "principals.yaml"
    path.write_text(f"issuer: {ISSUER}\nprincipals:\n" + "".join(entries), encoding="utf-8")
    return load_directory(path)


@pytest.mark.parametrize("identity", [(IDP, "8f3c"), ("https://old.example", "a1"), (ISSUER, "u-1")])
def test_a_listed_identity_signs_in_as_its_principal(tmp_path: Path, identity: tuple[str, str]) -> None:
    found = _load(tmp_path, ANN, BOB % "").signed_in(*identity)
    assert found is not None and found.key == (ISSUER, "u-1")


@pytest.mark.parametrize(
    "identity",
    [
        (IDP, "8F3C"),
        (IDP + "/", "8f3c"),
        (IDP, "u-1"),
        (IDP, "ann"),
        (IDP, "a1"),
        (ISSUER, "8f3c"),
        ("https://old.example", "8f3c"),
        (IDP, ""),
    ],
)
def test_nothing_but_the_exact_identity_signs_anyone_in(tmp_path: Path, identity: tuple[str, str]) -> None:
    assert _load(tmp_path, ANN, BOB % "").signed_in(*identity) is None


def test_a_grant_finds_nobody_by_a_providers_identity(tmp_path: Path) -> None:
    assert _load(tmp_path, ANN).find(IDP, "8f3c") is None


@pytest.mark.parametrize(
    "taken",
    [
        ', signs_in_as: [{issuer: "https://idp.example/realms/acme", subject: 8f3c}]',
        f', signs_in_as: [{{issuer: "{ISSUER}", subject: u-1}}]',
        f', signs_in_as: [{{issuer: "{ISSUER}", subject: u-2}}]',
        ', signs_in_as: [{issuer: "https://a", subject: x}, {issuer: "https://a", subject: x}]',
        ', issuer: "https://idp.example/realms/acme", subject: 8f3c',
    ],
)
def test_an_identity_has_one_owner(tmp_path: Path, taken: str) -> None:
    other = (BOB % taken).replace("subject: u-2, ", "" if taken.startswith(", issuer") else "subject: u-2, ")
    with pytest.raises(DatasetAgentError, match="stands twice"):
        _load(tmp_path, ANN, other)


@pytest.mark.parametrize(
    "wrong",
    [
        ", signs_in_as: [8f3c]",
        ', signs_in_as: [{issuer: "https://a"}]',
        ', signs_in_as: [{issuer: "https://a", subject: "x y"}]',
        ', signs_in_as: [{issuer: "https://a", subject: ""}]',
        ', signs_in_as: [{issuer: "https://a", subject: "e\u0301"}]',
        ', signs_in_as: [{issuer: "https://a", subject: x, tenant: other}]',
        ", signs_in_as: [{}]".format(", ".join(f'{{issuer: "https://a", subject: x{n}}}' for n in range(9))),
    ],
)
def test_a_malformed_sign_in_names_the_file(tmp_path: Path, wrong: str) -> None:
    with pytest.raises(DatasetAgentError, match=r"^principals\.yaml: "):
        _load(tmp_path, BOB % wrong)


def test_who_signs_in_how_is_nothing_a_decision_reads(tmp_path: Path) -> None:
    plain = "".join(line for line in ANN.splitlines(keepends=True) if "signs_in_as" not in line)
    assert _load(tmp_path, ANN).version == _load(tmp_path, plain).version


# claims


def principal(**attributes: Any) -> Principal:
    held = MappingProxyType({"plants": frozenset({"read"})})
    return Principal(ISSUER, "u-1", "acme", "ann", "gardener", Sensitivity.INTERNAL, held, MappingProxyType(attributes))


def test_a_claim_fills_what_the_directory_leaves_open() -> None:
    assert with_claims(principal(site="north"), {"vip": True}).attributes == {"site": "north", "vip": True}


def test_a_claim_that_says_the_same_changes_nothing() -> None:
    ann = principal(site="north", rooms=("a", "b"))
    assert with_claims(ann, {"site": "north", "rooms": ("b", "a")}) is ann


@pytest.mark.parametrize(
    ("held", "stated"),
    [("north", "south"), ("north", "North"), (1, True), (True, 1), ("1", 1), (("a",), ("a", "b")), ("a", ("a",)), (("a",), ())],
)  # fmt: skip
def test_a_claim_that_says_another_value_is_a_conflict_and_no_override(held: Any, stated: Any) -> None:
    with pytest.raises(NotGranted) as stop:
        with_claims(principal(site=held), {"site": stated, "vip": True})
    assert stop.value.reason is Reason.PRINCIPAL_ATTRIBUTE_CONFLICT
    assert "site" in stop.value.message and "south" not in stop.value.message


VALUES = st.text(max_size=3) | st.integers() | st.booleans() | st.lists(st.text(max_size=2)).map(tuple)
ATTRIBUTES = st.dictionaries(st.sampled_from(["a", "b", "c"]), VALUES)


@given(ATTRIBUTES, ATTRIBUTES)
def test_claims_never_change_what_the_directory_says(held: dict[str, Any], stated: dict[str, Any]) -> None:
    ann = principal(**held)
    try:
        merged = with_claims(ann, stated)
    except NotGranted:
        assert any(
            stated[name] != held[name] or type(stated[name]) is not type(held[name]) for name in held if name in stated
        )
        return
    for field in ("issuer", "subject", "tenant", "name", "principal_class", "clearance", "entitlements"):
        assert getattr(merged, field) == getattr(ann, field)
    assert {name: merged.attributes[name] for name in held} == held
    assert set(merged.attributes) == set(held) | set(stated)
