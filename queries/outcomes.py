"""What a query that has no result comes to, in the fixed texts that every engine gives: its own words may quote a cell."""

from __future__ import annotations

from contract.verdict import NotGranted, Reason


def too_large() -> NotGranted:
    """More rows or bytes than ``Engine.stream`` was allowed."""
    return NotGranted(Reason.RESULT_TOO_LARGE, "the result has more rows or bytes than allowed")


def out_of_time() -> NotGranted:
    """The engine's timeout was over before the last row."""
    return NotGranted(Reason.EXECUTION_TIMEOUT, "the query took longer than allowed")


def failed() -> NotGranted:
    """Anything else; the log says what."""
    return NotGranted(Reason.EXECUTION_FAILED, "the query failed")
