"""``make bench``: governed hit and miss over A2A beside two ungoverned echoes, interleaved in one run."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.governed import Governed
from benchmarks.raw_client import Connection, latencies, request_bytes, throughput
from benchmarks.servers import Server, fdatasync_ms

RESULTS = Path(__file__).parent / "results"
SIDES = ("sdk echo", "adk echo", "governed hit", "governed miss")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--blocks", type=int, default=6, help="interleaved blocks of each side")
    options.add_argument("--calls", type=int, default=150, help="calls of one block")
    options.add_argument("--load", type=int, default=1_500, help="calls of the throughput measurement")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="dataset-agent-bench-") as folder:
        report = measure(Path(folder), chosen.blocks, chosen.calls, chosen.load)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "latest.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    show(report)


def measure(home: Path, blocks: int, calls: int, load: int) -> dict[str, Any]:
    """All sides in one run. The servers share a core, the client has the other."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[-1]})
    governed = Governed(home)
    servers = {
        "sdk echo": Server.python("benchmarks.echo_sdk", core=cores[0]),
        "adk echo": Server.python("benchmarks.echo_adk", core=cores[0]),
        "governed": governed.serve(core=cores[0]),
    }
    try:
        times: dict[str, list[list[float]]] = {side: [] for side in SIDES}
        lines = {side: Connection(servers[_server(side)].port) for side in SIDES}
        for block in track(range(blocks + 1), description="measuring", transient=True, disable=not sys.stderr.isatty()):
            for side in SIDES:
                requests = prepare(side, servers[_server(side)].port, governed, calls)
                taken, bodies = latencies(lines[side], requests)
                check(side, bodies)
                if block:  # the first block warms every side
                    times[side].append(taken)
        rates = {
            side: throughput(servers[_server(side)].port, prepare(side, servers[_server(side)].port, governed, load))
            for side in ("sdk echo", "adk echo", "governed hit")
        }
    finally:
        for server in servers.values():
            server.stop()
    return report_of(times, rates, home)


def _server(side: str) -> str:
    return "governed" if side.startswith("governed") else side


def prepare(side: str, port: int, governed: Governed, calls: int) -> list[bytes]:
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


def report_of(times: dict[str, list[list[float]]], rates: dict[str, float], home: Path) -> dict[str, Any]:
    sides: dict[str, dict[str, Any]] = {
        side: {
            "p50_ms": statistics.median(percentile(block, 50) for block in blocks),
            "p99_ms": statistics.median(percentile(block, 99) for block in blocks),
            "p50_blocks_ms": [round(percentile(block, 50), 4) for block in blocks],
        }
        for side, blocks in times.items()
    }
    hit, miss, sdk, adk = (sides[side] for side in ("governed hit", "governed miss", "sdk echo", "adk echo"))
    ratios = [
        ("governed hit p50 / ADK echo p50", hit["p50_ms"] / adk["p50_ms"], "<= 0.60"),
        ("governed hit p50 / SDK echo p50", hit["p50_ms"] / sdk["p50_ms"], "<= 1.0"),
        ("governed hit p99 / ADK echo p99", hit["p99_ms"] / adk["p99_ms"], "<= 0.75"),
        ("governed miss p50 / ADK echo p50", miss["p50_ms"] / adk["p50_ms"], ""),
        ("governed hit calls/s at 16 / SDK echo", rates["governed hit"] / rates["sdk echo"], ">= 1.2"),
        ("governed hit calls/s at 16 / ADK echo", rates["governed hit"] / rates["adk echo"], ""),
    ]
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "measured_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "stores": "SQLite",
        "fdatasync_ms": fdatasync_ms(home),
        "sides": sides,
        "calls_per_second_16_connections": {side: round(rate, 1) for side, rate in rates.items()},
        "ratios": [{"what": what, "ratio": round(ratio, 3), "goal": goal} for what, ratio, goal in ratios],
    }


def percentile(values: list[float], rank: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[rank - 1]


def show(report: dict[str, Any]) -> None:
    console = Console(emoji=False)
    sides = Table("side", "p50 ms", "p99 ms", "calls/s, 16 connections", title="One call over A2A")
    rates = report["calls_per_second_16_connections"]
    for side, figures in report["sides"].items():
        rate = rates.get(side)
        sides.add_row(
            side, f"{figures['p50_ms']:.2f}", f"{figures['p99_ms']:.2f}", "" if rate is None else f"{rate:.0f}"
        )
    console.print(sides)
    ratios = Table("ratio", "measured", "goal")
    for row in report["ratios"]:
        ratios.add_row(row["what"], f"{row['ratio']:.2f}", row["goal"])
    console.print(ratios)
    console.print(f"Python {report['python']}, {report['cores']} cores, fdatasync {report['fdatasync_ms']:.2f} ms")


if __name__ == "__main__":
    main()
