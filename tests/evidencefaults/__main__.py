"""``make test-evidence``: what a ledger goes through, with real processes and real errors, and what holds afterwards.

Ends with 1 where something does not hold.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.evidencefaults.killed_serve import SERVED
from tests.evidencefaults.ledger_faults import FAULTS, Report


def main() -> int:
    options = argparse.ArgumentParser(prog="make test-evidence", description=__doc__)
    options.add_argument("--requests", type=int, default=40, help="requests of each writer (default 40)")
    options.add_argument("--only", help="one of " + ", ".join({**FAULTS, **SERVED}))
    options.add_argument("--json", action="store_true", help="print one list for programs")
    chosen = options.parse_args()
    reports = []
    for name, fault in {**FAULTS, **SERVED}.items():
        if chosen.only in (None, name):
            with tempfile.TemporaryDirectory() as folder, Console(stderr=True).status(name):
                reports.append(fault(Path(folder, "home"), chosen.requests))
    if chosen.json:
        print(json.dumps([asdict(report) for report in reports], indent=2))
    else:
        Console().print(table(reports))
    for report in reports:
        for what in report.broken:
            Console(stderr=True).print(f"{report.fault}: it does not hold that {what}")
    return 1 if any(report.broken for report in reports) else 0


def table(reports: list[Report]) -> Table:
    made = Table(title="after the next start: the ledger verifies, receipts are true, each request has one row")
    columns = ("fault", "writers", "taken in", "receipts", "withheld", "rows", "later", "s", "holds")
    for name in columns:
        made.add_column(name, justify="left" if name in ("fault", "holds") else "right")
    for one in reports:
        cells = (one.writers, one.begun, one.written, one.withheld, one.rows, one.ended_later, round(one.seconds, 1))
        made.add_row(one.fault, *map(str, cells), "no" if one.broken else "yes")
    return made


if __name__ == "__main__":
    raise SystemExit(main())
