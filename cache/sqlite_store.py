"""The store of one machine: a SQLite file in WAL mode, bounded in bytes, shared by processes."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from cache.allowance import Limit
from cache.entry import HEAD_BYTES
from cache.sqlite_file import faults, forget_leases, identity, make_room, prepare
from cache.store import MARK_CHARS, OutOfTime, StoredEntry, StoreStats, StoreUnavailable
from contract.sqlite_founding import create_private

READ_WAIT_S: Final = 0.05
# Writers wait in a thread, so they may wait longer than the loop may.
WRITE_WAIT_S: Final = 0.25
_QUEUE_S: Final = 10.0
"""For a thread, and for those who write before."""
SWEEP_EVERY_S: Final = 60.0
_PAGE_ROWS: Final = 500
_TOUCHES: Final = 1_024
# ``?1`` is the largest entry that ``put`` stores.
_GET: Final = "SELECT entry FROM entries WHERE key = ?2 AND TYPEOF(entry) = 'blob' AND LENGTH(entry) <= ?1"
_STANDS: Final = "SELECT 1 FROM entries WHERE key = ?"
_DELETE: Final = "DELETE FROM entries WHERE key IN (?1, CAST(?1 AS TEXT))"
# A holder is an owner, or that and a dot and more.
_OWN: Final = "(owner = ?2 OR SUBSTR(owner, 1, LENGTH(?2) + 1) = ?2 || '.')"
_MARK: Final = f"SUBSTR(CAST(owner AS BLOB), 1, {MARK_CHARS})"
_HELD: Final = f"SELECT 1 FROM leases WHERE key = ?1 AND ({_OWN} OR {_MARK} = ?3)"  # noqa: S608 - constants
_HOLDER: Final = "SELECT CAST(owner AS BLOB) FROM leases WHERE key = ?"
_TAKE: Final = f"""INSERT INTO leases VALUES (?1, ?5, ?3) ON CONFLICT (key) DO UPDATE
    SET owner = excluded.owner, exp = excluded.exp
    WHERE {_OWN} OR exp <= ?4 OR exp > 2 * ?3 - ?4 OR {_MARK} = ?6"""  # noqa: S608
_RENEW: Final = f"UPDATE leases SET owner = ?4, exp = ?3 WHERE key = ?1 AND {_OWN}"  # noqa: S608
_LEASED: Final = "SELECT CAST(key AS BLOB) FROM leases"
_REVOKE: Final = "DELETE FROM leases WHERE key IN (?1, CAST(?1 AS TEXT))"
_RELEASE: Final = f"DELETE FROM leases WHERE key = ?1 AND {_OWN}"  # noqa: S608
_PAGE: Final = """SELECT rowid, COALESCE(CAST(key AS BLOB), x''),
    CASE WHEN TYPEOF(entry) = 'blob' AND LENGTH(entry) BETWEEN 1 AND ?1 THEN SUBSTR(entry, 1, ?2) ELSE x'' END,
    COALESCE(LENGTH(entry), 0),
    CASE TYPEOF(hits) WHEN 'integer' THEN MAX(hits, 0) END
    FROM entries WHERE rowid > ?3 ORDER BY rowid LIMIT ?4"""
_COUNTERS: Final = """SELECT CAST(name AS BLOB), value FROM counters
    WHERE TYPEOF(name) = 'text' AND TYPEOF(value) = 'integer' AND value >= 0"""


class SqliteStore:
    """``max_bytes`` bounds the database file; the write-ahead log adds at most a few MiB.

    Expired entries go first, then the least recently used. Uses are remembered in memory
    and written in batches, so a read costs no write; a crash loses only that order. SQLite
    keeps any type in any column: what is not of ours is a MISS, and the first to go.
    """

    def __init__(self, path: Path, *, max_bytes: int) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._max_entry = max_bytes // 4
        self._lock = threading.Lock()
        self._touched: dict[str, tuple[float, int]] = {}
        self._reader: sqlite3.Connection | None = None
        self._writer: sqlite3.Connection | None = None
        self._names = tuple(f"{path}{suffix}" for suffix in ("", "-wal", "-shm"))
        self._files: tuple[tuple[int, int] | None, ...] = ()
        self._swept = 0.0

    async def get(self, key: str, *, now: float, peek: bool = False) -> bytes | None:
        # On the loop's thread: a read takes microseconds, and WAL readers never wait for a writer.
        with faults(self._path):
            row = self._read().execute(_GET, (self._max_entry, key)).fetchone()
        if row is None:
            return None
        if not peek and (len(self._touched) < _TOUCHES or key in self._touched):
            self._touched[key] = (now, self._touched.get(key, (now, 0))[1] + 1)
        return bytes(row[0])

    async def put(
        self,
        key: str,
        entry: bytes,
        *,
        exp: float,
        now: float,
        owner: str | None = None,
        over: str | None = None,
        beside: str | None = None,
    ) -> bool:
        if len(entry) > self._max_entry:
            return False
        return await self._within(self._put, key, entry, exp, now, owner, over, beside)

    async def delete(self, keys: Sequence[str]) -> int:
        return await asyncio.to_thread(self._delete, keys)

    async def entries(self) -> AsyncIterator[StoredEntry]:
        last = -(2**63)
        while True:
            rows = await asyncio.to_thread(self._page, last)
            for _, key, head, size, hits in rows:
                yield StoredEntry(key.decode("utf-8", "surrogateescape"), head, size, hits)
            if len(rows) < _PAGE_ROWS:
                return
            last = rows[-1][0]

    async def count(self, deltas: Mapping[str, int]) -> None:
        await asyncio.to_thread(self._count, deltas)

    async def lease(
        self, key: str, owner: str, *, life_s: float, now: float, mark: str | None = None, over: str | None = None
    ) -> bool:
        return await self._within(self._lease, key, owner, now + life_s, now, mark or owner, over)

    async def holder(self, key: str) -> str:
        with faults(self._path):
            row = self._read().execute(_HOLDER, (key,)).fetchone()
        return "" if row is None else row[0][:MARK_CHARS].decode("utf-8", "surrogateescape")

    async def renew(self, key: str, owner: str, *, life_s: float, now: float, mark: str | None = None) -> bool:
        return await self._within(self._renew, key, owner, now + life_s, mark or owner)

    async def release(self, key: str, owner: str) -> bool:
        return await self._within(self._release, key, owner)

    async def revoke(self, chosen: Callable[[str], bool]) -> int:
        return await asyncio.to_thread(self._revoke, chosen)

    async def stats(self) -> StoreStats:
        return await asyncio.to_thread(self._stats)

    async def health(self) -> None:
        with faults(self._path):
            self._read().execute("SELECT 1 FROM entries LIMIT 1").fetchone()

    async def close(self) -> None:
        await asyncio.to_thread(self._close)

    async def _within(self, write: Callable[..., bool], *arguments: object) -> bool:
        """A write, which a call waits for no longer than it may: others may hold the file. It is done all the same."""
        try:
            async with Limit(_QUEUE_S):
                return await asyncio.to_thread(write, *arguments)
        except TimeoutError as late:
            raise OutOfTime("the call has waited for the cache file as long as it may") from late

    def _put(
        self,
        key: str,
        entry: bytes,
        exp: float,
        now: float,
        owner: str | None,
        over: str | None,
        beside: str | None,
    ) -> bool:
        with self._write() as db:
            if beside is not None and db.execute(_STANDS, (beside,)).fetchone() is None:
                return False
            # A lease that ended and that nobody took since is still its owner's: nobody worked in between.
            if owner is not None and db.execute(_HELD, (key, owner, _blob(over))).fetchone() is None:
                return False
            make_room(db, len(entry) + 2 * len(key), max_bytes=self._max_bytes, now=now)
            db.execute(
                "INSERT INTO entries (key, exp, used, entry) VALUES (?, ?, ?, ?) "
                "ON CONFLICT (key) DO UPDATE SET exp = excluded.exp, used = excluded.used, entry = excluded.entry",
                (key, exp, now, entry),
            )
        return True

    def _delete(self, keys: Sequence[str]) -> int:
        with self._write() as db:
            raw = [key.encode("utf-8", "surrogateescape") for key in keys]
            return sum(db.execute(_DELETE, (key,)).rowcount for key in raw)

    def _count(self, deltas: Mapping[str, int]) -> None:
        with self._write() as db:
            db.executemany(
                "INSERT INTO counters VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = value + excluded.value",
                list(deltas.items()),
            )

    def _lease(self, key: str, owner: str, exp: float, now: float, mark: str, over: str | None) -> bool:
        with self._write() as db:
            # An end up to twice the life away: others took their time before they waited for the file.
            taken = db.execute(_TAKE, (key, owner, exp, now, mark, _blob(over)))
            if not self._swept <= now < self._swept + SWEEP_EVERY_S:
                forget_leases(db, now)
                self._swept = now
            return taken.rowcount == 1

    def _renew(self, key: str, owner: str, exp: float, mark: str) -> bool:
        with self._write() as db:
            return db.execute(_RENEW, (key, owner, exp, mark)).rowcount == 1

    def _release(self, key: str, owner: str) -> bool:
        with self._write() as db:
            return db.execute(_RELEASE, (key, owner)).rowcount == 1

    def _revoke(self, chosen: Callable[[str], bool]) -> int:
        with self._write() as db:
            held = [row[0] for row in db.execute(_LEASED)]
            doomed = [key for key in held if chosen(key.decode("utf-8", "surrogateescape"))]
            return sum(db.execute(_REVOKE, (key,)).rowcount for key in doomed)

    def _stats(self) -> StoreStats:
        with self._lock, faults(self._path):
            db = self._connect_writer()
            entries, size = db.execute("SELECT COUNT(*), COALESCE(SUM(LENGTH(entry)), 0) FROM entries").fetchone()
            counters = {name.decode("utf-8", "replace"): value for name, value in db.execute(_COUNTERS)}
        return StoreStats("sqlite", entries, size, self._max_bytes, counters)

    def _page(self, after: int) -> list[tuple[int, bytes, bytes, int, int | None]]:
        with self._lock, faults(self._path):
            return self._connect_writer().execute(_PAGE, (self._max_entry, HEAD_BYTES, after, _PAGE_ROWS)).fetchall()

    def _close(self) -> None:
        try:
            if self._writer is not None or self._touched:
                with self._write():
                    pass
        except StoreUnavailable:
            pass
        with self._lock:
            self._disconnect()

    def _disconnect(self) -> None:
        for db in (self._reader, self._writer):
            if db is not None:
                db.close()
        self._reader = self._writer = None

    @contextmanager
    def _write(self) -> Iterator[sqlite3.Connection]:
        """One transaction that also writes the uses seen since the last one."""
        with self._lock, faults(self._path):
            db = self._connect_writer()
            db.execute("BEGIN IMMEDIATE")
            touched, self._touched = self._touched, {}
            try:
                db.executemany(
                    "UPDATE entries SET used = MAX(used, ?), hits = hits + ? WHERE key = ?",
                    [(used, hits, key) for key, (used, hits) in touched.items()],
                )
                yield db
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise

    def _read(self) -> sqlite3.Connection:
        """The loop's connection; where the files were replaced, both are made anew.

        SQLite would lend the index of one still open to a new one.
        """
        if self._reader is not None and self._files != self._files_now():
            with self._lock:
                self._disconnect()
        if self._reader is None:
            with self._lock:
                self._connect_writer()
            self._reader = self._connect(READ_WAIT_S)
        return self._reader

    def _connect_writer(self) -> sqlite3.Connection:
        if self._writer is None:
            create_private(self._path)
            db = self._connect(WRITE_WAIT_S)
            try:
                prepare(db, self._max_bytes)
            except BaseException:
                db.close()
                raise
            self._writer, self._files = db, self._files_now()
        elif self._files != self._files_now():
            if self._reader is not None:  # the loop may be reading: it closes both at its next read
                raise sqlite3.OperationalError("the file was replaced")
            self._disconnect()
            return self._connect_writer()
        return self._writer

    def _files_now(self) -> tuple[tuple[int, int] | None, ...]:
        return tuple(identity(name) for name in self._names)

    def _connect(self, wait_s: float) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=wait_s, isolation_level=None, check_same_thread=False)


def _blob(told: str | None) -> bytes | None:
    return None if told is None else told.encode("utf-8", "surrogateescape")
