"""The one transaction that appends rows: tree, checkpoint and rows together, or nothing."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from contract.signing import Signer
from evidence.checkpoint import Checkpoint, Receipt
from evidence.entry import (
    FORMAT,
    INSERT_ENTRY,
    UPDATE_HEAD,
    Concealed,
    Head,
    InvalidLedger,
    head_of,
    read_head,
    stored_head,
)
from evidence.merkle import leaf_hash
from evidence.row import leaf_data
from evidence.sqlite_file import BUSY_SECONDS, identities, names_of

_RETRY_SECONDS: Final = 0.0003


class LedgerBusy(Exception):
    """Another process holds the write lock."""


class Commits:
    """One process's transactions on a ledger file that others may write too.

    Methods raise ``sqlite3.Error``, ``LedgerBusy``, whatever the signer raises, and
    ``InvalidLedger`` where the file was replaced or rolled back.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.lock = threading.Lock()
        self._names = names_of(path)
        self._files = identities(self._names)
        self._stored: tuple[Any, ...] | None = None
        self._head: Head | None = None

    def commit(self, rows: Sequence[Concealed], signer: Signer, *, behind: int = 0) -> list[Receipt]:
        """On disk when it returns, all or none; each row has its own checkpoint. ``LedgerBusy`` at once.

        ``behind`` rows are there already, or the file was rolled back.
        """
        with self.lock:
            with self._transaction():
                head = self._newest(behind)
                receipts = []
                for row in rows:
                    head, receipt = self._extend(head, row, signer)
                    receipts.append(receipt)
                newest = head.checkpoint
                peaks = head.frontier.to_bytes()
                self.connection.execute(UPDATE_HEAD, (newest.size, newest.root, newest.time, newest.signature, peaks))
            self.check_files()  # or nobody else would ever see what was committed
            self._head = head
            self._stored = (FORMAT, newest.origin, newest.size, newest.root, newest.time, newest.signature, peaks)
        return receipts

    def commit_patiently(self, rows: Sequence[Concealed], signer: Signer, *, behind: int = 0) -> list[Receipt]:
        """``commit``, waiting for other processes for ``BUSY_SECONDS``; not for an event loop."""
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                return self.commit(rows, signer, behind=behind)
            except LedgerBusy:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_RETRY_SECONDS)

    def head(self) -> Head:
        with self.lock:
            return read_head(self.connection)

    def probe(self, *, behind: int = 0) -> None:
        """Take the write lock, read the head and write nothing, unless somebody is writing just now."""
        if not self.lock.acquire(blocking=False):  # a thread of this process is at work, as below
            return
        try:
            self.check_files()
            with self._transaction():
                self._newest(behind)
        except LedgerBusy:  # another writer is at work: the ledger is writable
            return
        finally:
            self.lock.release()

    def _newest(self, behind: int) -> Head:
        """The head of the file, unless it was rolled back under a running service.

        What this process wrote last, and nobody after it, is not read and hashed again.
        """
        stored, known = stored_head(self.connection), self._head
        head = known if known is not None and stored == self._stored else head_of(stored)
        newest = head.checkpoint
        if newest.size < behind:
            raise InvalidLedger("the ledger was rolled back")
        if known is not None and (
            newest.size < known.checkpoint.size
            or (newest.size == known.checkpoint.size and newest.root != known.checkpoint.root)
        ):
            raise InvalidLedger("the ledger was rolled back")
        return head

    def check_files(self) -> None:
        """That the files are those that were opened."""
        if identities(self._names) != self._files:
            raise InvalidLedger("the ledger file was replaced")

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """The write lock of the file, or ``LedgerBusy`` at once; committed, or rolled back on any exception."""
        try:
            self.connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
                raise LedgerBusy from error
            raise
        try:
            yield
            self.connection.execute("COMMIT")
        finally:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")

    def _extend(self, head: Head, row: Concealed, signer: Signer) -> tuple[Head, Receipt]:
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
        self.connection.execute(INSERT_ENTRY, (index, *row.cells.values(), leaf, checkpoint.root, checkpoint.signature))
        receipt = Receipt(index, leaf, checkpoint, head.frontier.path_of_next(), row.opening)
        return Head(checkpoint, frontier), receipt
