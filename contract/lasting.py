"""A future that nobody takes back: what it stands for is done, whoever stops waiting for it."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

T = TypeVar("T")


class Lasting(asyncio.Future[T]):
    """Who is cancelled while waiting for it learns of that when it is done. Waited for by one task, with ``through``."""

    def cancel(self, msg: Any | None = None) -> bool:
        return False


async def through(future: Lasting[T]) -> T:
    """What it comes to, whoever cancels the waiting task meanwhile."""
    waiting = asyncio.current_task()
    before = 0 if waiting is None else waiting.cancelling()
    try:
        return await future
    except asyncio.CancelledError:
        if not future.done() or waiting is None:
            raise
        waiting.uncancel()
        while waiting.cancelling() > before:
            waiting.uncancel()
    return future.result()
