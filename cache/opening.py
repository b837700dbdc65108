"""The cache that the settings ask for."""

from __future__ import annotations

from typing import Final

from cache.keys import CacheKeys, load_secret
from cache.no_store import NoStore
from cache.redis_store import INSPECT_S, RedisStore
from cache.result_cache import ResultCache
from cache.sqlite_look import SqliteLook
from cache.sqlite_store import SqliteStore
from cache.store import CacheStore
from contract.settings import Settings

CACHE_FILE: Final = "cache.sqlite"


def open_store(settings: Settings) -> CacheStore:
    """Redis where ``cache_url`` names it, else the SQLite file in ``home``. Inspection needs no more.

    Nothing is connected yet. Raises a CONFIGURATION fault for a URL of another kind.
    """
    if settings.cache_url is not None:
        return RedisStore.connect(settings.cache_url)
    return SqliteStore(settings.home / CACHE_FILE, max_bytes=settings.cache_max_bytes)


def open_look(settings: Settings) -> CacheStore:
    """The same store for who only lists it, patiently: an existing file is opened so that nothing of it changes."""
    if settings.cache_url is not None:
        return RedisStore.connect(settings.cache_url, budget_s=INSPECT_S)
    path = settings.home / CACHE_FILE
    if not path.exists():
        return NoStore("sqlite", settings.cache_max_bytes)
    return SqliteLook(path, max_bytes=settings.cache_max_bytes)


def open_cache(settings: Settings) -> ResultCache:
    """The result cache; without a store where ``cache_enabled`` is false.

    Raises a CONFIGURATION fault for a bad URL or secret; a store that is down is none.
    """
    store = open_store(settings) if settings.cache_enabled else None
    keys = CacheKeys.from_secret(load_secret(settings))
    return ResultCache(store, keys, max_result_bytes=settings.max_result_bytes, agent_id=settings.agent_id)
