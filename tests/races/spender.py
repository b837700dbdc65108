"""A process that holds a state store and uses the leaf of each line it reads many times at once."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

from contract.grant import VerifiedGrant
from contract.verdict import NotGranted
from grants.state import StateStore
from grants.state_redis import RedisState
from grants.state_sqlite import SqliteState
from tests.grants.grants_world import NOW, accept
from tests.races.racing import EACH

BUDGET = 10.0
"""The machine of a test may be slow; what races is not the budget."""


async def outcome(store: StateStore, grant: VerifiedGrant) -> str:
    try:
        await store.spend(grant, policy=None, now=NOW)
    except NotGranted as stop:
        return stop.reason.value
    return "SPENT"


async def race(store: StateStore, grant: VerifiedGrant, start: float) -> list[str]:
    """All processes share the monotonic clock: nobody waits for a word that reaches one before another."""
    while time.monotonic() < start:
        pass
    return await asyncio.gather(*(outcome(store, grant) for _ in range(EACH)))


async def main(address: str) -> None:
    store: StateStore
    if "://" in address:
        store = RedisState.open(address, now=NOW, budget=BUDGET)
    else:
        store = SqliteState.open(Path(address), now=NOW, budget=BUDGET)
    print("ready", flush=True)
    while line := sys.stdin.readline():
        start, header = line.split()
        print(json.dumps(await race(store, accept(header), float(start))), flush=True)
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
