"""A process that holds a SQLite state store and does what its input says, a line at a time; started by tests."""

from __future__ import annotations

import asyncio
import resource
import signal
import sys
from pathlib import Path

from contract.errors import DatasetAgentError
from contract.verdict import NotGranted
from grants.state import RevocationKind, StateStore
from grants.state_sqlite import SqliteState
from tests.grants.grants_world import NOW, accept


async def do(store: StateStore, command: str, words: list[str]) -> None:
    match command:
        case "spend":
            await store.spend(accept(words[0]), policy=None, now=NOW)
        case "recheck":
            await store.recheck(accept(words[0]), policy=None, now=NOW)
        case "revoke":
            await store.revoke(RevocationKind(words[0]), words[1], not_before=NOW)
        case "limit":  # no file may grow past so many bytes: what a full disk does
            resource.setrlimit(resource.RLIMIT_FSIZE, (int(words[0]), resource.RLIM_INFINITY))
        case "unlimit":
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        case _:
            await store.health()


async def main(path: Path) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    store = SqliteState.open(path, now=NOW, budget=5)
    for line in sys.stdin:
        command, *words = line.split()
        try:
            await do(store, command, words)
        except NotGranted as stop:
            print(stop.reason.value, flush=True)
        except DatasetAgentError as fault:
            print(fault.code, flush=True)
        else:
            print("OK", flush=True)
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
