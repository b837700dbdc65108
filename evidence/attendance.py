"""Requests whose process died, or whose row could not be written, end in a terminal row after all: exactly one."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from contract.errors import Category, Component, DatasetAgentError
from contract.ids import new_id
from contract.signing import Signer
from contract.verdict import Reason
from evidence.arrivals import Arrival, Arrivals
from evidence.checkpoint import Receipt
from evidence.commit import Commits
from evidence.entry import Concealed, conceal, plain
from evidence.row import LedgerRow, Side
from evidence.store import Writing
from evidence.withheld import FAULTS

log = logging.getLogger(__name__)

_PAUSE_S: Final = 1.0


def open_arrivals(folder: Path) -> Arrivals:
    """Raises ``DatasetAgentError``."""
    try:
        return Arrivals(folder)
    except OSError as error:
        raise DatasetAgentError(
            Component.EVIDENCE,
            Category.UNAVAILABLE,
            "evidence.arrivals.unavailable",
            f"the requests under way cannot be kept in {folder} ({error}): make it writable and free disk space",
        ) from error


class Attendance:
    """Ends what ``arrivals`` holds in the ledger behind ``commits``, for the agent whose ledger that is."""

    def __init__(self, arrivals: Arrivals, commits: Commits, signer: Signer, side: Side, agent_id: str) -> None:
        self.arrivals = arrivals
        self._commits = commits
        self._signer = signer
        self._running: asyncio.Future[int] | None = None
        self._side = side
        self._agent_id = agent_id
        self._not_before = 0.0

    @property
    def is_due(self) -> bool:
        return self.arrivals.are_pending and time.monotonic() >= self._not_before

    def settled(self, request_id: str, row: asyncio.Future[Receipt]) -> None:
        """The writing of a terminal row ended. Where one is written again, others that are due are too."""
        if row.cancelled() or row.exception() is not None:
            self.arrivals.lose(request_id)
            return
        self.arrivals.end(request_id)
        if self.is_due and self._running is None:
            self._running = asyncio.ensure_future(asyncio.to_thread(self.run, time.time()))
            self._running.add_done_callback(self._ran)

    def _ran(self, _: asyncio.Future[int]) -> None:
        self._running = None

    def run(self, now: float) -> int:
        """How many rows were written; 0 too where that cannot be done now, and will be tried again.

        Whether a request has its row already is looked up under the write lock: a writer that was
        given the row and hangs either has committed it then, or finds its client gone.
        """
        self._not_before = time.monotonic() + _PAUSE_S
        pending = self.arrivals.pending()
        written: list[Concealed] = []

        def missing(writing: Writing) -> Sequence[Concealed]:
            told = writing.ended(min(arrival.behind for arrival in pending)) if pending else frozenset()
            written.extend(self._ended(one, now) for one in pending if one.request_id not in told)
            return written

        try:
            if pending:
                self._commits.commit_patiently(missing, self._signer)
        except FAULTS as fault:
            log.error("%d requests still have no terminal row: %s", len(pending), type(fault).__name__)
            return 0
        self.arrivals.settle(pending)
        if written:
            log.warning("%d requests that had no terminal row have one now", len(written))
        return len(written)

    def _ended(self, arrival: Arrival, now: float) -> Concealed:
        """What its caller was told, if anything: that nothing could be recorded, or nothing at all."""
        row = LedgerRow(
            side=self._side,
            recorded_at=now,
            agent_id=self._agent_id,
            client=arrival.client,
            request_id=arrival.request_id,
            reason=Reason.EVIDENCE_UNAVAILABLE if arrival.lost else Reason.EXECUTION_FAILED,
            policy_id=None,
            policy_version=None,
            decision_id=new_id("dec"),
            trace_id=arrival.trace_id,
            task_id=arrival.task_id,
        )
        return conceal(plain(row), None)
