"""One connection to the SQLite state file.

What is found about the file under the write lock is written down at once (``state_header``).
A file whose pages do not belong together, or that does not read as a database any more, is
put aside, and a new one is begun.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Final

from contract.grant import VerifiedGrant
from contract.sqlite_founding import create_private
from contract.verdict import NotGranted
from grants.once import judge_once
from grants.state import (
    Progress,
    Revocation,
    RevocationKind,
    armed_after_loss,
    armed_at_open,
    judge,
    names_of,
    remembered_until,
    replay_key,
    replayed,
)
from grants.state_header import (
    HEADER_TABLE,
    Condition,
    Header,
    condition,
    gone_on,
    next_announced,
    write_header,
)
from grants.state_known import Reading
from grants.state_lock import Asked, AskedOnce, Locked, Memory
from grants.state_paths import (
    Files,
    FilesReplaced,
    FileTorn,
    Identity,
    boot_id,
    founding,
    identity_of,
    take_away,
)
from grants.state_rows import REVOKE, TABLES, forget_leaves, holds_leaves, legible_revocations, revocations_of

_REPLACED: Final = "the state file was replaced"
LOG_BYTES: Final = 4 * 2**20
"""Size of the write-ahead log at which it is moved into the file."""
SWEEP_EVERY: Final = 256
"""Spends of a connection between two looks for leaves that may be forgotten."""


class StateFile:
    """One connection; ``wait`` is how many seconds it waits for another's lock. Used from one thread."""

    def __init__(self, path: Path, memory: Memory, *, wait: float) -> None:
        self._path, self._place = path, str(path)
        self._real = self._place
        self._memory = memory
        self._wait = wait
        self._boot = boot_id()
        self._reading: Reading | None = None
        self._files = Files(None, None, None)
        self._locked_files = self._files
        self._log_bytes = 0
        self._spends = 0
        self._hand = os.urandom(8).hex()

    @property
    def identity(self) -> Identity | None:
        """The file that this connection has open, or tried to open."""
        opened = self._files.database
        return None if opened is None else (opened.st_dev, opened.st_ino)

    def begin(self, now: float) -> None:
        """Connect for the first time, and arm what is new or was lost while nobody looked."""
        with self._locked() as reading:
            self._sound(reading, now)

    def spend_each(self, asked: Sequence[Asked | AskedOnce]) -> list[NotGranted | None]:
        """Spend leaves in one transaction, one after the other. For each: why it is not spent, if it is not."""
        stops: list[NotGranted | None] = []
        with self._locked() as reading:
            header = self._sound(reading, max([one.now for one in asked]))
            clock, spent = header.clock, 0
            for one in asked:
                at = max(clock, one.now)
                try:
                    self._spend(reading, one, header, at)
                except NotGranted as stop:
                    stops.append(stop)
                    continue
                stops.append(None)
                clock, spent = at, spent + 1
            if spent:
                reading.connection.execute("UPDATE memory SET seq = seq + ?, clock = ?", (spent, clock))
        if spent:
            written = header.further(spent, clock)
            reading.wrote(written)
            self._memory.note(written.progress)
        return stops

    def recheck(self, grant: VerifiedGrant, policy: str | None, now: float) -> None:
        """Reads only, unless something is to be written down about the file itself."""
        reading, files, seen = self._current(), self._checked(), self._memory.seen
        header = reading.look(files.opened.st_mtime_ns).header
        if header is None or self._condition(header, files, seen) is not Condition.SOUND:
            with self._locked() as reading:
                header = self._sound(reading, now)
        self._memory.note(header.progress)
        _judge(reading, grant, policy, header, header.clock)

    def revoke(self, kind: RevocationKind, value: str, not_before: float) -> None:
        """A loss stays for the next spend to notice: nothing here hides it."""
        with self._locked() as reading:
            reading.connection.execute(REVOKE, (kind.value, value, not_before))
            if self._settled(reading) is not None:
                reading.connection.execute("UPDATE memory SET seq = seq + 1")

    def revocations(self) -> list[Revocation]:
        reading = self._current()
        self._checked()
        return revocations_of(reading.connection)

    def probe(self) -> None:
        with self._locked() as reading:
            self._settled(reading)

    def log_is_long(self) -> bool:
        """As this connection saw it last."""
        return self._log_bytes > LOG_BYTES

    def checkpoint(self) -> None:
        """Move the log into the file, which gets the modification time announced in it. Nobody writes meanwhile."""
        with self._locked() as reading:
            header = self._settled(reading)
            if header is None:
                return
            announced = next_announced(header, time.time())
            reading.connection.execute("UPDATE memory SET modified = ?, announced = ?", (self._modified(), announced))
        with self._locked() as reading, closing(sqlite3.connect(self._path, timeout=0)) as beside:
            header = self._settled(reading)
            if header is None or header.announced == self._modified():  # another process was here in between
                return
            beside.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            os.utime(self._path, ns=(header.announced, header.announced))

    def disconnect(self) -> None:
        if self._reading is not None:
            self._reading.connection.close()
            self._reading = None

    def put_aside(self, torn: Identity | None) -> None:
        """Begin anew beside a torn file, unless another process did; revocations are kept as far as they read."""
        with founding(self._path):
            if torn is not None and torn == identity_of(self._path):
                kept = legible_revocations(self._path)
                take_away(self._path)
                self._memory.lost = True
                with closing(self._opened()) as fresh:
                    fresh.executemany(REVOKE, kept)
        self.disconnect()

    def _locked(self) -> Locked:
        return Locked(self._current(), self._look_locked, self._checked)

    def _sound(self, reading: Reading, now: float) -> Header:
        """The header under the write lock, of a memory that was begun or goes on where it had to be."""
        header = self._settled(reading) or self._rearmed(reading, now)
        self._memory.note(header.progress)
        return header

    def _spend(self, reading: Reading, asked: Asked | AskedOnce, header: Header, clock: float) -> None:
        if isinstance(asked, AskedOnce):
            judge_once(asked.once, armed=header.armed, clock=clock)
            leaf = (asked.once.key, asked.once.until)
        else:
            _judge(reading, asked.grant, asked.policy, header, clock)
            leaf = (replay_key(asked.grant), remembered_until(asked.grant))
        if not reading.connection.execute("INSERT OR IGNORE INTO spent VALUES (?, ?)", leaf).rowcount:
            raise replayed()
        self._sweep(reading.connection, clock)

    def _settled(self, reading: Reading) -> Header | None:
        """The header under the write lock; ``None`` for a loss, which stays for whoever knows the time to write down."""
        seen, header = self._memory.seen, self._held(reading)
        found = self._condition(header, self._locked_files, seen)
        if found is Condition.TORN:
            raise FileTorn(self.identity)
        if found is Condition.CLOSED:
            modified = self._modified()
            reading.connection.execute("UPDATE memory SET modified = ?", (modified,))
            return header and replace(header, modified=modified)
        return None if found is Condition.LOST else header

    def _held(self, reading: Reading) -> Header | None:
        """The header as it lies there under the write lock."""
        return reading.look(self._locked_files.opened.st_mtime_ns).header

    def _sweep(self, connection: sqlite3.Connection, clock: float) -> None:
        """A hand goes round the leaves; it begins anywhere, or who never stays long would forget the first ones only."""
        self._spends += 1
        if self._spends >= SWEEP_EVERY:
            self._hand, self._spends = forget_leaves(connection, self._hand, clock), 0

    def _rearmed(self, reading: Reading, now: float) -> Header:
        """Begin a memory, or go on after a loss."""
        held, seen, connection = self._held(reading), self._memory.seen, reading.connection
        first = held is None and seen is None and not self._memory.lost and not holds_leaves(connection)
        header = gone_on(
            held,
            seen,
            armed=armed_at_open(now) if first else armed_after_loss(now),
            boot=self._boot,
            inode=os.stat(self._path).st_ino,
            modified=self._modified(),
        )
        write_header(connection, header)
        self._memory.lost, self._memory.seen = False, header.progress
        return header

    def _condition(self, header: Header | None, files: Files, seen: Progress | None) -> Condition:
        database, log = files.opened, files.log
        return condition(
            header,
            seen=seen,
            lost=self._memory.lost,
            boot=self._boot,
            inode=database.st_ino,
            modified=database.st_mtime_ns,
            log_in_use=log is not None and log.st_size > 0,
        )

    def _current(self) -> Reading:
        if self._reading is None:
            with founding(self._path):
                create_private(self._path)
                self._real = os.path.realpath(self._path)
                self._files = Files.at(self._place, self._real)
                self._reading = Reading(self._opened())
                self._files = Files.at(self._place, self._real)
        return self._reading

    def _opened(self) -> sqlite3.Connection:
        """A connection whose commits stay in the log until ``checkpoint``, or until the last process closes."""
        create_private(self._path)
        connection = sqlite3.connect(self._path, isolation_level=None, timeout=self._wait)
        try:
            connection.execute("PRAGMA page_size = 1024")  # a commit writes three pages whole
            connection.execute("PRAGMA wal_autocheckpoint = 0")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA journal_size_limit = 0")
            connection.execute(f"PRAGMA synchronous = {'NORMAL' if self._boot else 'FULL'}")
            connection.executescript(HEADER_TABLE + TABLES)
        except BaseException:
            connection.close()
            raise
        return connection

    def _look_locked(self) -> None:
        self._locked_files = self._checked()

    def _checked(self) -> Files:
        """What lies there now. Raises ``FilesReplaced`` where others would not see what this connection does.

        A log that was taken away from its file may hold spends and revocations that the next one does not.
        """
        files = Files.at(self._place, self._real)
        if files.same(self._files):
            self._log_bytes = files.log.st_size if files.log else 0
            return files
        if files.same_database(self._files):
            self._memory.lost = True
        raise FilesReplaced(_REPLACED)

    def _modified(self) -> int:
        return os.stat(self._path).st_mtime_ns


def _judge(reading: Reading, grant: VerifiedGrant, policy: str | None, header: Header, clock: float) -> None:
    names = names_of(grant, policy) if reading.revokes else ()
    judge(grant, names, reading.instants(names), armed=header.armed, clock=clock)
