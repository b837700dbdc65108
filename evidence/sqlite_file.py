"""SQLite files as evidence needs them: private, durable, shared by processes."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from contract.sqlite_founding import in_turn

BUSY_SECONDS: Final = 5.0
_CREATING: Final = threading.Lock()


def connect(path: Path, *, wal: bool) -> sqlite3.Connection:
    """Open or create ``path`` (mode 0600) in autocommit mode, every commit synced to disk.

    The caller serialises threads. Raises ``sqlite3.Error`` or ``OSError``.
    """
    _create_private(path)
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        mode = f"PRAGMA journal_mode={'WAL' if wal else 'DELETE'}"
        in_turn(lambda: connection.execute(mode), wait=BUSY_SECONDS)
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA trusted_schema=OFF")
    except BaseException:
        connection.close()
        raise
    return connection


def _create_private(path: Path) -> None:
    """Make the file so that only its owner can read it; SQLite's side files take its mode.

    A file that is there is never opened: to close any descriptor of a file drops every lock
    that the process holds on it (POSIX), so other processes would take away the log of a
    connection in use.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _CREATING, suppress(FileExistsError):
        if not path.exists():
            os.close(os.open(os.path.realpath(path), os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def names_of(path: Path) -> tuple[str, ...]:
    """The database, its log and the log's index."""
    return str(path), f"{path}-wal", f"{path}-shm"


def identities(names: Sequence[str]) -> list[tuple[int, int] | None]:
    """Which files they are; none changes under an open connection.

    Where one did, other processes no longer read what this one writes.
    """
    return [_identity(name) for name in names]


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
