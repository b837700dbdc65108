"""The messages being answered now: who owns them, and how they are stopped without losing their row."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from contract.verdict import NotGranted, Reason
from remote_agent.outcome import Answer

log = logging.getLogger(__name__)

Owner = tuple[str, ...]


class Faulty(Exception):
    """An answer that could not be made; its cause is logged by type, and its text goes nowhere."""


class Running:
    """One message under way, in an asyncio task of its own.

    A task that is cancelled before its first step never runs, and would leave no evidence.
    So a stop that comes that early is remembered, and takes effect inside the path.
    """

    def __init__(self, owner: Owner, context_id: str, answer: Callable[[], Awaitable[Answer]]) -> None:
        self.owner = owner
        self.context_id = context_id
        self._started = False
        self._stopped = False
        self._work = asyncio.create_task(self._go(answer))

    def stop(self) -> None:
        """Cancel what runs; the path records it."""
        self._stopped = True
        if self._started:
            self._work.cancel()

    async def finish(self) -> Answer:
        """The answer. Raises ``Faulty`` for what the path did not turn into an outcome."""
        try:
            return await asyncio.shield(self._work)
        except asyncio.CancelledError:
            if not self._work.done():
                raise  # the caller who waits went away, not the work
            return Answer(decision=NotGranted(Reason.CANCELLED, "the task was cancelled").decision(""))
        except Exception as fault:
            log.error("a request failed with %s", type(fault).__name__)
            raise Faulty from None

    async def end(self) -> bool:
        """Stop what still runs and wait until it is recorded; whether it was stopped before an outcome."""
        if not self._work.done():
            self.stop()
            await asyncio.wait({self._work})
        return self._work.cancelled()

    async def _go(self, answer: Callable[[], Awaitable[Answer]]) -> Answer:
        self._started = True
        current = asyncio.current_task()
        if self._stopped and current is not None:
            current.cancel()
        return await answer()
