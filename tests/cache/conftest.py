"""One Valkey server for the session, and each store of the contract suite on it or on a file."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from redis import Redis

from cache.keys import CacheKeys
from cache.redis_store import RedisStore
from cache.result_cache import ResultCache
from cache.sqlite_store import SqliteStore
from cache.store import CacheStore
from tests.cache.cache_builder import PATIENCE_S
from tests.valkey_server import ValkeyServer

SECRET = bytes(range(32))


@pytest.fixture(scope="session")
def valkey_url() -> Iterator[str]:
    server = ValkeyServer(save="")
    server.start()
    try:
        yield f"redis://127.0.0.1:{server.port}/0"
    finally:
        server.stop()


@pytest.fixture
def valkey(valkey_url: str) -> Iterator[Redis]:
    """An empty server, seen with a client of its own."""
    client = Redis.from_url(valkey_url)
    client.flushall()
    yield client
    client.close()


@pytest.fixture
def keys() -> CacheKeys:
    return CacheKeys.from_secret(SECRET)


@pytest.fixture(params=["sqlite", "redis"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[CacheStore]:
    opened: CacheStore
    if request.param == "sqlite":
        opened = SqliteStore(tmp_path / "cache.sqlite", max_bytes=8 * 2**20)
    else:
        request.getfixturevalue("valkey")
        opened = RedisStore.connect(request.getfixturevalue("valkey_url"), budget_s=PATIENCE_S)
    yield opened
    await opened.close()


@pytest.fixture
def results(store: CacheStore, keys: CacheKeys) -> ResultCache:
    return ResultCache(store, keys)
