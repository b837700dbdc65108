"""Leaves that several tasks spend in one turn of the event loop are spent in one transaction, each with its own answer.

A caller that is alone is not made to wait a turn: only where others spend beside it are leaves gathered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from contract.verdict import NotGranted
from grants.state_lock import Asked

_LOOK_EVERY: Final = 8
"""So many leaves one by one before it is looked again whether there are several in a turn, and back."""

SpendEach = Callable[[Sequence[Asked]], Awaitable[Sequence[NotGranted | None]]]
"""For each why it is not spent, ``None`` where it is. What it raises is every one's."""

_Group = list[tuple[Asked, "asyncio.Future[None]"]]


class Together:
    """Of one event loop at a time. It is given what spends with each leaf, and holds on to nobody who does."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._flushing: set[asyncio.Task[None]] = set()
        self._begin()

    def _begin(self) -> None:
        self._group: _Group | None = None
        self._crowded = False
        self._alone = 0
        self._sooner = True
        self._in_turn = 0

    async def spend(self, asked: Asked, spend_each: SpendEach) -> None:
        """Raises the ``NotGranted`` that is of this leaf."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop = loop
            self._begin()
        if self._crowded:
            await self._with_others(asked, spend_each, loop)
            return
        self._look_round(loop)
        (stop,) = await spend_each((asked,))
        if stop is not None:
            raise stop

    def _look_round(self, loop: asyncio.AbstractEventLoop) -> None:
        """Now and then: whether another leaf is spent before the turn ends."""
        if self._in_turn:
            self._in_turn += 1
            return
        self._alone += 1
        if self._alone >= _LOOK_EVERY:
            # By turns one sooner: else the last of so many in a turn would look each time.
            self._alone, self._sooner, self._in_turn = int(self._sooner), not self._sooner, 1
            loop.call_soon(self._looked)

    def _looked(self) -> None:
        self._crowded, self._in_turn = self._in_turn > 1, 0

    async def _with_others(self, asked: Asked, spend_each: SpendEach, loop: asyncio.AbstractEventLoop) -> None:
        if self._group is None:
            self._group = []
            flushing = loop.create_task(self._flush(self._group, spend_each))
            self._flushing.add(flushing)
            flushing.add_done_callback(self._flushing.discard)
        spent: asyncio.Future[None] = loop.create_future()
        self._group.append((asked, spent))
        await spent

    async def _flush(self, group: _Group, spend_each: SpendEach) -> None:
        """In the next turn. Whoever was cancelled while it waited has used its leaf up all the same."""
        self._group = None
        self._alone = self._alone + 1 if len(group) == 1 else 0
        if self._alone >= _LOOK_EVERY:
            self._crowded, self._alone = False, 0
        outcomes: Sequence[Exception | None]
        try:
            outcomes = await spend_each([asked for asked, _ in group])
        except NotGranted as stop:
            outcomes = [_again(stop) for _ in group]
        except Exception as fault:
            outcomes = [fault] * len(group)
        for (_, spent), outcome in zip(group, outcomes, strict=True):
            if spent.done():
                continue
            if outcome is None:
                spent.set_result(None)
            else:
                spent.set_exception(outcome)


def _again(stop: NotGranted) -> NotGranted:
    """One of its own for each who waits: an exception keeps the trace of whoever raised it."""
    again = NotGranted(stop.reason, stop.message)
    again.__cause__ = stop.__cause__
    return again
