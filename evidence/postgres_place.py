"""Reaching a PostgreSQL server: what a URL must say, and what a server must do to hold evidence."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import psycopg
from psycopg.abc import RV, PQGen
from psycopg.conninfo import conninfo_to_dict

from contract.address import is_loopback
from evidence.store import StoreAway, StoreFault

_CONNECT_S: Final = 5
_SESSION: Final = (
    "SET synchronous_commit = on",
    "SET statement_timeout = '10s'",
    # Whoever holds the write lock and hangs loses it.
    "SET idle_in_transaction_session_timeout = '10s'",
    "SET standard_conforming_strings = on",
)
_PROVEN: Final = frozenset({"verify-full", "verify-ca"})
_OLDEST: Final = 140_000
_SILENT_S: Final = 12.0
"""Seconds that an answer may take: a server that is there ends a statement before, by the session's own limit."""
_REST_S: Final = 30.0
"""Seconds for which a server that said nothing is asked nothing."""


class Silent(psycopg.OperationalError):
    """A server that takes what it is asked and does not answer: a machine that hangs, a network that swallows."""


class Connection(psycopg.Connection[tuple[object, ...]]):
    """One whose server is waited for only so long, whatever it is asked. After a silence it is closed."""

    silent_at: float | None = None

    def wait(self, gen: PQGen[RV], *args: Any, **kwargs: Any) -> RV:
        try:
            return super().wait(_within(gen, time.monotonic() + _SILENT_S), *args, **kwargs)
        except Silent:
            self.silent_at = time.monotonic()
            self.close()
            raise


def _within(gen: PQGen[RV], deadline: float) -> PQGen[RV]:
    """What ``gen`` waits for, until then. It is resumed several times a second, whether or not something came."""
    try:
        wants = next(gen)
        while True:
            came = yield wants
            if not came and time.monotonic() > deadline:
                gen.close()
                raise Silent("the server does not answer")
            wants = gen.send(came)
    except StopIteration as end:
        found: RV = end.value
        return found


class Line:
    """The connection to one server, made anew where it was lost."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: Connection | None = None
        self._silent_at: float | None = None

    @property
    def is_broken(self) -> bool:
        """Whether it was lost while it was used."""
        return self._connection is not None and self._connection.broken

    def open(self) -> Connection:
        """Raises ``psycopg.Error``; ``Silent`` at once where the server said nothing a moment ago."""
        if self._connection is None or self._connection.closed:
            self.close()
            if self._silent_at is not None and time.monotonic() < self._silent_at + _REST_S:
                raise Silent("the server did not answer a moment ago")
            try:
                self._connection = connect(self._url)
            except (psycopg.errors.ConnectionTimeout, Silent):
                self._silent_at = time.monotonic()
                raise
        return self._connection

    def close(self) -> None:
        if self._connection is not None:
            self._silent_at = self._connection.silent_at
            self._connection.close()
            self._connection = None


def check_url(url: str) -> None:
    """Raises ``ValueError`` where it is no URL of a server, or leads over a network to one that need not prove itself."""
    if not url.startswith(("postgresql://", "postgres://")):
        raise ValueError("a ledger's URL begins with postgresql://")
    try:
        told = conninfo_to_dict(url)
    except psycopg.Error:  # its text may quote a password
        raise ValueError("it is no URL of a PostgreSQL server") from None
    hosts = [host for name in ("host", "hostaddr") if told.get(name) for host in str(told[name]).split(",")]
    if not hosts or "service" in told:
        raise ValueError("it must say its host: a name, or the folder of a socket (?host=/run/postgresql)")
    if told.get("sslmode") not in _PROVEN and not all(_is_here(host) for host in hosts):
        raise ValueError("a server elsewhere has to prove itself: add sslmode=verify-full (and sslrootcert)")


def place_of(url: str) -> str:
    """Host and database, for people; no user and no secret."""
    told = conninfo_to_dict(url)
    return f"postgresql://{told.get('host') or told.get('hostaddr') or ''}/{told.get('dbname') or ''}"


def schema_of(agent_id: str) -> str:
    """Where an agent's ledger lies in its database: each has its own."""
    return "ledger_" + hashlib.sha256(agent_id.encode()).hexdigest()[:16]


def connect(url: str) -> Connection:
    """In autocommit mode, every commit synced. Raises ``psycopg.Error``."""
    connection = Connection.connect(url, autocommit=True, connect_timeout=_CONNECT_S, application_name="dataset-agent")
    try:
        for statement in _SESSION:
            connection.execute(statement)
    except BaseException:
        connection.close()
        raise
    return connection


def check_durable(connection: Connection) -> None:
    """Raises ``StoreFault`` where the server may lose what it said is committed, or only follows another."""
    if connection.info.server_version < _OLDEST:
        raise StoreFault("the server is older than PostgreSQL 14")
    row = connection.execute(
        "SELECT current_setting('fsync'), current_setting('full_page_writes'), pg_is_in_recovery()"
    ).fetchone()
    if row != ("on", "on", False):
        raise StoreFault(
            "the server follows another one"
            if row is not None and row[2]
            else "the server does not sync what it commits: set fsync and full_page_writes to on"
        )


@contextmanager
def told() -> Iterator[None]:
    """A server's fault as ``StoreFault``: its kind, and nothing that it quotes."""
    try:
        yield
    except psycopg.Error as error:
        state = f" {error.sqlstate}" if error.sqlstate else ""
        raise _kind(error)(f"PostgreSQL: {type(error).__name__}{state}") from error


def _kind(error: psycopg.Error) -> type[StoreFault]:
    # What a server says has a state; that there is no connection, or none for this account, has none.
    return StoreAway if isinstance(error, psycopg.OperationalError) and not error.sqlstate else StoreFault


def _is_here(host: str) -> bool:
    return host.startswith(("/", "@")) or is_loopback(host)
