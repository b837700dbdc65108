"""A serving process's side of the writer of its ledger."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol

from contract.lasting import Lasting
from evidence.checkpoint import Receipt
from evidence.entry import InvalidLedger
from evidence.frames import Frames, InvalidFrame, Members, framed, read_reply, request
from evidence.seen import Seen
from evidence.withheld import withheld

log = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 0.1
_PATIENCE: Final = 10.0
"""Seconds that a row waits for its receipt; the writer itself waits for other processes for half of them."""


_ALONE: Final = 8
"""After so many rows one by one, with none beside any of them, the next is committed here."""


class WriterAway(Exception):
    """There is no writer to send to; nothing was sent."""


class RowsLost(OSError):
    """The writer did not write rows that it was sent, or ended before it said so."""


class WriterPlace(Protocol):
    """Where a writer listens, and who sees that it runs."""

    @property
    def address(self) -> Path: ...

    def ensure(self) -> None:
        """Start it where it does not run and may be started from here. Raises ``OSError``."""
        ...


class WriterClient:
    """One connection for each event loop. A writer that is away is never waited for: the caller writes itself.

    ``check`` is called for every writer that is met, and raises where it may write something else.
    ``alone`` is asked to commit a row that nobody waits beside, which is sooner done here than
    sent; it returns ``None`` where it is not.
    """

    def __init__(
        self, place: WriterPlace, seen: Seen, check: Callable[[], None], alone: Callable[[Members], Receipt | None]
    ) -> None:
        self._place = place
        self._alone = alone
        self._seen = seen
        self._check = check
        self._lines: dict[asyncio.AbstractEventLoop, _Line] = {}
        self._connecting: dict[asyncio.AbstractEventLoop, asyncio.Task[None]] = {}
        self._not_before = 0.0
        self._closed = False

    @property
    def connected(self) -> bool:
        """Whether a writer is there for the loop that runs."""
        return asyncio.get_running_loop() in self._lines

    def submit(self, key: str, row: Members) -> asyncio.Future[Receipt]:
        """The receipt of a row that is on disk, or ``RowsLost``, withheld. Raises ``WriterAway`` at once."""
        loop = asyncio.get_running_loop()
        line = self._lines.get(loop)
        if line is None:
            self._connect(loop)
            raise WriterAway
        return line.submit(key, row)

    @property
    def waiting(self) -> int:
        """Rows that the writer has not said to be on disk."""
        return sum(line.waiting for line in self._lines.values())

    def close(self) -> None:
        self._closed = True
        for task in self._connecting.values():
            task.cancel()
        for line in list(self._lines.values()):
            line.abort()

    def _connect(self, loop: asyncio.AbstractEventLoop) -> None:
        if loop not in self._connecting and loop.time() >= self._not_before and not self._closed:
            self._connecting[loop] = loop.create_task(self._connected(loop))

    async def _connected(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            self._place.ensure()
            _, line = await loop.create_unix_connection(
                lambda: _Line(loop, self._seen, self._lost, self._alone), str(self._place.address)
            )
            try:
                self._check()
            except BaseException:
                line.abort()
                raise
            self._lines[loop] = line
        except (OSError, InvalidLedger):  # it has just been started, or cannot be
            self._not_before = loop.time() + _RETRY_SECONDS
        finally:
            del self._connecting[loop]

    def _lost(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._lines.pop(loop, None) is not None and not self._closed:
            log.warning("the writer of the ledger is gone: rows are written by this process until it is back")


class _Line(asyncio.Protocol):
    """Rows that the tasks of one turn of the loop submit go out together; receipts come back in that order."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, seen: Seen, lost: _Lost, alone: Callable[[Members], Receipt | None]
    ) -> None:
        self._alone = alone
        self._alone_since = 0
        self._loop = loop
        self._seen = seen
        self._lost = lost
        self._frames = Frames()
        self._key = ""
        self._rows: list[Members] = []
        self._gathering: list[_Waiter] = []
        self._waiting: deque[tuple[float, list[_Waiter]]] = deque()
        self._watch: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None

    def submit(self, key: str, row: Members) -> asyncio.Future[Receipt]:
        if self._transport is None:
            raise WriterAway
        if key != self._key:  # the agent took another key over
            self._flush()
            self._key = key
        if not self._rows:
            self._loop.call_soon(self._flush)
        future: Lasting[Receipt] = Lasting(loop=self._loop)
        self._rows.append(row)
        self._gathering.append((row["recorded_at"], self._seen.rows, future))
        return future

    @property
    def waiting(self) -> int:
        return len(self._gathering) + sum(len(group) for _, group in self._waiting)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        try:
            for body in self._frames.feed(data):
                _, group = self._waiting.popleft()
                self._settle(group, body)
        except (InvalidFrame, IndexError):
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._lost(self._loop)
        if self._watch is not None:
            self._watch.cancel()
        self._waiting.append((0.0, self._gathering))
        self._rows, self._gathering = [], []
        for _, group in self._waiting:
            _fail(group, RowsLost("the writer of the ledger ended"))
        self._waiting.clear()

    def _flush(self) -> None:
        if not self._rows or self._transport is None:
            return
        self._alone_since = self._alone_since + 1 if len(self._rows) == 1 and not self._waiting else 0
        if self._alone_since > _ALONE and self._committed_here():
            self._rows, self._gathering = [], []
            return
        self._waiting.append((self._loop.time(), self._gathering))
        self._transport.write(framed(request(self._key, self._rows)))
        self._rows, self._gathering = [], []
        if self._watch is None:
            self._watch = self._loop.call_later(_PATIENCE, self._look)

    def _committed_here(self) -> bool:
        """Whether the only row that waits is settled now, by its receipt or a fault."""
        ((_, _, future),) = self._gathering
        try:
            receipt = self._alone(self._rows[0])
        except Exception as error:
            _fail(self._gathering, error)
            return True
        if receipt is not None and not future.done():
            future.set_result(receipt)
        return receipt is not None

    def _settle(self, group: list[_Waiter], body: bytes) -> None:
        try:
            receipts = read_reply(body, [time for time, _, _ in group])
            for (_, behind, _), receipt in zip(group, receipts, strict=True):
                self._seen.take(receipt, behind=behind)
        except InvalidFrame:
            _fail(group, RowsLost("the writer of the ledger did not write"))
        except InvalidLedger as error:
            _fail(group, error)
        else:
            for (_, _, future), receipt in zip(group, receipts, strict=True):
                if not future.done():  # its caller was cancelled
                    future.set_result(receipt)

    def _look(self) -> None:
        """A writer that hangs is left; whoever waits for it learns that nothing may be released."""
        self._watch = None
        if self._waiting:
            left = self._waiting[0][0] + _PATIENCE - self._loop.time()
            if left <= 0:
                self.abort()
            else:
                self._watch = self._loop.call_later(left, self._look)


class _Lost(Protocol):
    def __call__(self, loop: asyncio.AbstractEventLoop, /) -> None: ...


_Waiter = tuple[str, int, "asyncio.Future[Receipt]"]
"""When its row was recorded, how many rows were known then, and who waits for it."""


def _fail(group: Sequence[_Waiter], error: Exception) -> None:
    for _, _, future in group:
        if not future.done():
            future.set_exception(withheld(error))
