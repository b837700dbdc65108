"""``python -m conformance.mutants``: the kit's 19 faults in this product, and the assertion that catches each.

Each is planted in a copy of the tree, from which every process is started; ``--only NAME`` takes those whose name
holds the text, ``--matrix`` runs all vectors against each, ``--workers 2`` works on two at once.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final

from conformance import kit
from conformance.faults import FAULTS
from conformance.planting import Fault
from mutants.copies import Copy

TIMEOUT_S: Final = 600


class NotRun(Exception):
    """The vectors came to no end in a copy of the tree."""


@dataclass(frozen=True, slots=True)
class Caught:
    """``by`` are the assertions that failed, ``detail`` what its target said; ``None`` where that passed."""

    fault: Fault
    by: tuple[str, ...]
    detail: str | None
    seconds: float


def run_in(copy: Copy, only: Sequence[str]) -> dict[str, Any]:
    """What ``python -m conformance --json`` says in a copy. Raises ``NotRun``."""
    command = [sys.executable, "-m", "conformance", "--json", *(["--only", *only] if only else [])]
    environment = {**os.environ, "PYTHONPATH": str(copy.root), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        command, cwd=copy.root, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    try:
        told: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    except (IndexError, ValueError):
        raise NotRun(done.stderr[-1_000:]) from None
    return told


def judged(copy: Copy, fault: Fault, *, matrix: bool) -> Caught:
    """The fault planted, the vectors of its target (with ``matrix``: all) run, and the fault taken out again."""
    began = time.monotonic()
    whole = {path: (copy.root / path).read_text(encoding="utf-8") for path in {edit.path for edit in fault.edits}}
    try:
        for path, text in fault.planted(copy.root).items():
            (copy.root / path).write_text(text, encoding="utf-8")
        told = run_in(copy, () if matrix else (fault.target,))
    finally:
        for path, text in whole.items():
            (copy.root / path).write_text(text, encoding="utf-8")
    failed = {name: found["detail"] for name, found in told["assertions"].items() if not found["passed"]}
    return Caught(fault, tuple(failed), failed.get(fault.target), time.monotonic() - began)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", default="", help="faults whose name holds this text")
    options.add_argument(
        "--matrix", action="store_true", help="all vectors against each fault, not those of its target"
    )
    options.add_argument("--workers", type=int, choices=range(1, 9), default=1, help="copies used at once")
    chosen = options.parse_args()
    planted = [fault for fault in FAULTS if chosen.only in fault.name]
    if not planted:
        options.error(f"no fault has {chosen.only!r} in its name")
    kit.installed()
    with tempfile.TemporaryDirectory(prefix="conformance-mutants-") as folder:
        free: SimpleQueue[Copy] = SimpleQueue()
        for number in range(chosen.workers):
            free.put(Copy(kit.ROOT, Path(folder) / str(number)))
        sound(free.get_nowait(), free, sorted({fault.target for fault in planted}))

        def work(fault: Fault) -> Caught:
            copy = free.get()
            try:
                return judged(copy, fault, matrix=chosen.matrix)
            finally:
                free.put(copy)

        with ThreadPoolExecutor(chosen.workers) as pool:
            found = [tell(caught) for caught in pool.map(work, planted)]
    missed = [caught.fault.name for caught in found if caught.detail is None]
    print(f"{len(found)} planted, {len(found) - len(missed)} caught by the assertion the kit names", *missed)
    return 1 if missed else 0


def sound(copy: Copy, free: SimpleQueue[Copy], targets: Sequence[str]) -> None:
    """Without any fault nothing fails; else a catch would say nothing. Raises ``NotRun``."""
    told = run_in(copy, targets)
    if not told["passed"]:
        raise NotRun(f"without any fault planted: {json.dumps(told)}")
    free.put(copy)


def tell(caught: Caught) -> Caught:
    fault = caught.fault
    verdict = "MISSED" if caught.detail is None else f"caught by {', '.join(caught.by)}"
    print(f"{fault.target}  {fault.name}: {verdict} ({len(fault.edits)} edits, {caught.seconds:.0f} s)", flush=True)
    print(f"        {fault.walls}", flush=True)
    print(f"        {caught.detail or 'nothing'}", flush=True)
    return caught


if __name__ == "__main__":
    sys.exit(main())
