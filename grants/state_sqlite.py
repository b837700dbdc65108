"""The state store in one SQLite file, shared by the processes of one machine.

Commits are in the write-ahead log without a sync of the disk: a process that dies loses
nothing, and a machine that dies is seen by its boot id, upon which the store is armed
anew. Where the boot id cannot be read, every commit is synced.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

from contract.errors import Category
from contract.grant import VerifiedGrant
from contract.verdict import NotGranted
from grants.once import Once
from grants.revocation_form import check_revocation
from grants.state import (
    BUDGET,
    SEEN_FILE,
    Revocation,
    RevocationKind,
    check_not_ended,
    fault,
    unavailable,
)
from grants.state_file import StateFile
from grants.state_lock import Asked, AskedOnce, Memory
from grants.state_paths import FilesReplaced, FileTorn
from grants.state_seen import SeenFile
from grants.state_together import Together

T = TypeVar("T")

_TURNS: Final = 4
"""Of the loop, in which others go on while another process writes, which takes it microseconds."""
_RETRIES: Final = 2
_BUSY: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_TORN: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


class SqliteState:
    """A ``grants.state.StateStore`` whose processes meet in one file.

    Work runs where it is asked, without waiting; work that finds the file locked waits in a
    thread, so that another writer never holds up the event loop.
    """

    def __init__(
        self, path: Path, *, budget: float = BUDGET, seen_file: Path | None = None, noting: bool = True
    ) -> None:
        """Without ``noting`` nothing is written beside the file. Raises ``grants.state.seen``."""
        self._path = path
        beside = SeenFile(seen_file or path.with_name(SEEN_FILE))
        sighting = beside.read()
        self._seen_file = beside if noting else SeenFile(None)
        self._memory = Memory() if sighting is None else Memory(sighting.progress, lost=sighting.put_back)
        self._here = StateFile(path, self._memory, wait=0.0)
        self._patient = StateFile(path, self._memory, wait=budget)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="grants-state")
        self._checkpoint: Future[None] | None = None
        self._together = Together()

    @classmethod
    def open(cls, path: Path, *, now: float, budget: float = BUDGET, seen_file: Path | None = None) -> SqliteState:
        """Raises ``grants.state.unavailable`` where the file cannot be used, and ``grants.state.seen``."""
        store = cls(path, budget=budget, seen_file=seen_file)
        try:
            store._thread.submit(store._begin, now).result()
        except (sqlite3.Error, OSError) as error:
            store._thread.shutdown()
            raise fault("unavailable", f"{path} cannot be used: {error}", Category.UNAVAILABLE) from error
        store._seen_file.keep(store._memory.seen)
        return store

    async def spend(self, grant: VerifiedGrant, *, policy: str | None, now: float) -> None:
        await self._together.spend(Asked(grant, policy, now), self._spend_each)
        if self._here.log_is_long() and (self._checkpoint is None or self._checkpoint.done()):
            self._checkpoint = self._thread.submit(self._move_log)

    async def use(self, once: Once, *, now: float) -> None:
        (stop,) = await self._judged(lambda file: file.spend_each((AskedOnce(once, now),)))
        if stop is not None:
            raise stop

    async def _spend_each(self, asked: Sequence[Asked]) -> Sequence[NotGranted | None]:
        return await self._judged(lambda file: file.spend_each(asked))

    async def recheck(self, grant: VerifiedGrant, *, policy: str | None, now: float) -> None:
        check_not_ended(grant, now)
        await self._judged(lambda file: file.recheck(grant, policy, now))

    async def revoke(self, kind: RevocationKind, value: str, *, not_before: float) -> None:
        value = check_revocation(kind, value, not_before)
        try:
            await self._run(lambda file: file.revoke(kind, value, not_before))
        except (sqlite3.Error, OSError) as error:
            raise fault("unavailable", f"{self._path} does not take the revocation", Category.UNAVAILABLE) from error

    async def revocations(self) -> list[Revocation]:
        try:
            return await self._run(lambda file: file.revocations())
        except (sqlite3.Error, OSError) as error:
            raise fault("unavailable", f"{self._path} cannot be read", Category.UNAVAILABLE) from error

    async def health(self) -> None:
        try:
            await self._run(lambda file: file.probe())
        except (sqlite3.Error, OSError) as error:
            raise fault("unavailable", f"{self._path} cannot be written: {error}", Category.UNAVAILABLE) from error

    async def close(self) -> None:
        self._seen_file.keep(self._memory.seen)
        self._here.disconnect()
        await asyncio.get_running_loop().run_in_executor(self._thread, self._patient.disconnect)
        self._thread.shutdown()

    async def _judged(self, work: Callable[[StateFile], T]) -> T:
        try:
            return await self._run(work)
        except (sqlite3.Error, OSError) as error:
            raise unavailable() from error
        finally:
            self._seen_file.keep(self._memory.seen, soon=True)

    async def _run(self, work: Callable[[StateFile], T]) -> T:
        """Again where the files were exchanged, or what is there had to be put aside."""
        for _ in range(_RETRIES):
            try:
                return await self._run_once(work)
            except FilesReplaced:
                self._let_go()
            except FileTorn as torn:
                self._here.put_aside(torn.identity)
                self._let_go()
        return await self._run_once(work)

    def _let_go(self) -> None:
        """Close both connections, without giving way: SQLite would lend the index of one still open to a new one."""
        self._here.disconnect()
        self._thread.submit(self._patient.disconnect).result()

    async def _run_once(self, work: Callable[[StateFile], T]) -> T:
        for _ in range(_TURNS):
            try:
                return _tried(work, self._here)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF not in _BUSY:
                    raise
            await asyncio.sleep(0)
        return await asyncio.get_running_loop().run_in_executor(self._thread, _tried, work, self._patient)

    def _begin(self, now: float) -> None:
        try:
            _tried(lambda file: file.begin(now), self._patient)
        except FileTorn as torn:
            self._patient.put_aside(torn.identity)
            self._patient.begin(now)

    def _move_log(self) -> None:
        with suppress(sqlite3.Error, OSError):  # the next spend tries again, or meets the fault itself
            self._patient.checkpoint()


def _tried(work: Callable[[StateFile], T], file: StateFile) -> T:
    """What SQLite cannot read any more is torn, like what another hand wrote."""
    try:
        return work(file)
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF not in _TORN:
            raise
        raise FileTorn(file.identity) from error
