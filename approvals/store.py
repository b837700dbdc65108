"""Where approvals are kept: opaque records that change by compare-and-set and in no other way."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Protocol

MOST: Final = 10_000
"""Of one agent, over all requesters."""

MOST_OF_ONE: Final = 500
"""Of one requester: what waits, and what was decided and is not forgotten yet."""


class StoreUnavailable(Exception):
    """The store does not answer, or holds what this program did not write. The text repeats nothing of it."""


@dataclass(frozen=True, slots=True)
class Held:
    """One record. ``owner`` is a digest that is equal for one requester; it is forgotten at ``until``, POSIX seconds.

    ``version`` counts its changes from 1. What it says is in ``sealed``.
    """

    id: str
    task_id: str
    owner: str
    version: int
    until: float
    sealed: str = field(repr=False)


class ApprovalStore(Protocol):
    """Shared by every process of one dataset agent. Every method raises ``StoreUnavailable``."""

    async def add(self, held: Held, *, now: float) -> bool:
        """Keep a new record; ``False`` where its id or task has one already, or too many are kept.

        What is over is forgotten first.
        """
        ...

    async def get(self, approval_id: str) -> Held | None: ...

    async def of_task(self, task_id: str) -> Held | None: ...

    async def all(self) -> list[Held]:
        """Every record, in no particular order."""
        ...

    async def swap(self, old: Held, new: Held) -> bool:
        """Put ``new`` in the place of ``old``; ``False`` where that is not the present version any more.

        Of several that swap the same version, over all processes, exactly one succeeds.
        """
        ...

    async def remove(self, old: Held) -> bool:
        """Forget a record, as ``swap`` would replace it."""
        ...

    async def health(self) -> None: ...

    async def close(self) -> None: ...


def check_successor(old: Held, new: Held) -> None:
    """That ``new`` is the next version of the same record. Raises ``ValueError``."""
    if (old.id, old.task_id, old.owner, old.version + 1) != (new.id, new.task_id, new.owner, new.version):
        raise ValueError("a record is followed by its own next version")


def has_room(kept: Iterable[Held], new: Held) -> bool:
    """Whether one more may be kept beside those that are not over."""
    together = list(kept)
    return len(together) < MOST and sum(held.owner == new.owner for held in together) < MOST_OF_ONE


class MemoryApprovals:
    """An ``ApprovalStore`` of one process, gone with it."""

    def __init__(self) -> None:
        self._held: dict[str, Held] = {}

    async def add(self, held: Held, *, now: float) -> bool:
        self._held = {name: kept for name, kept in self._held.items() if kept.until > now}
        taken = held.id in self._held or any(kept.task_id == held.task_id for kept in self._held.values())
        if taken or not has_room(self._held.values(), held):
            return False
        self._held[held.id] = held
        return True

    async def get(self, approval_id: str) -> Held | None:
        return self._held.get(approval_id)

    async def of_task(self, task_id: str) -> Held | None:
        return next((held for held in self._held.values() if held.task_id == task_id), None)

    async def all(self) -> list[Held]:
        return list(self._held.values())

    async def swap(self, old: Held, new: Held) -> bool:
        check_successor(old, new)
        if self._held.get(old.id) != old:
            return False
        self._held[old.id] = new
        return True

    async def remove(self, old: Held) -> bool:
        if self._held.get(old.id) != old:
            return False
        del self._held[old.id]
        return True

    async def health(self) -> None:
        return

    async def close(self) -> None:
        return
