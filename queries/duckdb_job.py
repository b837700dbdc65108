"""A query that can be stopped from outside its thread."""

from __future__ import annotations

import threading

import duckdb


class Job:
    """One query as its thread and its waiter share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cursor: duckdb.DuckDBPyConnection | None = None
        self.stopped = False

    def start(self, cursor: duckdb.DuckDBPyConnection) -> None:
        with self._lock:
            if self.stopped:
                raise duckdb.InterruptException("stopped before it started")
            self._cursor = cursor

    def end(self) -> None:
        with self._lock:
            self._cursor = None

    def stop(self) -> None:
        """Interrupt the query; harmless before, between and after."""
        with self._lock:
            self.stopped = True
            if self._cursor is not None:
                self._cursor.interrupt()
