"""What a dataset agent knows of approvals: asked for, decided, used. One store, one seal, one clock that is passed in.

A change is read, judged as a value and swapped in; where another process was faster nothing is
changed, and the loser is told so. Every method raises ``NotGranted`` STATE_UNAVAILABLE where the store
does not answer, or a record is not what was put there.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from approvals.approval import (
    Approval,
    Asked,
    Requester,
    Ruling,
    Standing,
    approved,
    denied,
    judge,
    used,
    withdrawn,
)
from approvals.seal import Damaged, Seal
from approvals.store import ApprovalStore, Held, StoreUnavailable
from contract.ids import new_id
from contract.verdict import NotGranted, Reason

REMEMBERED_S: Final = 86_400.0
"""For how long after its end it is still told what became of it."""


@dataclass(frozen=True, slots=True)
class Kept:
    """An approval as it was read, and the record it was read from."""

    approval: Approval
    held: Held


@dataclass(frozen=True, slots=True)
class Approved:
    """An approval that was judged to be for exactly one call, and is not used yet. Made by ``ApprovalBook.look`` alone."""

    kept: Kept

    @property
    def decision_id(self) -> str:
        """The approver's decision."""
        ruling = self.kept.approval.ruling
        return "" if ruling is None else ruling.decision_id


@dataclass(frozen=True, slots=True)
class Waits:
    """The call waits for a decision; or it was approved with other arguments, which its ``proposed`` are."""

    approval: Approval
    proposed: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an approval is asked for: the names by which evidence joins it to its request."""

    task_id: str
    context_id: str
    request_id: str
    decision_id: str
    trace_id: str | None
    invocation_id: str | None
    root_jti: str


class ApprovalBook:
    """The approvals of one dataset agent. ``ttl`` is how long one may wait and be used, in seconds."""

    def __init__(self, store: ApprovalStore, seal: Seal, ttl: float) -> None:
        self._store = store
        self._seal = seal
        self._ttl = ttl

    def take_over(self, seal: Seal) -> None:
        """Seal with other keys from now on."""
        self._seal = seal

    async def ask(self, requester: Requester, asked: Asked, origin: Origin, now: float) -> Kept:
        """A new approval that waits. Raises REVIEW_REQUIRED where too many wait already."""
        approval = Approval(
            id=new_id("apr"),
            task_id=origin.task_id,
            context_id=origin.context_id,
            request_id=origin.request_id,
            decision_id=origin.decision_id,
            trace_id=origin.trace_id,
            invocation_id=origin.invocation_id,
            root_jti=origin.root_jti,
            requester=requester,
            asked=asked,
            created=now,
            expires=now + self._ttl,
        )
        held = self._closed(approval, 1, self._seal.owner(requester))
        async with _asking():
            added = await self._store.add(held, now=now)
        if not added:
            raise NotGranted(Reason.REVIEW_REQUIRED, "a person must approve the call, and too many calls wait already")
        return Kept(approval, held)

    async def look(self, task_id: str, requester: Requester, asked: Asked, now: float) -> Approved | Waits | None:
        """What the approval of a task says to the call that is sent in it; ``None`` where it has none.

        Raises ``NotGranted`` as ``approvals.approval.judge``.
        """
        kept = await self.of_task(task_id)
        if kept is None:
            return None
        standing = judge(kept.approval, requester, asked, now)
        if standing is Standing.APPROVED:
            return Approved(kept)
        return Waits(kept.approval, kept.approval.arguments if standing is Standing.EDITED else None)

    async def use(self, approved_: Approved, now: float) -> None:
        """Use it up. Raises APPROVAL_ALREADY_DECIDED where it was used, or taken back, since it was read."""
        if await self._swap(approved_.kept, used(approved_.kept.approval, now)) is None:
            raise _decided()

    async def approve(self, kept: Kept, ruling: Ruling, arguments: Mapping[str, Any], now: float) -> Approval:
        """Raises ``NotGranted`` where somebody decided since it was read, or it is over."""
        return await self._ruled(kept, approved(kept.approval, ruling, arguments, now))

    async def deny(self, kept: Kept, ruling: Ruling, now: float) -> Approval:
        """As ``approve``."""
        return await self._ruled(kept, denied(kept.approval, ruling, now))

    async def withdraw(self, kept: Kept) -> bool:
        """Take it back; whether it could be. One that is decided meanwhile is taken back all the same, unless it is used."""
        again: Kept | None = kept
        while again is not None and (gone := withdrawn(again.approval)) is not None:
            if await self._swap(again, gone) is not None:
                return True
            again = await self.find(kept.approval.id)
        return False

    async def find(self, approval_id: str) -> Kept | None:
        async with _asking():
            held = await self._store.get(approval_id)
            return None if held is None else self._opened(held)

    async def of_task(self, task_id: str) -> Kept | None:
        async with _asking():
            held = await self._store.of_task(task_id)
            return None if held is None else self._opened(held)

    async def all(self) -> list[Approval]:
        """Every approval that opens, the oldest first. One that does not is left out: nothing can come of it."""
        async with _asking():
            found = await self._store.all()
        opened: list[Approval] = []
        for held in found:
            try:
                opened.append(self._seal.open(held))
            except Damaged:
                continue
        return sorted(opened, key=lambda approval: (approval.created, approval.id))

    async def forget(self, person: tuple[str, str]) -> int:
        """Remove what (issuer, subject) asked for or decided about, whatever its state; how many there were.

        A call that was approved, and is not used yet, has to be asked for anew.
        """
        gone = 0
        for one in await self.of_person(person):
            while (kept := await self.find(one.id)) is not None:
                async with _asking():
                    if await self._store.remove(kept.held):
                        gone += 1
                        break
        return gone

    async def of_person(self, person: tuple[str, str]) -> list[Approval]:
        """What (issuer, subject) asked for or decided about."""
        return [one for one in await self.all() if person in one.people]

    async def health(self) -> None:
        async with _asking():
            await self._store.health()

    async def close(self) -> None:
        await self._store.close()

    async def _ruled(self, kept: Kept, ruled: Approval) -> Approval:
        if await self._swap(kept, ruled) is None:
            raise _decided()
        return ruled

    async def _swap(self, kept: Kept, after: Approval) -> Kept | None:
        new = self._closed(after, kept.held.version + 1, kept.held.owner)
        async with _asking():
            return Kept(after, new) if await self._store.swap(kept.held, new) else None

    def _closed(self, approval: Approval, version: int, owner: str) -> Held:
        until = approval.expires + max(self._ttl, REMEMBERED_S)
        return self._seal.close(approval, version=version, until=until, owner=owner)

    def _opened(self, held: Held) -> Kept:
        return Kept(self._seal.open(held), held)


def _decided() -> NotGranted:
    return NotGranted(Reason.APPROVAL_ALREADY_DECIDED, "the approval was decided, used or withdrawn meanwhile")


@asynccontextmanager
async def _asking() -> AsyncIterator[None]:
    try:
        yield
    except (StoreUnavailable, Damaged) as error:
        raise NotGranted(
            Reason.STATE_UNAVAILABLE, "the store of approvals does not answer, or holds what was not put there"
        ) from error
