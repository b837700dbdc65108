"""The room of several workers: the bounds hold for all of them together, whichever counts.

What each has taken is in one SQLite file in their private folder, which is gone when they end, so
nothing is synced. Who a holder is cannot be read there. A worker that was killed has its part
until the one in its place begins.
"""

from __future__ import annotations

import hmac
import json
import logging
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

from contract.sqlite_founding import in_turn
from remote_agent.owners import Owner
from remote_agent.siblings import Siblings
from remote_agent.spool_shares import MakeRoom, bound_of, holders_of, own_room

log = logging.getLogger(__name__)

_FILE: Final = "room.sqlite"
_WAIT_S: Final = 5.0
_TABLE: Final = """
CREATE TABLE IF NOT EXISTS taken(
  thing TEXT, holder BLOB, worker INTEGER, amount INTEGER NOT NULL, PRIMARY KEY(thing, holder, worker)
) WITHOUT ROWID"""
_USED: Final = "SELECT coalesce(sum(amount), 0) FROM taken WHERE thing = ? AND holder = ?"
_OWN: Final = f"{_USED} AND worker = ?"
_ADD: Final = """
INSERT INTO taken VALUES(?, ?, ?, ?)
ON CONFLICT(thing, holder, worker) DO UPDATE SET amount = amount + excluded.amount"""
_TIDY: Final = "DELETE FROM taken WHERE thing = ? AND holder = ? AND worker = ? AND amount = 0"


def room_of(siblings: Siblings) -> MakeRoom:
    """How room is counted by this worker: by itself where it is alone, else together with the others."""
    if siblings.count == 1:
        return own_room
    return lambda thing, most, least: SharedRoom(siblings, thing, most, least)


class SharedRoom:
    """One worker's hand on what all have taken of one thing; as ``Shares``, and for several threads."""

    def __init__(self, siblings: Siblings, thing: str, most: int, least: int) -> None:
        """What an earlier worker in this place had taken is given back."""
        self._worker, self._secret = siblings.own, siblings.secret
        self._thing, self._most, self._least = thing, most, least
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(
            siblings.folder / _FILE, timeout=_WAIT_S, isolation_level=None, check_same_thread=False
        )
        for line in ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=OFF", _TABLE):
            in_turn(partial(self._connection.execute, line), wait=_WAIT_S)
        self._connection.execute("DELETE FROM taken WHERE thing = ? AND worker = ?", (thing, self._worker))

    @property
    def used(self) -> int:
        """By everybody, as this worker counted it."""
        with self._lock:
            found = self._connection.execute(_OWN, (self._thing, self._name(()), self._worker)).fetchone()
        return int(found[0])

    def take(self, owner: Owner, more: int) -> bool:
        """Where it cannot be counted there is none."""
        holders = {self._name(holder): part for holder, part in holders_of(owner).items()}
        try:
            with self._alone():
                if any(
                    self._used(name) + more > bound_of(self._most, self._least, part) for name, part in holders.items()
                ):
                    return False
                self._connection.executemany(_ADD, [(self._thing, name, self._worker, more) for name in holders])
                return True
        except sqlite3.Error as error:
            log.error("the workers' room cannot be counted: %s", type(error).__name__)
            return False

    def give_back(self, owner: Owner, less: int) -> None:
        names = [self._name(holder) for holder in holders_of(owner)]
        try:
            with self._alone():
                self._connection.executemany(_ADD, [(self._thing, name, self._worker, -less) for name in names])
                self._connection.executemany(_TIDY, [(self._thing, name, self._worker) for name in names])
        except sqlite3.Error as error:
            log.error("the workers' room cannot be counted: %s", type(error).__name__)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """While no other thread or worker counts."""
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    def _used(self, name: bytes) -> int:
        return int(self._connection.execute(_USED, (self._thing, name)).fetchone()[0])

    def _name(self, holder: tuple[str, ...]) -> bytes:
        return hmac.digest(self._secret, json.dumps(holder).encode(), "sha256")
