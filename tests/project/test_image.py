"""The image: what is installed in it is locked, was tested, and is all that it needs, with an extra and without."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
RUNTIME = "requirements-runtime"
# Extras that an image can have, by their lock: the others are for tests.
IN_IMAGES = {"": f"{RUNTIME}.lock", "bigquery": f"{RUNTIME}-bigquery.lock", "mcp": f"{RUNTIME}-mcp.lock",
             "otel": f"{RUNTIME}-otel.lock", "postgresql": f"{RUNTIME}-postgresql.lock"}  # fmt: skip
# The image's platform; the rest is the interpreter's that runs the tests.
LINUX = {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix", "python_version": "3.13",
         "python_full_version": "3.13.0"}  # fmt: skip


def locked(path: Path) -> dict[str, str]:
    """The lines of a lock by the package's name: version, marker and hashes."""
    text = path.read_text(encoding="utf-8").replace("\\\n", " ")
    lines = (" ".join(line.split()) for line in text.splitlines() if "==" in line)
    return {canonicalize_name(line.split("==")[0]): line for line in lines}


def needed(extra: str) -> set[str]:
    """The names of all that the project and an extra of it need, as the installed packages say."""
    first = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"].get(extra, ())]
    found: set[tuple[str, str]] = set()
    waiting = [pair for line in first for pair in wanted(Requirement(line), "")]
    while waiting:
        name, of = waiting.pop()
        if (name, of) in found:
            continue
        found.add((name, of))
        for line in requires(name) or ():
            waiting.extend(wanted(Requirement(line), of))
    return {name for name, _ in found}


def wanted(requirement: Requirement, extra: str) -> Iterator[tuple[str, str]]:
    """What a requirement asks for where ``extra`` is asked of its owner: a package, alone and with its own extras."""
    environment = {**default_environment(), **LINUX, "extra": extra}
    if requirement.marker is None or requirement.marker.evaluate(environment):
        yield canonicalize_name(requirement.name), ""
        yield from ((canonicalize_name(requirement.name), of) for of in requirement.extras)


@pytest.mark.parametrize("name", IN_IMAGES.values())
def test_what_an_image_holds_is_what_was_tested_to_the_byte(name: str) -> None:
    tested = locked(ROOT / "requirements.lock")
    for package, line in locked(DEPLOY / name).items():
        hashes = set(re.findall(r"--hash=sha256:[0-9a-f]{64}", line))
        assert hashes
        assert hashes <= set(tested[package].split())
        assert line.split()[0] == tested[package].split()[0]


@pytest.mark.parametrize(("extra", "name"), IN_IMAGES.items())
def test_an_images_lock_holds_all_that_is_needed(extra: str, name: str) -> None:
    names = needed(extra)
    assert len(names) > 40
    assert names <= set(locked(DEPLOY / name))


@pytest.mark.parametrize(
    ("extra", "added"),
    [("bigquery", {"google-cloud-bigquery", "google-cloud-bigquery-storage", "grpcio"}), ("mcp", {"mcp", "mcp-types"})],
)
def test_an_extra_adds_to_the_image_and_changes_nothing_in_it(extra: str, added: set[str]) -> None:
    plain, more = locked(DEPLOY / IN_IMAGES[""]), locked(DEPLOY / IN_IMAGES[extra])
    for package, line in plain.items():
        assert more[package].split()[0] == line.split()[0]
    assert added <= set(more) - set(plain)


def test_the_dockerfile_and_the_recipe_know_every_lock_of_an_image() -> None:
    assert {path.name for path in DEPLOY.glob(f"{RUNTIME}*.lock")} == set(IN_IMAGES.values())
    assert f'"{RUNTIME}${{EXTRAS:+-$EXTRAS}}.lock"' in DOCKERFILE
    assert "ARG EXTRAS=\n" in DOCKERFILE
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert all(f"-o deploy/{name}\n" in recipe for name in IN_IMAGES.values())
    assert "!deploy/requirements-*.lock\n" in (ROOT / ".dockerignore").read_text(encoding="utf-8")
