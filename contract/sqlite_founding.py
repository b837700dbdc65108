"""A SQLite file that several processes begin at once."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from typing import Final

_AGAIN_S: Final = 0.005


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
