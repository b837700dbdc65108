"""One query at BigQuery: a job with an id of our own, begun once, watched, read, and cancelled where nobody waits."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from google.api_core import exceptions
from google.api_core.retry import Retry
from google.cloud import bigquery
from google.cloud.bigquery.job import QueryJob, QueryJobConfig
from google.cloud.bigquery.table import RowIterator
from google.cloud.bigquery_storage_v1 import BigQueryReadClient
from google.cloud.bigquery_storage_v1.reader import ReadRowsStream

from contract.schema import ResultColumn
from queries.bigquery_errors import Stopped, is_transient, outcome, over_budget, word_of
from queries.bigquery_read import PAGE_ROWS, blocks, check_fields, open_stream, pages
from queries.outcomes import too_large

_log = logging.getLogger(__name__)
CANCEL_SECONDS: Final = 5.0
_REQUEST_SECONDS: Final = 20.0
_FIRST_POLL, _LAST_POLL = 0.05, 0.5
_DONE: Final = "DONE"
_ID_PREFIX: Final = "dataset_agent_"


class Job:
    """One query as its thread and its waiter share it.

    ``run`` and what it returns block and belong to one thread at a time; ``stop`` and
    ``cancel`` may be called from any. ``deadline`` is of ``time.monotonic``. Once ``closing``
    is set, BigQuery is not asked a second time to stop the job.
    """

    def __init__(
        self, dataset: str, *, project: str, location: str, deadline: float, closing: threading.Event | None = None
    ) -> None:
        self.id = _ID_PREFIX + secrets.token_hex(16)
        self.bytes_processed: int | None = None
        self.bytes_billed: int | None = None
        self.percent: float | None = None
        self._dataset = dataset
        self._project = project
        self._location = location
        self._deadline = deadline
        self._stopping = threading.Event()
        self._closing = closing or threading.Event()
        self._asking = threading.Lock()
        self._client: bigquery.Client | None = None
        self._answered = False
        self._ended = False
        self._stream: ReadRowsStream | None = None

    @property
    def stopped(self) -> bool:
        return self._stopping.is_set()

    @property
    def is_late(self) -> bool:
        return time.monotonic() >= self._deadline

    @property
    def remaining(self) -> float:
        """Seconds to the deadline. Raises ``Stopped`` where there are none, or nobody waits."""
        left = self._deadline - time.monotonic()
        if left <= 0 or self.stopped:
            raise Stopped
        return left

    def estimate(self, client: bigquery.Client, text: str, config: QueryJobConfig) -> None:
        """Raise ``NotGranted(BUDGET_EXCEEDED)`` where a dry run says that ``text`` reads more than it may be billed."""
        config.dry_run = True
        told = client.query(
            text, job_config=config, location=self._location, retry=self._retry(), timeout=self._wait(), job_retry=None
        )
        allowed, wanted = config.maximum_bytes_billed, told.total_bytes_processed
        if allowed is not None and (wanted is None or wanted > allowed):
            raise over_budget()

    def run(self, client: bigquery.Client, text: str, config: QueryJobConfig) -> QueryJob:
        """The job, done. Raises ``NotGranted`` for one that failed, and what the client raises.

        A job that may run on although nobody will read it is cancelled: by whoever stopped it, else here.
        """
        config.job_timeout_ms = max(1, int(self.remaining * 1000))
        self._client = client
        try:
            job = self._begin(client, text, config)
            delay = _FIRST_POLL
            while job.state != _DONE:
                self._stopping.wait(min(delay, self.remaining))
                job.reload(retry=self._retry(), timeout=self._wait())
                self.percent = _percent(job)
                delay = min(delay * 1.5, _LAST_POLL)
        except BaseException:
            self.cancel()
            raise
        self._ended = True
        self.bytes_processed, self.bytes_billed = job.total_bytes_processed, job.total_bytes_billed
        if job.error_result is not None:
            raise outcome(word_of(job.error_result), self._dataset, self.id, "JobFailed")
        return job

    def batches(
        self,
        job: QueryJob,
        results: Sequence[ResultColumn],
        *,
        max_rows: int,
        storage_read: int,
        reader: Callable[[], BigQueryReadClient | None],
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a finished job, in its order.

        Raises ``NotGranted(RESULT_TOO_LARGE)`` before a row is read where there are more than
        ``max_rows``, and ``ResultInvalid`` for other columns than ``results``.
        """
        rows = job.result(page_size=PAGE_ROWS, retry=self._retry(), timeout=self._wait(), job_retry=None)
        check_fields(results, rows.schema)
        total = rows.total_rows or 0
        if total > max_rows:
            raise too_large()
        read = 0
        for batch in self._from(job, rows, total, results, storage_read, reader):
            read += batch.num_rows
            yield batch
            _ = self.remaining
        if read != total:
            _ = self.remaining
            raise outcome("", self._dataset, self.id, "RowsMissing")

    @property
    def runs(self) -> bool:
        """Whether BigQuery may be at work for it."""
        return self._client is not None and not self._ended

    def stop(self) -> None:
        """Let the thread end at its next step; harmless before, between and after."""
        self._stopping.set()
        stream = self._stream
        if stream is not None:
            stream.cancel()

    def cancel(self) -> None:
        """Ask BigQuery to stop the job, for ``CANCEL_SECONDS`` at most. Blocks, raises nothing.

        Where another thread asks already, this one waits for it, so that who returns knows that
        BigQuery was asked. A job that was sent and not answered yet may not be there yet, so it
        is asked again, as after a fault that may pass.
        """
        client, until = self._client, time.monotonic() + CANCEL_SECONDS
        if client is None or not self._asking.acquire(timeout=CANCEL_SECONDS):
            return
        delay, answered, problem = _FIRST_POLL, False, None
        try:
            while not self._ended and (left := until - time.monotonic()) > 0:
                answered, problem = self._answered, self._ask(client, left)
                known = answered or not isinstance(problem, exceptions.NotFound)
                if problem is None or (known and not is_transient(problem)):
                    break
                # Not the client's own retries: they would sleep and ask on after the engine was closed.
                if self._closing.wait(delay):
                    break
                delay = min(delay * 1.5, _LAST_POLL)
        finally:
            self._asking.release()
        if not self._ended and problem is not None and not isinstance(problem, exceptions.NotFound):
            _log.warning("job %s of %s may still run: %s", self.id, self._dataset, type(problem).__name__)

    def _ask(self, client: bigquery.Client, seconds: float) -> Exception | None:
        """What kept BigQuery from being asked, or from knowing the job."""
        try:
            no_retry: Any = None  # which the client takes, and its type does not say
            client.cancel_job(self.id, project=self._project, location=self._location, retry=no_retry, timeout=seconds)
        except Exception as error:
            return error
        self._ended = True
        return None

    def _begin(self, client: bigquery.Client, text: str, config: QueryJobConfig) -> QueryJob:
        """Start the job once: a request whose outcome is unknown is sent again under the same id."""
        _log.info("a query of %s is job %s", self._dataset, self.id)
        try:
            job = client.query(
                text,
                job_config=config,
                job_id=self.id,
                location=self._location,
                project=self._project,
                retry=self._retry(),
                timeout=self._wait(),
                job_retry=None,
            )
        except exceptions.Conflict:
            found = client.get_job(
                self.id,
                project=self._project,
                location=self._location,
                retry=self._retry(also=exceptions.NotFound),
                timeout=self._wait(),
            )
            if not isinstance(found, QueryJob):
                raise outcome("", self._dataset, self.id, type(found).__name__) from None
            job = found
        finally:
            self._answered = True
        return job

    def _from(
        self,
        job: QueryJob,
        rows: RowIterator,
        total: int,
        results: Sequence[ResultColumn],
        storage_read: int,
        reader: Callable[[], BigQueryReadClient | None],
    ) -> Iterator[pa.RecordBatch]:
        client = reader() if total >= storage_read and job.destination is not None else None
        if client is None:
            yield from pages(results, rows)
            return
        opened = open_stream(client, job.destination, project=self._project, timeout=self.remaining)
        if opened is None:
            return
        self._stream, session = opened
        try:
            _ = self.remaining
            yield from blocks(self._stream, session)
        finally:
            self._stream.cancel()

    def _wait(self) -> float:
        """How long one request may take, in seconds."""
        return min(self.remaining, _REQUEST_SECONDS)

    def _retry(self, also: type[Exception] | None = None) -> Retry:
        """Repeats requests that change nothing when they are repeated, while somebody waits."""

        def again(error: Exception) -> bool:
            wanted = is_transient(error) or (also is not None and isinstance(error, also))
            return wanted and not self.stopped

        return Retry(predicate=again, initial=0.1, maximum=1.0, timeout=self.remaining)


def _percent(job: QueryJob) -> float | None:
    """The units of work that are done, of those that are known; ``None`` before there are any."""
    if not job.timeline:
        return None
    done, left = job.timeline[-1].completed_units or 0, job.timeline[-1].pending_units or 0
    return 100 * done / (done + left) if done + left else None


def query_config(
    parameters: Sequence[Any], *, maximum_bytes_billed: int, labels: dict[str, str], dry_run: bool = False
) -> QueryJobConfig:
    """How every query is sent. A stored result of BigQuery is never used: it may be another authorization's."""
    return QueryJobConfig(
        query_parameters=list(parameters),
        use_legacy_sql=False,
        use_query_cache=False,
        maximum_bytes_billed=maximum_bytes_billed,
        labels=labels,
        dry_run=dry_run,
    )
