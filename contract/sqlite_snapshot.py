"""A SQLite file as who only looks reads it: as of one commit, and nothing is made beside it."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

BUSY_SECONDS: Final = 5.0


class WrittenMeanwhile(sqlite3.OperationalError):
    """A file that nobody wrote to when reading began was written to before it ended."""


@contextmanager
def snapshot(path: Path, *, wait: float = BUSY_SECONDS) -> Iterator[sqlite3.Connection]:
    """A read-only view of the file as of one commit, which leaves no file beside it.

    Without a ``-wal`` nobody has the file open: it is read as it is, so that it may lie on a
    read-only medium. A ``-wal`` without its ``-shm`` was copied with the file, which is then
    read in a copy of both. Raises ``sqlite3.Error``, ``WrittenMeanwhile`` where a writer came
    (read again then), and ``OSError``. The connection may be used from one thread at a time.
    """
    wal, shm = (path.with_name(path.name + suffix) for suffix in ("-wal", "-shm"))
    if wal.exists() and shm.exists():
        with _reading(path, "mode=ro", wait) as connection:
            yield connection
    elif wal.exists():
        # A connection of this process would have a -shm, so that no lock of ours is lost by copying.
        with tempfile.TemporaryDirectory(prefix="dataset-agent-snapshot-") as folder:
            copy = Path(folder, path.name)
            shutil.copyfile(path, copy)
            shutil.copyfile(wal, copy.with_name(wal.name))
            with _reading(copy, "mode=ro", wait) as connection:
                yield connection
    else:
        before = path.stat()
        try:
            with _reading(path, "mode=ro&immutable=1", wait) as connection:
                yield connection
        finally:
            after = path.stat()
            if wal.exists() or (before.st_mtime_ns, before.st_size) != (after.st_mtime_ns, after.st_size):
                raise WrittenMeanwhile("it was written to meanwhile")


@contextmanager
def _reading(path: Path, mode: str, wait: float) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?{mode}", uri=True, isolation_level=None, timeout=wait, check_same_thread=False
    )
    try:
        connection.execute("PRAGMA trusted_schema=OFF")
        connection.execute("BEGIN")
        yield connection
    finally:
        connection.close()
