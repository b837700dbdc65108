"""What an outcome of the engine is called outside: the engine's own words hold values and names of tables."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import duckdb

from contract.verdict import NotGranted, Reason
from queries.duckdb_job import Job, Stopped
from queries.duckdb_remote import WorkerFailed
from queries.duckdb_threads import too_long
from queries.encode import ResultInvalid, ResultTooLarge

_log = logging.getLogger(__name__)


def too_large() -> NotGranted:
    return NotGranted(Reason.RESULT_TOO_LARGE, "the result has more rows or bytes than allowed")


@contextmanager
def fixed_texts(job: Job, dataset: str) -> Iterator[None]:
    """Whatever a query raises, as ``NotGranted`` with a fixed text."""
    try:
        yield
    except ResultTooLarge:
        raise too_large() from None
    except ResultInvalid as error:
        raise NotGranted(Reason.RESULT_INVALID, str(error)) from None
    except NotGranted:
        raise
    except (Stopped, duckdb.InterruptException):
        raise too_long() from None
    except Exception as error:
        # A reader reports an interrupt as a fault of its stream.
        if job.stopped:
            raise too_long() from None
        what = str(error) if isinstance(error, WorkerFailed) else type(error).__name__
        _log.warning("a query of %s failed: %s", dataset, what)
        raise NotGranted(Reason.EXECUTION_FAILED, "the query failed") from None
