"""``serve`` with the writer of its ledger: it is killed while calls are answered, and ends with ``serve``."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from evidence.reader import LedgerFile
from evidence.verify import verify_ledger
from grants.trust import load_trust
from tests.dataset_agent.command_line import served
from tests.running_agent import COMPARE, Asker, agent_home, decision_of

pytestmark = pytest.mark.live


def writers_of(serving: int) -> list[int]:
    """The children of a process that write a ledger."""
    children = Path(f"/proc/{serving}/task/{serving}/children").read_text().split()
    return [int(pid) for pid in children if b"ledger_writer" in command_of(pid)]


def command_of(pid: str) -> bytes:
    """Its arguments; none where it ended since it was listed."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def until(what: Any) -> Any:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if found := what():
            return found
        time.sleep(0.02)
    raise AssertionError("it did not come")


def ask(asker: Asker) -> dict[str, Any]:
    return asker.ask("purification-batches", "compare_batches", COMPARE)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_writer_killed_under_load_loses_and_doubles_no_row_and_is_started_again(tmp_path: Path, workers: str) -> None:
    settings = agent_home(tmp_path)
    with served("serve", "--workers", workers, HOME=str(tmp_path)) as serving:
        asker = Asker(settings, serving.url)
        ask(asker)
        killed = set()
        with ThreadPoolExecutor(4) as threads:
            asked = [threads.submit(ask, asker) for _ in range(60)]
            while not all(one.done() for one in asked):
                for pid in set(writers_of(serving.process.pid)) - killed:
                    time.sleep(0.1)
                    os.kill(pid, signal.SIGKILL)
                    killed.add(pid)
                time.sleep(0.01)
        tasks = [one.result() for one in asked]
        assert killed
        while not (alive := set(writers_of(serving.process.pid)) - killed):  # it is started when it is needed
            tasks.append(ask(asker))
        tasks.append(ask(asker))
        (writer,) = alive
    assert not Path(f"/proc/{writer}").exists()

    path = tmp_path / "remote" / "ledger.sqlite"
    own = load_trust(settings.trust_path).agent(settings.agent_id)
    assert own is not None
    assert verify_ledger(path, own.every_key).ok
    rows = [entry.cells for entry in LedgerFile(path).rows()]
    leaves = [cells["leaf_jti"] for cells in rows if cells["kind"] == "terminal" and cells["leaf_jti"]]
    assert len(leaves) == len(set(leaves))
    ended = [cells["request_id"] for cells in rows if cells["kind"] == "terminal"]
    assert len(ended) == len(set(ended))
    recorded = [cells["decision_id"] for cells in rows]
    for task in tasks:
        decision = decision_of(task)
        if task["status"]["state"] == "TASK_STATE_COMPLETED":
            assert recorded.count(decision["decision_id"]) == 1
        else:
            assert (decision["reason"], "artifacts" in task) == ("EVIDENCE_UNAVAILABLE", False)


def test_a_writer_takes_its_folder_away_when_serve_was_killed(tmp_path: Path) -> None:
    agent_home(tmp_path)
    with served("serve", HOME=str(tmp_path)) as serving:
        (writer,) = until(lambda: writers_of(serving.process.pid))
        place = Path(Path(f"/proc/{writer}/cmdline").read_bytes().split(b"\0")[-2].decode()).parent
        until(lambda: any(place.iterdir()))
        os.kill(serving.process.pid, signal.SIGKILL)
        serving.process.wait()
        until(lambda: not place.exists())
