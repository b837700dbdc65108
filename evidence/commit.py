"""The one transaction that appends rows: tree, checkpoint and rows together, or nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final

from contract.signing import Signer
from evidence.checkpoint import Checkpoint, Receipt
from evidence.entry import Concealed, Entry, Head, InvalidLedger
from evidence.merkle import leaf_hash
from evidence.row import leaf_data
from evidence.sqlite_file import BUSY_SECONDS
from evidence.store import LedgerBusy, LedgerStore, Writing

_RETRY_SECONDS: Final = 0.0003

Rows = Sequence[Concealed] | Callable[[Writing], Sequence[Concealed]]


class Commits:
    """One process's transactions on a store that others may write too.

    Methods raise what the store raises, ``LedgerBusy``, whatever the signer raises, and
    ``InvalidLedger`` where the store was replaced or rolled back.
    """

    def __init__(self, store: LedgerStore) -> None:
        self.lock = threading.Lock()
        self._store = store
        self._head: Head | None = None

    def commit(self, rows: Rows, signer: Signer, *, behind: int = 0) -> list[Receipt]:
        """On disk when it returns, all or none; each row has its own checkpoint. ``LedgerBusy`` at once.

        ``rows`` may be a function that says under the write lock which they are. ``behind`` rows are
        there already, or the store was rolled back.
        """
        with self.lock:
            with self._store.writing() as writing:
                head = self._unless_rolled_back(writing.head(), behind)
                entries, receipts = [], []
                for row in rows(writing) if callable(rows) else rows:
                    head, entry, receipt = _extended(head, row, signer)
                    entries.append(entry)
                    receipts.append(receipt)
                if entries:
                    writing.append(entries, head)
            self._store.check()  # or nobody else would ever see what was committed
            self._head = head
        return receipts

    def commit_patiently(self, rows: Rows, signer: Signer, *, behind: int = 0) -> list[Receipt]:
        """``commit``, waiting for other processes for ``BUSY_SECONDS``; not for an event loop."""
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                return self.commit(rows, signer, behind=behind)
            except LedgerBusy:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_RETRY_SECONDS)

    @contextmanager
    def patiently(self) -> Iterator[Writing]:
        """The write lock for something else than rows, waiting for it as ``commit_patiently`` does."""
        deadline = time.monotonic() + BUSY_SECONDS
        with self.lock, ExitStack() as locked:
            while True:
                try:
                    writing = locked.enter_context(self._store.writing())
                    break
                except LedgerBusy:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(_RETRY_SECONDS)
            yield writing

    def head(self) -> Head:
        with self.lock:
            return self._store.head()

    def probe(self, *, behind: int = 0) -> None:
        """Take the write lock, read the head and write nothing, unless somebody is writing just now."""
        if not self.lock.acquire(blocking=False):  # a thread of this process is at work, as below
            return
        try:
            self._store.check()
            with self._store.writing() as writing:
                self._unless_rolled_back(writing.head(), behind)
        except LedgerBusy:  # another writer is at work: the ledger is writable
            return
        finally:
            self.lock.release()

    def _unless_rolled_back(self, head: Head, behind: int) -> Head:
        known, newest = self._head, head.checkpoint
        if newest.size < behind:
            raise InvalidLedger("the ledger was rolled back")
        if known is not None and (
            newest.size < known.checkpoint.size
            or (newest.size == known.checkpoint.size and newest.root != known.checkpoint.root)
        ):
            raise InvalidLedger("the ledger was rolled back")
        return head


def _extended(head: Head, row: Concealed, signer: Signer) -> tuple[Head, Entry, Receipt]:
    index = head.frontier.size
    leaf = leaf_hash(leaf_data(index, row.cells))
    frontier = head.frontier.append(leaf)
    checkpoint = Checkpoint.sign(
        signer,
        origin=head.checkpoint.origin,
        size=frontier.size,
        root=frontier.root(),
        time=str(row.cells["recorded_at"]),
    )
    entry = Entry(index, row.cells, leaf, checkpoint.root, checkpoint.signature)
    receipt = Receipt(index, leaf, checkpoint, head.frontier.path_of_next(), row.opening)
    return Head(checkpoint, frontier), entry, receipt
