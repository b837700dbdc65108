"""``make test-cache``: random pairs of requests through the real cache on both stores, against an oracle of the design."""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

from tests.cachelaw.judging import AUTHORIZATION, KINDS, QUESTION, SAME, STORES, Count, Tally, judged, valkey

_CHUNK = 1_000
_DATABASES = 16
_WHAT = {
    AUTHORIZATION: "differ in one dimension of the authorization",
    QUESTION: "differ in one argument",
    SAME: "mean the same",
}


def main() -> int:
    options = argparse.ArgumentParser(prog="make test-cache", description=__doc__)
    options.add_argument("--pairs", type=int, default=100_000, help="pairs of each kind (default 100,000)")
    options.add_argument("--only", choices=KINDS, help="one kind of pairs")
    options.add_argument("--seed", type=int, default=1, help="another seed is another run")
    options.add_argument("--json", action="store_true", help="print one object for programs")
    chosen = options.parse_args()
    started = time.perf_counter()
    tally = run(tuple(KINDS) if chosen.only is None else (chosen.only,), chosen.pairs, chosen.seed)
    report = told(tally) | {"seed": chosen.seed, "seconds": round(time.perf_counter() - started, 1)}
    if chosen.json:
        print(json.dumps(report, indent=2))
    else:
        show(tally, report)
    return 0 if report["held"] else 1


def run(kinds: tuple[str, ...], count: int, seed: int) -> Tally:
    """Chunks on every core, each with a file and a database of its own."""
    chunks = [
        (kind, min(_CHUNK, count - first), f"{seed}/{kind}/{first}")
        for kind in kinds
        for first in range(0, count, _CHUNK)
    ]
    tally: Tally = {}
    workers = min(os.cpu_count() or 1, _DATABASES // 2)
    context = multiprocessing.get_context("spawn")
    with valkey() as url, ProcessPoolExecutor(workers, mp_context=context) as pool, bar() as progress:
        task = progress.add_task("pairs", total=count * len(kinds))
        databases = itertools.cycle(f"{url.rstrip('/')}/{number}" for number in range(_DATABASES))
        waiting: set[Future[Tally]] = set()
        for chunk in chunks:
            if len(waiting) == workers:
                waiting = _gathered(waiting, tally, progress, task)
            waiting.add(pool.submit(judged, *chunk, next(databases)))
        while waiting:
            waiting = _gathered(waiting, tally, progress, task)
    return tally


def _gathered(waiting: set[Future[Tally]], tally: Tally, progress: Progress, task: TaskID) -> set[Future[Tally]]:
    done, left = wait(waiting, return_when=FIRST_COMPLETED)
    for future in done:
        for place, found in future.result().items():
            tally.setdefault(place, Count()).add(found)
            progress.advance(task, found.pairs)
    return left


def bar() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )


def told(tally: Tally) -> dict[str, Any]:
    kinds = {}
    for kind in KINDS:
        total = Count()
        for (of, _), count in tally.items():
            if of == kind:
                total.add(count)
        if total.pairs:
            kinds[kind] = numbers(total) | {
                "held": total.holds(kind),
                "dimensions": {name: numbers(count) for (of, name), count in sorted(tally.items()) if of == kind},
            }
    return {"held": bool(kinds) and all(found["held"] for found in kinds.values()), "kinds": kinds}


def numbers(count: Count) -> dict[str, Any]:
    by_store = {
        store: {"hits": count.hits[store], "own_entry_found": count.own[store], "wrong_rows": count.wrong[store]}
        for store in STORES
    }
    return {"pairs": count.pairs, **by_store}


def show(tally: Tally, report: dict[str, Any]) -> None:
    table = Table("pairs that", "pairs", *(f"hits {store}" for store in STORES), "wrong rows", "holds")
    for kind, name, count in rows(tally):
        table.add_row(
            f"  {name}" if name else _WHAT[kind],
            f"{count.pairs:,}",
            *(f"{count.hits[store]:,}" for store in STORES),
            f"{sum(count.wrong.values()):,}",
            "yes" if count.holds(kind) else "NO",
            style=None if name else "bold",
        )
    console = Console(emoji=False)
    console.print(table)
    console.print(f"{'held' if report['held'] else 'BROKEN'}, seed {report['seed']}, {report['seconds']} s")


def rows(tally: Tally) -> Iterator[tuple[str, str, Count]]:
    """A line for each kind, its name empty, then one for each dimension."""
    for kind in KINDS:
        found = {name: count for (of, name), count in tally.items() if of == kind}
        total = Count()
        for count in found.values():
            total.add(count)
        if found:
            yield kind, "", total
        if len(found) > 1:
            yield from ((kind, name, count) for name, count in sorted(found.items()))


if __name__ == "__main__":
    sys.exit(main())
