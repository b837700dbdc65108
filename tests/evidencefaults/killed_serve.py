"""A served dataset agent that is killed under load, with all its processes, and started again."""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from evidence.reader import LedgerFile
from evidence.verify import verify_ledger
from grants.trust import load_trust
from tests.dataset_agent.command_line import served
from tests.evidencefaults.ledger_faults import Report
from tests.running_agent import COMPARE, Asker, agent_home, decision_of

_CALLERS = 8


def _ask(asker: Asker) -> dict[str, Any] | None:
    try:
        return asker.ask("purification-batches", "compare_batches", COMPARE)
    except Exception:  # the agent is gone: whatever the client makes of that
        return None


def killed_serving(home: Path, count: int) -> Report:
    """``serve`` with two workers and its writer, all killed at once; then one start, which ends what was under way."""
    began = time.monotonic()
    settings = agent_home(home)
    with ThreadPoolExecutor(_CALLERS) as threads:
        with served("serve", "--workers", "2", HOME=str(home)) as serving:
            asker = Asker(settings, serving.url)
            _ask(asker)
            asked = [threads.submit(_ask, asker) for _ in range(4 * count)]
            while sum(one.done() for one in asked) < count:
                time.sleep(0.01)
            with _held(home / "remote" / "ledger.sqlite"):  # whatever is taken in now waits for its row
                time.sleep(1.0)
                for pid in _family(serving.process.pid):
                    os.kill(pid, signal.SIGKILL)
                serving.process.wait()
        tasks = [task for one in asked if (task := one.result()) is not None]
    before = len(list(LedgerFile(home / "remote" / "ledger.sqlite").rows()))
    with served("serve", HOME=str(home)) as serving:
        tasks += [task for task in (_ask(Asker(settings, serving.url)),) if task is not None]
    return _judged("kill -9 of serve", home, tasks, before, began)


@contextmanager
def _held(ledger: Path) -> Iterator[None]:
    """The write lock of the ledger."""
    connection = sqlite3.connect(ledger, isolation_level=None, timeout=10)
    try:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")
    finally:
        connection.close()


def _family(pid: int) -> list[int]:
    """The process and all below it."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(one for child in children for one in _family(int(child)))]


def _judged(fault: str, home: Path, tasks: list[dict[str, Any]], before: int, began: float) -> Report:
    path = home / "remote" / "ledger.sqlite"
    trust = load_trust(home / "trust.toml")
    own = trust.agents["urn:dataset-agent:remote"]
    report = verify_ledger(path, own.every_key)
    rows = [entry.cells for entry in LedgerFile(path).rows()]
    terminal = Counter(str(cells["request_id"]) for cells in rows if cells["kind"] == "terminal")
    decided = Counter(str(cells["decision_id"]) for cells in rows)
    answered = [task for task in tasks if "artifacts" in task]
    held = {
        f"the ledger verifies ({report.problem})": report.ok,
        "no rows left without their row": all(decided[decision_of(task)["decision_id"]] == 1 for task in answered),
        "no request has two terminal rows": all(count == 1 for count in terminal.values()),
        "each that was taken in has one": set(terminal) == {str(cells["request_id"]) for cells in rows},
        "what was under way was ended later": any(cells["reason"] == "EXECUTION_FAILED" for cells in rows[before:]),
        "nothing is left to be ended": not list((home / "remote" / "arrivals").glob("*.slots")),
    }
    return Report(
        fault=fault,
        writers=4,
        begun=len(terminal),
        written=len(answered),
        withheld=len(tasks) - len(answered),
        rows=len(rows),
        ended_later=sum(cells["reason"] in ("EXECUTION_FAILED", "EVIDENCE_UNAVAILABLE") for cells in rows[before:]),
        seconds=time.monotonic() - began,
        broken=tuple(what for what, holds in held.items() if not holds),
    )


SERVED: dict[str, Callable[[Path, int], Report]] = {"served": killed_serving}
