"""A query at BigQuery as a stream of Arrow batches: made step by step in the engine's threads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import pyarrow as pa

from contract.result import Execution

Step = Callable[[], "asyncio.Future[pa.RecordBatch | None]"]


class BigQueryRows:
    """See ``queries.engine.Stream``. ``within`` awaits a step within the query's time, ``ended`` tells of the run."""

    def __init__(
        self,
        schema: pa.Schema,
        batches: Iterator[pa.RecordBatch],
        *,
        step: Callable[[Iterator[pa.RecordBatch]], asyncio.Future[pa.RecordBatch | None]],
        within: Callable[[asyncio.Future[pa.RecordBatch | None]], Awaitable[pa.RecordBatch | None]],
        ended: Callable[[], Execution],
    ) -> None:
        self._schema = schema
        self._batches = batches
        self._step = step
        self._within = within
        self._ended = ended
        self._pending: asyncio.Future[pa.RecordBatch | None] | None = None
        self._execution: Execution | None = None

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    @property
    def execution(self) -> Execution:
        if self._execution is None:
            raise RuntimeError("the last batch was not read yet")
        return self._execution

    async def __aiter__(self) -> AsyncIterator[pa.RecordBatch]:
        if self._pending is not None:
            raise RuntimeError("a stream is read once")
        self._pending = self._step(self._batches)
        while (batch := await self._within(self._pending)) is not None:
            self._pending = self._step(self._batches)
            yield batch
        self._execution = self._ended()

    def leave(self) -> None:
        """Close what makes batches, as soon as the step that is under way has ended."""
        if self._execution is None:
            self._execution = self._ended()
        if self._pending is None:
            return
        self._pending.cancel()
        self._pending.add_done_callback(self._close)

    def _close(self, done: asyncio.Future[pa.RecordBatch | None]) -> None:
        if not done.cancelled():
            done.exception()  # read once, so that an abandoned step is no warning
        close = getattr(self._batches, "close", None)
        try:
            if close is not None:
                close()
        except ValueError:
            pass  # its thread is still in it, and sees at its next step that nobody waits
