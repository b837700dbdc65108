"""A query run inside this process, on a cursor of the engine's one connection."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import duckdb
import pyarrow as pa

from queries.duckdb_job import Job
from queries.duckdb_query import Query, execute

_MEASURED: Final = ("SET enable_progress_bar=true", "SET enable_progress_bar_print=false")
"""Without a bar there is no ``query_progress``; nothing is printed."""
_KEPT: Final = 8


class Cursors:
    """Cursors of one connection; those whose query ended well are used again, which saves setting them up."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._idle: deque[duckdb.DuckDBPyConnection] = deque()

    def take(self) -> duckdb.DuckDBPyConnection:
        try:
            return self._idle.pop()
        except IndexError:
            pass
        cursor = self._connection.cursor()
        for statement in _MEASURED:
            cursor.execute(statement)
        return cursor

    def give(self, cursor: duckdb.DuckDBPyConnection, *, whole: bool) -> None:
        if whole and len(self._idle) < _KEPT:
            self._idle.append(cursor)
        else:
            cursor.close()

    @contextmanager
    def one(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A cursor for a moment."""
        cursor = self.take()
        whole = False
        try:
            yield cursor
            whole = True
        finally:
            self.give(cursor, whole=whole)

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()
        self._connection.close()


class LocalRows:
    """The batches of one query; every method is called in a thread, never in two at once.

    Errors are the engine's own, or ``Stopped``; their texts must not leave.
    """

    schema: pa.Schema

    def __init__(self, cursors: Cursors, job: Job, make: Callable[[duckdb.DuckDBPyConnection], Query]) -> None:
        self._cursors = cursors
        self._job = job
        self._cursor = cursors.take()
        self._reader: pa.RecordBatchReader | None = None
        self._whole = False
        try:
            query = make(self._cursor)
            job.start(self._interrupt, lambda: float(self._cursor.query_progress()))
            self._reader = execute(self._cursor, query)
            self.schema = self._reader.schema
        except BaseException:
            self.close()
            raise

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        if self._reader is None:
            raise StopIteration
        self._job.check()
        try:
            batch = self._reader.read_next_batch()
        except StopIteration:
            self._job.end()
            self._whole = True
            raise
        self._job.check()
        return batch

    def close(self) -> None:
        """Ends the query where it has not ended: closing a cursor alone does not stop its reader."""
        self._job.end()
        if not self._whole:
            self._interrupt()
        self._reader = None
        self._cursors.give(self._cursor, whole=self._whole)

    def _interrupt(self) -> None:
        try:
            self._cursor.interrupt()
        except duckdb.ConnectionException:
            pass  # the engine was closed, and the query with it
