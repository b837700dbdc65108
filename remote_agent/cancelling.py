"""Work that is brought to its end, whoever leaves meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from contract.lasting import Lasting, through

T = TypeVar("T")


async def past_cancelling(work: Awaitable[T]) -> T:
    """Await ``work`` to its end, whoever cancels the waiting task meanwhile."""
    if isinstance(work, Lasting):  # without a second future and a turn of the loop between the two
        return await through(work)
    writing = asyncio.ensure_future(work)
    while not writing.done():
        try:
            await asyncio.shield(writing)
        except asyncio.CancelledError:
            if writing.cancelled() or (waiting := asyncio.current_task()) is None:
                raise
            waiting.uncancel()
    return writing.result()
