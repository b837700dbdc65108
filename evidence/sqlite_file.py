"""SQLite files as evidence needs them: private, durable, shared by processes, and read without writing."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

BUSY_SECONDS: Final = 5.0


def connect(path: Path, *, wal: bool) -> sqlite3.Connection:
    """Open or create ``path`` (mode 0600) in autocommit mode, every commit synced to disk.

    The caller serialises threads. Raises ``sqlite3.Error`` or ``OSError``.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not path.exists():
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        connection.execute(f"PRAGMA journal_mode={'WAL' if wal else 'DELETE'}")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA trusted_schema=OFF")
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def snapshot(path: Path) -> Iterator[sqlite3.Connection]:
    """A read-only view of the file as of one commit. Raises ``sqlite3.Error``.

    A copy without a ``-wal`` beside it is read as it is, so that it may lie on a
    read-only medium.
    """
    alone = not path.with_name(path.name + "-wal").exists() and not os.access(path.parent, os.W_OK)
    mode = "mode=ro&immutable=1" if alone else "mode=ro"
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?{mode}", uri=True, isolation_level=None, timeout=BUSY_SECONDS
    )
    try:
        connection.execute("PRAGMA trusted_schema=OFF")
        connection.execute("BEGIN")
        yield connection
    finally:
        connection.close()
