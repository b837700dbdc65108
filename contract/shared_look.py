"""A look that anybody may ask for as often as they like: many who ask share one, which begins after they asked."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

T = TypeVar("T")
GAP_S: Final = 0.25
"""From the beginning of one look to that of the next, so that strangers cost stores four a second and not each their own."""


class SharedLook(Generic[T]):
    """``look`` for one event loop, one at a time. What is told is never older than the question."""

    def __init__(self, look: Callable[[], Awaitable[T]], *, gap_s: float = GAP_S) -> None:
        self._look = look
        self._gap_s = gap_s
        self._began = -math.inf
        self._turn = asyncio.Lock()
        self._next: asyncio.Task[T] | None = None

    async def __call__(self) -> T:
        """Raises as ``look``. Whoever leaves meanwhile leaves it to the others."""
        if self._next is None:
            self._next = asyncio.create_task(self._in_turn())
            self._next.add_done_callback(_told)
        return await asyncio.shield(self._next)

    async def _in_turn(self) -> T:
        async with self._turn:
            loop = asyncio.get_running_loop()
            await asyncio.sleep(max(0.0, self._began + self._gap_s - loop.time()))
            self._began, self._next = loop.time(), None  # who asks from now on is answered by the next
            return await self._look()


def _told(look: asyncio.Task[T]) -> None:
    """A fault that nobody waits for any more is no fault of the event loop."""
    if not look.cancelled():
        look.exception()
