"""How a stored result is fetched. The path is that of a call without a query:

    verify -> find -> admit -> spend -> record -> release

``verify`` wants a fresh leaf for exactly this result, ``find`` a result of this agent and person,
``admit`` this agent's decision again, now, and that grant and policy give what they gave when the
result was made. ``spend`` uses the leaf up, ``record`` commits that a release starts, and
``release`` streams while revocations and the root token's end are asked again and again. Before
the last bytes leave the terminal row is on disk; where it breaks off, a row says after how many.

Nothing here knows HTTP: bytes go to a function that returns when the reader has room for more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

from contract.about import about
from contract.authority import Authority
from contract.result import StoredResult
from contract.tracing import tracing
from contract.verdict import Decision, NotGranted, Reason
from evidence.checkpoint import Receipt
from evidence.row import Kind
from remote_agent.accounting import arrival_of
from remote_agent.answer import spend, verify
from remote_agent.believing import Basis
from remote_agent.cancelling import past_cancelling
from remote_agent.deciding import admit, policy_of
from remote_agent.limits import young_enough
from remote_agent.outcome import Request
from remote_agent.owners import owner_of
from remote_agent.results_range import Span, Unsatisfiable, span_of
from remote_agent.results_standing import check_terms, standing, still_standing
from remote_agent.results_trail import ReleaseTrail
from remote_agent.review import check_approver
from remote_agent.service import Service
from remote_agent.spool import Held
from remote_agent.spool_file import CHUNK, ChunkReader, Damaged

log = logging.getLogger(__name__)

RECHECK_S: Final = 1.0
"""Seconds after which revocations are read again while a result is streamed."""
STALL_S: Final = 60.0
"""Seconds for which a reader may take nothing before it is left."""

Begin = Callable[["Release"], Awaitable[None]]
Send = Callable[[bytes, bool], Coroutine[Any, Any, None]]
"""Takes bytes and whether they are the last, and returns when the reader has room for more."""


class Broken(Exception):
    """A stream that ended before its last byte, which is recorded."""


@dataclass(frozen=True, slots=True)
class Withheld:
    """A refusal, recorded where that was possible. ``size`` is told only to who may have the result."""

    decision: Decision
    receipt: Receipt | None
    size: int | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which bytes: a ``Range`` header, which is meant only of a result with the digest ``same_as`` where there is one."""

    ranges: str | None = None
    same_as: str | None = None


async def fetch(request: Request, wanted: Wanted, service: Service) -> Release | Withheld:
    """What ``request`` may have of the result that its operation names: a release to be streamed at once.

    Only cancellation leaves as an exception; it is recorded.
    """
    trail = ReleaseTrail(request)
    about.set(trail)
    with tracing("fetch") as span:
        try:
            return await _fetched(trail, wanted, service)
        finally:
            span.settle(trail.trace_id, withheld=trail.is_restricted)
            span.tell(**trail.ids())


async def _fetched(trail: ReleaseTrail, wanted: Wanted, service: Service) -> Release | Withheld:
    files = ExitStack()
    try:
        service.ledger.expect(arrival_of(trail.request), trail.request.on_behalf_of or ())
        return await _opened(trail, files, wanted, service)
    except NotGranted as stop:
        files.close()
        return await _withheld(stop, trail, service)
    except asyncio.CancelledError:
        files.close()
        await _withheld(NotGranted(Reason.CANCELLED, "the caller went away"), trail, service)
        raise
    except Exception as fault:
        files.close()
        log.error("a result could not be released: %s", type(fault).__name__)
        return await _withheld(NotGranted(Reason.EXECUTION_FAILED, "the dataset agent failed"), trail, service)


