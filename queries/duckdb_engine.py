"""The embedded engine: a hardened, read-only DuckDB that runs generated text only.

What may make values that no limit inside an engine bounds runs in a worker process instead.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

from contract.authority import Authority
from contract.ids import new_id
from contract.result import Execution, ResultDocument
from contract.schema import Table
from queries.bind import Bound
from queries.duckdb_call import Call, Calls
from queries.duckdb_connection import connect, cores, memory_bytes
from queries.duckdb_file import database_file
from queries.duckdb_job import Job
from queries.duckdb_local import Cursors, LocalRows
from queries.duckdb_remote import RemoteRows, Workers
from queries.duckdb_sizes import read_sizes
from queries.duckdb_stream import RowStream
from queries.duckdb_threads import Threads
from queries.engine import Load, check_version
from queries.govern import govern
from queries.masks import dataset_mask_key
from queries.outcomes import out_of_time
from queries.supplied import check_supplied
from queries.template import Template

_STREAMS_PER_CORE: Final = 4


class DuckDbEngine:
    """Runs the templates of one dataset version. Made by ``open``."""

    def __init__(
        self,
        cursors: Cursors,
        workers: Workers,
        calls: Calls,
        *,
        dataset: str,
        version: str,
        revision: str | None,
        timeout: float,
        clock: Callable[[], float],
    ) -> None:
        self._cursors = cursors
        self._workers = workers
        self._calls = calls
        self._dataset = dataset
        self._version = version
        self._revision = revision
        self._timeout = timeout
        self._clock = clock
        self._threads = Threads(f"duckdb-{dataset}", cores())
        self._workers_free = asyncio.Semaphore(cores())
        self._streams_free = asyncio.Semaphore(_STREAMS_PER_CORE * cores())
        self._asked = 0

    @classmethod
    def open(
        cls,
        dataset_id: str,
        version: str,
        folder: Path,
        tables: Sequence[Table],
        *,
        scratch: Path,
        memory_limit: str = "512MB",
        timeout: float = 30.0,
        mask_key: bytes,
        revision: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> DuckDbEngine:
        """Build the database file where it is missing, and open it hardened.

        ``timeout`` is seconds from the call to its last row, waiting for a thread included.
        ``mask_key`` keys the hash masks (16 bytes at least). Blocks while it builds. Raises
        ``DataError`` or a configuration fault.
        """
        dataset_key = dataset_mask_key(mask_key, dataset_id)
        path = database_file(dataset_id, version, revision or "", folder, tables, scratch)
        connection = connect(path, memory_limit, timeout, threads=cores())
        return cls(
            Cursors(connection),
            Workers(path, memory_limit, timeout, cores()),
            Calls(dataset_key, read_sizes(connection), memory_bytes(connection), cores()),
            dataset=dataset_id,
            version=version,
            revision=revision,
            timeout=timeout,
            clock=clock,
        )

    @property
    def load(self) -> Load:
        """See ``Engine.load``."""
        return Load(self._asked, len(self._workers))

    @asynccontextmanager
    async def stream(
        self,
        authority: Authority,
        template: Template,
        bound: Bound,
        *,
        max_rows: int,
        max_bytes: int,
        supplied: ResultDocument | None = None,
    ) -> AsyncIterator[RowStream]:
        """See ``Engine.stream``."""
        call = self._call(authority, template, bound, supplied, max_rows)
        started, deadline = self._clock(), asyncio.get_running_loop().time() + self._timeout
        async with self._counted(), _free(self._streams_free, deadline), self._worker_for(call, deadline):
            rows = RowStream(
                self._threads,
                deadline,
                template,
                lambda job: self._rows(job, call),
                lambda: self._execution(started),
                max_rows=max_rows,
                max_bytes=max_bytes,
            )
            try:
                await rows.open()
                yield rows
            finally:
                await rows.close()

    async def check(self, template: Template) -> None:
        """See ``Engine.check``."""
        await self._threads.start(partial(self._check, template))

    async def close(self) -> None:
        """See ``Engine.close``."""
        await self._threads.close()
        self._workers.close()
        self._cursors.close()

    def _call(
        self, authority: Authority, template: Template, bound: Bound, supplied: ResultDocument | None, max_rows: int
    ) -> Call:
        check_version(authority, self._dataset, self._version, self._revision)
        check_supplied(template, supplied)
        governed = govern(template, authority)
        return self._calls.call(template, governed.shape, {**bound.values, **governed.values}, supplied, max_rows)

    @asynccontextmanager
    async def _worker_for(self, call: Call, deadline: float) -> AsyncIterator[None]:
        """Hold one of the workers there may be, where the call needs one."""
        if not call.in_worker:
            yield
            return
        async with _free(self._workers_free, deadline):
            yield

    @asynccontextmanager
    async def _counted(self) -> AsyncIterator[None]:
        self._asked += 1
        try:
            yield
        finally:
            self._asked -= 1

    def _rows(self, job: Job, call: Call) -> LocalRows | RemoteRows:
        """In a thread: start the query, where it belongs."""
        if not call.in_worker:
            return LocalRows(self._cursors, job, lambda cursor: self._calls.query(cursor, call))
        with self._cursors.one() as cursor:
            query = self._calls.query(cursor, call)
        return RemoteRows(self._workers, job, query)

    def _check(self, template: Template) -> None:
        with self._cursors.one() as cursor:
            self._calls.texts.check(cursor, template)

    def _execution(self, started: float) -> Execution:
        return Execution(
            execution_id=new_id("exe"),
            engine="duckdb",
            job_id=None,
            tool_origin="LOCAL",
            started=started,
            ended=self._clock(),
        )


@asynccontextmanager
async def _free(places: asyncio.Semaphore, deadline: float) -> AsyncIterator[None]:
    """Wait for one of a bounded number of places, at most until ``deadline``."""
    try:
        async with asyncio.timeout_at(deadline):
            await places.acquire()
    except TimeoutError:
        raise out_of_time() from None
    try:
        yield
    finally:
        places.release()
