"""One connection to the SQLite state file.

What is found about the file under the write lock is written down at once (``state_header``).
A file whose pages do not belong together, or that does not read as a database any more, is
put aside, and a new one is begun.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from contract.grant import VerifiedGrant
from contract.verdict import NotGranted
from grants.state import (
    SWEEP,
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
    read_header,
    write_header,
)
from grants.state_paths import (
    Files,
    FilesReplaced,
    FileTorn,
    Identity,
    boot_id,
    create_private,
    founding,
    identity_of,
    take_away,
)
from grants.state_rows import REVOKE, TABLES, holds_leaves, instants_of, legible_revocations, revocations_of

_REPLACED: Final = "the state file was replaced"
LOG_BYTES: Final = 4 * 2**20
"""Size of the write-ahead log at which it is moved into the file."""


@dataclass(slots=True)
class Memory:
    """What the connections of a store know together; ``lost`` is a loss which the file itself cannot tell."""

    seen: Progress | None = None
    lost: bool = False

    def note(self, progress: Progress) -> None:
        if self.seen is None or self.seen.behind(progress):
            self.seen = progress


class StateFile:
    """One connection; ``wait`` is how many seconds it waits for another's lock. Used from one thread."""

    def __init__(self, path: Path, memory: Memory, *, wait: float) -> None:
        self._path, self._place = path, str(path)
        self._real = self._place
        self._memory = memory
        self._wait = wait
        self._boot = boot_id()
        self._connection: sqlite3.Connection | None = None
        self._files = Files(None, None, None)
        self._locked_files = self._files
        self._log_bytes = 0

    @property
    def identity(self) -> Identity | None:
        """The file that this connection has open, or tried to open."""
        opened = self._files.database
        return None if opened is None else (opened.st_dev, opened.st_ino)

    def begin(self, now: float) -> None:
        """Connect for the first time, and arm what is new or was lost while nobody looked."""
        with self._writing(now):
            pass

    def spend(self, grant: VerifiedGrant, policy: str | None, now: float) -> None:
        with self._writing(now) as (connection, header):
            clock = max(header.clock, now)
            _judge(connection, grant, policy, header, clock)
            connection.execute(
                "DELETE FROM spent WHERE leaf IN (SELECT leaf FROM spent WHERE until < ? LIMIT ?)", (clock, SWEEP)
            )
            leaf = (replay_key(grant), remembered_until(grant))
            if not connection.execute("INSERT OR IGNORE INTO spent VALUES (?, ?)", leaf).rowcount:
                raise replayed()
            connection.execute("UPDATE memory SET seq = seq + 1, clock = ?", (clock,))
        self._memory.note(header.progress.further())

    def recheck(self, grant: VerifiedGrant, policy: str | None, now: float) -> None:
        """Reads only, unless something is to be written down about the file itself."""
        connection, files, seen = self._current(), self._checked(), self._memory.seen
        header = read_header(connection)
        if header is None or self._condition(header, files, seen) is not Condition.SOUND:
            with self._writing(now) as (connection, header):
                pass
        self._memory.note(header.progress)
        _judge(connection, grant, policy, header, header.clock)

    def revoke(self, kind: RevocationKind, value: str, not_before: float) -> None:
        """A loss stays for the next spend to notice: nothing here hides it."""
        with self._locked() as connection:
            connection.execute(REVOKE, (kind.value, value, not_before))
            if self._settled(connection) is not None:
                connection.execute("UPDATE memory SET seq = seq + 1")

    def revocations(self) -> list[Revocation]:
        connection = self._current()
        self._checked()
        return revocations_of(connection)

    def probe(self) -> None:
        with self._locked() as connection:
            self._settled(connection)

    def log_is_long(self) -> bool:
        """As this connection saw it last."""
        return self._log_bytes > LOG_BYTES

    def checkpoint(self) -> None:
        """Move the log into the file, which gets the modification time announced in it. Nobody writes meanwhile."""
        with self._locked() as connection:
            header = self._settled(connection)
            if header is None:
                return
            announced = next_announced(header, time.time())
            connection.execute("UPDATE memory SET modified = ?, announced = ?", (self._modified(), announced))
        with self._locked() as connection, closing(sqlite3.connect(self._path, timeout=0)) as beside:
            header = self._settled(connection)
            if header is None or header.announced == self._modified():  # another process was here in between
                return
            beside.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            os.utime(self._path, ns=(header.announced, header.announced))

    def disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

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

    @contextmanager
    def _writing(self, now: float) -> Iterator[tuple[sqlite3.Connection, Header]]:
        with self._locked() as connection:
            header = self._settled(connection) or self._rearmed(connection, now)
            self._memory.note(header.progress)
            yield connection, header

    @contextmanager
    def _locked(self) -> Iterator[sqlite3.Connection]:
        connection = self._current()
        connection.execute("BEGIN IMMEDIATE")
        try:
            self._locked_files = self._checked()
            yield connection
        except NotGranted:
            connection.execute("COMMIT")  # keeps what was written down about the file, the only change by then
            raise
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")
        self._checked()  # or nobody else would ever see what was committed

    def _settled(self, connection: sqlite3.Connection) -> Header | None:
        """The header under the write lock; ``None`` for a loss, which stays for whoever knows the time to write down."""
        seen, header = self._memory.seen, read_header(connection)
        found = self._condition(header, self._locked_files, seen)
        if found is Condition.TORN:
            raise FileTorn(self.identity)
        if found is Condition.CLOSED:
            connection.execute("UPDATE memory SET modified = ?", (self._modified(),))
        return None if found is Condition.LOST else header

    def _rearmed(self, connection: sqlite3.Connection, now: float) -> Header:
        """Begin a memory, or go on after a loss."""
        held, seen = read_header(connection), self._memory.seen
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

    def _current(self) -> sqlite3.Connection:
        if self._connection is None:
            with founding(self._path):
                create_private(self._path)
                self._real = os.path.realpath(self._path)
                self._files = Files.at(self._place, self._real)
                self._connection = self._opened()
                self._files = Files.at(self._place, self._real)
        return self._connection

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


def _judge(
    connection: sqlite3.Connection, grant: VerifiedGrant, policy: str | None, header: Header, clock: float
) -> None:
    names = names_of(grant, policy)
    judge(grant, names, instants_of(connection, names), armed=header.armed, clock=clock)
