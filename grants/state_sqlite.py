"""The state store in one SQLite file, shared by the processes of one machine.

Commits are in the write-ahead log without a sync of the disk: a process that dies loses
nothing, and a machine that dies is seen by its boot id, upon which the store is armed
anew. Where the boot id cannot be read, every commit is synced.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from contract.errors import Category
from contract.grant import VerifiedGrant
from contract.verdict import NotGranted
from grants.state import (
    BUDGET,
    Revocation,
    RevocationKind,
    armed_after_loss,
    armed_at_open,
    check_not_ended,
    check_value,
    fault,
    in_order,
    judge,
    names_of,
    replay_key,
    replayed,
    seconds_to_keep,
    unavailable,
)

T = TypeVar("T")

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS armed (one INTEGER PRIMARY KEY CHECK (one = 1), instant INTEGER NOT NULL, boot TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS spent (leaf TEXT PRIMARY KEY, until REAL NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS spent_until ON spent (until);
CREATE TABLE IF NOT EXISTS revoked (
  kind TEXT NOT NULL, value TEXT NOT NULL, not_before REAL NOT NULL, PRIMARY KEY (kind, value)
) WITHOUT ROWID;
"""
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_SWEEP: Final = 64
"""Rows of leaves that have long expired, removed with every spend."""
_CREATING: Final = threading.Lock()

_Identity = tuple[int, int]


class _FilesReplaced(OSError):
    """A connection's file, or the log beside it, is no longer what other processes open."""


@dataclass(slots=True)
class _Memory:
    """What the connections of a store know together: the file last used, and whether something in it was lost."""

    file: _Identity | None = None
    lost: bool = False


class SqliteState:
    """A ``grants.state.StateStore`` whose processes meet in one file.

    Work runs where it is asked, without waiting; work that finds the file locked waits in a
    thread, so that another writer never holds up the event loop.
    """

    def __init__(self, path: Path, *, budget: float = BUDGET) -> None:
        boot = _boot_id()
        self._path = path
        self._memory = _Memory()
        self._here = _StateFile(path, self._memory, wait=0.0, boot=boot)
        self._patient = _StateFile(path, self._memory, wait=budget, boot=boot)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="grants-state")

    @classmethod
    def open(cls, path: Path, *, now: float, budget: float = BUDGET) -> SqliteState:
        """Raises ``grants.state.unavailable`` where the file cannot be used."""
        store = cls(path, budget=budget)
        try:
            store._thread.submit(store._patient.connect, armed_at_open(now)).result()
        except (sqlite3.Error, OSError) as error:
            store._thread.shutdown()
            raise fault("unavailable", f"{path} cannot be used: {error}", Category.UNAVAILABLE) from error
        return store

    async def spend(self, grant: VerifiedGrant, *, policy: str | None, now: float) -> None:
        await self._run(lambda file: file.spend(grant, policy, now))

    async def recheck(self, grant: VerifiedGrant, *, policy: str | None, now: float) -> None:
        check_not_ended(grant, now)
        await self._run(lambda file: file.recheck(grant, policy, now))

    async def revoke(self, kind: RevocationKind, value: str, *, not_before: float) -> None:
        check_value(kind, value)
        try:
            await self._run_raw(lambda file: file.revoke(kind, value, not_before))
        except (sqlite3.Error, OSError) as error:
            raise fault("unavailable", f"{self._path} does not take the revocation", Category.UNAVAILABLE) from error

    async def revocations(self) -> list[Revocation]:
        try:
            return await self._run_raw(lambda file: file.revocations())
        except (sqlite3.Error, OSError) as error:
            raise fault("unavailable", f"{self._path} cannot be read", Category.UNAVAILABLE) from error

    async def health(self) -> None:
        try:
            await self._run_raw(lambda file: file.probe())
        except (sqlite3.Error, OSError) as error:
            raise fault("unavailable", f"{self._path} cannot be written: {error}", Category.UNAVAILABLE) from error

    async def close(self) -> None:
        self._here.disconnect()
        await asyncio.get_running_loop().run_in_executor(self._thread, self._patient.disconnect)
        self._thread.shutdown()

    async def _run(self, work: Callable[[_StateFile], T]) -> T:
        try:
            return await self._run_raw(work)
        except (sqlite3.Error, OSError) as error:
            raise unavailable() from error

    async def _run_raw(self, work: Callable[[_StateFile], T]) -> T:
        try:
            return await self._run_once(work)
        except _FilesReplaced:
            self._let_go()
            return await self._run_once(work)

    def _let_go(self) -> None:
        """Close both connections, without giving way: SQLite would lend the index of one still open to a new one."""
        self._here.disconnect()
        self._thread.submit(self._patient.disconnect).result()

    async def _run_once(self, work: Callable[[_StateFile], T]) -> T:
        try:
            return work(self._here)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, self._patient)


