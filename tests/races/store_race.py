"""One leaf, 64 uses at once from four processes, on the state store alone."""

from __future__ import annotations

import json
import subprocess
import time
from collections import Counter
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from grants.derive import header_value
from tests.grants.grants_world import make_chain
from tests.races.racing import Race, Tell, address_of_store, line_of, workers

_HEAD_START: Final = 0.006
"""Seconds in which every process has read and verified the leaf."""


def race_stores(kind: str, folder: Path, rounds: int, tell: Tell = lambda: None) -> Race:
    """``rounds`` rounds on ``sqlite`` or ``redis``. Raises ``RaceLost``."""
    race = Race(f"state store, {kind}")
    began = time.monotonic()
    with address_of_store(kind, folder) as url, spenders(url or str(folder / "state.sqlite3"), folder) as processes:
        for process in processes:
            line_of(process)
        for _ in range(rounds):
            header = header_value(make_chain())
            for process in processes:
                print(time.monotonic() + _HEAD_START, header, file=process.stdin, flush=True)
            outcomes: Counter[str] = Counter()
            for process in processes:
                outcomes.update(json.loads(line_of(process)))
            race.judge(outcomes, "SPENT")
            tell()
    race.seconds = time.monotonic() - began
    return race


def spenders(address: str, folder: Path) -> AbstractContextManager[list[subprocess.Popen[str]]]:
    return workers("tests.races.spender", address, log=folder / "spenders.log")
