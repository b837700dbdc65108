"""Approvals in one SQLite file, shared by the processes of one machine.

Every commit is synced to disk: an approval that was told to somebody is there after a crash. Each
piece of work has a connection of its own, in a thread: approvals are rare, and the loop waits for nobody.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final, TypeVar

from approvals.store import Held, StoreUnavailable, check_successor, has_room
from contract.sqlite_founding import create_private

T = TypeVar("T")
WAIT_S: Final = 2.0
"""The longest wait for another process that writes."""

_COLUMNS: Final = "id, task, owner, version, until, sealed"
_TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS approvals (id TEXT PRIMARY KEY, task TEXT NOT NULL UNIQUE, owner TEXT NOT NULL,"
    " version INTEGER NOT NULL, until REAL NOT NULL, sealed TEXT NOT NULL) STRICT"
)


class SqliteApprovals:
    """An ``ApprovalStore`` in the file ``path``, which only its owner can read."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def add(self, held: Held, *, now: float) -> bool:
        def work(db: sqlite3.Connection) -> bool:
            db.execute("DELETE FROM approvals WHERE until <= ?", (now,))
            if not has_room(_unsealed(db), held):
                return False
            values = (held.id, held.task_id, held.owner, held.version, held.until, held.sealed)
            added = db.execute(f"INSERT OR IGNORE INTO approvals ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)", values)  # noqa: S608 - our own names
            return added.rowcount == 1

        return await self._run(work)

    async def get(self, approval_id: str) -> Held | None:
        return await self._run(lambda db: _one(db, "id", approval_id))

    async def of_task(self, task_id: str) -> Held | None:
        return await self._run(lambda db: _one(db, "task", task_id))

    async def all(self) -> list[Held]:
        return await self._run(_all)

    async def swap(self, old: Held, new: Held) -> bool:
        check_successor(old, new)
        return await self._run(
            lambda db: (
                db.execute(
                    "UPDATE approvals SET version = ?, until = ?, sealed = ? WHERE id = ? AND version = ? AND sealed = ?",
                    (new.version, new.until, new.sealed, old.id, old.version, old.sealed),
                ).rowcount
                == 1
            )
        )

    async def remove(self, old: Held) -> bool:
        return await self._run(
            lambda db: (
                db.execute(
                    "DELETE FROM approvals WHERE id = ? AND version = ? AND sealed = ?",
                    (old.id, old.version, old.sealed),
                ).rowcount
                == 1
            )
        )

    async def health(self) -> None:
        await self._run(lambda db: None)

    async def close(self) -> None:
        return

    async def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return await asyncio.to_thread(self._transacted, work)

    def _transacted(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """``work`` in one transaction, which holds the write lock from its beginning. Raises ``StoreUnavailable``."""
        try:
            create_private(self._path)
            with closing(sqlite3.connect(self._path, isolation_level=None, timeout=WAIT_S)) as db:
                db.execute("PRAGMA synchronous = FULL")
                db.execute("BEGIN IMMEDIATE")
                try:
                    db.execute(_TABLE)
                    done = work(db)
                except BaseException:
                    db.execute("ROLLBACK")
                    raise
                db.execute("COMMIT")
                return done
        except (sqlite3.Error, OSError, TypeError, ValueError) as error:
            raise StoreUnavailable(
                f"the approvals of this home cannot be read or written ({type(error).__name__})"
            ) from error


def _one(db: sqlite3.Connection, column: str, value: str) -> Held | None:
    row = db.execute(f"SELECT {_COLUMNS} FROM approvals WHERE {column} = ?", (value,)).fetchone()  # noqa: S608 - our own names
    return None if row is None else Held(*row)


def _all(db: sqlite3.Connection) -> list[Held]:
    return [Held(*row) for row in db.execute(f"SELECT {_COLUMNS} FROM approvals")]  # noqa: S608 - our own names


def _unsealed(db: sqlite3.Connection) -> list[Held]:
    """Without what they say, which may be much, and is not read."""
    return [Held(*row) for row in db.execute("SELECT id, task, owner, version, until, '' FROM approvals")]
