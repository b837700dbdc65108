"""``make test-cache-faults``: what a cache server that suffers costs the calls of a real agent.

Ends with 1 where a call waited for the cache, or the median call lasted, more than ``MOST_MS`` longer.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from tests.cachefaults.faults import FAULTS, Report, suffer

MOST_MS: Final = 50


def main() -> int:
    options = argparse.ArgumentParser(prog="make test-cache-faults", description=__doc__)
    options.add_argument("--calls", type=int, default=60, help="calls of each phase (default 60)")
    options.add_argument("--json", action="store_true", help="print one object for programs")
    chosen = options.parse_args()
    reports = []
    for fault in FAULTS:
        with tempfile.TemporaryDirectory() as folder, Console(stderr=True).status(fault.name):
            reports.append(suffer(fault, Path(folder), calls=chosen.calls))
    if chosen.json:
        print(json.dumps([told(report) for report in reports], indent=2))
    else:
        Console().print(table(reports))
    beyond = [report.fault for report in reports if max(report.waited_worst, report.added_median) > MOST_MS]
    for name in beyond:
        Console(stderr=True).print(f"{name}: more than {MOST_MS} ms")
    return 1 if beyond else 0


def told(report: Report) -> dict[str, object]:
    return {
        "fault": report.fault,
        "outcomes": dict(report.faulty.outcomes),
        "miss_p50_ms": round(report.healthy.median, 1),
        "added_p50_ms": round(report.added_median, 1),
        "added_worst_ms": round(report.added_worst, 1),
        "waited_worst_ms": round(report.waited_worst, 1),
        "worst_while_well_ms": round(report.healthy.worst - report.healthy.median, 1),
        "readyz": report.standing,
        "recovered_s": round(report.recovery_s, 2),
    }


def table(reports: list[Report]) -> Table:
    made = Table(title="the cache server suffers: all answers right, times against a miss while it is well")
    rows = [told(report) for report in reports]
    for name in rows[0]:
        made.add_column(name)
    for row in rows:
        made.add_row(*[str(value) for value in row.values()])
    return made


if __name__ == "__main__":
    raise SystemExit(main())
