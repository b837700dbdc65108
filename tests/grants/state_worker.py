"""A process that holds a SQLite state store and does what its input says, a line at a time; started by tests."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from contract.verdict import NotGranted
from grants.state import RevocationKind
from grants.state_sqlite import SqliteState
from tests.grants.grants_world import NOW, accept


async def main(path: Path) -> None:
    store = SqliteState.open(path, now=NOW, budget=5)
    for line in sys.stdin:
        command, *words = line.split()
        try:
            if command == "spend":
                await store.spend(accept(words[0]), policy=None, now=NOW)
            elif command == "recheck":
                await store.recheck(accept(words[0]), policy=None, now=NOW)
            elif command == "revoke":
                await store.revoke(RevocationKind(words[0]), words[1], not_before=NOW)
            else:
                await store.health()
        except NotGranted as stop:
            print(stop.reason.value, flush=True)
        else:
            print("OK", flush=True)
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