class _StateFile:
    """One connection to the file; ``wait`` is how many seconds it waits for another's lock."""

    def __init__(self, path: Path, memory: _Memory, *, wait: float, boot: str | None) -> None:
        self._path = path
        self._beside = (f"{path}-wal", f"{path}-shm")
        self._memory = memory
        self._wait = wait
        self._boot = boot
        self._connection: sqlite3.Connection | None = None
        self._file: _Identity | None = None
        self._logs: tuple[_Identity | None, ...] = ()

    def spend(self, grant: VerifiedGrant, policy: str | None, now: float) -> None:
        with self._writing(now) as connection:
            self._judge(connection, grant, policy)
            connection.execute(
                "DELETE FROM spent WHERE leaf IN (SELECT leaf FROM spent WHERE until < ? LIMIT ?)", (now, _SWEEP)
            )
            leaf = (replay_key(grant), now + seconds_to_keep(grant, now))
            if not connection.execute("INSERT OR IGNORE INTO spent VALUES (?, ?)", leaf).rowcount:
                raise replayed()

    def recheck(self, grant: VerifiedGrant, policy: str | None, now: float) -> None:
        self._judge(self._current(now), grant, policy)

    def revoke(self, kind: RevocationKind, value: str, not_before: float) -> None:
        with self._writing(None) as connection:
            connection.execute(
                "INSERT INTO revoked VALUES (?, ?, ?) "
                "ON CONFLICT DO UPDATE SET not_before = max(not_before, excluded.not_before)",
                (kind.value, value, not_before),
            )

    def revocations(self) -> list[Revocation]:
        rows = self._current(None).execute("SELECT kind, value, not_before FROM revoked")
        return in_order({(kind, value): instant for kind, value, instant in rows})

    def probe(self) -> None:
        with self._writing(None):
            pass

    def connect(self, armed: int | None) -> sqlite3.Connection:
        _create_private(self._path)
        identity = _identity(self._path)
        connection = sqlite3.connect(self._path, isolation_level=None, timeout=self._wait)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA synchronous = {'NORMAL' if self._boot else 'FULL'}")
            connection.executescript(_SCHEMA)
            if armed is not None:
                _arm(connection, armed, self._boot)
        except BaseException:
            connection.close()
            raise
        if self._memory.file not in (None, identity):
            self._memory.lost = True
        self._memory.file = identity
        self._connection, self._file, self._logs = connection, identity, self._logs_now()
        return connection

    def disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _judge(self, connection: sqlite3.Connection, grant: VerifiedGrant, policy: str | None) -> None:
        names = names_of(grant, policy)
        judge(grant, names, _instants(connection, names), armed=_armed(connection))

    @contextmanager
    def _writing(self, now: float | None) -> Iterator[sqlite3.Connection]:
        connection = self._current(now)
        connection.execute("BEGIN IMMEDIATE")
        try:
            if _armed(connection) is None and now is not None:
                _arm(connection, armed_after_loss(now), self._boot)
            yield connection
        except NotGranted:
            connection.execute("COMMIT")  # keeps the armed instant, the only thing written by then
            raise
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")
        self._check_files()  # or nobody else would ever see what was committed

    def _current(self, now: float | None) -> sqlite3.Connection:
        """The connection, made where there is none; armed anew, as soon as ``now`` is known, after a loss.

        The first connection of a store that another one already opened arms nothing.
        """
        if self._connection is None:
            connection = self.connect(None)
        else:
            self._check_files()
            connection = self._connection
        if self._memory.lost and now is not None:
            _arm_again(connection, armed_after_loss(now), self._boot)
            self._memory.lost = False
        return connection

    def _check_files(self) -> None:
        """A log that was taken away may hold spends and revocations that the next one does not."""
        if self._logs != self._logs_now():
            self._memory.lost = True
        elif self._file == _identity(self._path):
            return
        raise _FilesReplaced("the state file was replaced")

    def _logs_now(self) -> tuple[_Identity | None, ...]:
        return tuple(_identity(path) for path in self._beside)


def _create_private(path: Path) -> None:
    """Make the file so that only its owner can read it; SQLite's side files take its mode.

    A file that is there is never opened: to close any descriptor of a file drops every lock
    that the process holds on it (POSIX), so other processes would take away the log of a
    connection in use.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _CREATING, suppress(FileExistsError):
        if not path.exists():
            os.close(os.open(os.path.realpath(path), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def _arm(connection: sqlite3.Connection, instant: int, boot: str | None) -> None:
    """Write the armed instant unless there is one of this boot; it never goes back."""
    connection.execute(
        "INSERT INTO armed VALUES (1, ?, ?) ON CONFLICT DO UPDATE "
        "SET instant = max(instant, excluded.instant), boot = excluded.boot WHERE boot <> excluded.boot",
        (instant, boot or ""),
    )


def _arm_again(connection: sqlite3.Connection, instant: int, boot: str | None) -> None:
    connection.execute(
        "INSERT INTO armed VALUES (1, ?, ?) ON CONFLICT DO UPDATE "
        "SET instant = max(instant, excluded.instant), boot = excluded.boot",
        (instant, boot or ""),
    )


def _armed(connection: sqlite3.Connection) -> int | None:
    row = connection.execute("SELECT instant FROM armed").fetchone()
    return None if row is None else int(row[0])


def _instants(connection: sqlite3.Connection, names: Sequence[tuple[RevocationKind, str]]) -> list[float | None]:
    marks = ", ".join("(?, ?)" for _ in names)
    rows = connection.execute(
        f"SELECT kind, value, not_before FROM revoked WHERE (kind, value) IN (VALUES {marks})",  # noqa: S608
        [part for kind, value in names for part in (kind.value, value)],
    )
    held = {(kind, value): float(instant) for kind, value, instant in rows}
    return [held.get((kind.value, value)) for kind, value in names]


def _identity(path: Path | str) -> _Identity | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _boot_id() -> str | None:
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip() or None
    except OSError:
        return None
