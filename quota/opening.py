"""The limiter that the settings ask for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from contract.redis_server import RedisServer
from contract.settings import Settings
from quota.limiter import Limiter, Quota
from quota.rate import Rate
from quota.redis_store import RedisQuotas
from quota.sqlite_store import SqliteQuotas
from quota.store import Names, QuotaStore

QUOTA_FILE: Final = "quota.sqlite3"


def open_limiter(settings: Settings, reach: Callable[[str, str], RedisServer], secret: Callable[[], bytes]) -> Limiter:
    """``reach`` makes the way to a Redis server from its URL and a key; nothing is asked of a store yet.

    ``secret`` is asked for what callers are named under, where somebody is limited. Raises as it does.
    """
    agent = Quota(Rate.of(settings.agent_rate, settings.agent_burst), settings.agent_running)
    person = Quota(Rate.of(settings.person_rate, settings.person_burst), settings.person_running)
    if agent == person == Quota():
        return Limiter.unlimited()
    store: QuotaStore = (
        SqliteQuotas(settings.home / QUOTA_FILE)
        if settings.state_url is None
        else RedisQuotas(reach(settings.state_url, RedisQuotas.KEY))
    )
    return Limiter(store, agent=agent, person=person, names=Names(secret()))
