"""Who serves from a home folder: a file per serving process, and a lock that lives as long as it does.

A process id alone says nothing after a crash: another program may have it. The lock cannot
outlive its process, so a file without one is what a killed process left behind. And a process
id is signalled, so only a file that nobody but this user can have written counts.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shlex
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from contract.errors import Category, Component, DatasetAgentError
from contract.settings import Settings

Kind = Literal["serve", "root", "policy"]
_FOLDER: Final = "run"
_NAME: Final = re.compile(r"(serve|root|policy)-([1-9][0-9]{0,9})\.json")
_MAX_BYTES: Final = 1_000_000
_MAX_BEGAN: Final = 1e12
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True, slots=True)
class RunFile:
    """The run file of this process."""

    path: Path

    def write(self, body: Mapping[str, Any]) -> None:
        """Whole or not at all: readers are other processes."""
        partial = self.path.with_suffix(".part")
        with os.fdopen(_create(partial), "w", encoding="utf-8") as file:
            json.dump(body, file)
        partial.replace(self.path)


@dataclass(frozen=True, slots=True)
class Running:
    """A process that serves.

    ``state`` has ``pid``, ``port``, ``began``, ``generation``, ``fault``, ``invalid``, and of a
    dataset agent ``datasets``, the names that it serves, and ``outdated``, those it serves as before.
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
    """This process's run file, locked while the block lasts and gone after it. Raises FORBIDDEN as ``running``."""
    folder = settings.home / _FOLDER
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _check_owner(folder)
    folder.chmod(0o700)
    path = folder / f"{kind}-{os.getpid()}.json"
    with os.fdopen(_create(path.with_suffix(".lock")), "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        try:
            yield RunFile(path)
        finally:
            _remove(path)


def running(settings: Settings) -> list[Running]:
    """Every process that serves from this home; what a killed process left behind is removed.

    Raises FORBIDDEN where the folder is another user's, CONFIGURATION where others may enter it.
    """
    folder = settings.home / _FOLDER
    try:
        mode = _check_owner(folder)
    except FileNotFoundError:
        return []
    if mode & _OTHERS:
        raise _fault(
            Category.CONFIGURATION,
            "permissions",
            f"others may enter {folder}: run chmod 700 {shlex.quote(str(folder))}",
        )
    return [found for path in sorted(folder.glob("*.json")) if (found := _read(path)) is not None]


def _check_owner(folder: Path) -> int:
    """The folder's mode. Raises FORBIDDEN, FileNotFoundError."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise _fault(Category.FORBIDDEN, "owner", f"{folder} is another user's or no folder: run this as its owner")
    return found.st_mode


def _read(path: Path) -> Running | None:
    """What a run file says; ``None`` where nobody holds its lock, or where it is not this user's or misshapen."""
    name = _NAME.fullmatch(path.name)
    if name is None:
        return None
    try:
        if not _is_held(path.with_suffix(".lock")):
            _remove(path)
            return None
        with os.fdopen(_open_own(path), "rb") as file:
            state = json.loads(file.read(_MAX_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    return Running(path, name[1], state) if _is_state(state, int(name[2])) else None


def _is_state(state: Any, pid: int) -> bool:
    if not isinstance(state, dict) or pid <= 1:
        return False
    began, names = state.get("began"), state.get("datasets", [])
    return (
        type(state.get("pid")) is int
        and state["pid"] == pid
        and type(state.get("port")) is int
        and isinstance(began, (int, float))
        and abs(began) < _MAX_BEGAN
        and type(state.get("generation")) is int
        and isinstance(state.get("fault", 0), (str, type(None)))
        and isinstance(state.get("invalid"), dict)
        and isinstance(state.get("outdated", {}), dict)
        and isinstance(names, list)
        and all(isinstance(name, str) for name in names)
    )


def _is_held(lock: Path) -> bool:
    """Raises OSError where the lock file is not this user's."""
    try:
        with os.fdopen(_open_own(lock)) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (BlockingIOError, FileNotFoundError) as error:
        return isinstance(error, BlockingIOError)
    return False


def _open_own(path: Path) -> int:
    """A descriptor to read a plain file that only this user can have written. Raises OSError."""
    number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    found = os.fstat(number)
    if stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & _OTHERS:
        return number
    os.close(number)
    raise PermissionError(path)


def _create(path: Path) -> int:
    """A descriptor to write a file of mode 0600. Raises OSError."""
    number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    os.fchmod(number, 0o600)
    return number


def _remove(path: Path) -> None:
    for name in (path, path.with_suffix(".lock")):
        with suppress(OSError):
            name.unlink()


def _fault(category: Category, code: str, message: str) -> DatasetAgentError:
    return DatasetAgentError(Component.COMMAND, category, f"command.run.{code}", message)
