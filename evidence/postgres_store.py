"""A ledger in PostgreSQL (14 or newer, extra ``postgresql``): shared by machines, every commit synced by the server.

Each agent has a schema of its own. Every writer locks the one row of its head, so there is one
writer at a time and no row that another does not stand on. Who may write there can still do what
they like: that shows by the tree and the signatures, as in a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import errors, sql
from psycopg.pq import TransactionStatus

from evidence.checkpoint import Checkpoint
from evidence.entry import FORMAT, Entry, Head, InvalidLedger, head_of
from evidence.postgres_place import Connection, Line, check_durable, check_url, place_of, told
from evidence.postgres_reading import (
    DROP,
    INSERT,
    SCHEMA,
    SELECT_HEAD,
    UPDATE_HEAD,
    PostgresReading,
    base_of,
    column_kind,
    is_laid,
    missing_in,
    reading_place,
    statement,
    stored,
)
from evidence.store import LedgerBusy, StoreFault


class PostgresStore:
    """``evidence.store.LedgerStore`` over one schema; ``Writing`` of itself. A broken connection is made anew."""

    def __init__(self, url: str, schema: str) -> None:
        """Raises ``ValueError`` for a URL that ``check_url`` refuses. Nothing is asked of the server yet."""
        check_url(url)
        self._url, self._schema = url, schema
        self._line = Line(url)
        self._origin: str | None = None
        self._stored: tuple[Any, ...] | None = None
        self._head: Head | None = None
        self._written: tuple[tuple[Any, ...], Head] | None = None
        self._locked: tuple[Any, ...] | None = None

    @property
    def name(self) -> str:
        return f"{place_of(self._url)} {self._schema}"

    def found(self, first: Callable[[], Head]) -> Head:
        with self._asking() as connection:
            check_durable(connection)
            with connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (self._schema,))
                if not is_laid(connection, self._schema):
                    for text in SCHEMA:
                        connection.execute(self._sql(text))
                    self._lay(connection, first())
                elif missing := missing_in(connection, self._schema):
                    for name in missing:
                        widened = "ALTER TABLE {schema}.entries ADD COLUMN {column} {kind}"
                        connection.execute(self._sql(widened, column=sql.Identifier(name), kind=column_kind(name)))
            head = self._read(connection)
        self._origin = head.checkpoint.origin
        return head

    @contextmanager
    def writing(self) -> Iterator[PostgresStore]:
        self._written = None
        try:
            with told():
                connection = self._begun()
                try:
                    row = connection.execute(self._sql(f"{SELECT_HEAD} FOR UPDATE NOWAIT")).fetchone()
                    self._locked = stored(row)
                    yield self
                    connection.execute("COMMIT")
                finally:
                    self._locked = None
                    self._end(connection)
        except StoreFault as fault:
            if isinstance(fault.__cause__, errors.LockNotAvailable):
                raise LedgerBusy from fault
            raise
        self._take()

    def _begun(self) -> Connection:
        """In a transaction. A connection that was lost since it was used last is made anew: nothing went over it."""
        connection = self._open()
        try:
            connection.execute("BEGIN")
        except psycopg.OperationalError:
            if not connection.broken:
                raise
            self.close()
            connection = self._open()
            connection.execute("BEGIN")
        return connection

    def _end(self, connection: Connection) -> None:
        """Nothing of a block that raised stays; whatever cannot be told so goes with its connection."""
        if connection.info.transaction_status is TransactionStatus.IDLE:
            return
        try:
            connection.execute("ROLLBACK")
        except psycopg.Error:
            self.close()

    def _take(self) -> None:
        """What was committed is the newest head."""
        if self._written is not None:
            self._stored, self._head = self._written

    def head(self) -> Head:
        """What this process wrote last, and nobody after it, is not read and hashed again."""
        if self._locked is not None:
            return self._known(self._locked)
        with self._asking() as connection:
            return self._read(connection)

    def append(self, entries: Sequence[Entry], head: Head) -> None:
        connection = self._open()
        rows = [(entry.index, *entry.cells.values(), entry.leaf_hash, entry.root, entry.signature) for entry in entries]
        newest, peaks = head.checkpoint, head.frontier.to_bytes()
        with connection.pipeline(), connection.cursor() as cursor:
            cursor.executemany(self._sql(INSERT), rows)
            cursor.execute(self._sql(UPDATE_HEAD), (newest.size, newest.root, newest.time, newest.signature, peaks))
        written = (FORMAT, newest.origin, newest.size, newest.root, newest.time, newest.signature, peaks)
        self._written = written, head

    def ended(self, since: int) -> frozenset[str]:
        wanted = "SELECT request_id FROM {schema}.entries WHERE idx >= %s AND kind = 'terminal'"
        return frozenset(str(row[0]) for row in self._open().execute(self._sql(wanted), (since,)))

    def begin_at(self, base: Head) -> None:
        at = base.checkpoint
        values = (at.size, at.root, at.time, at.signature, base.frontier.to_bytes())
        self._open().execute(self._sql("DELETE FROM {schema}.base"))
        self._open().execute(self._sql("INSERT INTO {schema}.base VALUES (1, %s, %s, %s, %s, %s)"), values)

    def base(self) -> Head | None:
        """Where it begins, of the newest commit; inside ``writing`` of this one."""
        with self._asking() as connection:
            return base_of(connection, self._schema)

    def drop(self, most: int) -> int:
        base = self.base()
        if base is None:
            return 0
        gone = self._open().execute(self._sql(DROP), (base.frontier.size, most))
        return gone.rowcount

    @contextmanager
    def reading(self) -> Iterator[PostgresReading]:
        with reading_place(self._url, self._schema) as opened:
            yield opened

    def check(self) -> None:
        """Whatever stands there was read by ``writing``: a place of another origin was refused then."""

    def close(self) -> None:
        self._line.close()

    @contextmanager
    def _asking(self) -> Iterator[Connection]:
        try:
            with told():
                yield self._open()
        except StoreFault:
            if self._line.is_broken:
                self.close()
            raise

    def _open(self) -> Connection:
        return self._line.open()

    def _read(self, connection: Connection) -> Head:
        return self._known(stored(connection.execute(self._sql(SELECT_HEAD)).fetchone()))

    def _known(self, row: tuple[Any, ...]) -> Head:
        if self._head is None or row != self._stored:
            self._stored, self._head = row, head_of(row)
        if self._origin not in (None, self._head.checkpoint.origin):
            raise InvalidLedger("the ledger was replaced")
        return self._head

    def _lay(self, connection: Connection, head: Head) -> None:
        at: Checkpoint = head.checkpoint
        connection.execute(
            self._sql("INSERT INTO {schema}.head VALUES (1, %s, %s, %s, %s, %s, %s, %s)"),
            (FORMAT, at.origin, at.size, at.root, at.time, at.signature, head.frontier.to_bytes()),
        )

    def _sql(self, text: str, **parts: sql.Composable) -> sql.Composed:
        return statement(text, self._schema, **parts)
