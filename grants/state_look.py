"""What the memory of spends and revocations would say of a grant now, without spending it and without writing.

For people and commands. The receiver's own policy is not known here, so a revocation by it
is not seen; and a memory that was lost is called so by whoever spends next.
"""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Final, cast

from redis.asyncio import Redis
from redis.exceptions import RedisError

from contract.errors import DatasetAgentError
from contract.grant import VerifiedGrant
from contract.settings import Settings
from contract.verdict import NotGranted
from grants.state import (
    BUDGET,
    STATE_FILE,
    Revocation,
    RevocationKind,
    judge,
    names_of,
    remembered_until,
    replay_key,
    replayed,
    unavailable,
)
from grants.state_redis import MEMORY, SPENT, RedisState

_Held = tuple[int, float, bool, list[Revocation]]
"""Armed instant, the memory's clock, whether the leaf was spent, and every revocation."""

_UNREADABLE: Final = (sqlite3.Error, RedisError, DatasetAgentError, OSError)  # TimeoutError is an OSError

NOT_POLICY: Final = "a revocation by the receiver's own policy is not read here"
NO_STORE: Final = "replay and revocation are not read: there is no state store here"


def has_memory(settings: Settings) -> bool:
    """Whether there is a store to look into."""
    return settings.state_url is not None or (settings.home / STATE_FILE).exists()


async def armed_at(settings: Settings) -> int | None:
    """Since when the memory is complete, in POSIX seconds; ``None`` where it does not say."""
    try:
        return (await _held(settings, "", 0.0))[0] or None
    except _UNREADABLE:
        return None


async def look(settings: Settings, grant: VerifiedGrant) -> NotGranted | None:
    """Why the memory would refuse the grant now; ``None`` where it would take it. Needs ``has_memory``."""
    try:
        armed, clock, spent, revocations = await _held(settings, replay_key(grant), remembered_until(grant))
    except _UNREADABLE:
        return unavailable()
    names = names_of(grant, None)
    instants = {(held.kind, held.value): held.not_before for held in revocations}
    try:
        judge(grant, names, [instants.get(name) for name in names], armed=armed, clock=clock)
    except NotGranted as stop:
        return stop
    return replayed() if spent else None


async def _held(settings: Settings, leaf: str, until: float) -> _Held:
    if settings.state_url is None:
        return await asyncio.to_thread(_in_file, settings.home / STATE_FILE, leaf)
    return await _in_redis(settings.state_url, leaf, until)


async def _in_redis(url: str, leaf: str, until: float) -> _Held:
    store = RedisState(url)
    try:
        revocations = await store.revocations()
        async with asyncio.timeout(BUDGET), Redis.from_url(url, decode_responses=True) as client:
            armed, clock = await cast(Any, client.hmget(MEMORY, ["armed", "clock"]))
            spent = await client.zrangebyscore(SPENT, until, until)
    finally:
        await store.close()
    return int(armed or 0), float(clock or 0), leaf in spent, revocations


def _in_file(path: Path, leaf: str) -> _Held:
    """The memory in a SQLite file, read by a connection that can write nothing."""
    uri = f"{path.absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True, timeout=BUDGET)) as connection:
        memory = connection.execute("SELECT armed, clock FROM memory").fetchone() or (0, 0.0)
        spent = connection.execute("SELECT 1 FROM spent WHERE leaf = ?", (leaf,)).fetchone() is not None
        rows = connection.execute("SELECT kind, value, not_before FROM revoked").fetchall()
    return int(memory[0]), float(memory[1]), spent, [Revocation(RevocationKind(k), v, float(at)) for k, v, at in rows]
