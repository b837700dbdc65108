"""The embedded engine: a hardened, read-only DuckDB that runs generated text only."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from contract.authority import Authority
from contract.ids import new_id
from contract.progress import report
from contract.result import Execution, ResultDocument
from contract.schema import SqlType, Table
from contract.verdict import NotGranted, Reason
from queries.bind import Bound
from queries.duckdb_connection import connect
from queries.duckdb_file import database_file
from queries.duckdb_job import Job
from queries.duckdb_text import Texts, with_nulls
from queries.duckdb_types import duckdb_type
from queries.encode import ResultEncoder, ResultInvalid, ResultTooLarge
from queries.errors import TemplateError
from queries.govern import Shape, govern
from queries.masks import MASK_KEY, dataset_mask_key
from queries.supplied import SUPPLIED, bound_fields, bound_rows, check_supplied, is_finite
from queries.template import Template
from queries.typed import Type, declared_type

_log = logging.getLogger(__name__)
_BATCH_ROWS: Final = 20_000
_STOP_POLL: Final = 0.01


class DuckDbEngine:
    """Runs the templates of one dataset version. Made by ``open``."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        *,
        dataset: str,
        version: str,
        revision: str | None,
        timeout: float,
        mask_key: bytes,
        clock: Callable[[], float],
    ) -> None:
        self._connection = connection
        self._dataset = dataset
        self._version = version
        self._revision = revision
        self._timeout = timeout
        self._mask_key = dataset_mask_key(mask_key, dataset)
        self._clock = clock
        self._pool = ThreadPoolExecutor(os.cpu_count() or 2, thread_name_prefix=f"duckdb-{dataset}")
        self._texts = Texts()
        self._jobs: set[Job] = set()
        self._stopping: set[asyncio.Task[None]] = set()

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
        path = database_file(dataset_id, version, revision or "", folder, tables, scratch)
        connection = connect(path, memory_limit, timeout)
        return cls(
            connection,
            dataset=dataset_id,
            version=version,
            revision=revision,
            timeout=timeout,
            mask_key=mask_key,
            clock=clock,
        )

    async def run(
        self,
        authority: Authority,
        template: Template,
        bound: Bound,
        *,
        max_rows: int,
        max_bytes: int,
        as_of: str,
        supplied: ResultDocument | None = None,
    ) -> tuple[ResultDocument, Execution]:
        """See ``Engine.run``. A supplied FLOAT64 is finite, like base data: else RESULT_INVALID."""
        self._check_version(authority)
        check_supplied(template, supplied)
        governed = govern(template, authority)
        encoder = ResultEncoder(template.results, max_rows=max_rows, max_bytes=max_bytes)
        started = self._clock()
        values = {**bound.values, **governed.values}
        await self._in_thread(lambda job: self._query(job, template, governed.shape, values, supplied, encoder))
        try:
            document = encoder.finish(as_of)
        except ResultTooLarge:
            raise _too_large() from None
        execution = Execution(
            execution_id=new_id("exe"),
            engine="duckdb",
            job_id=None,
            tool_origin="LOCAL",
            started=started,
            ended=self._clock(),
        )
        return document, execution

    async def check(self, template: Template) -> None:
        """See ``Engine.check``."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._pool, self._bind, template)

    async def close(self) -> None:
        """See ``Engine.close``."""
        for job in list(self._jobs):
            job.stop()
        await asyncio.get_running_loop().run_in_executor(None, self._pool.shutdown)
        self._connection.close()

    def _check_version(self, authority: Authority) -> None:
        same_version = authority.dataset == self._dataset and authority.dataset_version == self._version
        if not same_version or (self._revision is not None and authority.revision != self._revision):
            raise NotGranted(Reason.UNKNOWN_DATASET_REVISION, "the engine holds another revision of the dataset")

    async def _in_thread(self, work: Callable[[Job], None]) -> None:
        """Run ``work`` in the pool; the timeout and a cancellation both stop its query."""
        job = Job()
        self._jobs.add(job)
        report(job.percent)
        future = asyncio.get_running_loop().run_in_executor(self._pool, work, job)
        future.add_done_callback(lambda done: self._forget(job, done))
        try:
            async with asyncio.timeout(self._timeout):
                await asyncio.shield(future)
        except TimeoutError:
            await self._stop(job, future)
            raise NotGranted(Reason.EXECUTION_TIMEOUT, "the query took longer than allowed") from None
        except asyncio.CancelledError:
            await self._stop(job, future)
            raise

    def _forget(self, job: Job, done: asyncio.Future[None]) -> None:
        self._jobs.discard(job)
        if not done.cancelled():
            done.exception()  # read once, so that an abandoned query is no warning

    async def _stop(self, job: Job, future: asyncio.Future[None]) -> None:
        """Interrupt until the thread is done: an interrupt between two statements is lost."""

        async def until_done() -> None:
            while not future.done():
                job.stop()
                await asyncio.wait([future], timeout=_STOP_POLL)

        task = asyncio.create_task(until_done())
        self._stopping.add(task)
        task.add_done_callback(self._stopping.discard)
        await asyncio.shield(task)

    def _query(
        self,
        job: Job,
        template: Template,
        shape: Shape,
        values: dict[str, Any],
        supplied: ResultDocument | None,
        encoder: ResultEncoder,
    ) -> None:
        """In a thread: run and encode. Raises ``NotGranted`` with fixed texts only."""
        try:
            with self._connection.cursor() as cursor:
                job.start(cursor)
                try:
                    text = self._texts.text(cursor, template, shape)
                    if f"${MASK_KEY}" in text:
                        values[MASK_KEY] = self._mask_key
                    values.update(_supplied(template, supplied))
                    self._read(cursor, job, text, values, encoder)
                finally:
                    job.end()
        except ResultTooLarge:
            raise _too_large() from None
        except ResultInvalid as error:
            raise NotGranted(Reason.RESULT_INVALID, str(error)) from None
        except NotGranted:
            raise
        except duckdb.InterruptException:
            raise NotGranted(Reason.EXECUTION_TIMEOUT, "the query took longer than allowed") from None
        except Exception as error:
            # The engine's own message may hold a cell's value or another table's name.
            if not job.stopped:
                _log.warning("a query of %s failed: %s", template.dataset, type(error).__name__)
            raise NotGranted(Reason.EXECUTION_FAILED, "the query failed") from None

    def _read(
        self,
        cursor: duckdb.DuckDBPyConnection,
        job: Job,
        text: str,
        values: dict[str, Any],
        encoder: ResultEncoder,
    ) -> None:
        reader = cursor.sql(text, params=values).to_arrow_reader(_BATCH_ROWS)
        encoder.check_schema(reader.schema)
        try:
            for batch in reader:
                _check_finite(batch)
                encoder.add(batch)
                if job.stopped:
                    raise duckdb.InterruptException("stopped")
        except (ResultTooLarge, ResultInvalid):
            cursor.interrupt()
            raise

    def _bind(self, template: Template) -> None:
        unlimited = Shape((), ())
        with self._connection.cursor() as cursor:
            try:
                self._texts.text(cursor, template, unlimited)
                relation = cursor.sql(with_nulls(template, unlimited))
                found = [(name, str(kind)) for name, kind in zip(relation.columns, relation.types, strict=True)]
            except NotGranted as error:
                raise TemplateError(template.name, None, "the governed text reads more than its base tables") from error
            except duckdb.Error as error:
                reason = str(error).split("\n")[0][:200]
                raise TemplateError(template.name, None, f"DuckDB does not accept the query: {reason}") from None
        # Both are spelled by the engine itself.
        wanted = [(column.name, str(duckdb.sqltype(duckdb_type(declared_type(column))))) for column in template.results]
        if found != wanted:
            raise TemplateError(template.name, None, f"DuckDB would return {found}, declared is {wanted}")


def _supplied(template: Template, supplied: ResultDocument | None) -> dict[str, Any]:
    """The supplied rows as one typed parameter. Raises ``NotGranted``."""
    rows = bound_rows(template, supplied)
    if rows is None:
        return {}
    fields = bound_fields(template)
    for place, (_, kind) in enumerate(fields):
        if not all(is_finite(kind, row[place]) for row in rows):
            # NaN compares and sorts unlike in GoogleSQL, and infinities make NaN.
            raise NotGranted(Reason.RESULT_INVALID, "a supplied row holds a FLOAT64 that is not finite")
    held = Type(SqlType.STRUCT, array=True, fields=fields)
    return {SUPPLIED: duckdb.Value(rows, duckdb.sqltype(duckdb_type(held)))}


def _check_finite(batch: pa.RecordBatch) -> None:
    """Base data and supplied rows hold no NaN and no infinity, so one in a result is an overflow."""
    for column in batch.columns:
        for leaf in _leaves(column):
            if pa.types.is_float64(leaf.type) and not pc.all(pc.is_finite(leaf), min_count=0).as_py():
                raise ArithmeticError("a FLOAT64 overflows")


def _leaves(array: Any) -> Iterator[Any]:
    """The arrays of values of an array, whatever lists and structs it is made of."""
    if pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        yield from _leaves(array.flatten())
    elif pa.types.is_struct(array.type):
        for part in array.flatten():
            yield from _leaves(part)
    else:
        yield array


def _too_large() -> NotGranted:
    return NotGranted(Reason.RESULT_TOO_LARGE, "the result has more rows or bytes than allowed")
