"""A process that spends one leaf many times at once; started by the tests of the state stores."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from contract.verdict import NotGranted
from grants.state import StateStore
from grants.state_redis import RedisState
from grants.state_sqlite import SqliteState
from tests.grants.grants_world import NOW, accept


async def outcome(store: StateStore, header: str) -> str:
    try:
        await store.spend(accept(header), policy=None, now=NOW)
    except NotGranted as stop:
        return stop.reason.value
    return "SPENT"


async def main(address: str, header: str, count: int) -> None:
    opened: StateStore
    if "://" in address:
        opened = RedisState.open(address, now=NOW, budget=5)
    else:
        opened = SqliteState.open(Path(address), now=NOW, budget=5)
    print("ready", flush=True)
    sys.stdin.readline()
    print(json.dumps(await asyncio.gather(*(outcome(opened, header) for _ in range(count)))), flush=True)
    await opened.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.stdin.readline().strip(), int(sys.argv[2])))
