"""A ledger in a SQLite file: WAL, every commit synced, shared by processes of one machine."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, Final

from contract.sqlite_snapshot import snapshot
from evidence.checkpoint import Checkpoint
from evidence.entry import (
    BASE_SCHEMA,
    FORMAT,
    INSERT_ENTRY,
    SCHEMA,
    UPDATE_HEAD,
    Entry,
    Head,
    InvalidLedger,
    head_of,
    kind_of,
    missing_columns,
    read_base,
    read_entries,
    read_foreign_head,
    read_head,
    stored_head,
)
from evidence.export import read_export
from evidence.row import COLUMNS
from evidence.segments import segments_of
from evidence.sqlite_file import connect, identities, names_of
from evidence.store import LedgerBusy

_DROP: Final = "DELETE FROM entries WHERE idx IN (SELECT idx FROM entries WHERE idx < ? ORDER BY idx LIMIT ?)"


class SqliteStore:
    """``evidence.store.LedgerStore`` over one file; ``Writing`` of itself."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.connection = connect(path, wal=True)
        self._names = names_of(path)
        self._files = identities(self._names)
        self._stored: tuple[Any, ...] | None = None
        self._head: Head | None = None
        self._written: tuple[tuple[Any, ...], Head] | None = None

    @property
    def name(self) -> str:
        return str(self.path)

    def found(self, first: Callable[[], Head]) -> Head:
        if not self._is_laid():
            self._lay(first)
        elif missing_columns(self.connection):
            self._widen()
        self._files = identities(self._names)
        self.connection.execute("PRAGMA busy_timeout=0")  # waiting is the business of whoever commits
        return read_head(self.connection)

    @contextmanager
    def writing(self) -> Iterator[SqliteStore]:
        try:
            self.connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
                raise LedgerBusy from error
            raise
        self._written = None
        try:
            yield self
            self.connection.execute("COMMIT")
        finally:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
        self._take()

    def _take(self) -> None:
        """What was committed is the newest head."""
        if self._written is not None:
            self._stored, self._head = self._written

    def head(self) -> Head:
        """What this process wrote last, and nobody after it, is not read and hashed again."""
        stored = stored_head(self.connection)
        if self._head is None or stored != self._stored:
            self._stored, self._head = stored, head_of(stored)
        return self._head

    def append(self, entries: Sequence[Entry], head: Head) -> None:
        self.connection.executemany(
            INSERT_ENTRY,
            [(entry.index, *entry.cells.values(), entry.leaf_hash, entry.root, entry.signature) for entry in entries],
        )
        newest, peaks = head.checkpoint, head.frontier.to_bytes()
        self.connection.execute(UPDATE_HEAD, (newest.size, newest.root, newest.time, newest.signature, peaks))
        stored = (FORMAT, newest.origin, newest.size, newest.root, newest.time, newest.signature, peaks)
        self._written = stored, head

    def ended(self, since: int) -> frozenset[str]:
        read = read_entries(self.connection, "WHERE idx >= ? AND kind = 'terminal'", (since,))
        base = self.base()
        older = rotated_entries(self.path, since, base.frontier.size) if base and base.frontier.size > since else ()
        return frozenset(str(entry.cells["request_id"]) for entry in chain(older, read))

    def begin_at(self, base: Head) -> None:
        at = base.checkpoint
        self.connection.execute(BASE_SCHEMA)
        self.connection.execute(
            "INSERT OR REPLACE INTO base VALUES (1, ?, ?, ?, ?, ?)",
            (at.size, at.root, at.time, at.signature, base.frontier.to_bytes()),
        )

    def base(self) -> Head | None:
        """Where it begins, of the newest commit; inside ``writing`` of this one."""
        return read_base(self.connection)

    def drop(self, most: int) -> int:
        base = self.base()
        return 0 if base is None else self.connection.execute(_DROP, (base.frontier.size, most)).rowcount

    def reading(self) -> AbstractContextManager[SqliteReading]:
        return reading_file(self.path)

    def check(self) -> None:
        if identities(self._names) != self._files:
            raise InvalidLedger("the ledger file was replaced")

    def close(self) -> None:
        self.connection.close()

    def _is_laid(self) -> bool:
        return self.connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'head'").fetchone() is not None

    def _lay(self, first: Callable[[], Head]) -> None:
        """In one transaction, unless another process was faster."""
        with self._patiently():
            if not self._is_laid():
                for statement in SCHEMA:
                    self.connection.execute(statement)
                head = first()
                at: Checkpoint = head.checkpoint
                self.connection.execute(
                    "INSERT INTO head VALUES (1, ?, ?, ?, ?, ?, ?, ?)",
                    (FORMAT, at.origin, at.size, at.root, at.time, at.signature, head.frontier.to_bytes()),
                )

    def _widen(self) -> None:
        """No row changes: what is not set is not hashed."""
        with self._patiently():
            for name in missing_columns(self.connection):
                self.connection.execute(f"ALTER TABLE entries ADD COLUMN {name} {kind_of(name)}")

    @contextmanager
    def _patiently(self) -> Iterator[None]:
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.connection.execute("COMMIT")
        finally:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")


class SqliteReading:
    """``evidence.store.Reading`` over one snapshot of a file and the segments beside it."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path

    def head(self) -> Head:
        return read_foreign_head(self._connection)

    def base(self) -> Head | None:
        return read_base(self._connection)

    def entries(self, start: int = 0) -> Iterator[Entry]:
        begin = self._begin()
        if start < begin:
            yield from rotated_entries(self._path, start, begin)
        yield from self.unrotated(start)

    def unrotated(self, start: int = 0) -> Iterator[Entry]:
        """The entries that lie in the file itself."""
        return read_entries(self._connection, "WHERE idx >= ?", (max(start, self._begin()),))

    def find(self, column: str, value: str) -> Iterator[Entry]:
        if column not in COLUMNS:
            raise ValueError(f"the ledger has no column {column!r}")
        begin = self._begin()
        yield from (entry for entry in rotated_entries(self._path, 0, begin) if entry.cells[column] == value)
        yield from read_entries(self._connection, f"WHERE {column} = ? AND idx >= ?", (value, begin))

    def _begin(self) -> int:
        base = self.base()
        return base.frontier.size if base else 0


def rotated_entries(path: Path, start: int, begin: int) -> Iterator[Entry]:
    """The entries from ``start`` on that are in segments, of a file that begins at ``begin``."""
    for segment in segments_of(path) if begin else ():
        if start < segment.stop <= begin:
            for part in read_export(segment.path):
                if isinstance(part, Entry) and part.index >= start:
                    yield part


@contextmanager
def reading_file(path: Path) -> Iterator[SqliteReading]:
    """The file as of one commit; nothing is made beside it. Raises as ``contract.sqlite_snapshot``."""
    with snapshot(path) as connection:
        yield SqliteReading(connection, path)
