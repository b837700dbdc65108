"""Workers that serve one port together: each remembers its own tasks and keeps its own results.

The id of a task, which is also that of its result, names the worker that has it. A request
about another worker's task is handed to that one (``siblings_door``), which judges it as if it
had come there by itself.
"""

from __future__ import annotations

import re
import socket
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from contract.ids import new_id

_NAMED: Final = re.compile(r"task-([0-9]{1,2})-[0-9a-f]{32}")


class Elsewhere(BaseException):
    """A request about a task of another worker. No error: whatever handles errors must let it pass."""

    def __init__(self, worker: int) -> None:
        super().__init__(worker)
        self.worker = worker


@dataclass(slots=True)
class Arrived:
    """A request as it came: what another worker is given of it. ``stays`` says that it is answered here, whoever's it is."""

    headers: list[tuple[bytes, bytes]] = field(repr=False)
    body: list[bytes] = field(default_factory=list, repr=False)
    stays: bool = False


ARRIVED: Final[ContextVar[Arrived | None]] = ContextVar("arrived", default=None)
"""The request that is answered; ``None`` where one worker serves alone."""


@dataclass(slots=True)
class Siblings:
    """This worker among ``count``, by its number from 0; the private sockets of all are in ``folder``.

    ``secret`` is theirs alone. ``told`` is what readiness says of them all. ``leaving`` says that this one drains.
    """

    own: int = 0
    count: int = 1
    folder: Path = field(default_factory=Path)
    secret: bytes = field(default=b"", repr=False)
    told: dict[str, Any] = field(default_factory=dict)
    leaving: bool = False

    @property
    def others(self) -> list[int]:
        return [number for number in range(self.count) if number != self.own]

    def listener(self) -> socket.socket:
        """The private socket on which this worker is handed what is its own. Raises ``OSError``."""
        place = self.socket_of(self.own)
        place.unlink(missing_ok=True)  # of one before it that was killed
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listener.bind(str(place))
            listener.listen(2048)
        except OSError:
            listener.close()
            raise
        return listener

    def socket_of(self, worker: int) -> Path:
        return self.folder / f"worker-{worker}"

    def new_task_id(self) -> str:
        return new_id("task" if self.count == 1 else f"task-{self.own}")

    def route(self, task_id: str) -> None:
        """Raises ``Elsewhere`` where another worker has the task, and this request may be handed to it."""
        arrived = ARRIVED.get()
        if arrived is None or arrived.stays:
            return
        named = _NAMED.fullmatch(task_id)
        worker = int(named[1]) if named else self.own
        if worker != self.own and worker < self.count:
            raise Elsewhere(worker)
