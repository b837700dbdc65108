"""Revision and age come from the source: the files' bytes and times, or what a command prints."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from contract.errors import DatasetAgentError
from contract.ids import is_version
from control_plane.source_facts import SourceFacts, check_age, command_facts, file_facts


def printing(text: str) -> list[str]:
    return [sys.executable, "-c", f"print({text!r}, end='')"]


def fault(folder: Path, command: list[str], **more: float) -> str:
    with pytest.raises(DatasetAgentError) as caught:
        command_facts(folder, command, **more)
    return caught.value.message


def test_the_revision_of_files_is_of_their_bytes_and_names_alone(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1")
    (tmp_path / "b").write_bytes(b"2")
    first = file_facts(tmp_path, ["a", "b"])
    os.utime(tmp_path / "a", (0, 0))
    assert file_facts(tmp_path, ["b", "a"]).revision == first.revision
    (tmp_path / "b").write_bytes(b"3")
    assert file_facts(tmp_path, ["a", "b"]).revision != first.revision
    assert is_version(first.revision)


def test_files_that_change_places_are_another_revision(tmp_path: Path) -> None:
    for name, body in (("a", b"1"), ("b", b"2")):
        (tmp_path / name).write_bytes(body)
    first = file_facts(tmp_path, ["a", "b"])
    for name, body in (("a", b"2"), ("b", b"1")):
        (tmp_path / name).write_bytes(body)
    assert file_facts(tmp_path, ["a", "b"]).revision != first.revision


def test_the_age_of_files_is_that_of_the_newest(tmp_path: Path) -> None:
    for name, at in (("a", 1_000), ("b", 2_000)):
        (tmp_path / name).write_bytes(b"")
        os.utime(tmp_path / name, (at, at))
    assert file_facts(tmp_path, ["a", "b"]).as_of == datetime.fromtimestamp(2_000, UTC)


@pytest.mark.parametrize("name", ["none", "../outside", "."])
def test_a_file_that_is_not_there_or_not_inside_is_a_fault(tmp_path: Path, name: str) -> None:
    (tmp_path / "outside").write_bytes(b"")
    (tmp_path / "in").mkdir()
    with pytest.raises(DatasetAgentError):
        file_facts(tmp_path / "in", [name])


def test_a_command_says_a_revision_and_when(tmp_path: Path) -> None:
    told = command_facts(tmp_path, printing("lsn-0F31 2026-08-31T22:00:00+02:00\n"))
    assert told == SourceFacts("lsn-0F31", datetime(2026, 8, 31, 20, tzinfo=UTC))


def test_a_command_may_know_the_revision_alone(tmp_path: Path) -> None:
    assert command_facts(tmp_path, printing("r7")) == SourceFacts("r7", None)


@pytest.mark.parametrize("text", ["", "two words here", "bad/revision", "r1 yesterday", "r1 2026-08-31T22:00:00"])
def test_what_is_no_such_line_is_a_fault_that_does_not_repeat_it(tmp_path: Path, text: str) -> None:
    told = fault(tmp_path, printing(text))
    assert "yesterday" not in told
    assert "bad/" not in told


def test_the_first_instant_of_the_calendar_in_another_zone_is_no_instant(tmp_path: Path) -> None:
    assert "is no instant" in fault(tmp_path, printing("r1 0001-01-01T00:00:00+23:00"))


@pytest.mark.parametrize("argument", ["a\0b", "a\ud800b"])
def test_what_no_command_can_be_given_is_a_fault_of_the_dataset(tmp_path: Path, argument: str) -> None:
    assert "no argument of a command" in fault(tmp_path, [sys.executable, argument])


def test_a_command_runs_in_its_folder_without_settings_or_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATASET_AGENT_CACHE_SECRET", "hush")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    body = "import os; print(os.path.basename(os.getcwd()) + '-' + str('hush' in os.environ.values()))"
    folder = tmp_path / "flights"
    folder.mkdir()
    assert command_facts(folder, [sys.executable, "-c", body]).revision == "flights-False"


def test_no_shell_reads_a_command(tmp_path: Path) -> None:
    assert "cannot be started" in fault(tmp_path, ["echo r1; touch shell"])
    assert command_facts(tmp_path, ["echo", "$HOME;x"[6:]]).revision == "x"
    assert not (tmp_path / "shell").exists()


def test_a_command_that_fails_or_prints_without_end_is_a_fault(tmp_path: Path) -> None:
    assert "ended with 3" in fault(tmp_path, [sys.executable, "-c", "print('r1'); raise SystemExit(3)"])
    assert "more than 4096 bytes" in fault(tmp_path, [sys.executable, "-c", "while True: print('r')"])


def test_a_command_that_hangs_ends_with_its_children(tmp_path: Path) -> None:
    child = (
        "import subprocess, sys; p = subprocess.Popen(['sleep', '60']); open('pid', 'w').write(str(p.pid)); p.wait()"
    )
    assert "took longer than 1.5 s" in fault(tmp_path, [sys.executable, "-c", child], timeout=1.5)
    ps = ["ps", "-o", "stat=", "-p", (tmp_path / "pid").read_text()]
    until = time.monotonic() + 20  # it was killed, and ends when the system lets it
    while (state := subprocess.run(ps, capture_output=True, text=True, check=False).stdout.strip()[:1]) not in (
        "",
        "Z",
    ):
        assert time.monotonic() < until, state
        time.sleep(0.01)


def test_data_of_the_future_is_refused(tmp_path: Path) -> None:
    now = time.time()
    assert check_age("d", SourceFacts("r", datetime.fromtimestamp(now, UTC)), now).revision == "r"
    with pytest.raises(DatasetAgentError, match="in the future"):
        check_age("d", SourceFacts("r", datetime.fromtimestamp(now + 3_600, UTC)), now)


def test_what_a_command_leaves_running_elsewhere_is_not_waited_for(tmp_path: Path) -> None:
    """A process in a session of its own outlives the command's group, and keeps its output open."""
    body = (
        "import subprocess; p = subprocess.Popen(['sleep', '30'], start_new_session=True); "
        "open('pid', 'w').write(str(p.pid)); print('r1', flush=True)"
    )
    assert "took longer than 1 s" in fault(tmp_path, [sys.executable, "-c", body], timeout=1.0)
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)  # it is still there: nobody waited for its end
