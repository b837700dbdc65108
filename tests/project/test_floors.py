"""The floors of the house, and that no package is left out of what keeps them."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from dataset_agent import PACKAGES

ROOT = Path(__file__).resolve().parents[2]
OUTSIDE = {"benchmarks", "mutants", "conformance", "evals", "examples", "tests", "docs", "datasets", "deploy"}


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def packages() -> set[str]:
    return {path.parent.name for path in ROOT.glob("*/__init__.py")} - OUTSIDE


def test_the_import_contracts_are_kept() -> None:
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout


def test_the_contracts_know_every_package(project: dict[str, Any]) -> None:
    assert set(project["tool"]["importlinter"]["root_packages"]) == packages()


def test_the_types_of_every_package_are_checked(project: dict[str, Any]) -> None:
    assert packages() <= set(project["tool"]["mypy"]["files"])


def test_the_wheel_ships_every_package(project: dict[str, Any]) -> None:
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert set(wheel["only-include"]) == packages()
    assert wheel["sources"] == {name: f"dataset_agent/agents/{name}" for name in packages() - {"dataset_agent"}}


def test_the_facade_guards_every_package() -> None:
    assert set(PACKAGES) == packages() - {"dataset_agent"}


def test_the_image_is_built_from_every_package() -> None:
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").split() if line[0] == "!"}
    assert packages() <= kept
