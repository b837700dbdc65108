"""``python -m mutants``: every check is taken out once, and its test must fail.

``--find`` looks for a killing test where none is known yet and writes ``killers.json``;
``--only TEXT`` takes the mutants whose id holds the text; ``--json`` prints one object.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
from typing import Final

from rich.console import Console
from rich.progress import Progress
from rich.text import Text

from mutants import killers
from mutants.copies import Copy
from mutants.near import NEAR, SEARCHED
from mutants.plant import Mutant, mutants

ROOT: Final = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Result:
    """``killer`` is ``None`` for a mutant that survived ``test``, or for which no test is known."""

    mutant: Mutant
    test: str | None
    killer: str | None

    @property
    def told(self) -> str:
        if self.killer is not None:
            return f"killed by {self.killer}"
        return f"SURVIVED {self.test}" if self.test else "no test is named for it: run with --find"


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--find", action="store_true", help="look for a test where none is known, and write it down")
    options.add_argument("--only", default="", help="mutants whose id holds this text")
    options.add_argument("--workers", type=_positive, default=len(os.sched_getaffinity(0)), help="copies used at once")
    options.add_argument("--json", action="store_true", dest="as_json", help="print one JSON object")
    chosen = options.parse_args()
    planted = [mutant for mutant in mutants(ROOT) if chosen.only in mutant.id]
    if not planted:
        options.error(f"no check has {chosen.only!r} in its name")
    known = killers.read()
    if chosen.find:
        planted = [mutant for mutant in planted if mutant.id not in known]
    results = run_all(planted, known, find=chosen.find, workers=chosen.workers)
    if chosen.find:
        there = {mutant.id for mutant in mutants(ROOT)}
        killers.write({name: test for name, test in killers.read().items() if name in there})
    report(results, as_json=chosen.as_json)
    return 0 if all(result.killer for result in results) else 1


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError("give 1 or more")
    return int(text)


def run_all(planted: Sequence[Mutant], known: dict[str, str], *, find: bool, workers: int) -> list[Result]:
    """Every mutant's result, in order. Raises ``RuntimeError`` where a test fails without any fault."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, Progress(disable=not sys.stderr.isatty()) as bar:
        free: SimpleQueue[Copy] = SimpleQueue()
        for number in range(workers):
            free.put(Copy(ROOT, Path(folder) / str(number)))
        named = sorted({known[mutant.id] for mutant in planted if mutant.id in known})
        first = free.get()
        if named and (broken := first.run(named).killer) is not None:
            raise RuntimeError(f"{broken} fails without any fault planted")
        free.put(first)
        writing = Lock()
        task = bar.add_task("planting", total=len(planted))

        def work(mutant: Mutant) -> Result:
            copy = free.get()
            try:
                result = judge(copy, mutant, known.get(mutant.id), find=find)
                if find and result.killer is not None:
                    with writing:  # long work: what is found is kept, however it ends
                        killers.write({**killers.read(), mutant.id: killers.lasting(result.killer)})
                return result
            finally:
                free.put(copy)
                bar.advance(task)

        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(work, planted))


def judge(copy: Copy, mutant: Mutant, test: str | None, *, find: bool) -> Result:
    """By the test named for it; else, where asked, by the first that fails."""
    if test is not None and (killer := copy.run([test], mutant).killer) is not None:
        return Result(mutant, test, killer)
    if not find:
        return Result(mutant, test, None)
    for tests in searched(copy.root, mutant.path):
        killer = copy.run(tests, mutant).killer
        if killer is not None and "::" in killer:  # a test that fails, and not a file that cannot be read or that hangs
            return Result(mutant, killer, killer)
    return Result(mutant, "every test that was tried", None)


def searched(root: Path, path: str) -> Iterator[list[str]]:
    """Tests that could kill a fault in ``path``: those written for the file, or the nearest folder."""
    package, _, name = path.partition("/")
    stem = name.removesuffix(".py")
    files = [file for folder in SEARCHED[package] for file in sorted((root / folder).glob("test_*.py"))]
    near = [str(file.relative_to(root)) for word in (*NEAR.get(path, ()), stem) for file in files if word in file.name]
    for name in dict.fromkeys(near):
        yield [name]
    if not near:
        yield [SEARCHED[package][0]]


def report(results: Sequence[Result], *, as_json: bool) -> None:
    survived = [result.mutant.id for result in results if result.killer is None]
    if as_json:
        told = {result.mutant.id: result.killer for result in results}
        print(json.dumps({"planted": len(results), "survived": survived, "killers": told}, indent=1))
        return
    console = Console()
    for result in results:
        console.print(Text(result.mutant.id), soft_wrap=True)
        console.print(Text(f"  {result.told}", style="" if result.killer else "bold red"), soft_wrap=True)
    console.print(f"{len(results)} planted, {len(results) - len(survived)} killed, {len(survived)} survived")


if __name__ == "__main__":
    sys.exit(main())
