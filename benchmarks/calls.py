"""One governed call over A2A, hit and miss, beside two ungoverned echoes, interleaved in one run."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Final

from rich.progress import track

from benchmarks.governed import Governed
from benchmarks.raw_client import Connection, latencies, request_bytes, throughput
from benchmarks.report import Figure, Section, Side, machine
from benchmarks.servers import Server, fdatasync_ms

SIDES: Final = ("sdk echo", "adk echo", "governed hit", "governed miss")
LOADED: Final = SIDES[:3]


def measure(blocks: int = 6, calls: int = 150, load: int = 1_500) -> Section:
    """All sides in interleaved ``blocks`` of ``calls``; ``load`` calls for each throughput. Milliseconds.

    The servers share a core, the client has the other.
    """
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[-1]})
    try:
        with tempfile.TemporaryDirectory(prefix="dataset-agent-bench-") as folder:
            return _measure(Path(folder), cores[0], blocks, calls, load)
    finally:
        os.sched_setaffinity(0, set(cores))


def _measure(home: Path, core: int, blocks: int, calls: int, load: int) -> Section:
    governed = Governed(home)
    servers = {
        "sdk echo": Server.python("benchmarks.echo_sdk", core=core),
        "adk echo": Server.python("benchmarks.echo_adk", core=core),
        "governed": governed.serve(core=core),
    }
    try:
        times: dict[str, list[tuple[float, ...]]] = {side: [] for side in SIDES}
        lines = {side: Connection(servers[_server(side)].port) for side in SIDES}
        for block in track(range(blocks + 1), description="measuring", transient=True, disable=not sys.stderr.isatty()):
            for side in SIDES:
                requests = _prepare(side, servers[_server(side)].port, governed, calls)
                taken, bodies = latencies(lines[side], requests)
                check(side, bodies)
                if block:  # the first block warms every side
                    times[side].append(tuple(taken))
        rates = {
            side: throughput(servers[_server(side)].port, _prepare(side, servers[_server(side)].port, governed, load))
            for side in LOADED
        }
    finally:
        for server in servers.values():
            server.stop()
    sides = {name: Side(name, tuple(taken)) for name, taken in times.items()}
    facts = machine() | {"stores": "SQLite", "fdatasync_ms": round(fdatasync_ms(home), 3)}
    return Section("One call over A2A", "ms", list(sides.values()), _figures(sides, rates), facts)


def _server(side: str) -> str:
    return "governed" if side.startswith("governed") else side


def _prepare(side: str, port: int, governed: Governed, calls: int) -> list[bytes]:
    """The requests of one block, ready to send; the governed ones with fresh tokens each."""
    if side.startswith("governed"):
        return governed.requests(port, calls, fresh_arguments=side == "governed miss")
    return [request_bytes(port, governed.message(governed.call(0)), {"A2A-Version": "1.0"}) for _ in range(calls)]


def check(side: str, bodies: list[bytes]) -> None:
    """A benchmark of refusals would be fast: every answer must be the one that was asked for."""
    for body in bodies:
        answer = json.loads(body)
        state = answer.get("result", {}).get("task", {}).get("status", {}).get("state")
        if state != "TASK_STATE_COMPLETED":
            raise SystemExit(f"{side} did not complete: {body[:400].decode(errors='replace')}")
    if side == "governed hit" and b'"outcome":"HIT"' not in bodies[-1].replace(b" ", b""):
        raise SystemExit("a governed hit was not a hit")
    if side == "governed miss" and b'"outcome":"MISS"' not in bodies[-1].replace(b" ", b""):
        raise SystemExit("a governed miss was not a miss")


def _figures(sides: dict[str, Side], rates: dict[str, float]) -> list[Figure]:
    sdk, adk, hit, miss = (sides[name] for name in SIDES)
    return [
        Figure("governed hit p50 / ADK echo p50", hit.p50 / adk.p50, most=0.6),
        Figure("governed hit p50 / SDK echo p50", hit.p50 / sdk.p50, most=1.0),
        Figure("governed hit p99 / ADK echo p99", hit.p99 / adk.p99, most=0.75),
        Figure("governed miss p50 / ADK echo p50", miss.p50 / adk.p50),
        Figure("governed hit calls/s at 16 / SDK echo", rates["governed hit"] / rates["sdk echo"], least=1.2),
        Figure("governed hit calls/s at 16 / ADK echo", rates["governed hit"] / rates["adk echo"]),
        *(Figure(f"{side}, 16 connections", rate, unit="calls/s") for side, rate in rates.items()),
    ]
