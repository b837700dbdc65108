"""Copies of the tree in which a fault is planted, the tests are run, and the fault is taken out again."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mutants.plant import Mutant

TIMEOUT: Final = 300
"""Seconds after which a mutant that makes the tests hang counts as killed."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run of tests showed. ``killer`` is the first test that failed; ``None`` where every one passed."""

    killer: str | None
    ran: int


class Copy:
    """One copy of what git knows of the tree, with this environment's interpreter."""

    def __init__(self, root: Path, place: Path) -> None:
        self.root = place
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=root, capture_output=True, check=True,
        )  # fmt: skip
        for name in filter(None, listed.stdout.decode().split("\0")):
            if (root / name).is_file():
                (place / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, place / name)

    def run(self, tests: Sequence[str], mutant: Mutant | None = None) -> Outcome:
        """The outcome of ``tests`` with the fault planted. Raises ``RuntimeError`` where nothing could be run."""
        if mutant is None:
            return self._run(tests)
        file = self.root / mutant.path
        source = file.read_text(encoding="utf-8")
        file.write_text(mutant.planted(source), encoding="utf-8")
        try:
            return self._run(tests)
        finally:
            file.write_text(source, encoding="utf-8")

    def _run(self, tests: Sequence[str]) -> Outcome:
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("DATASET_AGENT_")},
            "PYTHONPATH": str(self.root),
            "PYTHONDONTWRITEBYTECODE": "1",
            "HYPOTHESIS_STORAGE_DIRECTORY": str(self.root / ".hypothesis"),
        }
        try:
            done = subprocess.run(
                [sys.executable, "-m", "mutants.child", *tests],
                cwd=self.root, env=environment, capture_output=True, text=True, timeout=TIMEOUT, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return Outcome("the tests did not end", 0)
        lines = done.stdout.strip().splitlines()
        try:
            told = json.loads(lines[-1])
        except (IndexError, ValueError):
            # A fault that keeps pytest itself from starting is seen, and by every test.
            return Outcome("no test could start", 0)
        if told["killer"] is None and (told["status"] != 0 or not told["ran"]):
            wrong = [line for line in (*done.stderr.splitlines(), *lines) if line.startswith("ERROR")]
            raise RuntimeError(f"a test that is named is not there: {'; '.join(wrong)[:2_000] or ', '.join(tests[:3])}")
        return Outcome(told["killer"], told["ran"])
