"""Calls a second of two workers beside one, in interleaved blocks; governed hits over A2A.

One worker has a core to itself, with the writer of its ledger, and the client the other. Two
workers have both cores, and share them with their writer and the client, which is one raw
process; what all of them take of the processor is told beside the rates. One worker on both cores
is measured too: its writer then has room beside it. The system spreads connections by their ports, so they are
opened until each worker has the same number; every side has as many.
"""

from __future__ import annotations

import json
import os
import selectors
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from rich.progress import track

from benchmarks.governed import Governed
from benchmarks.raw_client import Connection
from benchmarks.report import Figure, Section, machine
from benchmarks.servers import fdatasync_ms

CONNECTIONS: Final = 32
SIDES: Final = {"one worker": (1, 1), "one worker on two cores": (1, 2), "two workers": (2, 2)}
"""Workers, and cores of the servers."""
_MOST_OPENED: Final = 400


@dataclass(frozen=True, slots=True)
class Load:
    """One block: calls a second, and seconds of processor of the servers and the client for each call."""

    rate: float
    served: float
    asked: float


def measure(blocks: int = 5, calls: int = 2_000) -> Section:
    """Both sides in ``blocks`` of ``calls``, after one that only warms."""
    every = os.sched_getaffinity(0)
    cores = sorted(every)[:2]
    taken: dict[str, list[Load]] = {side: [] for side in SIDES}
    with tempfile.TemporaryDirectory(prefix="dataset-agent-bench-") as folder, ExitStack() as stack:
        sides = {
            side: Side(Path(folder) / side.replace(" ", "-"), workers, alone=served == 1, cores=cores)
            for side, (workers, served) in SIDES.items()
        }
        for side in sides.values():
            stack.callback(side.stop)
        for block in track(range(blocks + 1), description="measuring", transient=True, disable=not sys.stderr.isatty()):
            for name, side in sides.items():
                load = side.load(calls)
                if block:
                    taken[name].append(load)
        facts = machine() | {"stores": "SQLite", "fdatasync_ms": round(fdatasync_ms(Path(folder)), 3)}
    os.sched_setaffinity(0, every)
    return Section("Several workers", "ms", [], _figures(taken), facts | {"connections": CONNECTIONS, "blocks": blocks})


class Side:
    """A dataset agent with so many workers, and connections to each."""

    def __init__(self, home: Path, workers: int, *, alone: bool, cores: Sequence[int]) -> None:
        home.mkdir()
        self._governed = Governed(home)
        self._cores = {cores[-1]} if alone else set(cores)
        os.sched_setaffinity(0, set(cores))
        self._server = self._governed.serve(core=cores[0] if alone else None, workers=workers)
        self._lines = self._connected(workers)
        self._pids = [self._server.process.pid, *_children(self._server.process.pid)]

    def load(self, calls: int) -> Load:
        """One block with every connection busy."""
        os.sched_setaffinity(0, self._cores)
        requests = self._governed.requests(self._server.port, calls, fresh_arguments=False)
        before, own, began = self._spent(), time.process_time(), time.perf_counter()
        bodies = _exchanged(self._lines, requests)
        took, own, served = time.perf_counter() - began, time.process_time() - own, self._spent() - before
        _check(bodies)
        return Load(calls / took, served / calls, own / calls)

    def stop(self) -> None:
        self._server.stop()

    def _spent(self) -> float:
        return sum(_processor_seconds(pid) for pid in self._pids)

    def _connected(self, workers: int) -> list[Connection]:
        """As many to each worker; the id of a task says which one answered."""
        per_worker, held, found = CONNECTIONS // workers, list[Connection](), Counter[str]()
        for _ in range(_MOST_OPENED):
            line = Connection(self._server.port)
            (request,) = self._governed.requests(self._server.port, 1, fresh_arguments=False)
            task = json.loads(line.exchange(request))["result"]["task"]["id"]
            worker = task.rpartition("-")[0]
            if found[worker] == per_worker:
                line.close()
                continue
            found[worker] += 1
            held.append(line)
            if len(held) == CONNECTIONS:
                return held
        raise SystemExit(f"connections do not come to all workers: {dict(found)}")


def _exchanged(lines: Sequence[Connection], requests: Sequence[bytes]) -> list[bytes]:
    """Every request once, each connection with one at a time."""
    waiting, bodies = list(reversed(requests)), list[bytes]()
    with selectors.DefaultSelector() as selector:
        for line in lines:
            selector.register(line.socket, selectors.EVENT_READ, line)
            line.socket.sendall(waiting.pop())
        while len(bodies) < len(requests):
            for key, _ in selector.select():
                line = key.data
                line.fill()
                if (body := line.take()) is None:
                    continue
                bodies.append(body)
                if waiting:
                    line.socket.sendall(waiting.pop())
    return bodies


def _check(bodies: Sequence[bytes]) -> None:
    for body in bodies:
        if b'"TASK_STATE_COMPLETED"' not in body or b'"outcome":"HIT"' not in body.replace(b" ", b""):
            raise SystemExit(f"a governed hit was none: {body[:400].decode(errors='replace')}")


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _figures(taken: dict[str, list[Load]]) -> list[Figure]:
    one, shared, two = ([load.rate for load in loads] for loads in taken.values())
    figures = [
        Figure("governed hit calls/s, two workers / one", _ratio(two, one), least=1.6),
        Figure("the same, one worker on two cores", _ratio(two, shared)),
    ]
    for side, loads in taken.items():
        figures.append(
            Figure(f"{side}, {CONNECTIONS} connections", median(load.rate for load in loads), unit="calls/s")
        )
        served, asked = (median(getattr(load, name) for load in loads) * 1_000 for name in ("served", "asked"))
        figures.append(Figure(f"{side}, processor of the servers", served, unit="ms/call"))
        figures.append(Figure(f"{side}, processor of the client", asked, unit="ms/call"))
    return figures


def _ratio(rates: Sequence[float], others: Sequence[float]) -> float:
    """The median of what each block's rate is to the other side's in the same turn."""
    return median(rate / other for rate, other in zip(rates, others, strict=True))
