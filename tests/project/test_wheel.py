"""The built wheel in an environment of its own: only ``dataset_agent`` is importable, and the command runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from dataset_agent import PACKAGES

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Installed:
    """An environment that holds the wheel and the locked dependencies, and a working directory apart."""

    bin: Path
    cwd: Path

    def run(self, *command: str | Path, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if name in {"PATH", "LANG", "TMPDIR"}}
        env = kept | {"HOME": str(self.cwd), "COLUMNS": "100"}
        arguments = [str(part) for part in command]
        return subprocess.run(arguments, cwd=self.cwd, env=env, capture_output=True, text=True, timeout=timeout)

    def python(self, code: str) -> subprocess.CompletedProcess[str]:
        return self.run(self.bin / "python", "-c", code)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=60)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The dependencies come by path from this environment; its own editable install does not follow them."""
    folder = tmp_path_factory.mktemp("installed")
    venv = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True, timeout=60)
    python = venv / "bin" / "python"
    install = ["--python", str(python), "install", "--quiet", "--no-deps", "--no-index", str(wheel)]
    subprocess.run([sys.executable, "-m", "pip", *install], check=True, timeout=60)
    (site,) = venv.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    cwd = folder / "elsewhere"
    cwd.mkdir()
    return Installed(venv / "bin", cwd)


def test_the_wheel_has_one_top_level_name(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"dataset_agent"}


@pytest.mark.parametrize(
    "path",
    [
        "dataset_agent/py.typed",
        "dataset_agent/agents/agent_card.json",
        "dataset_agent/agents/cache/__init__.py",
        "dataset_agent/agents/datasets/principals.yaml",
    ],
)
def test_the_wheel_ships(wheel: Path, path: str) -> None:
    assert path in zipfile.ZipFile(wheel).namelist()


def test_the_wheel_ships_every_data_file_that_git_holds(wheel: Path) -> None:
    listed = subprocess.run(["git", "ls-files", "datasets"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    shipped = set(zipfile.ZipFile(wheel).namelist())
    assert [path for path in listed.stdout.split() if f"dataset_agent/agents/{path}" not in shipped] == []


def test_the_wheel_carries_no_bytecode_and_no_tests(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert [name for name in names if name.endswith(".pyc") or "/tests/" in name] == []


@pytest.mark.parametrize("name", [*PACKAGES, "tests", "benchmarks", "conformance"])
def test_no_bare_name_is_importable(installed: Installed, name: str) -> None:
    done = installed.python(f"import {name}")
    assert f"No module named '{name}'" in done.stderr


def test_importing_dataset_agent_opens_its_own_agents_directory(installed: Installed) -> None:
    done = installed.python(
        "import dataset_agent, grants, json;"
        "print(json.dumps([str(dataset_agent.AGENTS_DIR), grants.__file__, str(dataset_agent.Settings().datasets)]))"
    )
    agents, grants, datasets = json.loads(done.stdout)
    assert agents.endswith("site-packages/dataset_agent/agents")
    assert grants == f"{agents}/grants/__init__.py"
    assert datasets == f"{agents}/datasets"


def test_a_foreign_module_under_one_of_our_names_is_named(installed: Installed) -> None:
    done = installed.python("import sys, types; sys.modules['cache'] = types.ModuleType('cache'); import dataset_agent")
    assert "dataset_agent needs the module name 'cache'" in done.stderr


def test_a_foreign_module_that_would_win_is_named(installed: Installed, tmp_path: Path) -> None:
    (tmp_path / "grants.py").write_text("", encoding="utf-8")
    done = installed.python(f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import dataset_agent")
    assert f"'grants', which belongs to {tmp_path}/grants.py" in done.stderr


def test_the_command_runs(installed: Installed) -> None:
    done = installed.run(installed.bin / "dataset-agent", "--help")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.wheel_demo
def test_the_demo_runs(installed: Installed) -> None:
    done = installed.run(installed.bin / "dataset-agent", "demo", timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
