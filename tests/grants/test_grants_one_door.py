"""A verified grant is made in one place."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from contract.grant import VerifiedGrant
from tests.grants.grants_world import accept, make_chain

HOUSE = Path(__file__).resolve().parents[2]
ROOMS = (
    "contract", "control_plane", "grants", "queries", "cache", "evidence", "root_agent", "remote_agent",
    "dataset_agent", "conformance", "benchmarks", "evals", "examples",
)  # fmt: skip
DOORS = {"contract/grant.py", "grants/verify.py"}


def modules() -> list[Path]:
    return [path for room in ROOMS for path in sorted((HOUSE / room).rglob("*.py"))]


def names_the_proof(source: str) -> bool:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name) and node.id == "_VERIFIED":
            return True
        if isinstance(node, ast.Attribute) and node.attr == "_VERIFIED":
            return True
        if isinstance(node, ast.alias) and node.name == "_VERIFIED":
            return True
        if isinstance(node, ast.Constant) and node.value == "_VERIFIED":
            return True
    return False


def test_only_the_door_holds_the_proof_of_verification() -> None:
    holders = {str(path.relative_to(HOUSE)) for path in modules() if names_the_proof(path.read_text(encoding="utf-8"))}
    assert holders == DOORS


def test_the_search_for_other_doors_finds_them() -> None:
    assert names_the_proof("from contract.grant import _VERIFIED")
    assert names_the_proof("import contract.grant as g\ng._VERIFIED")
    assert names_the_proof("getattr(g, '_VERIFIED')")
    assert not names_the_proof("VERIFIED = 1")


def test_a_verified_grant_is_not_made_without_the_proof() -> None:
    grant = accept(make_chain())
    members = {name: getattr(grant, name) for name in VerifiedGrant.__slots__}
    for proof in (None, True, object()):
        with pytest.raises(TypeError):
            VerifiedGrant(**members, proof=proof)


def test_the_grants_package_imports_no_framework_and_no_neighbour() -> None:
    """The floors are import-linter's; this says it where the package is tested."""
    foreign = {
        "google", "a2a", "fastapi", "starlette", "mcp",
        "control_plane", "queries", "cache", "evidence", "root_agent", "remote_agent", "dataset_agent",
    }  # fmt: skip
    for path in sorted((HOUSE / "grants").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                assert not {alias.name.partition(".")[0] for alias in node.names} & foreign, path
            if isinstance(node, ast.ImportFrom):
                assert (node.module or "").partition(".")[0] not in foreign, path
