"""What a durable, signed row of the ledger adds to a call: beside the same agent that writes none, in one run."""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Final

from rich.progress import track

from benchmarks.calls import check
from benchmarks.evidence_peer import IN_PROCESS, NONE, WRITER
from benchmarks.governed import Governed
from benchmarks.raw_client import Connection, latencies, loaded_latencies
from benchmarks.report import Figure, Section, Side, machine
from benchmarks.servers import Server, fdatasync_ms, free_port

MODES: Final = (NONE, WRITER, IN_PROCESS)
CALLERS: Final = (1, 16)
_TICKS: Final = os.sysconf("SC_CLK_TCK")


class _Agent:
    """One of the three, in a home of its own. Its writer is with the client, on the other core."""

    def __init__(self, mode: str, home: Path, core: int, other: int) -> None:
        self.governed = Governed(home)
        port = free_port()
        command = [sys.executable, "-m", "benchmarks.evidence_peer", mode, str(port)]
        self.server = Server.start(command, port, core=core, env={"DATASET_AGENT_HOME": str(home)})
        self.line = Connection(self.server.port)
        pid = self.server.process.pid
        self.children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        for child in self.children:
            os.sched_setaffinity(child, {other})

    def cpu_s(self) -> float:
        """Processor time so far of the agent and its writer."""
        return sum(_cpu_s(pid) for pid in (self.server.process.pid, *self.children))

    def block(self, calls: int, callers: int) -> tuple[list[float], float]:
        """Milliseconds of each call, and processor milliseconds of one."""
        requests = self.governed.requests(self.server.port, calls, fresh_arguments=False)
        before = self.cpu_s()
        if callers == 1:
            taken, bodies = latencies(self.line, requests)
        else:
            taken, bodies = loaded_latencies(self.server.port, requests, callers)
        spent = self.cpu_s() - before
        check("governed hit", bodies)
        return taken, spent * 1000 / calls

    def stop(self) -> None:
        self.line.close()
        self.server.stop()


def measure(blocks: int = 6, calls: int = 400) -> Section:
    """The three in interleaved ``blocks`` of ``calls`` cache hits, by one caller and by sixteen. Milliseconds."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[-1]})
    try:
        with tempfile.TemporaryDirectory(prefix="dataset-agent-bench-") as folder:
            return _measure(Path(folder), cores[0], cores[-1], blocks, calls)
    finally:
        os.sched_setaffinity(0, set(cores))


def _measure(home: Path, core: int, other: int, blocks: int, calls: int) -> Section:
    agents: dict[str, _Agent] = {}
    try:
        for mode in MODES:
            agents[mode] = _Agent(mode, home / mode.replace(" ", "-"), core, other)
        times: dict[tuple[str, int], list[tuple[float, ...]]] = {(m, c): [] for c in CALLERS for m in MODES}
        spent: dict[tuple[str, int], list[float]] = {key: [] for key in times}
        for block in track(range(blocks + 1), description="measuring", transient=True, disable=not sys.stderr.isatty()):
            for mode, callers in times:
                taken, each = agents[mode].block(calls, callers)
                if block:  # the first block warms every side
                    times[mode, callers].append(tuple(taken))
                    spent[mode, callers].append(each)
    finally:
        for agent in agents.values():
            agent.stop()
    sides = {key: Side(f"{key[0]}, {_callers(key[1])}", tuple(taken)) for key, taken in times.items()}
    cpu = {key: statistics.median(block) for key, block in spent.items()}
    facts = machine() | {"stores": "SQLite", "fdatasync_ms": round(fdatasync_ms(home), 3)}
    return Section("A row of the ledger", "ms", list(sides.values()), _figures(sides, cpu), facts)


def _figures(sides: dict[tuple[str, int], Side], cpu: dict[tuple[str, int], float]) -> list[Figure]:
    figures = []
    for callers in CALLERS:
        for mode in (WRITER, IN_PROCESS):
            added = sides[mode, callers].p50 - sides[NONE, callers].p50
            goal = 0.3 if mode == WRITER and callers > 1 else None
            figures.append(Figure(f"added to the median {mode}, {_callers(callers)}", added, unit="ms", most=goal))
        for mode in MODES:
            figures.append(
                Figure(f"processor time of a call, {mode}, {_callers(callers)}", cpu[mode, callers], unit="ms")
            )
    return figures


def _callers(callers: int) -> str:
    return "1 caller" if callers == 1 else f"{callers} callers"


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
