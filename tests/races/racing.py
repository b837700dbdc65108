"""What the races have in common: how many at once, what must come of a round, and what a run says."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.valkey_server import ValkeyServer

HOUSE: Final = Path(__file__).resolve().parents[2]
PROCESSES: Final = 4
EACH: Final = 16
"""Uses of one leaf in each process; 64 in all."""

STATE: Final = {"appendonly": "yes", "maxmemory-policy": "noeviction"}
CACHE: Final = {"save": "", "maxmemory": "64mb", "maxmemory-policy": "volatile-lfu"}
"""How the server of a state store, and of a cache, is configured."""

Tell = Callable[[], None]
"""Called after each round."""


class RaceLost(AssertionError):
    """A round in which not exactly one use won, or something else came of it than must."""


@dataclass
class Race:
    """The rounds of one race. ``seconds`` is the whole time, the start of the processes included."""

    what: str
    rounds: int = 0
    seconds: float = 0.0
    outcomes: Counter[str] = field(default_factory=Counter)
    further: dict[str, int] = field(default_factory=dict)

    def judge(self, outcomes: Counter[str], winner: str) -> None:
        """Count a round that one must have won. Raises ``RaceLost``."""
        self.compare(outcomes, {winner: 1, "GRANT_REPLAYED": PROCESSES * EACH - 1})

    def compare(self, outcomes: Counter[str], expected: dict[str, int]) -> None:
        """Count a round. Raises ``RaceLost``."""
        self.rounds += 1
        self.outcomes += outcomes
        if outcomes != expected:
            raise RaceLost(f"{self.what}, round {self.rounds}: {dict(outcomes)}")

    def report(self) -> dict[str, Any]:
        return {
            "race": self.what,
            "rounds": self.rounds,
            "uses": sum(self.outcomes.values()),
            "outcomes": dict(sorted(self.outcomes.items())),
            **self.further,
            "seconds": round(self.seconds, 1),
        }


@contextmanager
def workers(
    module: str, *arguments: str, log: Path, env: dict[str, str] | None = None
) -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that read lines and print lines; what they say besides is in ``log``. Ended when the block ends."""
    command = [sys.executable, "-m", module, *arguments]
    started: list[subprocess.Popen[str]] = []
    with log.open("a") as said:
        try:
            for _ in range(PROCESSES):
                started.append(
                    subprocess.Popen(
                        command,
                        cwd=HOUSE,
                        env=os.environ | {"PYTHONWARNINGS": "ignore"} | (env or {}),
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                        stderr=said,
                        text=True,
                    )
                )
            yield started
        except EOFError as ended:
            raise RuntimeError(f"a racing process ended: {log.read_text()[-2_000:]}") from ended
        finally:
            for process in started:
                process.terminate()
            for process in started:
                process.communicate(timeout=60)


def line_of(process: subprocess.Popen[str]) -> str:
    """The next line that a process prints. Raises ``EOFError`` where it ended."""
    line = process.stdout.readline() if process.stdout else ""
    if not line:
        raise EOFError
    return line


@contextmanager
def address_of_store(kind: str, folder: Path, config: dict[str, str] = STATE) -> Iterator[str | None]:
    """Where four processes meet: a real Valkey's URL, or ``None`` for the SQLite file of one home."""
    if kind == "sqlite":
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="valkey-", dir=folder) as data:
        server = ValkeyServer(data_dir=Path(data), config=config)
        server.start()
        try:
            yield str(server.connection_url)
        finally:
            server.stop()