async def _opened(trail: ReleaseTrail, files: ExitStack, wanted: Wanted, service: Service) -> Release:
    request, world, now = trail.request, service.world, service.clock()
    basis = Basis.of(request, service)
    trail.grant = grant = await verify(request, service, now)
    held = service.spool.find(request.operation.task or "", owner_of(grant))
    trail.held = held
    call = standing(held, grant, service.agent_id, world)
    _, authority = await admit(grant, call, world, now)
    trail.authority = authority
    check_terms(held, authority, world)
    young_enough(call, held.result, now)
    await check_approver(call, service)
    span = _span(trail, wanted, held.result)
    reader = files.enter_context(service.spool.reading(held))
    first = await _read(reader, span.first // CHUNK, service, held)
    await spend(authority, service, now)
    row = trail.row(authority.decision, service, Kind.RELEASE_STARTED, span.length)
    await service.ledger.append_async(row)
    basis = await still_standing(held, grant, basis, service)
    return Release(trail, held, authority, basis, span, reader, first, files, service)


def _span(trail: ReleaseTrail, wanted: Wanted, result: StoredResult) -> Span:
    try:
        return span_of(wanted.ranges if wanted.same_as in (None, result.digest) else None, result.size)
    except Unsatisfiable as error:
        trail.unsatisfiable = True
        raise NotGranted(Reason.ARGUMENTS_INVALID, str(error)) from None


async def _read(reader: ChunkReader, number: int, service: Service, held: Held) -> bytes:
    """A chunk; a result that is not what was written is dropped. Raises ``NotGranted``."""
    try:
        return await _to_its_end(asyncio.to_thread(reader.read, number))
    except (Damaged, OSError) as error:
        log.error("a stored result of %s cannot be read: %s", held.terms.authority.dataset, type(error).__name__)
        service.spool.drop(held.result.result_id)
        raise NotGranted(Reason.RESULT_STORE_UNAVAILABLE, "the stored result cannot be read any more") from error


async def _to_its_end(work: Coroutine[Any, Any, bytes]) -> bytes:
    """Await a thread; who is cancelled meanwhile leaves when it has ended, and not before."""
    running = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait({running})
        raise


async def _withheld(stop: NotGranted, trail: ReleaseTrail, service: Service) -> Withheld:
    decision = stop.decision(service.world.policy_version)
    service.measures.decided(decision)
    size = trail.held.result.size if trail.unsatisfiable and trail.held else None
    try:
        row = trail.row(decision, service, Kind.TERMINAL, None if trail.authority is None else 0)
        return Withheld(decision, await past_cancelling(service.ledger.append_async(row)), size)
    except NotGranted as unrecorded:
        return Withheld(unrecorded.decision(service.world.policy_version), None)


class Release:
    """A result that may be streamed, once and now. Made by ``fetch``."""

    def __init__(
        self,
        trail: ReleaseTrail,
        held: Held,
        authority: Authority,
        basis: Basis,
        span: Span,
        reader: ChunkReader,
        first: bytes,
        files: ExitStack,
        service: Service,
    ) -> None:
        self._trail = trail
        self._held = held
        self._authority = authority
        self._basis = basis
        self._reader = reader
        self._first = first
        self._files = files
        self._service = service
        self._recorded = False
        self._sent = 0
        self._asked = asyncio.get_running_loop().time()
        self.span = span

    @property
    def result(self) -> StoredResult:
        return self._held.result

    async def stream(self, begin: Begin, send: Send) -> None:
        """Hand everything over, ``begin`` first. However it ends, that is one terminal row.

        Raises ``Broken`` where it stops before the last byte, and ``CancelledError``.
        """
        try:
            with tracing("release"):
                await begin(self)
                await self._hand_over(send)
        except NotGranted as stop:
            await self._broke_off(stop)
            raise Broken from stop
        except asyncio.CancelledError:
            await self._broke_off(NotGranted(Reason.CANCELLED, "the caller went away"))
            raise
        except Exception as fault:
            log.error("a release failed with %s", type(fault).__name__)
            await self._broke_off(NotGranted(Reason.EXECUTION_FAILED, "the dataset agent failed"))
            raise Broken from fault
        finally:
            self._files.close()

    async def _hand_over(self, send: Send) -> None:
        """Each chunk is read while the one before is sent; two of them are in memory."""
        number, last, chunk = self.span.first // CHUNK, self.span.last // CHUNK, self._first
        while number < last:
            upcoming = asyncio.ensure_future(_read(self._reader, number + 1, self._service, self._held))
            try:
                await self._check_standing()
                await self._attended(send, _cut(chunk, number, self.span), ends=False)
                chunk, number = await upcoming, number + 1
            finally:
                if not upcoming.done():  # its thread reads from a file that is closed after this
                    await asyncio.wait({upcoming})
        await self._check_standing()
        await self._record(self._authority.decision, self.span.length)
        await self._attended(send, _cut(chunk, number, self.span), ends=True)

    async def _attended(self, send: Send, data: bytes, *, ends: bool) -> None:
        """Send, and every second ask whether that is still allowed; a reader that takes nothing is left."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        if began - self._asked >= RECHECK_S and not ends:
            await self._recheck()
        sending = asyncio.ensure_future(send(data, ends))
        try:
            while not (await asyncio.wait({sending}, timeout=RECHECK_S))[0]:
                await self._recheck()
                if loop.time() - began > STALL_S:
                    raise NotGranted(Reason.CANCELLED, "the reader takes nothing any more")
            sending.result()
            self._sent += len(data)
        except OSError as error:
            raise NotGranted(Reason.CANCELLED, "the reader is gone") from error
        finally:
            sending.cancel()

    async def _check_standing(self) -> None:
        """Before each piece: what was replaced since the one before must give this result too. Raises ``NotGranted``."""
        self._basis = await still_standing(self._held, self._authority.grant, self._basis, self._service)

    async def _recheck(self) -> None:
        """Whether the grant was revoked, or has ended, meanwhile, and whether what it rests on stands. Raises ``NotGranted``."""
        service, authority = self._service, self._authority
        self._asked = asyncio.get_running_loop().time()
        await service.state.recheck(authority.grant, policy=policy_of(authority), now=service.clock())
        await self._check_standing()

    async def _record(self, decision: Decision, released: int) -> None:
        self._recorded = True
        self._service.measures.decided(decision)
        row = self._trail.row(decision, self._service, Kind.TERMINAL, released)
        await past_cancelling(self._service.ledger.append_async(row))

    async def _broke_off(self, stop: NotGranted) -> None:
        if self._recorded:
            return
        try:
            await self._record(stop.decision(self._service.world.policy_version), self._sent)
        except NotGranted:
            log.error("the end of a release could not be recorded")


def _cut(chunk: bytes, number: int, span: Span) -> bytes:
    """What of a chunk is in the span."""
    start, end = max(0, span.first - number * CHUNK), span.last + 1 - number * CHUNK
    return chunk if start == 0 and end >= len(chunk) else chunk[start:end]
