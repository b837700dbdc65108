"""``make races``: what happens once of 64 concurrent things in four processes, round after round, on both stores.

Of 64 uses of one leaf exactly one executes. 64 equal calls that nobody asked before are one
execution; where its process is killed, the others finish with one more, and evidence knows of one.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from tests.races.cold_race import race_cold, race_killed
from tests.races.racing import Race, RaceLost, Tell
from tests.races.served_race import race_served
from tests.races.store_race import race_stores

_FURTHER: Final = ("executions", "evidence_rows", "cache_failed_rounds", "executions_alone", "waited_ms")
ROUNDS: Final = {"store": 500, "served": 500, "cold": 200, "killed": 12}
RACES: dict[str, Callable[[str, Path, int, Tell], Race]] = {
    "store": race_stores,
    "served": race_served,
    "cold": race_cold,
    "killed": race_killed,
}


def main() -> int:
    options = argparse.ArgumentParser(prog="make races", description=__doc__)
    said = ", ".join(f"{name} {rounds}" for name, rounds in ROUNDS.items())
    options.add_argument("--rounds", type=int, help=f"rounds of each race ({said})")
    options.add_argument("--only", choices=RACES, help="one of the races")
    options.add_argument("--on", choices=("sqlite", "redis"), help="one of the two stores")
    options.add_argument("--json", action="store_true", help="print one object for programs")
    chosen = options.parse_args()
    kinds = (chosen.on,) if chosen.on else ("sqlite", "redis")
    names = (chosen.only,) if chosen.only else tuple(RACES)
    try:
        races = [run(name, kind, chosen.rounds or ROUNDS[name]) for name in names for kind in kinds]
    except RaceLost as lost:
        print(json.dumps({"held": False, "lost": str(lost)}) if chosen.json else f"LOST: {lost}")
        return 1
    if chosen.json:
        print(json.dumps({"held": True, "races": [race.report() for race in races]}, indent=2))
    else:
        show(races)
    return 0


def run(name: str, kind: str, rounds: int) -> Race:
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )
    with tempfile.TemporaryDirectory(prefix="dataset-agent-races-") as folder, bar:
        task = bar.add_task(f"{name}, {kind}", total=rounds)
        return RACES[name](kind, Path(folder), rounds, lambda: bar.advance(task))


def show(races: list[Race]) -> None:
    table = Table(
        "race", "rounds", "outcomes", "executions", "evidence rows", "cache failed", "alone", "waited ms", "seconds"
    )
    for race in races:
        told = race.report()
        outcomes = ", ".join(f"{count} {name}" for name, count in told["outcomes"].items())
        further = (str(told.get(name, "")) for name in _FURTHER)
        table.add_row(race.what, str(race.rounds), outcomes, *further, f"{race.seconds:.1f}")
    Console(emoji=False).print(table)


if __name__ == "__main__":
    sys.exit(main())
