"""Threads that wait for the network: bounded in number, and waited for when they are closed, for a while."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, TypeVar

T = TypeVar("T")


class Threads:
    """``size`` threads at most. One event loop uses them at a time."""

    def __init__(self, name: str, size: int) -> None:
        self._pool = ThreadPoolExecutor(size, thread_name_prefix=name)
        self._working: set[Future[Any]] = set()

    def start(self, work: Callable[..., T], *given: Any) -> asyncio.Future[T]:
        """``work(*given)`` in a thread. Raises ``RuntimeError`` once closed."""
        future = self._pool.submit(work, *given)
        self._working.add(future)
        future.add_done_callback(self._working.discard)
        return asyncio.wrap_future(future)

    def close(self) -> None:
        """Begin nothing more; what waits for a thread is cancelled. Returns at once."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def left(self, seconds: float) -> bool:
        """Whether everything that ran has ended, within ``seconds``. Blocks."""
        return not wait(list(self._working), timeout=seconds).not_done
