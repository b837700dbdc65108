"""SQLite files as evidence needs them: private, durable, shared by processes."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from contract.sqlite_founding import create_private, in_turn

BUSY_SECONDS: Final = 5.0


def connect(path: Path, *, wal: bool) -> sqlite3.Connection:
    """Open or create ``path`` (mode 0600) in autocommit mode, every commit synced to disk.

    The caller serialises threads. Raises ``sqlite3.Error`` or ``OSError``.
    """
    create_private(path)
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
