"""The directory knows people by issuer and subject, byte for byte."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest

from contract.errors import DatasetAgentError
from contract.scope import Sensitivity
from control_plane.principals import load_directory
from tests.control_plane.control_plane_world import DATASETS, ISSUER

ENTRY = "{name: ann, subject: u-1, tenant: acme, principal_class: gardener, clearance: internal}"


def _load(tmp_path: Path, *entries: str, issuer: str = ISSUER) -> Path:
    path = tmp_path / "principals.yaml"
    lines = "\n".join(f"  - {entry}" for entry in entries)
    path.write_text(f"issuer: {issuer}\nprincipals:\n{lines}\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "clearance", "entitlements"),
    [
        (
            "analyst",
            Sensitivity.INTERNAL,
            {"chromatography-results": {"search"}, "purification-batches": {"compare_batches", "search"}},
        ),
        (
            "clinical_reviewer",
            Sensitivity.RESTRICTED,
            {"clinical-private": {"aggregate", "search"}, "purification-batches": {"search"}},
        ),
        ("external_auditor", Sensitivity.PUBLIC, {"purification-batches": {"search"}}),
        (
            "process_engineer",
            Sensitivity.CONFIDENTIAL,
            {
                "chromatography-results": {"aggregate", "run_totals", "search"},
                "purification-batches": {
                    "calculate_yield",
                    "compare_batches",
                    "detect_outliers",
                    "search",
                    "step_totals",
                },
            },
        ),
    ],
)
def test_the_shipped_principals_hold_exactly_this(
    name: str, clearance: Sensitivity, entitlements: dict[str, set[str]]
) -> None:
    principal = load_directory(DATASETS / "principals.yaml").named(name)
    assert principal is not None
    assert principal.clearance is clearance
    assert {dataset: set(held) for dataset, held in principal.entitlements.items()} == entitlements


def test_a_principal_is_found_by_issuer_and_subject() -> None:
    directory = load_directory(DATASETS / "principals.yaml")
    found = directory.find(ISSUER, "u-eng-01")
    assert found is not None
    assert found.name == "process_engineer"


@pytest.mark.parametrize(
    ("issuer", "subject"),
    [
        ("https://evil.example", "u-eng-01"),
        (ISSUER + "/", "u-eng-01"),
        (ISSUER.upper(), "u-eng-01"),
        (ISSUER, "U-ENG-01"),
        (ISSUER, "u-eng-01 "),
        (ISSUER, "u-eng"),
        (ISSUER, ""),
        (ISSUER, "process_engineer"),
    ],
)
def test_nothing_but_the_exact_identity_finds_anyone(issuer: str, subject: str) -> None:
    assert load_directory(DATASETS / "principals.yaml").find(issuer, subject) is None


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        (ENTRY.replace("internal", "secret"), "clearance"),
        (ENTRY.replace("subject: u-1, ", ""), "subject"),
        (ENTRY.replace("u-1", '"u 1"'), "subject"),
        (ENTRY.replace("}", ", role: admin}"), "is unknown here"),
        (ENTRY.replace("}", ", entitlements: {plants: read}}"), "entitlements"),
        (ENTRY.replace("}", ", attributes: {site: 1.5}}"), "attributes"),
        (ENTRY.replace("u-1", unicodedata.normalize("NFD", "é")), "NFC"),
    ],
)
def test_a_malformed_entry_names_the_file_and_the_member(tmp_path: Path, entry: str, problem: str) -> None:
    with pytest.raises(DatasetAgentError, match=problem) as caught:
        load_directory(_load(tmp_path, entry))
    assert caught.value.message.startswith("principals.yaml: ")


def test_one_identity_cannot_stand_twice(tmp_path: Path) -> None:
    with pytest.raises(DatasetAgentError, match="a subject stands twice"):
        load_directory(_load(tmp_path, ENTRY, ENTRY.replace("ann", "bob")))


def test_one_subject_of_two_issuers_is_two_people(tmp_path: Path) -> None:
    other = ENTRY.replace("ann", "bob").replace("}", ', issuer: "https://other.example"}')
    directory = load_directory(_load(tmp_path, ENTRY, other))
    assert [directory.find(i, "u-1") is not None for i in (ISSUER, "https://other.example")] == [True, True]
    assert directory.find(ISSUER, "u-1") != directory.find("https://other.example", "u-1")


def test_the_version_follows_what_a_decision_can_read(tmp_path: Path) -> None:
    first = load_directory(_load(tmp_path, ENTRY)).version
    again = load_directory(_load(tmp_path, ENTRY)).version
    changed = load_directory(_load(tmp_path, ENTRY.replace("internal", "public"))).version
    assert first == again
    assert first != changed


def test_a_fault_names_the_principal(tmp_path: Path) -> None:
    path = tmp_path / "principals.yaml"
    path.write_text((DATASETS / "principals.yaml").read_text("utf-8").replace("clearance: public", "clearance: secret"))
    with pytest.raises(
        DatasetAgentError, match=r"principals\.yaml: line \d+: principals\[3\] \(external_auditor\)\.clear"
    ):
        load_directory(path)
