"""The erasable keys of people in PostgreSQL, for agents on several machines.

What a ``DELETE`` leaves in a server's pages is taken by its next vacuum, which ``forget`` asks for; what
its write-ahead log, replicas and backups keep is beyond this module.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final, TypeVar

import psycopg
from psycopg import sql

from evidence.postgres_place import Connection, Line, check_url, told
from evidence.store import StoreFault
from evidence.subjects import Subject

T = TypeVar("T")
_TABLE: Final = (
    "CREATE SCHEMA IF NOT EXISTS {schema}",
    "CREATE TABLE IF NOT EXISTS {schema}.subject_key"
    " (issuer text, subject text, key bytea NOT NULL, PRIMARY KEY (issuer, subject))",
)


class PostgresSubjects:
    """``evidence.store.SubjectStore``. Nothing is remembered here, so what one process forgets none uses again."""

    def __init__(self, url: str, schema: str) -> None:
        """Raises ``ValueError`` for a URL that ``check_url`` refuses, and ``StoreFault``."""
        check_url(url)
        self._schema = schema
        self._lock = threading.Lock()
        self._line = Line(url)
        self._run(self._lay)

    def key(self, subject: Subject) -> bytes:
        (key,) = self.keys([subject])
        if key is None:
            raise StoreFault("a subject was forgotten while its key was made")
        return key

    def keys(self, subjects: Sequence[Subject | None]) -> list[bytes | None]:
        wanted = sorted({subject for subject in subjects if subject is not None})
        if not wanted:
            return [None] * len(subjects)
        found = self._run(lambda connection: self._made(connection, wanted))
        if len(found) != len(wanted):
            raise StoreFault("a subject was forgotten while its key was made")
        return [None if subject is None else found[subject] for subject in subjects]

    def existing(self, subject: Subject) -> bytes | None:
        return self._run(lambda connection: self._load(connection, [subject])).get(subject)

    def all(self) -> Iterator[tuple[Subject, bytes]]:
        everything = self._sql("SELECT issuer, subject, key FROM {schema}.subject_key")
        return iter(self._run(lambda connection: [_pair(row) for row in connection.execute(everything)]))

    def forget(self, subject: Subject) -> bool:
        def work(connection: Connection) -> int:
            wanted = "DELETE FROM {schema}.subject_key WHERE issuer = %s AND subject = %s"
            gone = connection.execute(self._sql(wanted), subject).rowcount
            with suppress(psycopg.errors.InsufficientPrivilege):  # then it is left to the server's own
                connection.execute(self._sql("VACUUM {schema}.subject_key"))
            return gone

        return self._run(work) > 0

    def close(self) -> None:
        with self._lock:
            self._line.close()

    def _load(self, connection: Connection, wanted: Sequence[Subject]) -> dict[Subject, bytes]:
        issuers, names = [issuer for issuer, _ in wanted], [name for _, name in wanted]
        return dict(_pair(row) for row in connection.execute(self._sql(_SELECT), (issuers, names)))

    def _run(self, work: Callable[[Connection], T]) -> T:
        """Once more where the connection was lost: nothing here does harm twice."""
        with self._lock, told():
            try:
                return work(self._open())
            except psycopg.OperationalError:
                if not self._line.is_broken:
                    raise
                self._line.close()
            return work(self._open())

    def _open(self) -> Connection:
        return self._line.open()

    def _lay(self, connection: Connection) -> None:
        if connection.execute("SELECT to_regclass(%s)", (f"{self._schema}.subject_key",)).fetchone() != (None,):
            return
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (self._schema,))
            for statement in _TABLE:
                connection.execute(self._sql(statement))

    def _made(self, connection: Connection, wanted: Sequence[Subject]) -> dict[Subject, bytes]:
        found = self._load(connection, wanted)
        if missing := [subject for subject in wanted if subject not in found]:
            made = [(*subject, secrets.token_bytes(32)) for subject in missing]
            with connection.cursor() as cursor:
                cursor.executemany(self._sql(_INSERT), made)
            found |= self._load(connection, missing)
        return found

    def _sql(self, text: str) -> sql.Composed:
        return sql.SQL(text).format(schema=sql.Identifier(self._schema))


_SELECT: Final = (
    "SELECT issuer, subject, key FROM {schema}.subject_key"
    " JOIN unnest(%s::text[], %s::text[]) AS wanted (i, s) ON issuer = i AND subject = s"
)
_INSERT: Final = "INSERT INTO {schema}.subject_key VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"


def _pair(row: tuple[object, ...]) -> tuple[Subject, bytes]:
    issuer, subject, key = row
    if not (isinstance(issuer, str) and isinstance(subject, str) and isinstance(key, bytes)):
        raise StoreFault("a subject's key is of a foreign type")
    return (issuer, subject), key
