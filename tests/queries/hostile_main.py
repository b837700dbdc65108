"""The whole hostile corpus under real limits: ``python -m tests.queries.hostile_main [--only TEXT]``.

For each row: it ends as it must, no planted marker comes out, the process that ran it has at most
twice the memory limit above what it had, and it ends at most a second after its time limit.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Final

from queries.duckdb_engine import DuckDbEngine
from tests.queries.hostile_corpus import CORPUS
from tests.queries.hostile_row import Hostile
from tests.queries.hostile_world import FACTOR, MARKER, Outcome, attempt, ends_as_it_must, plant, planted_engine, warm

_MEMORY: Final = 128
_TIMEOUT: Final = 2.0
_BIG_ROWS: Final = 100_000
_GRACE: Final = 1.0


def broken(row: Hostile, outcome: Outcome) -> list[str]:
    """Which of the rules a row broke."""
    found = []
    if not ends_as_it_must(row, outcome):
        found.append(f"ended at {outcome.end}, not at {row.end}: {outcome.said[:200]}")
    if MARKER in outcome.said:
        found.append("the marker came out")
    if outcome.memory > FACTOR * _MEMORY * 10**6:
        found.append(f"{outcome.memory // 10**6} MB of {_MEMORY}")
    if outcome.end in ("run", "answer") and outcome.seconds > _TIMEOUT + _GRACE:
        found.append(f"{outcome.seconds:.2f} s of {_TIMEOUT}")
    return found


async def _all(engine: DuckDbEngine, rows: list[Hostile], show: bool) -> tuple[Counter[str], list[str], int, float]:
    ends: Counter[str] = Counter()
    faults: list[str] = []
    memory, seconds = 0, 0.0
    await warm(engine)
    for row in rows:
        outcome = await attempt(engine, row)
        ends[outcome.end] += 1
        memory = max(memory, outcome.memory)
        if outcome.end in ("run", "answer"):
            seconds = max(seconds, outcome.seconds)
        wrong = broken(row, outcome)
        faults += [f"{row.name}: {fault}" for fault in wrong]
        if show or wrong:
            told = f"{outcome.memory // 10**6:5d} MB {outcome.seconds:6.2f} s  {outcome.end:9s} {row.name}"
            print(told, *wrong, sep="  ", flush=True)
    await engine.close()
    return ends, faults, memory, seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="rows whose name holds this text")
    parser.add_argument("--show", action="store_true", help="print every row")
    options = parser.parse_args()
    chosen = [row for row in CORPUS if options.only in row.name]
    with tempfile.TemporaryDirectory() as folder:
        plant(Path(folder), _BIG_ROWS)
        with planted_engine(Path(folder), memory_limit=f"{_MEMORY}MB", timeout=_TIMEOUT) as engine:
            ends, faults, memory, seconds = asyncio.run(_all(engine, chosen, options.show))
    told = {
        "rows": len(chosen),
        "refused at load": ends["load"],
        "refused arguments": ends["arguments"],
        "stopped": ends["run"],
        "answered": ends["answer"],
        "broken": len(faults),
        "peak MB above base": memory // 10**6,
        "memory limit MB": _MEMORY,
        "longest run s": round(seconds, 2),
        "time limit s": _TIMEOUT,
    }
    print(json.dumps(told))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
