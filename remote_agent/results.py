"""From an engine's batches to the bytes that are sent: inline where they are few, in the spool where they are many.

A query runs once, at the call. Its rows are written in the form that was asked for while they
arrive, so that their digest is known, and can be signed, before anybody fetches them; the same
bytes are what is streamed afterwards. JSON is kept in memory up to ``max_result_bytes`` and moves
to the spool when it grows beyond; Arrow goes there at once.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final, TypeVar

import pyarrow as pa

from contract.authority import Authority
from contract.call import RESULT_MEDIA_TYPE
from contract.ids import new_id
from contract.result import Execution, Result, ResultDocument
from contract.schema import ResultColumn
from contract.verdict import NotGranted, Reason
from queries.encode import ResultInvalid
from queries.result_writer import result_writer
from remote_agent.cancelling import past_cancelling
from remote_agent.outcome import BoundCall, Supplied
from remote_agent.owners import Owner
from remote_agent.results_stored import ResultShape, stored_result
from remote_agent.service import Service
from remote_agent.spool import Terms, Writing, too_large
from remote_agent.spool_file import Sealed
from remote_agent.standing import check_call

T = TypeVar("T")
_UNBOUNDED: Final = 2**53
_FEW: Final = 200
"""Rows that are encoded faster than a thread is found for them."""


async def collect(
    authority: Authority,
    call: BoundCall,
    supplied: Supplied | None,
    service: Service,
    *,
    as_of: str,
) -> tuple[Result, Execution]:
    """Run the call's template once, and keep its result. A stored one cannot be fetched before it is released.

    ``as_of`` is RFC 3339 UTC. Raises ``NotGranted`` as ``Engine.stream``, GRANT_WIDENED for
    another call than was admitted, and RESULT_STORE_UNAVAILABLE. More rows than
    ``max_rows`` are RESULT_TOO_LARGE, or cut off where the capability says ``truncate``.
    """
    check_call(authority, call)
    served, capability, bound = call.parts()
    most, cuts = capability.descriptor.max_rows, capability.descriptor.truncate
    terms = Terms(authority, capability.template.digest, call.approved)
    result_id = call.task_id or new_id("task")
    columns = capability.template.results
    async with _gathering(service, columns, result_id, call.media_type, as_of, terms.owner) as gathered:
        async with served.engine.stream(
            authority,
            capability.template,
            bound,
            max_rows=_UNBOUNDED if cuts else most,
            max_bytes=max(service.max_result_bytes, service.spool.max_result_bytes),
            supplied=supplied.document if supplied else None,
        ) as rows:
            async for batch in rows:
                left = most - gathered.row_count
                await gathered.take(batch.slice(0, left))
                if batch.num_rows > left:
                    gathered.truncated = True
                    break
        sealed = await gathered.ended()
        return gathered.result(sealed, terms), rows.execution


@asynccontextmanager
async def _gathering(
    service: Service, columns: Sequence[ResultColumn], result_id: str, media_type: str, as_of: str, owner: Owner
) -> AsyncIterator[Gathering]:
    gathered = Gathering(service, columns, result_id, media_type, as_of, owner)
    try:
        yield gathered
    finally:
        await gathered.left()


class Gathering:
    """The bytes of one result so far. What is large or goes to a disk is done in a thread, in turns."""

    def __init__(
        self,
        service: Service,
        columns: Sequence[ResultColumn],
        result_id: str,
        media_type: str,
        as_of: str,
        owner: Owner,
    ) -> None:
        self._service = service
        self._owner = owner
        self._result_id = result_id
        self._media_type = media_type
        self._as_of = as_of
        self._writer = result_writer(media_type, columns, as_of)
        self._inline: list[bytes] = [self._writer.start()]
        self._size = len(self._inline[0])
        self._stored: Writing | None = None
        self._turn = threading.Lock()
        self._threaded = False
        self._over = False
        self.row_count = 0
        self.truncated = False

    async def take(self, batch: pa.RecordBatch) -> None:
        """Raises ``NotGranted``."""
        if self._stored is None and batch.num_rows <= _FEW and self._media_type == RESULT_MEDIA_TYPE:
            self.add(batch)
        else:
            await self._aside(self.add, batch)

    async def ended(self) -> Sealed | None:
        """As ``finish``."""
        return self.finish() if self._stored is None else await self._aside(self.finish)

    async def left(self) -> None:
        """As ``discard``, when the thread that may still write has ended."""
        if self._stored is not None or self._threaded:
            await past_cancelling(asyncio.to_thread(self.discard))

    def add(self, batch: pa.RecordBatch) -> None:
        """Raises ``NotGranted``."""
        with self._turn:
            self._check_wanted()
            try:
                for piece in self._writer.add(batch):
                    self._put(piece)
            except ResultInvalid as error:
                raise NotGranted(Reason.RESULT_INVALID, str(error)) from None
            self.row_count += batch.num_rows

    def finish(self) -> Sealed | None:
        """All bytes are there: on disk, or ``None`` where they are few. Raises ``NotGranted``."""
        with self._turn:
            self._check_wanted()
            self._put(self._writer.finish(row_count=self.row_count, truncated=self.truncated))
            return None if self._stored is None else self._stored.finish()

    def result(self, sealed: Sealed | None, terms: Terms) -> Result:
        """What was finished; what is on disk is kept from here on."""
        if sealed is None or self._stored is None:
            return ResultDocument(b"".join(self._inline), self.row_count, self.truncated, self._as_of)
        shape = ResultShape(self._media_type, self.row_count, self.truncated, self._as_of)
        stored = stored_result(self._service, sealed, shape)
        self._stored.keep(sealed, stored, terms)
        return stored

    def discard(self) -> None:
        """Nothing is left of it, unless it is kept."""
        with self._turn:
            self._over = True
            if self._stored is not None:
                self._stored.discard()

    async def _aside(self, work: Callable[..., T], *arguments: object) -> T:
        self._threaded = True
        return await asyncio.to_thread(work, *arguments)

    def _check_wanted(self) -> None:
        if self._over:
            raise NotGranted(Reason.CANCELLED, "the result is not wanted any more")

    def _put(self, piece: bytes) -> None:
        if self._stored is not None:
            self._stored.write(piece)
            return
        self._inline.append(piece)
        self._size += len(piece)
        if self._media_type != RESULT_MEDIA_TYPE or self._size > self._service.max_result_bytes:
            self._spill()

    def _spill(self) -> None:
        spool = self._service.spool
        if not spool.enabled:
            if self._media_type != RESULT_MEDIA_TYPE:
                raise NotGranted(Reason.RESULT_STORE_UNAVAILABLE, "this agent keeps no results that are fetched")
            raise too_large()
        self._stored = spool.begin(self._result_id, self._owner)
        for piece in self._inline:
            self._stored.write(piece)
        self._inline.clear()
