"""Quotas in one SQLite file, shared by the processes of one machine. No commit waits for the disk."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TypeVar

from contract.sqlite_founding import create_private, in_turn
from quota.rate import Rate, Taken, take
from quota.store import BUDGET_S, Room, StoreUnavailable

T = TypeVar("T")
_TABLES: Final = """
CREATE TABLE IF NOT EXISTS rates (key TEXT PRIMARY KEY, at REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS places (key TEXT, holder TEXT, until REAL NOT NULL, PRIMARY KEY (key, holder)) WITHOUT ROWID;
"""
_SWEEP_EVERY: Final = 64
_SWEEP_ROWS: Final = 256


class SqliteQuotas:
    """A ``QuotaStore``. Its statements run in a thread of its own, one after the other."""

    def __init__(self, path: Path, *, budget: float = BUDGET_S) -> None:
        self._path = path
        self._budget = budget
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="quota")
        self._db: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._writes = 0

    async def take(self, key: str, rate: Rate, wanted: int, *, now: float) -> Taken:
        def work(db: sqlite3.Connection) -> Taken:
            row = db.execute("SELECT at FROM rates WHERE key = ?", (key,)).fetchone()
            taken, at = take(rate, None if row is None else float(row[0]), wanted, now=now)
            db.execute("INSERT OR REPLACE INTO rates VALUES (?, ?)", (key, at))
            self._sweep(db, now)
            return taken

        return await self._run(work)

    async def enter(self, rooms: Sequence[Room], holder: str, *, until: float, now: float) -> int | None:
        def work(db: sqlite3.Connection) -> int | None:
            for index, room in enumerate(rooms):
                db.execute("DELETE FROM places WHERE key = ? AND until <= ?", (room.key, now))
                (held,) = db.execute("SELECT COUNT(*) FROM places WHERE key = ?", (room.key,)).fetchone()
                if held >= room.most:
                    return index
            db.executemany("INSERT INTO places VALUES (?, ?, ?)", [(room.key, holder, until) for room in rooms])
            return None

        return await self._run(work)

    async def stay(self, rooms: Sequence[Room], holder: str, *, until: float) -> None:
        rows = [(until, room.key, holder) for room in rooms]
        await self._run(lambda db: db.executemany("UPDATE places SET until = ? WHERE key = ? AND holder = ?", rows))

    async def leave(self, rooms: Sequence[Room], holder: str) -> None:
        rows = [(room.key, holder) for room in rooms]
        await self._run(lambda db: db.executemany("DELETE FROM places WHERE key = ? AND holder = ?", rows))

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, self._disconnect)
        self._thread.shutdown()

    async def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._done, work)

    def _done(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            with self._writing() as db:
                return work(db)
        except (sqlite3.Error, OSError, TypeError, ValueError) as error:
            self._disconnect()
            raise StoreUnavailable(f"{self._path.name}: {type(error).__name__}") from error

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        if self._db is not None and self._file != self._at_path():  # a file that was replaced is nobody else's any more
            self._disconnect()
        db = self._db or self._connect()
        db.execute("BEGIN IMMEDIATE")
        try:
            yield db
        except BaseException:
            db.execute("ROLLBACK")
            raise
        db.execute("COMMIT")

    def _connect(self) -> sqlite3.Connection:
        create_private(self._path)
        self._db = db = sqlite3.connect(self._path, timeout=self._budget, isolation_level=None, check_same_thread=False)
        self._file = self._at_path()
        in_turn(lambda: db.execute("PRAGMA journal_mode = WAL"), wait=self._budget)
        db.execute("PRAGMA synchronous = OFF")
        in_turn(lambda: db.executescript(_TABLES), wait=self._budget)
        return db

    def _at_path(self) -> tuple[int, int] | None:
        """Which file is there, for all processes; ``None`` for none."""
        with suppress(FileNotFoundError):
            found = self._path.stat()
            return found.st_dev, found.st_ino
        return None

    def _disconnect(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None

    def _sweep(self, db: sqlite3.Connection, now: float) -> None:
        """A rate that is full again, or a place that has ended, is as good as none."""
        self._writes += 1
        if self._writes % _SWEEP_EVERY == 0:
            for table, column in (("rates", "at"), ("places", "until")):
                old = f"SELECT key FROM {table} WHERE {column} <= ? LIMIT {_SWEEP_ROWS}"  # noqa: S608 - names of ours
                db.execute(f"DELETE FROM {table} WHERE {column} <= ? AND key IN ({old})", (now, now))  # noqa: S608
