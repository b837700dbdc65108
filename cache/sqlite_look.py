"""A cache file as who only looks reads it: nothing is made, counted or moved by it."""

from __future__ import annotations

import sqlite3
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from cache.sqlite_store import SqliteStore
from contract.sqlite_snapshot import snapshot

_WAIT_S: Final = 0.25


class SqliteLook(SqliteStore):
    """``entries``, ``stats`` and ``health`` of a file that is there; what would write raises ``StoreUnavailable``."""

    def __init__(self, path: Path, *, max_bytes: int) -> None:
        super().__init__(path, max_bytes=max_bytes)
        self._view = ExitStack()

    def _read(self) -> sqlite3.Connection:
        with self._lock:
            return self._connect_writer()

    def _connect_writer(self) -> sqlite3.Connection:
        if self._writer is None:
            self._writer = self._view.enter_context(snapshot(self._path, wait=_WAIT_S))
        return self._writer

    def _disconnect(self) -> None:
        with suppress(sqlite3.Error, OSError):  # written meanwhile: what was read is what was there
            self._view.close()
        self._writer = None

    def _close(self) -> None:
        with self._lock:
            self._disconnect()
