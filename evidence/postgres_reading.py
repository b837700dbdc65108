"""A ledger in PostgreSQL, read as of one commit; and the statements of its tables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from psycopg import sql
from psycopg.rows import TupleRow

from evidence.entry import Entry, Head, InvalidLedger, head_of, kind_of
from evidence.postgres_place import Connection, connect, told
from evidence.row import COLUMNS, LATER
from evidence.store import StoreAbsent

_PAGE: Final = 1_000
_NAMES: Final = ("idx", *COLUMNS, "leaf_hash", "root", "signature")


class PostgresReading:
    """``evidence.store.Reading`` over one snapshot of a schema."""

    def __init__(self, connection: Connection, schema: str) -> None:
        self._connection, self._schema = connection, schema

    def head(self) -> Head:
        if not is_laid(self._connection, self._schema):
            raise StoreAbsent("the database has no head of one")
        return head_of(stored(self._connection.execute(statement(SELECT_HEAD, self._schema)).fetchone()))

    def base(self) -> Head | None:
        return base_of(self._connection, self._schema)

    def entries(self, start: int = 0) -> Iterator[Entry]:
        yield from self._rows("idx >= %s", max(start, self._begin()))

    def find(self, column: str, value: str) -> Iterator[Entry]:
        if column not in COLUMNS:
            raise ValueError(f"the ledger has no column {column!r}")
        yield from self._rows("{column} = %s AND idx >= %s", value, self._begin(), column=sql.Identifier(column))

    def _begin(self) -> int:
        base = self.base()
        return base.frontier.size if base else 0

    def _rows(self, where: str, *values: object, **parts: sql.Composable) -> Iterator[Entry]:
        missing = missing_in(self._connection, self._schema)
        shown = sql.SQL(", ").join(
            sql.SQL("NULL::{}").format(column_kind(name)) if name in missing else sql.Identifier(name)
            for name in _NAMES
        )
        wanted = statement(
            f"SELECT {{shown}} FROM {{schema}}.entries WHERE {where} ORDER BY idx",  # noqa: S608 - of this file
            self._schema,
            shown=shown,
            **parts,
        )
        with told(), self._connection.cursor(name="rows") as cursor:
            cursor.itersize = _PAGE
            cursor.execute(wanted, values)
            for row in cursor:
                yield _entry(row)


@contextmanager
def reading_place(url: str, schema: str) -> Iterator[PostgresReading]:
    """A schema as of one commit, over a connection of its own. Raises ``StoreFault``."""
    with told(), connect(url) as connection, connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        connection.execute("SELECT pg_current_snapshot()")  # as of now, not of the first question
        yield PostgresReading(connection, schema)


def _entry(row: TupleRow) -> Entry:
    if type(row[0]) is not int or not all(isinstance(value, bytes) for value in row[-3:]):
        raise InvalidLedger("an entry has an index, a hash or a signature of a foreign type")
    return Entry(row[0], dict(zip(COLUMNS, row[1:-3], strict=True)), *row[-3:])


def base_of(connection: Connection, schema: str) -> Head | None:
    wanted = (
        "SELECT h.format, h.origin, b.size, b.root, b.time, b.signature, b.peaks FROM {schema}.base b, {schema}.head h"
    )
    row = connection.execute(statement(wanted, schema)).fetchone()
    return None if row is None else head_of(stored(row))


def stored(row: tuple[object, ...] | None) -> tuple[Any, ...]:
    if row is None:
        raise InvalidLedger("the ledger has no head of a known format")
    return row


def is_laid(connection: Connection, schema: str) -> bool:
    return connection.execute("SELECT to_regclass(%s)", (f"{schema}.head",)).fetchone() != (None,)


def missing_in(connection: Connection, schema: str) -> tuple[str, ...]:
    """Those of ``LATER`` that the place, made by an earlier release, does not have."""
    wanted = "SELECT column_name FROM information_schema.columns WHERE table_schema = %s AND table_name = 'entries'"
    found = {row[0] for row in connection.execute(wanted, (schema,))}
    return tuple(name for name in LATER if name not in found)


def column_kind(column: str) -> sql.SQL:
    """The type of a column of the ledger."""
    return sql.SQL("bigint" if kind_of(column) == "INTEGER" else "text")


def statement(text: str, schema: str, **parts: sql.Composable) -> sql.Composed:
    """``text`` is of this file, with names and kinds in braces."""
    return sql.SQL(text).format(schema=sql.Identifier(schema), **parts)


_COLUMNS_SQL: Final = ", ".join(f"{name} {'bigint' if kind_of(name) == 'INTEGER' else 'text'}" for name in COLUMNS)
SCHEMA: Final = (
    "CREATE SCHEMA IF NOT EXISTS {schema}",
    "CREATE TABLE {schema}.head (id smallint PRIMARY KEY CHECK (id = 1), format bigint NOT NULL, origin text NOT NULL,"
    " size bigint NOT NULL, root bytea NOT NULL, time text NOT NULL, signature bytea NOT NULL, peaks bytea NOT NULL)",
    "CREATE TABLE {schema}.base (id smallint PRIMARY KEY CHECK (id = 1), size bigint NOT NULL, root bytea NOT NULL,"
    " time text NOT NULL, signature bytea NOT NULL, peaks bytea NOT NULL)",
    f"CREATE TABLE {{schema}}.entries (idx bigint PRIMARY KEY, {_COLUMNS_SQL}, leaf_hash bytea NOT NULL,"
    " root bytea NOT NULL, signature bytea NOT NULL)",
)
SELECT_HEAD: Final = "SELECT format, origin, size, root, time, signature, peaks FROM {schema}.head WHERE id = 1"
DROP: Final = (
    "DELETE FROM {schema}.entries WHERE idx IN (SELECT idx FROM {schema}.entries WHERE idx < %s ORDER BY idx LIMIT %s)"
)
INSERT: Final = f"INSERT INTO {{schema}}.entries ({', '.join(_NAMES)}) VALUES ({', '.join(['%s'] * len(_NAMES))})"  # noqa: S608 - our own names
UPDATE_HEAD: Final = "UPDATE {schema}.head SET size = %s, root = %s, time = %s, signature = %s, peaks = %s WHERE id = 1"
