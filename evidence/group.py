"""Group commit: rows that wait in one event loop together share one sync to disk.

A writer thread was measured too: with Python's lock it costs a lone caller half as much
again and gains nothing for many. What must not block the loop is *another process's*
transaction, so a busy ledger is tried again later instead of waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from evidence.checkpoint import Receipt
from evidence.entry import Concealed

_RETRY_SECONDS: Final = 0.001

_Group = list[tuple[Concealed, "asyncio.Future[Receipt]"]]


class LedgerBusy(Exception):
    """Another process holds the write lock."""


class GroupCommit:
    """Gathers rows per event loop and commits them when the tasks that are ready have run.

    ``commit`` commits all or none, and raises ``LedgerBusy`` at once where it cannot start.
    """

    def __init__(self, commit: Callable[[Sequence[Concealed]], list[Receipt]], *, patience: float) -> None:
        self._commit = commit
        self._patience = patience
        self._gathering: dict[asyncio.AbstractEventLoop, _Group] = {}

    async def submit(self, row: Concealed) -> Receipt:
        """The receipt of ``row``, or whatever the commit of its group raised."""
        loop = asyncio.get_running_loop()
        group = self._gathering.get(loop)
        if group is None:
            group = self._gathering[loop] = []
            loop.call_soon(self._flush, loop, loop.time() + self._patience)
        future: asyncio.Future[Receipt] = loop.create_future()
        group.append((row, future))
        return await future

    def _flush(self, loop: asyncio.AbstractEventLoop, deadline: float) -> None:
        group = self._gathering[loop]
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
        for (_, future), outcome in zip(group, outcomes, strict=True):
            if future.done():  # its caller was cancelled
                continue
            if isinstance(outcome, Exception):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)
