"""The threads in which queries run, and the clock and the hand that stop them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from contract.progress import report
from contract.verdict import NotGranted, Reason
from queries.duckdb_job import Job
from queries.outcomes import out_of_time

T = TypeVar("T")
_STOP_POLL: Final = 0.01


class Threads:
    """As many as there are cores: more give no throughput. One event loop uses them at a time."""

    def __init__(self, name: str, size: int) -> None:
        self._pool = ThreadPoolExecutor(size, thread_name_prefix=name)
        self._stopping: set[asyncio.Task[None]] = set()
        self.jobs: set[Job] = set()

    def job(self) -> Job:
        """A query that begins; whoever made it calls ``forget`` when it has ended."""
        job = Job()
        self.jobs.add(job)
        report(job.percent)
        return job

    def forget(self, job: Job) -> None:
        self.jobs.discard(job)

    def start(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """``work`` in a thread. Raises ``NotGranted`` once closed."""
        try:
            future = asyncio.get_running_loop().run_in_executor(self._pool, work)
        except RuntimeError:
            raise NotGranted(Reason.EXECUTION_FAILED, "the engine of this dataset version was closed") from None
        future.add_done_callback(_read)
        return future

    async def wait(self, job: Job, future: asyncio.Future[T], deadline: float) -> T:
        """What ``future`` gives. At ``deadline`` (of the loop's clock), or when the waiting task is cancelled,
        the query is stopped first: when this returns or raises, the thread is free.
        """
        try:
            async with asyncio.timeout_at(deadline):
                return await asyncio.shield(future)
        except TimeoutError:
            await self.stop(job, future)
            raise out_of_time() from None
        except asyncio.CancelledError:
            await self.stop(job, future)
            raise

    async def run(self, job: Job, work: Callable[[], T], deadline: float) -> T:
        return await self.wait(job, self.start(work), deadline)

    async def stop(self, job: Job, future: asyncio.Future[T]) -> None:
        """Interrupt until the thread is done: an interrupt between two statements is lost."""

        async def until_done() -> None:
            while not future.done():
                job.stop()
                await asyncio.wait([future], timeout=_STOP_POLL)

        task = asyncio.create_task(until_done())
        self._stopping.add(task)
        task.add_done_callback(self._stopping.discard)
        await asyncio.shield(task)

    async def close(self) -> None:
        """Stop every query and end the threads."""
        ended = asyncio.get_running_loop().run_in_executor(None, self._pool.shutdown)
        while not ended.done():
            for job in list(self.jobs):
                job.stop()
            await asyncio.wait([ended], timeout=_STOP_POLL)


def _read(done: asyncio.Future[T]) -> None:
    if not done.cancelled():
        done.exception()  # read once, so that an abandoned query is no warning
