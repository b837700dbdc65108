"""``make races``: of 64 concurrent uses of one leaf exactly one executes, round after round, on both stores."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from tests.races.racing import Race, RaceLost, Tell
from tests.races.served_race import race_served
from tests.races.store_race import race_stores

RACES: dict[str, Callable[[str, Path, int, Tell], Race]] = {"store": race_stores, "served": race_served}


def main() -> int:
    options = argparse.ArgumentParser(prog="make races", description=__doc__)
    options.add_argument("--rounds", type=int, default=500, help="rounds of each race (default 500)")
    options.add_argument("--only", choices=RACES, help="the state store alone, or serving processes over HTTP")
    options.add_argument("--on", choices=("sqlite", "redis"), help="one of the two stores")
    options.add_argument("--json", action="store_true", help="print one object for programs")
    chosen = options.parse_args()
    kinds = (chosen.on,) if chosen.on else ("sqlite", "redis")
    names = (chosen.only,) if chosen.only else tuple(RACES)
    try:
        races = [run(name, kind, chosen.rounds) for name in names for kind in kinds]
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
    table = Table("race", "rounds", "outcomes", "executions", "evidence rows", "seconds")
    for race in races:
        told = race.report()
        outcomes = ", ".join(f"{count} {name}" for name, count in told["outcomes"].items())
        further = (str(told.get(name, "")) for name in ("executions", "evidence_rows"))
        table.add_row(race.what, str(race.rounds), outcomes, *further, f"{race.seconds:.1f}")
    Console(emoji=False).print(table)


if __name__ == "__main__":
    sys.exit(main())
