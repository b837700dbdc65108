"""What must hold of the files that git tracks."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from collections import Counter
from pathlib import Path

import pytest

import dataset_agent

ROOT = Path(__file__).resolve().parents[2]
BINARY = {".parquet", ".arrow", ".png", ".gz", ".zst"}
# written in pieces, so that this file passes its own test
PRIVATE = {
    "a path of somebody's machine": r"(?<![\w./:-])/(?:home|Users|root|work)/" + r"\w",
    "the address of a package registry": r"(?:pypi|pythonhosted|npmjs)\." + r"(?:org|com|io)\b",
    "a private key": r"BEGIN (?:\w+ )?PRIVATE" + r" KEY",
    "a private JWK": r'"d"\s*:\s*"[\w-]{43}' + r'"',
    "unfinished work": r"\b(?:TO" + r"DO|FIX" + r"ME)\b",
}


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode > 1:
        pytest.skip("not a git checkout")
    return done.stdout.split("\n")[:-1]


@pytest.fixture(scope="module")
def tracked() -> list[Path]:
    return [ROOT / name for name in _git("ls-files") if (ROOT / name).is_file()]


@pytest.mark.parametrize("what", PRIVATE)
def test_no_file_holds(tracked: list[Path], what: str) -> None:
    pattern = re.compile(PRIVATE[what])
    texts = [path for path in tracked if path.suffix not in BINARY]
    found = [str(path.relative_to(ROOT)) for path in texts if pattern.search(path.read_text(encoding="utf-8"))]
    assert found == []


@pytest.mark.parametrize("package", [*dataset_agent.PACKAGES, "dataset_agent", "datasets", "tests/cache"])
def test_gitignore_drops_no_package(package: str) -> None:
    assert _git("check-ignore", f"{package}/new.py", f"{package}/deeper/new.py") == []


def test_no_tracked_file_is_ignored() -> None:
    assert _git("ls-files", "--cached", "--ignored", "--exclude-standard") == []


def test_the_committed_world_is_small(tracked: list[Path]) -> None:
    assert sum(path.stat().st_size for path in tracked if ROOT / "datasets" in path.parents) <= 2 * 2**20


def test_test_files_have_names_of_their_own(tracked: list[Path]) -> None:
    names = Counter(path.name for path in tracked if path.match("tests/**/test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []


def test_test_folders_are_no_packages(tracked: list[Path]) -> None:
    assert [path for path in tracked if path.name == "__init__.py" and ROOT / "tests" in path.parents] == []


def _pins(lock: str) -> set[str]:
    return set(re.findall(r"^([\w.-]+==[\w.]+)", (ROOT / lock).read_text(encoding="utf-8"), re.MULTILINE))


@pytest.mark.parametrize("lock", ["deploy/requirements-runtime.lock", "deploy/requirements-build.lock"])
def test_what_is_deployed_is_what_was_tested(lock: str) -> None:
    assert _pins(lock) <= _pins("requirements.lock")


def test_the_lock_holds_every_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = {re.split(r"[\[<>=~ ]", line)[0].lower() for line in project["dependencies"]}
    assert wanted <= {pin.split("==")[0].lower() for pin in _pins("deploy/requirements-runtime.lock")}


def test_every_locked_line_has_a_hash() -> None:
    for lock in ("requirements.lock", "deploy/requirements-runtime.lock", "deploy/requirements-build.lock"):
        text = (ROOT / lock).read_text(encoding="utf-8").replace("\\\n", "")
        assert [line for line in text.splitlines() if "==" in line and "--hash=sha256:" not in line] == []


def test_one_version_is_told_everywhere() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    compose = (ROOT / "compose.yaml").read_text(encoding="utf-8")
    assert dataset_agent.__version__ == version
    assert f"\n## [{version}]" in changelog
    assert f"image: dataset-agent:{version}\n" in compose
    manifests = (ROOT / "deploy" / "kubernetes.yaml").read_text(encoding="utf-8")
    assert set(re.findall(r"image: dataset-agent:(\S+)", manifests)) == {version}
    assert json.loads((ROOT / "agent_card.json").read_text(encoding="utf-8"))["version"] == version
