"""The two state stores, each with what a test does to it from outside: empty it, and make it fall silent."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

import redis

from grants.state import StateStore
from grants.state_redis import RedisState
from grants.state_sqlite import SqliteState

BUDGET = 0.5


class StateWorld(Protocol):
    address: str
    """What a worker process opens."""

    def open(self, now: float) -> StateStore: ...

    def flush(self) -> None:
        """Forget everything, as an operator or a lost disk would."""
        ...

    def silent(self) -> AbstractContextManager[None]:
        """The store does not answer while this lasts."""
        ...


class SqliteWorld:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.address = str(path)

    def open(self, now: float) -> StateStore:
        return SqliteState.open(self.path, now=now, budget=BUDGET)

    def flush(self) -> None:
        other = sqlite3.connect(self.path)
        for table in ("armed", "spent", "revoked"):
            other.execute(f"DELETE FROM {table}")
        other.commit()
        other.close()

    @contextmanager
    def silent(self) -> Iterator[None]:
        """A folder stands where the file was, as when a volume is gone."""
        connection = sqlite3.connect(self.path)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()
        kept = self.path.with_name("kept")
        os.replace(self.path, kept)
        self.path.mkdir()
        try:
            yield
        finally:
            self.path.rmdir()
            os.replace(kept, self.path)


class RedisWorld:
    def __init__(self, url: str, pid: int) -> None:
        self.address = url
        self._pid = pid
        with redis.Redis.from_url(url) as client:
            client.flushall()

    def open(self, now: float) -> StateStore:
        return RedisState.open(self.address, now=now, budget=BUDGET)

    def flush(self) -> None:
        with redis.Redis.from_url(self.address) as client:
            client.flushall()

    @contextmanager
    def silent(self) -> Iterator[None]:
        os.kill(self._pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self._pid, signal.SIGCONT)
