"""What an outcome of the engine is called outside: the engine's own words hold values and names of tables."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import duckdb

from contract.verdict import NotGranted, Reason
from queries.duckdb_job import Job, Stopped
from queries.duckdb_remote import WorkerFailed
from queries.encode import ResultInvalid, ResultTooLarge
from queries.outcomes import failed, out_of_time, too_large

_log = logging.getLogger(__name__)


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
        raise out_of_time() from None
    except Exception as error:
        # A reader reports an interrupt as a fault of its stream.
        if job.stopped:
            raise out_of_time() from None
        what = str(error) if isinstance(error, WorkerFailed) else type(error).__name__
        _log.warning("a query of %s failed: %s", dataset, what)
        raise failed() from None
