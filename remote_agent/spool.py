"""Where large results wait to be fetched: encrypted, bounded, for a while, by the process that made them.

A result is written while its query runs, and can be fetched only once the answer that tells of it
was released; whatever ends otherwise is dropped. Each process has a folder of its own under a
lock: what dead processes left behind is deleted at the next start, and could be read by nobody,
since the keys were in their memory.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from contextvars import Context
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from approvals.book import Approved
from contract.authority import Authority
from contract.errors import Category, Component, DatasetAgentError
from contract.result import StoredResult
from contract.settings import Settings
from contract.verdict import NotGranted, Reason
from remote_agent.owners import Owner, owner_of
from remote_agent.spool_file import ChunkReader, ChunkWriter, Sealed, stored_size
from remote_agent.spool_folder import ProcessFolder
from remote_agent.spool_shares import MakeRoom, own_room

log = logging.getLogger(__name__)

MAX_RESULTS: Final = 10_000
"""Results that wait at once, whatever their size."""
MAX_READERS: Final = 64
"""Downloads at once. Each has a file open and two chunks in memory."""


@dataclass(frozen=True, slots=True)
class Terms:
    """For whom, and under what, a result was made. Whoever fetches it must be and have exactly this.

    ``approved`` is the approval it was made by: it is for the whole of that one result.
    """

    authority: Authority = field(repr=False)
    template_digest: str
    approved: Approved | None = field(default=None, repr=False)

    @property
    def owner(self) -> Owner:
        return owner_of(self.authority.grant)


@dataclass(slots=True)
class Held:
    """A result on disk. ``released`` says that the answer that tells of it has left."""

    sealed: Sealed
    result: StoredResult
    terms: Terms
    released: bool = False


class Spool:
    """The large results of one process. ``max_bytes`` on disk together, ``max_result_bytes`` each; 0 keeps none.

    Of the bytes, the results and the downloads a client agent has a part, and a person who comes by it (``Shares``).
    ``ttl`` is how long one may be fetched, in seconds from the end of its query.
    """

    def __init__(
        self,
        folder: Path,
        *,
        max_bytes: int,
        max_result_bytes: int,
        ttl: float,
        clock: Callable[[], float],
        room: MakeRoom = own_room,
    ) -> None:
        self._folder = ProcessFolder(folder)
        self._max_bytes = max_bytes
        self._ttl = ttl
        self._clock = clock
        self._held: dict[str, Held] = {}
        self._lock = threading.RLock()
        self._timers: set[asyncio.TimerHandle] = set()
        self.max_result_bytes = min(max_result_bytes, max_bytes)
        self._bytes = room("bytes", max_bytes, stored_size(self.max_result_bytes))
        self._results = room("results", MAX_RESULTS, 1)
        self._readers = room("readers", MAX_READERS, 1)

    @classmethod
    def open(cls, settings: Settings, *, clock: Callable[[], float], room: MakeRoom = own_room) -> Spool:
        """The spool of this process; what dead ones left is deleted. Raises a CONFIGURATION fault."""
        spool = cls(
            settings.home / "remote" / "spool",
            max_bytes=settings.spool_max_bytes,
            max_result_bytes=settings.spool_max_result_bytes,
            ttl=settings.spool_ttl,
            clock=clock,
            room=room,
        )
        try:
            spool._folder.sweep_dead()
        except OSError as error:
            raise DatasetAgentError(
                Component.REMOTE_AGENT,
                Category.CONFIGURATION,
                "remote_agent.spool.unusable",
                f"{spool._folder.shared} cannot be used ({error.strerror}): make it a folder of this user's",
            ) from error
        return spool

    @classmethod
    def none(cls) -> Spool:
        """Keeps nothing: a result is in the reply, or too large."""
        return cls(Path(), max_bytes=0, max_result_bytes=0, ttl=0, clock=time.time)

    @property
    def enabled(self) -> bool:
        return self._max_bytes > 0

    @property
    def used(self) -> int:
        """Bytes on disk, of results that are being written too."""
        return self._bytes.used

    def begin(self, result_id: str, owner: Owner) -> Writing:
        """A result that is being written; blocks for a file to be made. Raises ``NotGranted``."""
        self.sweep()
        with self._lock:
            if not self._results.take(owner, 1):
                raise full()
            try:
                return Writing(self, ChunkWriter(self._folder.place() / secrets.token_hex(16), result_id), owner)
            except OSError as error:
                self._results.give_back(owner, 1)
                raise unusable(error) from error

    def expiry(self) -> float:
        """Until when a result may be fetched that is whole now, in POSIX seconds."""
        return self._clock() + self._ttl

    def take_room(self, owner: Owner, more: int) -> None:
        """Count ``more`` bytes that will be on disk. Raises ``NotGranted`` where there is no room."""
        with self._lock:
            if not self._bytes.take(owner, more):
                raise full()

    def give_back(self, owner: Owner, room: int) -> None:
        """A result, and the bytes that were counted for it."""
        with self._lock:
            self._bytes.give_back(owner, room)
            self._results.give_back(owner, 1)

    def take(self, held: Held) -> None:
        """Take over a whole result, which nobody can fetch yet. It replaces an earlier one of the same id."""
        with self._lock:
            self.drop(held.result.result_id)
            self._held[held.result.result_id] = held
        self._sweep_later()

    def release(self, result_id: str) -> None:
        """From now on its owner may fetch it."""
        with self._lock:
            held = self._held.get(result_id)
            if held is not None:
                held.released = True

    def find(self, result_id: str, owner: Owner) -> Held:
        """A result that its owner may fetch. Raises ``NotGranted(RESULT_NOT_FOUND)``, always in the same words."""
        with self._lock:
            held = self._held.get(result_id)
        if held is None or not held.released or held.terms.owner != owner or self._clock() >= held.result.expires_at:
            raise NotGranted(
                Reason.RESULT_NOT_FOUND, "no such result waits for this agent and person; it may have expired"
            )
        return held

    @contextmanager
    def reading(self, held: Held) -> Iterator[ChunkReader]:
        """A result that is read. Raises ``NotGranted``."""
        owner = held.terms.owner
        if not self._readers.take(owner, 1):
            raise NotGranted(Reason.RESULT_STORE_UNAVAILABLE, "too many results are being fetched at once")
        try:
            with closing(_opened(held.sealed)) as reader:
                yield reader
        finally:
            self._readers.give_back(owner, 1)

    def drop(self, result_id: str) -> None:
        """Forget a result and delete its file; who reads it goes on reading."""
        with self._lock:
            held = self._held.pop(result_id, None)
            if held is None:
                return
            try:
                held.sealed.path.unlink(missing_ok=True)
            except OSError as error:  # what is left takes its room until the next start, and stops nothing else
                log.error("a stored result cannot be deleted: %s", error.strerror)
                return
            self.give_back(held.terms.owner, held.sealed.stored)

    def sweep(self) -> None:
        """Drop what has expired."""
        now = self._clock()
        with self._lock:
            for result_id in [name for name, held in self._held.items() if now >= held.result.expires_at]:
                self.drop(result_id)

    def drop_unreleased(self, result_id: str) -> None:
        """Drop a result whose answer ended otherwise."""
        with self._lock:
            held = self._held.get(result_id)
            if held is not None and not held.released:
                self.drop(result_id)

    def close(self) -> None:
        """Delete every file; keys are gone with the process anyway."""
        for timer in self._timers:
            timer.cancel()
        for result_id in list(self._held):
            self.drop(result_id)
        self._folder.close()

    def _sweep_later(self) -> None:
        def swept() -> None:
            self._timers.discard(timer)
            self.sweep()

        # Not in the context of the request, which would stay in memory with all that it made.
        timer = asyncio.get_running_loop().call_later(self._ttl + 1.0, swept, context=Context())
        self._timers.add(timer)


class Writing:
    """One result on its way to the spool. Its methods block; one thread at a time."""

    def __init__(self, spool: Spool, chunks: ChunkWriter, owner: Owner) -> None:
        self._spool = spool
        self._chunks = chunks
        self._owner = owner
        self._size = 0
        self._room = 0
        self._ended = False

    def write(self, data: bytes) -> None:
        """Raises ``NotGranted``: RESULT_TOO_LARGE beyond the bound of one, RESULT_STORE_UNAVAILABLE."""
        self._size += len(data)
        if self._size > self._spool.max_result_bytes:
            raise too_large()
        self._take_room()
        try:
            self._chunks.write(data)
        except OSError as error:
            raise unusable(error) from error

    def finish(self) -> Sealed:
        """The whole result, which is still to be kept. Raises ``NotGranted``."""
        self._take_room()
        try:
            return self._chunks.finish()
        except OSError as error:
            raise unusable(error) from error

    def keep(self, sealed: Sealed, result: StoredResult, terms: Terms) -> None:
        """What was finished is the spool's from here on."""
        self._ended = True
        self._spool.take(Held(sealed, result, terms))

    def discard(self) -> None:
        """Nothing of it is left, unless it is kept; safe to call again."""
        if not self._ended:
            self._ended = True
            self._chunks.discard()
            self._spool.give_back(self._owner, self._room)

    def _take_room(self) -> None:
        more = stored_size(self._size) - self._room
        self._spool.take_room(self._owner, more)
        self._room += more


def _opened(sealed: Sealed) -> ChunkReader:
    try:
        return ChunkReader(sealed)
    except OSError as error:
        raise unusable(error) from error


def too_large() -> NotGranted:
    return NotGranted(Reason.RESULT_TOO_LARGE, "the result has more rows or bytes than allowed")


def full() -> NotGranted:
    return NotGranted(Reason.RESULT_STORE_UNAVAILABLE, "there is no room for a large result now")


def unusable(error: OSError) -> NotGranted:
    log.error("a stored result cannot be written or read: %s", error.strerror)
    return NotGranted(Reason.RESULT_STORE_UNAVAILABLE, "a large result cannot be written or read now")
