"""What BigQuery and its client say, as outcomes with fixed texts: their own may quote a cell or name a table."""

from __future__ import annotations

import logging
import re
from typing import Any, Final

import requests.exceptions
from google.api_core import exceptions
from google.auth.exceptions import TransportError

from contract.errors import Category, Component, DatasetAgentError
from contract.verdict import NotGranted, Reason
from queries.outcomes import failed, out_of_time, too_large

_log = logging.getLogger(__name__)
_REASON: Final = re.compile(r"[A-Za-z]{1,40}")
_OVER_BUDGET: Final = "bytesBilledLimitExceeded"
_TOO_LARGE: Final = ("responseTooLarge", "resultTooLarge")
_OUT_OF_TIME: Final = ("timeout", "jobTimeout", "stopped")
_TRANSIENT_REASONS: Final = ("backendError", "internalError", "badGateway", "rateLimitExceeded", "tableUnavailable")
_TRANSIENT: Final = (
    ConnectionError,
    exceptions.TooManyRequests,
    exceptions.InternalServerError,
    exceptions.BadGateway,
    exceptions.ServiceUnavailable,
    exceptions.GatewayTimeout,
    requests.exceptions.ChunkedEncodingError,
    requests.exceptions.ConnectionError,
    requests.exceptions.Timeout,
    TransportError,
)


class Stopped(Exception):
    """The waiter of a job went away, or its time is over."""


def is_transient(error: BaseException) -> bool:
    """Whether the same request may succeed a moment later. It says nothing of what the first one did."""
    if isinstance(error, requests.exceptions.SSLError):
        return False
    if isinstance(error, exceptions.GoogleAPICallError) and error.errors:
        return reason_of(error) in _TRANSIENT_REASONS or isinstance(error, _TRANSIENT)
    return isinstance(error, _TRANSIENT)


def reason_of(error: BaseException) -> str:
    """BigQuery's one word for an error, empty where it has none."""
    listed = getattr(error, "errors", None)
    first: Any = listed[0] if isinstance(listed, (list, tuple)) and listed else {}
    return word_of(first)


def word_of(told: Any) -> str:
    word = told.get("reason") if isinstance(told, dict) else None
    return word if isinstance(word, str) and _REASON.fullmatch(word) else ""


def is_access(error: BaseException) -> bool:
    """Whether an account may not do what it tried."""
    return isinstance(error, (exceptions.Forbidden, exceptions.NotFound)) and not is_transient(error)


def outcome(word: str, dataset: str, job_id: str, kind: str) -> NotGranted:
    """The outcome of a job that ended with BigQuery's reason ``word``; ``kind`` is the error's type, for the log."""
    if word == _OVER_BUDGET:
        return over_budget()
    if word in _TOO_LARGE:
        return too_large()
    if word in _OUT_OF_TIME:
        return out_of_time()
    _log.warning("a query of %s failed: %s %s (job %s)", dataset, kind, word or "without a reason", job_id)
    return failed()


def over_budget() -> NotGranted:
    return NotGranted(Reason.BUDGET_EXCEEDED, "the query would read more bytes than the capability may be billed for")


def unreachable(kind: str) -> DatasetAgentError:
    """The fault of an error ``kind`` outside a query."""
    return DatasetAgentError(
        Component.QUERIES,
        Category.UNAVAILABLE,
        "queries.bigquery.unreachable",
        f"BigQuery cannot be asked ({kind}); look at the network and at the agent's credentials",
    )
