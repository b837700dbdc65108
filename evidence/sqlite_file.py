"""SQLite files as evidence needs them: private, durable, shared by processes, and read without writing."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

BUSY_SECONDS: Final = 5.0
_CREATING: Final = threading.Lock()


def connect(path: Path, *, wal: bool) -> sqlite3.Connection:
    """Open or create ``path`` (mode 0600) in autocommit mode, every commit synced to disk.

    The caller serialises threads. Raises ``sqlite3.Error`` or ``OSError``.
    """
    _create_private(path)
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        connection.execute(f"PRAGMA journal_mode={'WAL' if wal else 'DELETE'}")
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


def files_of(path: Path) -> tuple[tuple[int, int] | None, ...]:
    """Which files the database, its log and the log's index are; none changes under an open connection.

    Where one did, other processes no longer read what this one writes.
    """
    return tuple(_identity(f"{path}{suffix}") for suffix in ("", "-wal", "-shm"))


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


class WrittenMeanwhile(sqlite3.OperationalError):
    """A file that nobody wrote to when reading began was written to before it ended."""


@contextmanager
def snapshot(path: Path) -> Iterator[sqlite3.Connection]:
    """A read-only view of the file as of one commit, which leaves no file beside it.

    Without a ``-wal`` nobody has the file open: it is read as it is, so that it may lie on a
    read-only medium. A ``-wal`` without its ``-shm`` was copied with the file, which is then
    read in a copy of both. Raises ``sqlite3.Error``, ``WrittenMeanwhile`` where a writer came
    (read again then), and ``OSError``.
    """
    wal, shm = (path.with_name(path.name + suffix) for suffix in ("-wal", "-shm"))
    if wal.exists() and shm.exists():
        with _reading(path, "mode=ro") as connection:
            yield connection
    elif wal.exists():
        # A connection of this process would have a -shm, so that no lock of ours is lost by copying.
        with tempfile.TemporaryDirectory(prefix="dataset-agent-ledger-") as folder:
            copy = Path(folder, path.name)
            shutil.copyfile(path, copy)
            shutil.copyfile(wal, copy.with_name(wal.name))
            with _reading(copy, "mode=ro") as connection:
                yield connection
    else:
        before = path.stat()
        try:
            with _reading(path, "mode=ro&immutable=1") as connection:
                yield connection
        finally:
            after = path.stat()
            if wal.exists() or (before.st_mtime_ns, before.st_size) != (after.st_mtime_ns, after.st_size):
                raise WrittenMeanwhile("it was written to meanwhile")


@contextmanager
def _reading(path: Path, mode: str) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?{mode}", uri=True, isolation_level=None, timeout=BUSY_SECONDS
    )
    try:
        connection.execute("PRAGMA trusted_schema=OFF")
        connection.execute("BEGIN")
        yield connection
    finally:
        connection.close()
