"""Who serves from a home folder: a file per serving process, and a lock that lives as long as it does.

A process id alone says nothing after a crash: another program may have it. The lock cannot
outlive its process, so a file without one is what a killed process left behind.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from contract.settings import Settings

Kind = Literal["serve", "root", "policy"]
_FOLDER: Final = "run"


@dataclass(frozen=True, slots=True)
class RunFile:
    """The run file of this process."""

    path: Path

    def write(self, body: Mapping[str, Any]) -> None:
        """Whole or not at all: readers are other processes."""
        partial = self.path.with_suffix(".part")
        partial.write_text(json.dumps(body), encoding="utf-8")
        partial.replace(self.path)


@dataclass(frozen=True, slots=True)
class Running:
    """A process that serves.

    ``state`` has ``pid``, ``port``, ``began``, ``generation``, ``fault``, ``invalid``, and of a
    dataset agent ``datasets``, the names that it serves.
    """

    path: Path
    kind: str
    state: Mapping[str, Any]

    @property
    def pid(self) -> int:
        return int(self.state["pid"])

    @property
    def began(self) -> float:
        """When its newest finished reload began, on this machine's monotonic clock; 0 before the first."""
        return float(self.state["began"])

    def __str__(self) -> str:
        return f"{self.kind} on port {self.state['port']}"

    def again(self) -> Running | None:
        """The same process as it is now; ``None`` where it has ended."""
        return _read(self.path)


@contextmanager
def run_file(settings: Settings, kind: Kind) -> Iterator[RunFile]:
    """This process's run file, locked while the block lasts and gone after it."""
    path = settings.home / _FOLDER / f"{kind}-{os.getpid()}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = path.with_suffix(".lock")
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        try:
            yield RunFile(path)
        finally:
            _remove(path)


def running(settings: Settings) -> list[Running]:
    """Every process that serves from this home; what a killed process left behind is removed."""
    return [found for path in sorted((settings.home / _FOLDER).glob("*.json")) if (found := _read(path)) is not None]


def _read(path: Path) -> Running | None:
    if not _is_held(path.with_suffix(".lock")):
        _remove(path)
        return None
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return Running(path, path.stem.partition("-")[0], state)


def _is_held(lock: Path) -> bool:
    try:
        with lock.open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _remove(path: Path) -> None:
    for name in (path, path.with_suffix(".lock")):
        with suppress(OSError):
            name.unlink()
