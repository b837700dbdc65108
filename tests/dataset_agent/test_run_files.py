"""Only a run file that nobody but this user can have written says whom to signal."""

from __future__ import annotations

import fcntl
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contract.errors import Category, DatasetAgentError
from contract.settings import Settings
from dataset_agent.configuration import default_settings
from dataset_agent.run_files import run_file, running

STATE = {"port": 8801, "began": 0, "generation": 1, "fault": None, "invalid": {}, "datasets": ["a"]}
PID = 4_242


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return default_settings(tmp_path)


@pytest.fixture
def planted(settings: Settings) -> Iterator[Path]:
    """A run file whose lock is held, as a serving process leaves it."""
    folder = settings.home / "run"
    folder.mkdir(mode=0o700)
    path = folder / f"serve-{PID}.json"
    _put(path, STATE | {"pid": PID})
    lock = path.with_suffix(".lock")
    lock.touch(mode=0o600)
    with lock.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield path


def _put(path: Path, state: Any) -> None:
    path.touch(mode=0o600)
    path.write_text(state if isinstance(state, str) else json.dumps(state))


def test_a_serving_process_is_found_and_its_files_are_private(settings: Settings) -> None:
    folder = settings.home / "run"
    folder.mkdir(mode=0o755)
    with run_file(settings, "serve") as file:
        file.write(STATE | {"pid": os.getpid()})
        assert [found.pid for found in running(settings)] == [os.getpid()]
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert list(folder.iterdir()) == []


def test_nothing_is_served_from_a_home_that_never_served(settings: Settings) -> None:
    assert running(settings) == []


def test_a_private_file_with_a_held_lock_counts(settings: Settings, planted: Path) -> None:
    assert [(found.kind, found.pid) for found in running(settings)] == [("serve", PID)]


@pytest.mark.parametrize("pid", [PID + 1, 1, 0, -1, -PID, True, float(PID), str(PID), None, [PID], 2**70])
def test_a_process_id_that_the_file_name_does_not_say_counts_as_none(
    settings: Settings, planted: Path, pid: Any
) -> None:
    _put(planted, STATE | {"pid": pid})
    assert running(settings) == []


@pytest.mark.parametrize(
    "name", ["serve-1", "serve-0", f"serve--{PID}", f"other-{PID}", f"serve-0{PID}", "serve-x", "serve"]
)
def test_a_file_of_another_name_counts_as_none(settings: Settings, planted: Path, name: str) -> None:
    pid = int(name[-1]) if name[-1] in "01" else PID
    _put(planted, STATE | {"pid": pid})
    planted.with_suffix(".lock").rename(planted.with_name(f"{name}.lock"))
    planted.rename(planted.with_name(f"{name}.json"))
    assert running(settings) == []


@pytest.mark.parametrize(
    "state",
    [
        "",
        "{",
        "[]",
        "7",
        "null",
        "\x00",
        "[" * 100_000,
        {"pid": PID},
        STATE | {"pid": PID, "began": "now"},
        STATE | {"pid": PID, "began": float("nan")},
        STATE | {"pid": PID, "began": 10**400},
        STATE | {"pid": PID, "port": "8801"},
        STATE | {"pid": PID, "invalid": []},
        STATE | {"pid": PID, "datasets": [1]},
        STATE | {"pid": PID, "fault": 1},
    ],
)
def test_a_misshapen_file_counts_as_none(settings: Settings, planted: Path, state: Any) -> None:
    _put(planted, state)
    assert running(settings) == []


@pytest.mark.parametrize("suffix", [".json", ".lock"])
def test_a_file_that_others_may_open_counts_as_none(settings: Settings, planted: Path, suffix: str) -> None:
    planted.with_suffix(suffix).chmod(0o622)
    assert running(settings) == []
    assert planted.exists()


@pytest.mark.parametrize("suffix", [".json", ".lock"])
def test_a_link_counts_as_none(settings: Settings, planted: Path, suffix: str) -> None:
    file = planted.with_suffix(suffix)
    file.rename(settings.home / "elsewhere")
    file.symlink_to(settings.home / "elsewhere")
    assert running(settings) == []


@pytest.mark.parametrize("suffix", [".json", ".lock"])
def test_a_pipe_counts_as_none_and_is_not_waited_for(settings: Settings, planted: Path, suffix: str) -> None:
    file = planted.with_suffix(suffix)
    file.unlink()
    os.mkfifo(file, 0o600)
    assert running(settings) == []


@pytest.mark.parametrize("suffix", [".json", ".lock"])
def test_a_file_of_another_user_counts_as_none(
    settings: Settings, planted: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    inode, real = planted.with_suffix(suffix).stat().st_ino, os.fstat

    def another(number: int) -> os.stat_result:
        found = real(number)
        fields = list(found)
        fields[stat.ST_UID] = found.st_uid + (found.st_ino == inode)
        return os.stat_result(fields)

    monkeypatch.setattr("dataset_agent.run_files.os.fstat", another)
    assert running(settings) == []


def test_a_folder_of_another_user_is_refused(
    settings: Settings, planted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dataset_agent.run_files.os.geteuid", lambda: os.getuid() + 1)
    with pytest.raises(DatasetAgentError, match="run this as its owner") as refused:
        running(settings)
    assert refused.value.category is Category.FORBIDDEN
    with pytest.raises(DatasetAgentError, match="run this as its owner"), run_file(settings, "serve"):
        pass


def test_a_folder_that_others_may_enter_is_told(settings: Settings, planted: Path) -> None:
    planted.parent.chmod(0o755)
    with pytest.raises(DatasetAgentError, match="run chmod 700") as refused:
        running(settings)
    assert refused.value.category is Category.CONFIGURATION
