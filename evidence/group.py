"""Group commit: rows that wait in one event loop together share one sync to disk.

A writer thread was measured too: with Python's lock it costs a lone caller half as much
again and gains nothing for many. What must not block the loop is *another process's*
transaction, so a busy ledger is tried again later instead of waited for. Where another
process has the key that signs checkpoints, a thread commits after all, and rows gather
meanwhile.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from contract.lasting import Lasting
from evidence.checkpoint import Receipt
from evidence.entry import Concealed
from evidence.store import LedgerBusy
from evidence.withheld import withheld

_RETRY_SECONDS: Final = 0.001

_Group = list[tuple[Concealed, "asyncio.Future[Receipt]"]]


class GroupCommit:
    """Gathers rows per event loop and commits them when the tasks that are ready have run.

    ``commit`` commits all or none, and raises ``LedgerBusy`` at once where it cannot start.
    ``in_thread`` says whether it would hold up the loop.
    """

    def __init__(
        self,
        commit: Callable[[Sequence[Concealed]], list[Receipt]],
        *,
        patience: float,
        in_thread: Callable[[], bool] = lambda: False,
    ) -> None:
        self._commit = commit
        self._patience = patience
        self._in_thread = in_thread
        self._gathering: dict[asyncio.AbstractEventLoop, _Group] = {}
        self._draining: dict[asyncio.AbstractEventLoop, asyncio.Task[None]] = {}
        self._thread: ThreadPoolExecutor | None = None

    def submit(self, row: Concealed) -> asyncio.Future[Receipt]:
        """The receipt of ``row``, or what the commit of its group raised (``evidence.withheld``)."""
        loop = asyncio.get_running_loop()
        group = self._gathering.get(loop)
        if group is None:
            group = self._gathering[loop] = []
            loop.call_soon(self._flush, loop, loop.time() + self._patience)
        future: Lasting[Receipt] = Lasting(loop=loop)
        group.append((row, future))
        return future

    @property
    def waiting(self) -> int:
        """Rows that are not being committed yet."""
        return sum(len(group) for group in self._gathering.values())

    def close(self) -> None:
        if self._thread is not None:
            self._thread.shutdown()

    def _flush(self, loop: asyncio.AbstractEventLoop, deadline: float) -> None:
        if self._in_thread():
            if loop not in self._draining:
                self._draining[loop] = loop.create_task(self._drain(loop))
            return
        group = self._gathering.get(loop)
        if group is None:  # a thread has taken it
            return
        try:
            outcomes: Sequence[Receipt | Exception] = self._commit([row for row, _ in group])
        except LedgerBusy as busy:
            if loop.time() < deadline:
                loop.call_later(_RETRY_SECONDS, self._flush, loop, deadline)
                return
            outcomes = [busy] * len(group)
        except Exception as error:
            outcomes = [error] * len(group)
        del self._gathering[loop]
        _settle(group, outcomes)

    async def _drain(self, loop: asyncio.AbstractEventLoop) -> None:
        """One group after the other in the thread, until none has gathered."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="evidence-ledger")
        try:
            while (group := self._gathering.pop(loop, None)) is not None:
                _settle(group, await loop.run_in_executor(self._thread, self._patiently, [row for row, _ in group]))
        finally:
            del self._draining[loop]

    def _patiently(self, rows: Sequence[Concealed]) -> Sequence[Receipt | Exception]:
        """In the thread: the outcomes of a group, waiting for other processes."""
        deadline = time.monotonic() + self._patience
        while True:
            try:
                return self._commit(rows)
            except LedgerBusy as busy:
                if time.monotonic() > deadline:
                    return [busy] * len(rows)
                time.sleep(_RETRY_SECONDS)
            except Exception as error:
                return [error] * len(rows)


def _settle(group: _Group, outcomes: Sequence[Receipt | Exception]) -> None:
    for (_, future), outcome in zip(group, outcomes, strict=True):
        if future.done():  # its caller was cancelled
            continue
        if isinstance(outcome, Exception):
            future.set_exception(withheld(outcome))
        else:
            future.set_result(outcome)
