"""The messages being answered now: who owns them, who waits for them, and how they are stopped without losing their row."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from contract.progress import Progress
from contract.verdict import NotGranted, Reason
from remote_agent.outcome import Answer
from remote_agent.owners import Owner, owner_of
from remote_agent.underway import Underway
from remote_agent.wire import TaskJson

log = logging.getLogger(__name__)

MAX_WATCHERS: Final = 64
"""For one task: each is a connection that is held open."""


class Faulty(Exception):
    """An answer that could not be made; its cause is logged by type, and its text goes nowhere."""


class Running:
    """One message under way, in an asyncio task of its own: one execution, whoever waits for it.

    It runs as long as somebody waits, or, once it is ``detached``, to its end. ``keep`` makes the
    answer the complete task and remembers it, once, before the work counts as done; ``ended`` is
    called after. A task that is cancelled before its first step never runs, and would leave no
    evidence. So a stop that comes that early is remembered, and takes effect inside the path.
    """

    def __init__(
        self,
        sender: Owner,
        task_id: str,
        context_id: str,
        answer: Callable[[Underway], Awaitable[Answer]],
        keep: Callable[[Answer], TaskJson],
        ended: Callable[[], None] = lambda: None,
    ) -> None:
        self.sender = sender
        self.task_id = task_id
        self.context_id = context_id
        self.underway = Underway()
        self._keep = keep
        self._watchers = 0
        self._started = False
        self._stopped = False
        self._was_stopped = False
        self._waiting: list[asyncio.Future[None]] = []
        self._work = asyncio.create_task(self._go(answer))
        self._work.add_done_callback(lambda work: _note(work, ended))

    @property
    def owner(self) -> Owner:
        """The verified person with the client agent; until there is one, whoever the client named."""
        grant = self.underway.grant
        return self.sender if grant is None else owner_of(grant)

    @property
    def has_failed(self) -> bool:
        """Whether it ended without an outcome."""
        return self._work.done() and (self._work.cancelled() or self._work.exception() is not None)

    @property
    def is_over(self) -> bool:
        """Whether its answer is kept already, or there will be none."""
        return self._work.done()

    def is_of(self, owner: Owner) -> bool:
        """Whether it is theirs: whoever the client named when it sent it, and the verified person once there is one."""
        return owner in (self.sender, self.owner)

    @property
    def detached(self) -> bool:
        """Whether it runs to its end, also where nobody waits."""
        return self.underway.detached

    def detach(self) -> bool:
        """Let it run to its end; ``False`` where what it finds is there already, and is better waited for."""
        self.underway.detached = not self.underway.has_run
        return self.underway.detached

    @property
    def progress(self) -> Progress:
        return self.underway.progress

    @property
    def is_full(self) -> bool:
        """Whether no more may wait for it."""
        return self._watchers >= MAX_WATCHERS

    def watched(self) -> Watched:
        """Wait for it inside. What then runs for nobody is stopped, and recorded, before the block is left."""
        return Watched(self)

    def watch(self) -> None:
        self._watchers += 1

    async def unwatch(self) -> None:
        self._watchers -= 1
        if not self._watchers and not self.detached:
            await self.end()

    async def finish(self) -> TaskJson:
        """The complete task. Raises ``Faulty`` for what the path did not turn into an outcome."""
        if not self._work.done():
            over = asyncio.get_running_loop().create_future()  # who waits may be cancelled, and the work goes on
            self._waiting.append(over)
            await over
        if self._work.cancelled() or self._work.exception() is not None:
            raise Faulty
        return self._work.result()

    async def wait(self, seconds: float) -> bool:
        """Wait for its end, at most so long; whether it came."""
        await asyncio.wait({self._work}, timeout=seconds)
        return self._work.done()

    async def accepted(self) -> None:
        """Wait until nothing more is judged before it runs, or until it ended."""
        waiting = asyncio.ensure_future(self.underway.accepted())
        try:
            await asyncio.wait({self._work, waiting}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()

    async def end(self) -> bool:
        """Stop what still runs and wait until it is recorded; whether it was stopped before an outcome."""
        if not self._work.done():
            self._stopped = True
            if self._started:
                self._work.cancel()
            await asyncio.wait({self._work})
        return self._was_stopped

    async def _go(self, answer: Callable[[Underway], Awaitable[Answer]]) -> TaskJson:
        self._started = True
        current = asyncio.current_task()
        if self._stopped and current is not None:
            current.cancel()
        try:
            answered = await answer(self.underway)
        except asyncio.CancelledError:
            self._was_stopped = True
            stop = NotGranted(Reason.CANCELLED, "the task was cancelled")
            answered = Answer(decision=self.underway.decision or stop.decision(""), grant=self.underway.grant)
        finally:
            for over in self._waiting:
                if not over.done():
                    over.set_result(None)
        return self._keep(answered)


class Watched:
    """A block in which a message under way is waited for."""

    __slots__ = ("_running",)

    def __init__(self, running: Running) -> None:
        self._running = running

    async def __aenter__(self) -> None:
        self._running.watch()

    async def __aexit__(self, *_: object) -> None:
        await self._running.unwatch()


def _note(work: asyncio.Task[TaskJson], ended: Callable[[], None]) -> None:
    ended()
    if not work.cancelled() and (fault := work.exception()) is not None:
        log.error("a request failed with %s", type(fault).__name__)
