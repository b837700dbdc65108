"""A ledger that cannot be written is an outcome of the request: nothing is released."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from contract.errors import DatasetAgentError
from contract.verdict import NotGranted, Reason
from evidence.entry import InvalidLedger
from evidence.store import LedgerBusy, StoreFault

FAULTS: Final = (sqlite3.Error, OSError, StoreFault, InvalidLedger, LedgerBusy, DatasetAgentError)


def withheld(error: Exception) -> Exception:
    """``NotGranted(EVIDENCE_UNAVAILABLE)`` because of ``error``; an error of another kind is itself."""
    if not isinstance(error, FAULTS):
        return error
    stop = NotGranted(Reason.EVIDENCE_UNAVAILABLE, "the outcome could not be recorded, so nothing is released")
    stop.__cause__ = error
    return stop


@contextmanager
def withheld_on_fault() -> Iterator[None]:
    try:
        yield
    except FAULTS as error:
        raise withheld(error) from error
