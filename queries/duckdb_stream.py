"""The rows of a running query for somebody who reads them batch by batch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pyarrow as pa

from contract.result import Execution
from queries.arrow_form import arrow_schema, conform
from queries.duckdb_faults import fixed_texts
from queries.duckdb_finite import check_finite
from queries.duckdb_job import Job
from queries.duckdb_local import LocalRows
from queries.duckdb_query import pieces
from queries.duckdb_remote import RemoteRows
from queries.duckdb_threads import Threads
from queries.encode import check_schema
from queries.outcomes import too_large
from queries.template import Template

Rows = LocalRows | RemoteRows


class RowStream:
    """See ``engine.Stream``. A thread works while a batch is made, and none while the reader is busy with it."""

    def __init__(
        self,
        threads: Threads,
        deadline: float,
        template: Template,
        start: Callable[[Job], Rows],
        execution: Callable[[], Execution],
        *,
        max_rows: int,
        max_bytes: int,
    ) -> None:
        self._threads = threads
        self._deadline = deadline
        self._template = template
        self._start = start
        self._ended = execution
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._job = threads.job()
        self._rows: Rows | None = None
        self._next: asyncio.Future[list[pa.RecordBatch] | None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._execution: Execution | None = None
        self.schema = arrow_schema(template.results)

    @property
    def execution(self) -> Execution:
        if self._execution is None:
            raise RuntimeError("the stream has not ended")
        return self._execution

    async def open(self) -> None:
        """Start the query and its first batch. Raises ``NotGranted``."""
        # Also where nobody asks for the next batch, nothing runs beyond the time limit.
        self._timer = asyncio.get_running_loop().call_at(self._deadline, self._job.stop)
        await self._threads.run(self._job, self._open, self._deadline)
        self._next = self._threads.start(self._read)

    async def close(self) -> None:
        """Stop what runs; done when it has stopped."""
        if self._timer is not None:
            self._timer.cancel()
        if self._next is not None and not self._next.done():
            await self._threads.stop(self._job, self._next)
        rows, self._rows = self._rows, None
        if rows is not None:
            rows.close()
        self._threads.forget(self._job)
        if self._execution is None:
            self._execution = self._ended()

    async def __aiter__(self) -> AsyncIterator[pa.RecordBatch]:
        while self._next is not None:
            batches = await self._threads.wait(self._job, self._next, self._deadline)
            self._next = None if batches is None else self._threads.start(self._read)
            for batch in batches or ():
                yield batch
        if self._execution is None:
            self._execution = self._ended()

    def _open(self) -> None:
        with fixed_texts(self._job, self._template.dataset):
            self._rows = rows = self._start(self._job)
            check_schema(self._template.results, rows.schema)

    def _read(self) -> list[pa.RecordBatch] | None:
        """In a thread: the next batch in the declared form, in pieces; ``None`` at the end."""
        with fixed_texts(self._job, self._template.dataset):
            batch = next(self._rows or iter(()), None)
            if batch is None:
                return None
            check_finite(batch)
            found = [conform(self.schema, self._template.results, piece) for piece in pieces(batch)]
        self._max_rows -= batch.num_rows
        self._max_bytes -= sum(piece.nbytes for piece in found)
        if self._max_rows < 0 or self._max_bytes < 0:
            raise too_large()
        return found
