"""A SQLite file that its owner alone can read, and that several processes may begin at once."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

_AGAIN_S: Final = 0.005
_CREATING: Final = threading.Lock()


def create_private(path: Path) -> None:
    """Make the file so that only its owner can read it; SQLite's side files take its mode. Raises ``OSError``.

    A file that is there is never opened: to close any descriptor of a file drops every lock
    that the process holds on it (POSIX), so other processes would take away the log of a
    connection in use.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _CREATING, suppress(FileExistsError):
        if not path.exists():
            os.close(os.open(os.path.realpath(path), os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def in_turn(work: Callable[[], object], *, wait: float) -> None:
    """Run ``work`` until it meets no other process, for ``wait`` seconds. Raises ``sqlite3.Error``.

    For what SQLite's own patience (``busy_timeout``) does not cover: a connection that changes how the file is
    written, as ``PRAGMA journal_mode``, is told at once that another one does.
    """
    end = time.monotonic() + wait
    while True:
        try:
            work()
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise
            if time.monotonic() >= end:
                raise
        time.sleep(_AGAIN_S)
