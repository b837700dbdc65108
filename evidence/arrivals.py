"""Which requests were taken in and have no terminal row yet, where a killed process leaves it readable.

Each process has a file of slots in memory that it shares with the system: taking one and giving
it back costs no call, and what is in it survives the process, not the machine. Its blocks are
allocated when it is opened, so that a full disk takes nothing from it. The file is locked while
its process lives; whoever starts later ends the requests of those that died.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import secrets
import threading
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import orjson

from contract.verdict import NotGranted, Reason
from evidence.store import StoreFault

_SLOT: Final = 512
_SLOTS: Final = 2_048
_OF_CLIENT: Final = _SLOTS // 2
_OF_PERSON: Final = _SLOTS // 4
_FREE, _OPEN, _LOST = 0, 1, 2

Person = tuple[str, ...]
"""The parts of a person's identity; empty where nobody is named."""


class ArrivalsFull(StoreFault):
    """So many requests wait for a row that no more are taken in."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request that is to have a terminal row. ``behind`` rows were there when it came.

    ``lost`` says that its row could not be written, or that nobody knows whether it was.
    """

    request_id: str
    client: str | None = None
    trace_id: str | None = None
    task_id: str | None = None
    behind: int = 0
    lost: bool = False


class Arrivals:
    """The file of this process in ``folder``, and those of processes that died. Raises ``OSError``."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._folder = folder
        self._own = _SlotFile.create(folder / f"{secrets.token_hex(8)}.slots")
        self._free = list(range(_SLOTS))
        self._places: dict[str, int] = {}
        self._shares = _Shares()
        self._lost: set[str] = set()
        self._dead: list[_SlotFile] = []
        self._lock = threading.Lock()
        self.adopt()

    def adopt(self) -> None:
        """Take over the files whose process is gone."""
        held = {self._own.path, *(dead.path for dead in self._dead)}
        for path in sorted(self._folder.glob("*.slots")):
            if path not in held and (dead := _SlotFile.of_the_dead(path)) is not None:
                self._dead.append(dead)

    def take(self, arrival: Arrival, behind: int, person: Person = ()) -> None:
        """Write the request down. ``behind`` rows were there when it came, for ``person``, who is not kept.

        Raises ``ArrivalsFull``, and ``NotGranted`` CONCURRENCY_LIMITED.
        """
        body = _body(arrival, behind)
        with self._lock:
            if not self._free:
                raise ArrivalsFull("too many requests wait for their row")
            self._shares.enter(arrival, person)
            place = self._places[arrival.request_id] = self._free.pop()
            self._own.write(place, body)

    def end(self, request_id: str) -> None:
        """Its terminal row is on disk."""
        with self._lock:
            place = self._places.pop(request_id, None)
            if place is not None:
                self._shares.leave(request_id)
                self._own.mark(place, _FREE)
                self._free.append(place)
                self._lost.discard(request_id)

    def lose(self, request_id: str) -> None:
        """Its row was not written, as far as is known."""
        with self._lock:
            place = self._places.get(request_id)
            if place is not None:
                self._own.mark(place, _LOST)
                self._lost.add(request_id)

    @property
    def are_pending(self) -> bool:
        return bool(self._lost or self._dead)

    def pending(self) -> list[Arrival]:
        """Those that nobody else will end: lost ones of this process, and all of dead ones."""
        with self._lock:
            own = [self._own.read(self._places[name]) for name in self._lost]
        dead = [arrival for file in self._dead for arrival in file.arrivals()]
        return [arrival for arrival in (*own, *dead) if arrival is not None]

    def settle(self, ended: Iterable[Arrival]) -> None:
        """They have their rows."""
        for arrival in ended:
            self.end(arrival.request_id)
        for dead in self._dead:
            dead.remove()
        self._dead.clear()

    def close(self) -> None:
        """A file that still speaks of a request is left for whoever starts next."""
        if self._places:
            self._own.close()
        else:
            self._own.remove()
        for dead in self._dead:
            dead.close()


class _Shares:
    """How many requests of each client, and of each person of a client, are under way."""

    def __init__(self) -> None:
        self._held: Counter[Person] = Counter()
        self._of: dict[str, tuple[Person, ...]] = {}

    def enter(self, arrival: Arrival, person: Person) -> None:
        """Raises ``NotGranted`` where it is too many, so that one caller leaves room for others."""
        client = arrival.client or ""
        most: dict[Person, int] = {(client,): _OF_CLIENT} if client else {}
        if person:
            most[client, *person] = _OF_PERSON
        if any(self._held[whose] >= number for whose, number in most.items()):
            told = "this caller has as many requests under way as is allowed: try again when some have ended"
            raise NotGranted(Reason.CONCURRENCY_LIMITED, told, retry_after_s=1.0)
        self._held.update(most.keys())
        self._of[arrival.request_id] = tuple(most)

    def leave(self, request_id: str) -> None:
        for whose in self._of.pop(request_id, ()):
            self._held[whose] -= 1
            if not self._held[whose]:
                del self._held[whose]


class _SlotFile:
    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        self._slots = mmap.mmap(descriptor, _SLOT * _SLOTS)

    @classmethod
    def create(cls, path: Path) -> _SlotFile:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            os.posix_fallocate(descriptor, 0, _SLOT * _SLOTS)
            return cls(path, descriptor)
        except BaseException:
            os.close(descriptor)
            path.unlink(missing_ok=True)
            raise

    @classmethod
    def of_the_dead(cls, path: Path) -> _SlotFile | None:
        """``None`` where its process lives, or where it is not readable."""
        try:
            descriptor = os.open(path, os.O_RDWR)
        except OSError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(descriptor).st_size == _SLOT * _SLOTS and path.exists():
                return cls(path, descriptor)
        except (OSError, ValueError):
            pass
        os.close(descriptor)
        return None

    def write(self, place: int, body: bytes) -> None:
        """The slot counts once its first byte says so, which is written last."""
        at = place * _SLOT
        self._slots[at + 1 : at + 3 + len(body)] = len(body).to_bytes(2, "big") + body
        self._slots[at] = _OPEN

    def mark(self, place: int, state: int) -> None:
        self._slots[place * _SLOT] = state

    def read(self, place: int) -> Arrival | None:
        at = place * _SLOT
        state = self._slots[at]
        if state == _FREE:
            return None
        length = int.from_bytes(self._slots[at + 1 : at + 3], "big")
        with suppress(ValueError, TypeError):
            return replace(Arrival(*orjson.loads(self._slots[at + 3 : at + 3 + length])), lost=state == _LOST)
        return None

    def arrivals(self) -> list[Arrival]:
        return [arrival for place in range(_SLOTS) if (arrival := self.read(place)) is not None]

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        self._slots.close()
        os.close(self._descriptor)


def _body(arrival: Arrival, behind: int) -> bytes:
    """The members of ``Arrival`` as JSON that fits its slot: without ids that come from senders where they are too long."""
    name, client, trace, task = arrival.request_id, arrival.client, arrival.trace_id, arrival.task_id
    for told in ((name, client, trace, task, behind), (name, client, None, None, behind)):
        body = orjson.dumps(told)
        if len(body) <= _SLOT - 3:
            return body
    return orjson.dumps((name, None, None, None, behind))
