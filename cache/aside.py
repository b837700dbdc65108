"""What is done for a call whose answer does not depend on it: begun at once, and waited for no longer than the call may."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Final

from cache.allowance import beside_calls, present

_log: Final = logging.getLogger("dataset_agent.cache")


class Aside:
    """The tasks under way; each bounds itself. They end with ``close``."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Runs beside every call, however this one ends."""
        with beside_calls():
            task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def wait(self, task: asyncio.Task[None]) -> None:
        """Until it ends, or until the present call has waited for the store as long as it may."""
        allowance = present()
        loop = asyncio.get_running_loop()
        began = loop.time()
        await asyncio.wait({task}, timeout=None if allowance is None else max(0.0, allowance.left))
        if allowance is not None:
            allowance.left -= loop.time() - began

    async def close(self) -> None:
        if self._tasks:
            await asyncio.wait(set(self._tasks))

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (fault := task.exception()) is not None:
            _log.error("what the cache does beside calls failed with %s", type(fault).__name__)
