"""What happens to a ledger and to whoever writes it, for real, and what holds of it after the next start."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from contract.errors import DatasetAgentError
from evidence.keeping import already_told, removable, rotate, strip
from evidence.reader import LedgerFile
from evidence.row import Kind, Side
from evidence.verify import verify_ledger
from tests.evidence.evidence_builders import AGENT, NOW, SeedSigner, make_row, open_ledger

ATTENDING = Path(__file__).with_name("attending.py")
KEY = SeedSigner().public_key
WRITERS = 32


@dataclass
class Told:
    """What the processes said of their requests."""

    begun: set[str] = field(default_factory=set)
    written: dict[str, int] = field(default_factory=dict)
    withheld: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)

    def take(self, lines: Iterable[str]) -> None:
        for line in lines:
            words = line.split()
            if not line.endswith("\n") or len(words) < 2:
                continue
            if words[0] == "written":
                self.written[words[1]] = int(words[2])
            else:
                {"begun": self.begun, "withheld": self.withheld, "refused": self.refused}[words[0]].add(words[1])


@dataclass(frozen=True)
class Report:
    """What held after the next start. ``broken`` names what did not."""

    fault: str
    writers: int
    begun: int
    written: int
    withheld: int
    rows: int
    ended_later: int
    seconds: float
    broken: tuple[str, ...]


def start(folder: Path, name: str, count: int, *more: object) -> subprocess.Popen[str]:
    command = [sys.executable, str(ATTENDING), str(folder), name, str(count), *map(str, more)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def together(folder: Path, writers: int, count: int, *more: object) -> list[subprocess.Popen[str]]:
    """All of them have the ledger open before any is let go on."""
    open_ledger(folder).close()
    return [start(folder, f"w{number}", count, *more) for number in range(writers)]


def collect(processes: Sequence[subprocess.Popen[str]]) -> Told:
    told = Told()
    for process in processes:
        told.take(process.communicate()[0].splitlines(keepends=True))
    return told


def judged(fault: str, folder: Path, told: Told, writers: int, began: float) -> Report:
    """After the next start: the ledger verifies, every receipt is true, every request has exactly one terminal row."""
    before = len(list(LedgerFile(folder / "ledger.db").rows()))
    ledger = open_ledger(folder)
    ledger.attend(folder / "arrivals", side=Side.REMOTE, agent_id=AGENT, now=NOW)
    ledger.close()
    entries = list(LedgerFile(folder / "ledger.db").rows())
    report = verify_ledger(folder / "ledger.db", KEY)
    terminal = Counter(str(entry.cells["request_id"]) for entry in entries if entry.cells["kind"] == "terminal")
    at = {entry.index: entry.cells["request_id"] for entry in entries}
    held = {
        f"the ledger verifies ({report.problem})": report.ok,
        "what was given a receipt is in its row": all(at.get(index) == name for name, index in told.written.items()),
        "every request has a terminal row": told.begun <= set(terminal),
        "no request has two": all(count == 1 for count in terminal.values()),
        "nothing is left to be ended": not list((folder / "arrivals").glob("*.slots")),
    }
    broken = tuple(what for what, holds in held.items() if not holds)
    return Report(
        fault=fault,
        writers=writers,
        begun=len(told.begun),
        written=len(told.written),
        withheld=len(told.withheld),
        rows=len(entries),
        ended_later=len(entries) - before,
        seconds=time.monotonic() - began,
        broken=broken,
    )


def many_writers(folder: Path, count: int) -> Report:
    began = time.monotonic()
    told = collect(together(folder, WRITERS, count))
    return judged("32 writers at once", folder, told, WRITERS, began)


def killed(folder: Path, count: int) -> Report:
    """kill -9 of all, one by one, each while it writes."""
    began, count = time.monotonic(), min(count, 15)
    processes = together(folder, WRITERS, 100_000)
    rng, told = random.Random(count), Told()
    for process in processes:
        assert process.stdout is not None
        told.take(process.stdout.readline() for _ in range(1 + rng.randrange(count)))
        process.kill()
    told_rest = collect(processes)
    told.begun |= told_rest.begun
    told.written |= told_rest.written
    return judged("kill -9 of all", folder, told, WRITERS, began)


def full_disk(folder: Path, count: int) -> Report:
    """No file may grow beyond a size: the write itself fails, in the log of the database and in the database."""
    began = time.monotonic()
    told = collect(together(folder, 8, count, 300_000))
    report = judged("full disk", folder, told, 8, began)
    short = () if told.withheld else ("the disk was full for nobody",)
    return Report(**{**report.__dict__, "broken": (*report.broken, *short)})


def killed_on_a_full_disk(folder: Path, count: int) -> Report:
    began = time.monotonic()
    processes = together(folder, 8, 100_000, 300_000)
    told = Told()
    for process in processes:
        assert process.stdout is not None
        lines = []
        while len(lines) < 40 * count and not any(line.startswith("withheld") for line in lines[-1:]):
            lines.append(process.stdout.readline())
        told.take(lines)
        process.kill()
    rest = collect(processes)
    told.begun |= rest.begun
    told.written |= rest.written
    told.withheld |= rest.withheld
    return judged("kill -9, full disk", folder, told, 8, began)


def clock_back(folder: Path, count: int) -> Report:
    """The clock of half of the writers steps an hour back; then rows are rotated and removed by their age."""
    began = time.monotonic()
    told = collect(together(folder, 8, count, 0, 3_600))
    path = folder / "ledger.db"
    rotate(path, (KEY,), before=NOW)
    rotate(path, (KEY,))
    ledger = open_ledger(folder)
    for removal in removable(path, before=NOW - 3_599):
        if removal.text not in already_told(ledger.rows()):
            ledger.append(make_row(0, request_id="prune", kind=Kind.SEGMENT_REMOVED, segment=removal.text))
        strip(removal, (KEY,))
    ledger.close()
    return judged("clock an hour back", folder, told, 8, began)


def read_only(folder: Path, count: int) -> Report:
    """The folder cannot be written any more: nothing starts, what runs goes on, and the ledger verifies where it lies."""
    began = time.monotonic()
    told = collect(together(folder, 2, count))
    child = os.fork()
    if child == 0:
        os._exit(_starts_read_only(folder))
    _, status = os.waitpid(child, 0)
    report = judged("read-only directory", folder, told, 2, began)
    wrong = () if os.waitstatus_to_exitcode(status) == 0 else ("a ledger in a folder that is read-only was opened",)
    return Report(**{**report.__dict__, "broken": (*report.broken, *wrong)})


def _starts_read_only(folder: Path) -> int:
    """0 where no ledger is opened there, and it verifies. As nobody, where this is root, whom no mode keeps out."""
    copy = Path(shutil.copytree(folder, f"{folder}-read-only"))
    try:
        if os.geteuid() == 0:
            for path in (copy, *copy.rglob("*")):
                os.chown(path, 65_534, 65_534)
            for parent in copy.parents:
                if parent.stat().st_mode & 0o001 == 0:
                    os.chmod(parent, parent.stat().st_mode | 0o001)
            os.setgroups([])
            os.setresgid(65_534, 65_534, 65_534)
            os.setresuid(65_534, 65_534, 65_534)
        copy.chmod(0o500)
        try:
            open_ledger(copy)
        except DatasetAgentError as error:
            whole = verify_ledger(copy / "ledger.db", KEY).ok
            return 0 if (error.code, whole) == ("evidence.ledger.unavailable", True) else 2
        return 3
    except BaseException:
        return 4


FAULTS: dict[str, Callable[[Path, int], Report]] = {
    "writers": many_writers,
    "killed": killed,
    "full": full_disk,
    "killed-full": killed_on_a_full_disk,
    "clock": clock_back,
    "read-only": read_only,
}
