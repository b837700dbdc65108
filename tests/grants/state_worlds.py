"""The two state stores, each with what a test does to it from outside: empty it, and make it fall silent."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import pytest
import redis

from contract.errors import DatasetAgentError
from contract.grant import VerifiedGrant
from contract.verdict import NotGranted, Reason
from grants.state import StateStore
from grants.state_redis import MEMORY, RedisState
from grants.state_sqlite import SqliteState
from tests.grants.grants_world import NOW, accept, make_chain, make_root
from tests.valkey_server import ValkeyServer

BUDGET = 0.5
POLICY = "BPD-DATA-020@2026.2"
"""The receiver's own; the issuer of ``grants_world`` records another."""


async def refused(store: StateStore, grant: VerifiedGrant, *, now: float = NOW, policy: str | None = POLICY) -> Reason:
    with pytest.raises(NotGranted) as stop:
        await store.spend(grant, policy=policy, now=now)
    return stop.value.reason


async def refused_again(store: StateStore, grant: VerifiedGrant, *, now: float = NOW) -> Reason:
    with pytest.raises(NotGranted) as stop:
        await store.recheck(grant, policy=POLICY, now=now)
    return stop.value.reason


def code_of(stop: pytest.ExceptionInfo[DatasetAgentError]) -> str:
    assert "\n" not in stop.value.message
    return stop.value.code


def issued(at: float) -> VerifiedGrant:
    """A grant whose two tokens are of one instant, verified at that instant."""
    return accept(make_chain(make_root(now=at), now=at), now=at)


def start_valkey(folder: Path, **config: str) -> ValkeyServer:
    """A server that keeps what a state store needs kept; ``config`` says otherwise, dashes as underscores."""
    durable = {"appendonly": "yes", "maxmemory-policy": "noeviction", "repl-diskless-sync-delay": "0"}
    changes = {name.replace("_", "-"): value for name, value in config.items()}
    server = ValkeyServer(data_dir=folder, config=durable | changes)
    server.start()
    return server


@dataclass
class OwnServer:
    """A server of one test, which may stop it and start it again at the same address."""

    folder: Path
    server: ValkeyServer = field(init=False)
    port: int = field(init=False)

    def __post_init__(self) -> None:
        self.server = start_valkey(self.folder)
        self.port = self.server.port

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def client(self) -> redis.Redis:
        return redis.Redis.from_url(self.url, decode_responses=True)

    def start(self, folder: Path | None = None, **config: str) -> None:
        """With what it kept, or with what ``folder`` keeps."""
        settings = {"appendonly": "yes", "appendfsync": "always", "maxmemory-policy": "noeviction"} | config
        self.server = ValkeyServer(port=self.port, data_dir=folder or self.folder, persist=True, config=settings)
        self.server.start()

    def stop(self) -> None:
        """At once, as a crash does; what was acknowledged is in its log."""
        self.server.terminate()


class StateWorld(Protocol):
    address: str
    """What a worker process opens."""
    home: Path
    """Where what was seen is kept."""

    def open(self, now: float) -> StateStore: ...

    def flush(self) -> None:
        """Forget everything, as an operator or a lost disk would."""
        ...

    def forget_the_beginning(self) -> None:
        """Forget what the memory is, and keep what was spent."""
        ...

    def silent(self) -> AbstractContextManager[None]:
        """The store does not answer while this lasts."""
        ...


class SqliteWorld:
    def __init__(self, path: Path) -> None:
        self.path, self.home = path, path.parent
        self.address = str(path)

    def open(self, now: float) -> StateStore:
        return SqliteState.open(self.path, now=now, budget=BUDGET)

    def flush(self) -> None:
        self._emptied("memory", "spent", "revoked")

    def forget_the_beginning(self) -> None:
        self._emptied("memory")

    def _emptied(self, *tables: str) -> None:
        other = sqlite3.connect(self.path)
        for table in tables:
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


def copied(path: Path) -> Path:
    """A consistent copy of the database, as a backup makes it."""
    backup = path.with_name("backup")
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(backup)) as copy:
        source.backup(copy)
    return backup


class RedisWorld:
    def __init__(self, url: str, pid: int, folder: Path) -> None:
        self.address = url
        self._pid = pid
        self.home = folder
        self._seen = folder / "state.seen"
        with redis.Redis.from_url(url) as client:
            client.flushall()

    def open(self, now: float) -> RedisState:
        return RedisState.open(self.address, now=now, budget=BUDGET, seen_file=self._seen)

    def flush(self) -> None:
        with redis.Redis.from_url(self.address) as client:
            client.flushall()

    def forget_the_beginning(self) -> None:
        with redis.Redis.from_url(self.address) as client:
            client.unlink(MEMORY)

    @contextmanager
    def silent(self) -> Iterator[None]:
        os.kill(self._pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self._pid, signal.SIGCONT)
