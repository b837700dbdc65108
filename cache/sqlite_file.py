"""The cache's SQLite file: how it is made, what is in it, and how it is kept within its bound."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from cache.store import StoreUnavailable
from contract.sqlite_founding import in_turn

_SCHEMA_VERSION: Final = 2
# Text and blobs sort after every number, so these bounds also hold for them.
_MAX_LIFE_S: Final = 86_400.0 * 366
_MAX_SKEW_S: Final = 86_400.0
# Whoever paused for as long after the end of its lease has its result dropped; another leads by then.
_ABANDONED_S: Final = 600.0
# B-tree splits and indexes need room that an entry's own size does not tell.
_SLACK: Final = 0.9
_BATCH: Final = 256
_FOUNDING_S: Final = 1.0
_SCHEMA: Final = (
    """CREATE TABLE IF NOT EXISTS entries (
         key TEXT PRIMARY KEY, exp REAL NOT NULL, used REAL NOT NULL, hits INTEGER NOT NULL DEFAULT 0,
         entry BLOB NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS entries_exp ON entries (exp)",
    "CREATE INDEX IF NOT EXISTS entries_used ON entries (used)",
    "CREATE TABLE IF NOT EXISTS counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS leases (key TEXT PRIMARY KEY, owner TEXT NOT NULL, exp REAL NOT NULL) WITHOUT ROWID",
    f"PRAGMA user_version = {_SCHEMA_VERSION}",
)


def identity(name: str) -> tuple[int, int] | None:
    """Device and inode; ``None`` where there is no such file."""
    try:
        status = os.stat(name)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def prepare(db: sqlite3.Connection, max_bytes: int) -> None:
    """Make the tables where there are none, and bound the file in bytes."""
    in_turn(lambda: db.execute("PRAGMA journal_mode = WAL"), wait=_FOUNDING_S)
    # A power cut may lose the last entries; it cannot damage the file.
    db.execute("PRAGMA synchronous = NORMAL")
    db.execute(f"PRAGMA journal_size_limit = {4 * 2**20}")
    page_size = db.execute("PRAGMA page_size").fetchone()[0]
    db.execute(f"PRAGMA max_page_count = {max_bytes // page_size}")
    if db.execute("PRAGMA user_version").fetchone()[0] != _SCHEMA_VERSION:
        db.execute("BEGIN IMMEDIATE")
        for statement in _SCHEMA:
            db.execute(statement)
        db.execute("COMMIT")


def make_room(db: sqlite3.Connection, need: int, *, max_bytes: int, now: float) -> None:
    """Delete until ``need`` more bytes fit: what has expired first, then what was used least recently."""
    limit = int(max_bytes * _SLACK)
    if _bytes_used(db) + need <= limit:
        return
    db.execute("DELETE FROM entries WHERE exp <= ? OR exp > ? OR used > ?", (now, now + _MAX_LIFE_S, now + _MAX_SKEW_S))
    if _bytes_used(db) + need <= limit:
        return
    # A batch at a time: a full store would look for a victim with each entry.
    enough = limit - max_bytes // _BATCH
    while (excess := _bytes_used(db) + need - enough) > 0:
        victims = _least_recently_used(db, excess)
        if not victims:
            return
        db.executemany("DELETE FROM entries WHERE rowid = ?", victims)


def forget_leases(db: sqlite3.Connection, now: float) -> None:
    """Delete the leases that nobody released, as those of processes that were killed."""
    db.execute("DELETE FROM leases WHERE exp <= ? OR exp > ?", (now - _ABANDONED_S, now + _MAX_SKEW_S))


def _bytes_used(db: sqlite3.Connection) -> int:
    pages, free, size = (
        db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * size)


def _least_recently_used(db: sqlite3.Connection, excess: int) -> list[tuple[int]]:
    """The oldest entries that together hold ``excess`` bytes, from the next 64."""
    victims: list[tuple[int]] = []
    for rowid, size in db.execute(
        "SELECT rowid, COALESCE(LENGTH(entry), 0) FROM entries ORDER BY used, rowid LIMIT 64"
    ):
        victims.append((rowid,))
        excess -= size
        if excess <= 0:
            break
    return victims


@contextmanager
def faults(path: Path) -> Iterator[None]:
    """Raises ``StoreUnavailable`` for whatever goes wrong."""
    try:
        yield
    except Exception as error:
        # A file that somebody else wrote may make its reader raise anything, such as ``TypeError``.
        why = "".join(char if char.isprintable() else " " for char in str(error)[:200])
        raise StoreUnavailable(f"the cache file {path} cannot be used ({type(error).__name__}: {why})") from error
