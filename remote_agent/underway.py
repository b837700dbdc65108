"""A call while it is answered, as others may wait for it: who it is for, how far it is, what it found."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from contract.authority import Authority
from contract.grant import VerifiedGrant
from contract.progress import Progress
from contract.verdict import Decision, NotGranted, Reason
from remote_agent.outcome import BoundCall, Found, Supplied


@dataclass(frozen=True, slots=True)
class Ran:
    """What a call found, with the authority it was found under and all it rests on."""

    authority: Authority
    call: BoundCall
    supplied: Supplied | None
    found: Found


class Underway:
    """One call on its path. The path says how far it came; nothing here starts, stops or authorizes it.

    ``detached`` says that its sender does not wait any more. ``grant`` is there once it was verified,
    ``call`` and ``authority`` once it was accepted, ``decision`` once it has ended.
    """

    def __init__(self) -> None:
        self.progress = Progress()
        self.grant: VerifiedGrant | None = None
        self.call: BoundCall | None = None
        self.authority: Authority | None = None
        self.detached = False
        self._users = 0
        self._accepted = asyncio.Event()
        self._over = asyncio.Event()
        self._ran: Ran | None = None
        self.decision: Decision | None = None

    @property
    def has_run(self) -> bool:
        """Whether what it found is there, or it has ended without."""
        return self._over.is_set()

    def used(self, unused: Callable[[], None]) -> Use:
        """Use what it finds inside; ``unused`` is called when the last who did has left."""
        return Use(self, unused)

    def enter(self) -> None:
        self._users += 1

    def leave(self, unused: Callable[[], None]) -> None:
        self._users -= 1
        if not self._users:
            unused()

    def accept(self, authority: Authority, call: BoundCall) -> None:
        """Everything that is judged before something runs was judged."""
        self.authority, self.call = authority, call
        self._accepted.set()

    def ran(self, supplied: Supplied | None, found: Found) -> None:
        """What it found is there. Whether this call's own answer may hold it is judged after."""
        if self.authority is not None and self.call is not None:
            self._ran = Ran(self.authority, self.call, supplied, found)
        self._over.set()

    def end(self, decision: Decision | None) -> None:
        """The path ended, with this decision; also where nothing ran."""
        self.decision = decision
        self._accepted.set()
        self._over.set()

    async def accepted(self) -> None:
        """Wait until it was accepted, or has ended."""
        await self._accepted.wait()

    async def result(self) -> Ran:
        """Wait for what it finds. Raises ``NotGranted`` with the reason where it ends without."""
        await self._over.wait()
        if self._ran is not None:
            return self._ran
        reason = Reason.EXECUTION_FAILED if self.decision is None else self.decision.reason
        raise NotGranted(reason, "the task ended without a result")


class Use:
    """A block in which what a call finds is used."""

    __slots__ = ("_underway", "_unused")

    def __init__(self, underway: Underway, unused: Callable[[], None]) -> None:
        self._underway = underway
        self._unused = unused

    def __enter__(self) -> None:
        self._underway.enter()

    def __exit__(self, *_: object) -> None:
        self._underway.leave(self._unused)
