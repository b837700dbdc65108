"""The files of a SQLite state store: which they are, and who may found them."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

PATIENCE_S: Final = 1.0
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_CREATING: Final = threading.Lock()

Identity = tuple[int, int]
"""Device and inode numbers of a file."""


class FilesReplaced(OSError):
    """A connection's file, or the log beside it, is no longer what other processes open."""


class FileTorn(OSError):
    """Another hand wrote the file under its log, or it does not read as a database any more."""

    def __init__(self, identity: Identity | None) -> None:
        super().__init__("the state file was written by another hand")
        self.identity = identity


def status_of(path: Path | str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None


def identity_of(path: Path | str) -> Identity | None:
    return _identity(status_of(path))


class Files(NamedTuple):
    """The database, its log and the log's shared index, as they lie there now; ``None`` for one that does not."""

    database: os.stat_result | None
    log: os.stat_result | None
    shared: os.stat_result | None

    @classmethod
    def at(cls, path: str, real: str) -> Files:
        """``real`` is where links lead from ``path``: SQLite keeps the log there."""
        log, shared = real + "-wal", real + "-shm"
        try:
            return cls(os.stat(path), os.stat(log), os.stat(shared))
        except OSError:  # one of them is not there
            return cls(status_of(path), status_of(log), status_of(shared))

    @property
    def opened(self) -> os.stat_result:
        """The database, which is open. Raises ``FilesReplaced`` where it was taken away since."""
        if self.database is None:
            raise FilesReplaced("the state file was taken away")
        return self.database

    def same_database(self, other: Files) -> bool:
        return _same(self.database, other.database)

    def same(self, other: Files) -> bool:
        """None is exchanged while a connection is open, except by a stranger."""
        return self.same_database(other) and _same(self.log, other.log) and _same(self.shared, other.shared)


def _identity(status: os.stat_result | None) -> Identity | None:
    return None if status is None else (status.st_dev, status.st_ino)


def _same(one: os.stat_result | None, other: os.stat_result | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.st_ino == other.st_ino and one.st_dev == other.st_dev


@contextmanager
def founding(path: Path) -> Iterator[None]:
    """Hold the right to open, to create and to put aside; one process and thread at a time.

    Raises ``OSError``, ``TimeoutError`` where another holds it for more than ``PATIENCE_S``.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _CREATING, open(os.open(f"{path}-lock", os.O_RDWR | os.O_CREAT, 0o600), "rb") as lock:
        deadline = time.monotonic() + PATIENCE_S
        while not _locked(lock.fileno()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{path}-lock is held by another process")
            time.sleep(0.002)
        yield


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def take_away(path: Path) -> None:
    """Put a database aside as ``.torn``, without the log, which does not belong to it any more. Raises ``OSError``."""
    real = os.path.realpath(path)
    for suffix in ("-wal", "-shm"):
        Path(f"{real}{suffix}").unlink(missing_ok=True)
    os.replace(real, f"{real}.torn")


def boot_id() -> str:
    """Which start of the machine this is; empty where that cannot be told."""
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""
