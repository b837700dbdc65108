"""The engine on BigQuery: generated GoogleSQL as jobs with a budget, labels and an id of our own.

Everything that waits for the network runs in a bounded pool of threads.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import pyarrow as pa
from google.api_core.exceptions import GoogleAPICallError
from google.cloud.bigquery.job import QueryJobConfig

from contract.authority import Authority
from contract.errors import DatasetAgentError
from contract.ids import new_id
from contract.result import Execution, ResultDocument
from contract.verdict import NotGranted, Reason
from queries.arrow_form import arrow_schema, conform
from queries.bigquery_access import Access
from queries.bigquery_check import check_template
from queries.bigquery_errors import Stopped, out_of_time, outcome, reason_of, too_large
from queries.bigquery_job import CANCEL_SECONDS, Job, query_config
from queries.bigquery_options import BigQueryOptions, Budget, label
from queries.bigquery_parameters import parameters
from queries.bigquery_rows import BigQueryRows
from queries.bigquery_text import BigQueryTexts
from queries.bind import Bound
from queries.encode import ResultEncoder, ResultInvalid, ResultTooLarge
from queries.engine import Stream
from queries.govern import Shape, govern
from queries.masks import MASK_KEY, dataset_mask_key
from queries.supplied import bound_rows, check_supplied
from queries.template import Template

_log = logging.getLogger(__name__)
T = TypeVar("T")
_THREADS: Final = 8
_CANCELS: Final = 4


@dataclass(frozen=True, slots=True)
class _Query:
    """What one query needs before its thread starts; ``account`` is whom it runs as."""

    template: Template
    shape: Shape
    values: Mapping[str, Any]
    supplied: ResultDocument | None
    account: str | None
    budget: Budget
    labels: dict[str, str]
    max_rows: int


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
        self._mask_key = dataset_mask_key(mask_key, dataset)
        self._clock = clock
        self._texts = BigQueryTexts()
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix=f"bigquery-{dataset}")
        # Apart, so that a pool full of queries cannot keep one of them from being cancelled.
        self._cancels = ThreadPoolExecutor(_CANCELS, thread_name_prefix=f"bigquery-cancel-{dataset}")
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
        """See ``Engine.run``. Also raises BUDGET_EXCEEDED, and INSUFFICIENT_PRIVILEGE for a class without account."""
        query = self._query(authority, template, bound, max_rows, supplied)
        encoder = ResultEncoder(template.results, max_rows=max_rows, max_bytes=max_bytes)
        job, started = self._job(), self._clock()
        try:
            async with asyncio.timeout(self._timeout):
                await self._in_thread(job, self._encode, job, query, encoder)
        except TimeoutError:
            await self._abandon(job)
            raise out_of_time() from None
        except asyncio.CancelledError:
            await self._abandon(job)
            raise
        finally:
            self._jobs.discard(job)
        try:
            document = encoder.finish(as_of)
        except ResultTooLarge:
            raise too_large() from None
        return document, self._execution(job, started)

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
        """See ``Engine.stream``."""
        query = self._query(authority, template, bound, max_rows, supplied)
        job, started, loop = self._job(), self._clock(), asyncio.get_running_loop()
        until = loop.time() + self._timeout

        def step(batches: Iterator[pa.RecordBatch]) -> asyncio.Future[pa.RecordBatch | None]:
            return loop.run_in_executor(self._pool, next, batches, None)

        async def within(pending: asyncio.Future[pa.RecordBatch | None]) -> pa.RecordBatch | None:
            try:
                async with asyncio.timeout_at(until):
                    return await asyncio.shield(pending)
            except TimeoutError:
                raise out_of_time() from None

        rows = BigQueryRows(
            arrow_schema(template.results),
            self._conformed(job, query, max_bytes),
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

    async def check(self, template: Template) -> None:
        """See ``Engine.check``: a dry run. Also raises a fault where BigQuery cannot be asked."""
        await asyncio.get_running_loop().run_in_executor(
            self._pool, check_template, self._access, self._options, self._texts, template, self._timeout
        )

    async def close(self) -> None:
        """See ``Engine.close``. Waits for cancel requests, not for a thread that BigQuery keeps waiting."""
        await asyncio.gather(*(self._abandon(job) for job in list(self._jobs)))
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._cancels.shutdown(wait=False)
        await asyncio.to_thread(self._access.close)

    def _query(
        self,
        authority: Authority,
        template: Template,
        bound: Bound,
        max_rows: int,
        supplied: ResultDocument | None,
    ) -> _Query:
        same_version = authority.dataset == self._dataset and authority.dataset_version == self._version
        if not same_version or (self._revision is not None and authority.revision != self._revision):
            raise NotGranted(Reason.UNKNOWN_DATASET_REVISION, "the engine holds another revision of the dataset")
        check_supplied(template, supplied)
        account = self._options.account_of(authority.principal.principal_class)
        governed = govern(template, authority)
        return _Query(
            template=template,
            shape=governed.shape,
            values={**bound.values, **governed.values},
            supplied=supplied,
            account=account,
            budget=self._options.budget_of(authority.capability),
            labels=_labels(authority),
            max_rows=max_rows,
        )

    def _job(self) -> Job:
        options, deadline = self._options, time.monotonic() + self._timeout
        job = Job(self._dataset, project=options.project, location=options.location, deadline=deadline)
        self._jobs.add(job)
        return job

    async def _in_thread(self, job: Job, work: Callable[..., T], *arguments: Any) -> T:
        future = asyncio.get_running_loop().run_in_executor(self._pool, work, *arguments)
        future.add_done_callback(_forget)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            future.cancel()  # where no thread has taken it yet
            raise

    async def _abandon(self, job: Job) -> None:
        """Stop the thread, and wait until BigQuery was asked to stop the job: bounded, whoever cancels meanwhile."""
        job.stop()
        if not job.runs:
            return

        async def ask() -> None:
            try:
                async with asyncio.timeout(CANCEL_SECONDS):
                    await asyncio.get_running_loop().run_in_executor(self._cancels, job.cancel)
            except TimeoutError:
                _log.warning("job %s of %s may still run: no answer to its cancelling", job.id, self._dataset)

        task = asyncio.create_task(ask())
        self._stopping.add(task)
        task.add_done_callback(self._stopping.discard)
        await asyncio.shield(task)

    def _encode(self, job: Job, query: _Query, encoder: ResultEncoder) -> None:
        """In a thread: run and encode. Raises ``NotGranted`` with fixed texts only."""
        first = True
        for batch in self._batches(job, query):
            try:
                if first:
                    encoder.check_schema(batch.schema)
                    first = False
                encoder.add(batch)
            except ResultTooLarge:
                raise too_large() from None
            except ResultInvalid as error:
                raise NotGranted(Reason.RESULT_INVALID, str(error)) from None

    def _conformed(self, job: Job, query: _Query, max_bytes: int) -> Iterator[pa.RecordBatch]:
        """The batches that are not empty, in the one schema, within ``max_bytes`` of Arrow's memory form."""
        results, size = query.template.results, 0
        schema = arrow_schema(results)
        for batch in self._batches(job, query):
            if batch.num_rows == 0:
                continue
            try:
                formed = conform(schema, results, batch)
            except ResultInvalid as error:
                raise NotGranted(Reason.RESULT_INVALID, str(error)) from None
            size += formed.nbytes
            if size > max_bytes:
                raise too_large()
            yield formed

    def _batches(self, job: Job, query: _Query) -> Iterator[pa.RecordBatch]:
        """In a thread: the rows of one run. Raises ``NotGranted`` with fixed texts only."""
        try:
            yield from self._run(job, query)
        except NotGranted:
            raise
        except Stopped:
            raise out_of_time() from None
        except ResultInvalid as error:
            raise NotGranted(Reason.RESULT_INVALID, str(error)) from None
        except DatasetAgentError as fault:
            _log.warning("a query of %s was not sent: %s", self._dataset, fault.code)
            raise NotGranted(Reason.EXECUTION_FAILED, "the query failed") from None
        except Exception as error:
            # Its own text may quote a cell's value, the query or another table's name.
            if job.stopped or job.is_late:
                raise out_of_time() from None
            word = reason_of(error) if isinstance(error, GoogleAPICallError) else ""
            raise outcome(word, self._dataset, job.id, type(error).__name__) from None

    def _run(self, job: Job, query: _Query) -> Iterator[pa.RecordBatch]:
        text = self._texts.text(query.template, query.shape)
        client = self._access.client(query.account)
        values = {**query.values, MASK_KEY: self._mask_key} if f"@{MASK_KEY}" in text else query.values
        given = parameters(query.template, query.shape, values, bound_rows(query.template, query.supplied))

        def config() -> QueryJobConfig:
            allowed = query.budget.maximum_bytes_billed
            return query_config(given, maximum_bytes_billed=allowed, labels=query.labels)

        if query.budget.estimate:
            job.estimate(client, text, config())
        done = job.run(client, text, config())
        yield from job.batches(
            done,
            query.template.results,
            max_rows=query.max_rows,
            storage_read=self._options.storage_read,
            reader=lambda: self._access.reader(query.account),
        )

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


def _labels(authority: Authority) -> dict[str, str]:
    """What joins a job to the ledger, and its cost to a capability: ids and names, nothing of a person or a row."""
    return {
        "transaction_id": label(authority.grant.txn),
        "decision_id": label(authority.decision.decision_id),
        "dataset": label(authority.dataset),
        "capability": label(authority.capability),
    }


def _forget(done: asyncio.Future[Any]) -> None:
    if not done.cancelled():
        done.exception()  # read once, so that an abandoned query is no warning
