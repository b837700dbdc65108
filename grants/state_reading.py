"""What the memory of spends and revocations holds, for who only looks: nothing is made, armed or written by reading it."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, cast

from redis.exceptions import RedisError

from contract.errors import Category
from contract.settings import Settings
from contract.sqlite_snapshot import snapshot
from grants.state import BUDGET, SEEN_FILE, STATE_FILE, Progress, Revocation, fault
from grants.state_header import Condition, Header, condition, read_header
from grants.state_paths import Files, boot_id
from grants.state_redis import MEMORY, SPENT, beginning, check_fit, instant, revocations_in
from grants.state_rows import holds_leaves, revocations_of
from grants.state_script import LOOK
from grants.state_seen import SeenFile, Sighting
from grants.state_server import StateServer

_TRIES: Final = 5
_BETWEEN_S: Final = 0.02
_TORN: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_TABLES: Final = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name IN ('memory', 'spent', 'revoked')"
_TABLES_MADE: Final = 3
_FACTS: Final = 3


@dataclass(frozen=True, slots=True)
class Held:
    """A memory as it lies there. ``armed`` is 0 where it has not begun: whoever serves first begins it.

    ``lost`` where whoever serves next would find that it was lost, and arm it anew.
    """

    armed: int
    clock: float
    spent: bool
    lost: bool
    revocations: Sequence[Revocation]


_NOTHING: Final = Held(0, 0.0, spent=False, lost=True, revocations=())


def has_memory(settings: Settings) -> bool:
    """Whether there is a store to look into."""
    return settings.state_url is not None or (settings.home / STATE_FILE).exists()


async def read_memory(settings: Settings, *, leaf: str = "", until: float = 0.0) -> Held:
    """What is held, and whether ``leaf``, remembered until then, was spent. Needs ``has_memory``.

    Raises ``grants.state.*`` where the store does not answer, may forget, or is not ours.
    """
    sighting = SeenFile(settings.home / SEEN_FILE).read()
    if settings.state_url is None:
        return await asyncio.to_thread(_in_file, settings.home / STATE_FILE, leaf, sighting)
    return await _in_redis(settings.state_url, leaf, until, sighting)


async def _in_redis(url: str, leaf: str, until: float, sighting: Sighting | None) -> Held:
    try:
        server = StateServer(url, key=MEMORY, waiting=BUDGET)
        async with asyncio.timeout(BUDGET), server:
            told = await server.ask(lambda client: cast(Any, client.eval(LOOK, 2, MEMORY, SPENT, repr(until))))
        check_fit(told[:_FACTS])
        server, count, pairs, leaves = told[_FACTS:]
        held = dict(zip(pairs[::2], pairs[1::2], strict=True))
        return _held(held, sighting, server=server, count=count, spent=leaf in leaves)
    except (RedisError, OSError, ValueError, TypeError) as error:  # TimeoutError is an OSError
        raise fault(
            "unavailable",
            f"the state store does not answer ({type(error).__name__}), or holds what is not ours: "
            "start it, or correct DATASET_AGENT_STATE_URL",
            Category.UNAVAILABLE,
        ) from error


def _held(held: Mapping[str, str], sighting: Sighting | None, *, server: str, count: int, spent: bool) -> Held:
    """As the script that spends judges it. Raises ``ValueError`` for what no store of ours wrote."""
    name, seen = held.get("name", ""), sighting.progress if sighting else None
    told = Progress(name, int(held.get("epoch", 0)), int(held.get("seq", 0)))
    first = not name and not count and sighting is None
    changed = held.get("server") != server or int(held.get("spent", -1)) != count
    lost = not first and (changed or told.behind(seen) or (sighting is not None and sighting.put_back))
    armed = beginning(held.get("armed", 0), begun=bool(name))
    return Held(armed, instant(held.get("clock", 0)), spent, lost, revocations_in(held))


def _in_file(path: Path, leaf: str, sighting: Sighting | None) -> Held:
    """Again where it looks lost or broken: a service may be moving its log just now."""
    real, found = Path(os.path.realpath(path)), _NOTHING
    for _ in range(_TRIES):
        try:
            found, problem = _read_once(real, leaf, sighting), None
        except (sqlite3.Error, OSError) as error:
            problem = error
        if problem is None and not found.lost:
            return found
        time.sleep(_BETWEEN_S)
    if problem is None:
        return found
    if getattr(problem, "sqlite_errorcode", 0) & 0xFF in _TORN:
        return _NOTHING
    raise fault("unavailable", f"{path} cannot be read: {problem}", Category.UNAVAILABLE) from problem


def _read_once(path: Path, leaf: str, sighting: Sighting | None) -> Held:
    """Raises ``sqlite3.Error`` and ``OSError``."""
    with snapshot(path, wait=BUDGET) as connection:
        files = Files.at(str(path), str(path))
        if connection.execute(_TABLES).fetchone()[0] < _TABLES_MADE:
            return replace(_NOTHING, lost=sighting is not None)
        header, revocations = read_header(connection), revocations_of(connection)
        spent = connection.execute("SELECT 1 FROM spent WHERE leaf = ?", (leaf,)).fetchone() is not None
        first = header is None and sighting is None and not holds_leaves(connection)
    lost = not first and _is_lost(header, files, sighting)
    return Held(header.armed if header else 0, header.clock if header else 0.0, spent, lost, revocations)


def _is_lost(header: Header | None, files: Files, sighting: Sighting | None) -> bool:
    if files.database is None:
        return True
    seen, put_back = (sighting.progress, sighting.put_back) if sighting else (None, False)
    return condition(
        header,
        seen=seen,
        lost=put_back,
        boot=boot_id(),
        inode=files.database.st_ino,
        modified=files.database.st_mtime_ns,
        log_in_use=files.log is not None and files.log.st_size > 0,
    ) in (Condition.LOST, Condition.TORN)
