"""The memo that the settings ask for."""

from __future__ import annotations

from typing import Final

from cache.memo import Memo
from cache.memo_keys import MemoKeys, load_memo_secret
from cache.redis_store import RedisStore
from cache.sqlite_store import SqliteStore
from contract.settings import Settings

MEMO_FILE: Final = "memo.sqlite"


def open_memo(settings: Settings) -> Memo | None:
    """Over ``memo_url``, else a SQLite file in the root's folder of ``home``; none where ``memo_ttl`` is 0.

    Nothing is connected yet. Raises a CONFIGURATION fault for a bad URL or secret; a store
    that is down is none.
    """
    if settings.memo_ttl == 0:
        return None
    if settings.memo_url is not None:
        store: RedisStore | SqliteStore = RedisStore.connect(settings.memo_url, setting="DATASET_AGENT_MEMO_URL")
    else:
        store = SqliteStore(settings.home / "root" / MEMO_FILE, max_bytes=settings.memo_max_bytes)
    return Memo(store, MemoKeys(load_memo_secret(settings)), ttl_s=settings.memo_ttl)
