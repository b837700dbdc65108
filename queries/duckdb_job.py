"""A query that can be stopped from outside its thread."""

from __future__ import annotations

import threading

import duckdb

_MEASURED = ("SET enable_progress_bar=true", "SET enable_progress_bar_print=false")
"""Without a bar there is no ``query_progress``; nothing is printed."""


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
            for statement in _MEASURED:
                cursor.execute(statement)
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

    def percent(self) -> float | None:
        """How far the query is, as the engine estimates it; ``None`` where it does not run, negative where unknown."""
        with self._lock:
            return None if self._cursor is None else float(self._cursor.query_progress())
