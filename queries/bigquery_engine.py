"""The engine on BigQuery: generated GoogleSQL as jobs with a budget, labels and an id of our own.

Everything that waits for the network runs in a bounded pool of threads.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Final

import pyarrow as pa

from contract.authority import Authority
from contract.ids import new_id
from contract.progress import report
from contract.result import Execution, ResultDocument
from queries.arrow_form import arrow_schema
from queries.bigquery_access import Access
from queries.bigquery_check import check_template
from queries.bigquery_job import CANCEL_SECONDS, Job
from queries.bigquery_options import BigQueryOptions
from queries.bigquery_query import Work, query_for
from queries.bigquery_rows import BigQueryRows
from queries.bigquery_text import BigQueryTexts
from queries.bigquery_threads import Threads
from queries.bind import Bound
from queries.engine import Load, Stream, check_version
from queries.masks import dataset_mask_key
from queries.outcomes import out_of_time
from queries.template import Template

_log = logging.getLogger(__name__)
_THREADS: Final = 8
_CANCELS: Final = 4
_LEAVING_SECONDS: Final = 2.0


class BigQueryEngine:
    """Runs the templates of one dataset version whose tables lie in BigQuery. Made by ``open``."""

    def __init__(
        self,
        options: BigQueryOptions,
        access: Access,
        *,
        dataset: str,
        version: str,
        revision: str | None,
        timeout: float,
        mask_key: bytes,
        clock: Callable[[], float],
    ) -> None:
        self._options = options
        self._access = access
        self._dataset = dataset
        self._version = version
        self._revision = revision
        self._timeout = timeout
        self._clock = clock
        self._texts = BigQueryTexts()
        self._work = Work(options, access, self._texts, dataset_mask_key(mask_key, dataset))
        self._pool = Threads(f"bigquery-{dataset}", _THREADS)
        # Apart, so that a pool full of queries cannot keep one of them from being cancelled.
        self._cancels = Threads(f"bigquery-cancel-{dataset}", _CANCELS)
        self._closing = threading.Event()
        self._jobs: set[Job] = set()
        self._stopping: set[asyncio.Task[None]] = set()

    @classmethod
    def open(
        cls,
        dataset_id: str,
        version: str,
        options: BigQueryOptions,
        *,
        timeout: float = 30.0,
        mask_key: bytes,
        revision: str | None = None,
        access: Access | None = None,
        clock: Callable[[], float] = time.time,
    ) -> BigQueryEngine:
        """An engine; nothing is asked of BigQuery before the first ``check`` or ``run``.

        ``timeout`` is seconds from the call to its last row, waiting for a thread included.
        ``mask_key`` is the secret of ``dataset_mask_key``.
        """
        return cls(
            options,
            access or Access(options),
            dataset=dataset_id,
            version=version,
            revision=revision,
            timeout=timeout,
            mask_key=mask_key,
            clock=clock,
        )

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
    ) -> AsyncIterator[Stream]:
        """See ``Engine.stream``. Also raises BUDGET_EXCEEDED, and INSUFFICIENT_PRIVILEGE for a class without account."""
        check_version(authority, self._dataset, self._version, self._revision)
        query = query_for(self._options, authority, template, bound, max_rows=max_rows, supplied=supplied)
        job, started, loop = self._job(), self._clock(), asyncio.get_running_loop()
        until = loop.time() + self._timeout

        def step(batches: Iterator[pa.RecordBatch]) -> asyncio.Future[pa.RecordBatch | None]:
            return self._pool.start(next, batches, None)

        async def within(pending: asyncio.Future[pa.RecordBatch | None]) -> pa.RecordBatch | None:
            try:
                async with asyncio.timeout_at(until):
                    return await asyncio.shield(pending)
            except TimeoutError:
                raise out_of_time() from None

        rows = BigQueryRows(
            arrow_schema(template.results),
            self._work.conformed(job, query, max_bytes),
            step=step,
            within=within,
            ended=lambda: self._execution(job, started),
        )
        try:
            yield rows
        finally:
            rows.leave()
            await self._abandon(job)
            self._jobs.discard(job)

    @property
    def load(self) -> Load:
        """See ``Engine.load``."""
        return Load(len(self._jobs))

    async def check(self, template: Template) -> None:
        """See ``Engine.check``: a dry run. Also raises a fault where BigQuery cannot be asked."""
        await self._pool.start(check_template, self._access, self._options, self._texts, template, self._timeout)

    async def close(self) -> None:
        """See ``Engine.close``. Waits for cancel requests, and not long for a thread that BigQuery keeps waiting."""
        await asyncio.gather(*(self._abandon(job) for job in list(self._jobs)))
        self._closing.set()
        await asyncio.to_thread(self._leave)

    def _leave(self) -> None:
        until = time.monotonic() + _LEAVING_SECONDS
        for threads in (self._pool, self._cancels):
            threads.close()
        for threads in (self._pool, self._cancels):
            if not threads.left(max(0.0, until - time.monotonic())):
                _log.warning("%s is closed, and BigQuery still keeps a thread of it waiting", self._dataset)
        self._access.close()

    def _job(self) -> Job:
        options, deadline = self._options, time.monotonic() + self._timeout
        job = Job(
            self._dataset, project=options.project, location=options.location, deadline=deadline, closing=self._closing
        )
        self._jobs.add(job)
        report(lambda: job.percent)
        return job

    async def _abandon(self, job: Job) -> None:
        """Stop the thread, and wait until BigQuery was asked to stop the job: bounded, whoever cancels meanwhile."""
        job.stop()
        if not job.runs or self._closing.is_set():
            return

        async def ask() -> None:
            try:
                async with asyncio.timeout(CANCEL_SECONDS):
                    await self._cancels.start(job.cancel)
            except TimeoutError:
                _log.warning("job %s of %s may still run: no answer to its cancelling", job.id, self._dataset)

        task = asyncio.create_task(ask())
        self._stopping.add(task)
        task.add_done_callback(self._stopping.discard)
        await asyncio.shield(task)

    def _execution(self, job: Job, started: float) -> Execution:
        return Execution(
            execution_id=new_id("exe"),
            engine="bigquery",
            job_id=job.id,
            tool_origin="LOCAL",
            started=started,
            ended=self._clock(),
            bytes_processed=job.bytes_processed,
            bytes_billed=job.bytes_billed,
        )
