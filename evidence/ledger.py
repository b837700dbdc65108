"""The append-only ledger: rows, their Merkle tree and a signed checkpoint, committed in one transaction."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

from contract.key_ring import waits
from contract.signing import PublicKey, Signer
from contract.verdict import NotGranted, Reason
from evidence.arrivals import Arrival, Person
from evidence.attendance import Attendance, open_arrivals
from evidence.checkpoint import Checkpoint, Receipt
from evidence.commit import Commits
from evidence.entry import Concealed, Entry, InvalidLedger, conceal, mismatches, plain, subject_in
from evidence.founding import first_head
from evidence.group import GroupCommit
from evidence.reader import damaged, reading, stranger, unavailable
from evidence.row import Kind, LedgerRow, Side
from evidence.seen import Seen
from evidence.sqlite_file import BUSY_SECONDS
from evidence.sqlite_store import SqliteStore
from evidence.store import LedgerBusy, LedgerStore, StoreFault, SubjectStore, Writing
from evidence.subjects import Subject, SubjectKeys, opening_of, unerasable
from evidence.withheld import withheld, withheld_on_fault
from evidence.writer_client import WriterAway, WriterClient, WriterPlace

_SLOW_SECONDS: Final = 0.001
_SPARED: Final = 4
"""A loop that stood still for longer than ``_SLOW_SECONDS`` commits no row itself for so many times that."""


class Ledger:
    """One process's handle on a ledger that several processes and threads may write.

    There is no update and no delete. A row is durable when its receipt exists. It has no
    length on purpose: an empty ledger is not falsy.
    """

    def __init__(self, store: LedgerStore, signer: Signer, subjects: SubjectStore) -> None:
        """``store`` is founded, and signed by a known key: see ``on``."""
        self._store = store
        self._signer = signer
        self._subjects = subjects
        self._commits = Commits(store)
        self._writer: WriterClient | None = None
        self._slow_until = 0.0
        self._attendance: Attendance | None = None
        self._seen = Seen(self._commits.head().checkpoint.origin)
        self._group = GroupCommit(self._commit, patience=BUSY_SECONDS, in_thread=lambda: waits(self._signer))

    @classmethod
    def open(
        cls,
        path: Path,
        signer: Signer,
        *,
        subject_key_path: Path,
        now: float,
        retired: Sequence[PublicKey] = (),
    ) -> Ledger:
        """The ledger in the SQLite file at ``path``: ``on`` with the stores of two files. Raises as that."""
        try:
            store = SqliteStore(path)
        except (sqlite3.Error, OSError) as error:
            raise unavailable(str(path), error) from error
        return cls.on(store, lambda: SubjectKeys(subject_key_path), signer, now=now, retired=retired)

    @classmethod
    def on(
        cls,
        store: LedgerStore,
        subjects: Callable[[], SubjectStore],
        signer: Signer,
        *,
        now: float,
        retired: Sequence[PublicKey] = (),
    ) -> Ledger:
        """The ledger in ``store``, or a new one with a random origin and a signed empty checkpoint.

        It closes the stores, here too where it raises. ``retired`` are other keys that
        checkpoints may be signed by, earlier ones for the most part. Raises ``DatasetAgentError``:
        ``evidence.ledger.unavailable`` where a store cannot be opened or written,
        ``evidence.ledger.damaged`` where the head does not fit together,
        ``evidence.ledger.stranger`` where no known key signed it (a service must not sign
        on top of that).
        """
        with ExitStack() as opened:
            opened.callback(store.close)
            try:
                head = store.found(lambda: first_head(signer, now))
                keys = subjects()
            except InvalidLedger as error:
                raise damaged(store.name, str(error)) from error
            except (sqlite3.Error, OSError, StoreFault) as error:
                raise unavailable(store.name, error) from error
            opened.callback(keys.close)
            known = tuple(dict.fromkeys((signer.public_key, *retired)))
            if not head.checkpoint.verifies(known):
                raise stranger(store.name, known)
            ledger = cls(store, signer, keys)
            opened.pop_all()
        return ledger

    def use(self, writer: WriterPlace) -> None:
        """Give the rows of event loops to this writer from now on, where it is there and this process has the key."""
        self._writer = WriterClient(writer, self._seen, self._store.check, self._commit_alone)
        with suppress(OSError):
            writer.ensure()

    @property
    def name(self) -> str:
        """Where it lies, for people."""
        return self._store.name

    @property
    def path(self) -> Path:
        """Of a ledger that is a file."""
        return Path(self.name)

    def append(self, row: LedgerRow) -> Receipt:
        """Commit one row; when this returns it is on disk.

        Raises ``NotGranted(EVIDENCE_UNAVAILABLE)`` where it cannot be written (full or
        read-only disk, signer or key file unavailable): then nothing may be released.
        """
        return self.append_many((row,))[0]

    def append_many(self, rows: Sequence[LedgerRow]) -> list[Receipt]:
        """Commit several rows at once, all or none; each has its own checkpoint. Raises as ``append``."""
        with withheld_on_fault():
            self._seen.check()
            concealed = [self._conceal(row) for row in rows]
            return self._seen.took(self._commits.commit_patiently(concealed, self._signer, behind=self._seen.rows))

    def append_plain(
        self, requests: Sequence[Sequence[Mapping[str, Any]]], signer: Signer, is_wanted: Callable[[int], bool]
    ) -> list[list[Receipt] | None]:
        """``append_many`` of rows in the form of ``evidence.entry.plain``, signed by one of this agent's keys.

        ``is_wanted`` is asked under the write lock for each of ``requests``, by number. The rows of
        one that is not are not written: whoever sent them may write them otherwise.
        """
        wanted: list[int] = []
        with withheld_on_fault():
            rows = [row for request in requests for row in request]
            keys = self._subjects.keys([subject_in(row) for row in rows])
            concealed = iter([conceal(row, key) for row, key in zip(rows, keys, strict=True)])
            by_request = [list(islice(concealed, len(request))) for request in requests]

            def still_wanted(_: Writing) -> Sequence[Concealed]:
                wanted.extend(number for number in range(len(requests)) if is_wanted(number))
                return [row for number in wanted for row in by_request[number]]

            receipts = iter(self._commits.commit_patiently(still_wanted, signer))
        given = {number: list(islice(receipts, len(requests[number]))) for number in wanted}
        return [given.get(number) for number in range(len(requests))]

    def append_async(self, row: LedgerRow) -> asyncio.Future[Receipt]:
        """``append`` in an event loop: rows that wait together share one sync to disk.

        Without a writer the loop stands still for the sync (a fifth of a millisecond on an
        ordinary disk), never for another process: where one of those has the key, a thread
        commits. Whoever cancels the future has still written the row.
        """
        try:
            future = self._submit(row)
        except NotGranted as stop:
            future = asyncio.get_running_loop().create_future()
            future.set_exception(stop)
        if self._attendance is not None and row.kind is Kind.TERMINAL:
            future.add_done_callback(partial(self._attendance.settled, row.request_id))
        return future

    def _submit(self, row: LedgerRow) -> asyncio.Future[Receipt]:
        with withheld_on_fault():
            self._seen.check()
            if self._writer is not None and not waits(self._signer):
                with suppress(WriterAway):
                    return self._writer.submit(self._signer.public_key.raw.hex(), plain(row))
            return self._group.submit(self._conceal(row))

    def attend(self, folder: Path, *, side: Side, agent_id: str, now: float) -> None:
        """From now on whoever is expected here has a terminal row, even where this process dies before it.

        Requests of processes that died, whose slots are in ``folder``, get theirs now. Raises ``DatasetAgentError``.
        """
        self._attendance = Attendance(open_arrivals(folder), self._commits, self._signer, side, agent_id)
        self._attendance.run(now)

    def expect(self, arrival: Arrival, person: Person = ()) -> None:
        """A request was taken in, which ends in a terminal row.

        Raises as ``Arrivals.take``, whose ``ArrivalsFull`` is EVIDENCE_UNAVAILABLE.
        """
        if self._attendance is not None:
            try:
                self._attendance.arrivals.take(arrival, self._seen.rows, person)
            except StoreFault as error:
                raise withheld(error) from error

    def checkpoint(self) -> Checkpoint:
        """The newest checkpoint of all writers. Raises ``NotGranted(EVIDENCE_UNAVAILABLE)``."""
        try:
            return self._commits.head().checkpoint
        except (sqlite3.Error, OSError, StoreFault, InvalidLedger) as error:
            raise NotGranted(Reason.EVIDENCE_UNAVAILABLE, "the ledger cannot be read") from error

    @property
    def size(self) -> int:
        return self.checkpoint().size

    @property
    def waiting(self) -> int:
        """Rows of this process that are on their way to the disk."""
        return self._group.waiting + (0 if self._writer is None else self._writer.waiting)

    def health(self) -> None:
        """Take the write lock, read the head, write nothing. Raises ``NotGranted(EVIDENCE_UNAVAILABLE)``."""
        with withheld_on_fault():
            self._seen.check()
            self._commits.probe(behind=self._seen.rows)
        if self._attendance is not None and self._attendance.is_due and not waits(self._signer):
            self._attendance.run(time.time())

    def rows(self, *, start: int = 0) -> Iterator[Entry]:
        """Entries from ``start`` on, as of one commit, unverified. Raises as ``evidence.reader``."""
        with reading(self._store) as opened:
            yield from opened.entries(start)

    def get(self, index: int) -> Entry | None:
        with reading(self._store) as opened:
            found = next(opened.entries(index), None)
        return found if found is not None and found.index == index else None

    def entries_of(self, subject: Subject) -> Iterator[tuple[Entry, bytes]]:
        """The entries about ``(issuer, subject)`` and their openings; none once it is forgotten."""
        key = self._subjects.existing(subject)
        if key is not None:
            with reading(self._store) as opened:
                for entry in opened.find("issuer", subject[0]):
                    opening = opening_of(key, bytes.fromhex(str(entry.cells["salt"])))
                    if not mismatches(entry, opening, subject=subject):
                        yield entry, opening

    def subject_of(self, entry: Entry) -> Subject | None:
        """Who the entry is about, by trying every key that is not forgotten; for an operator's screen."""
        salt = bytes.fromhex(str(entry.cells["salt"]))
        for subject, key in self._subjects.all():
            if not mismatches(entry, opening_of(key, salt), subject=subject):
                return subject
        return None

    def subjects(self) -> list[Subject]:
        """Everybody who is not forgotten."""
        return [subject for subject, _ in self._subjects.all()]

    def forget(self, issuer: str, subject: str) -> bool:
        """Erase the subject's key: no row can be traced to the person. Whether there was one; ``DatasetAgentError``."""
        try:
            return self._subjects.forget((issuer, subject))
        except (sqlite3.Error, OSError, StoreFault) as error:
            raise unerasable(error) from error

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._group.close()
        if self._attendance is not None:
            self._attendance.arrivals.close()
        with self._commits.lock:
            self._store.close()
        self._subjects.close()

    def _conceal(self, row: LedgerRow) -> Concealed:
        members = plain(row)
        return conceal(members, self._subjects.keys([subject_in(members)])[0])

    def _commit_alone(self, row: Mapping[str, Any]) -> Receipt | None:
        """Commit one row at once; ``None`` while another process writes, and for a while after the disk was slow."""
        began = time.monotonic()
        if began < self._slow_until:
            return None
        try:
            (receipt,) = self._commit([conceal(row, self._subjects.keys([subject_in(row)])[0])])
        except LedgerBusy:
            return None
        ended = time.monotonic()
        if ended - began > _SLOW_SECONDS:
            self._slow_until = ended + _SPARED * (ended - began)
        return receipt

    def _commit(self, rows: Sequence[Concealed]) -> list[Receipt]:
        return self._seen.took(self._commits.commit(rows, self._signer, behind=self._seen.rows))
