"""A real Valkey, and the two state stores as the tests of the memory meet them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from grants.state import StateStore
from tests.grants.grants_world import NOW
from tests.grants.state_worlds import OwnServer, RedisWorld, SqliteWorld, StateWorld, start_valkey
from tests.valkey_server import ValkeyServer


@pytest.fixture(scope="session")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyServer]:
    server = start_valkey(tmp_path_factory.mktemp("valkey"))
    yield server
    server.stop()


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[OwnServer]:
    own = OwnServer(tmp_path / "own")
    yield own
    own.stop()


@pytest.fixture
def redis_world(valkey: ValkeyServer, tmp_path: Path) -> RedisWorld:
    assert valkey._process is not None
    return RedisWorld(valkey.connection_url, valkey._process.pid, tmp_path)


@pytest.fixture
def sqlite_world(tmp_path: Path) -> SqliteWorld:
    return SqliteWorld(tmp_path / "home" / "state.sqlite3")


@pytest.fixture(params=["sqlite", "redis"])
def world(request: pytest.FixtureRequest) -> StateWorld:
    made: StateWorld = request.getfixturevalue(f"{request.param}_world")
    return made


@pytest.fixture
async def store(world: StateWorld) -> AsyncIterator[StateStore]:
    opened = world.open(NOW)
    yield opened
    await opened.close()
