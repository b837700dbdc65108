"""The place of one worker as its leader sees it: the process in it, what it told, and when another is started."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from contract.errors import Category, Component, DatasetAgentError

SOUND_S: Final = 10.0
"""A worker that lived so long was no failed start."""
MAX_PAUSE_S: Final = 30.0
_SIGNALS: Final = frozenset((signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD))


@dataclass(slots=True)
class Slot:
    """Times are of this machine's monotonic clock.

    ``state`` is what the worker told last, ``None`` before it serves. ``due`` is when another is
    started in place of one that ended.
    """

    number: int
    pid: int = 0
    channel: socket.socket | None = None
    started: float = 0.0
    state: dict[str, Any] | None = None
    fault: DatasetAgentError | None = None
    due: float | None = 0.0
    failures: int = 0
    _heard: bytearray = field(default_factory=bytearray)

    @property
    def lives(self) -> bool:
        return self.pid != 0

    @property
    def serves(self) -> bool:
        return self.lives and self.state is not None

    @property
    def began(self) -> float:
        """When it began to read what it serves now, or will serve when it is open."""
        return self.started if self.state is None else max(self.started, float(self.state["began"]))

    def start(self, become: Callable[[socket.socket], int]) -> None:
        """A process of its own that ends with what ``become`` returns; nothing of the leader's runs in it after."""
        own, theirs = socket.socketpair()
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)  # until it handles them itself, and not for the leader
        try:
            pid = os.fork()
            if pid == 0:
                code = 1
                try:
                    own.close()
                    code = become(theirs)
                finally:
                    os._exit(code)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        theirs.close()
        own.setblocking(False)
        self.pid, self.channel, self.started = pid, own, time.monotonic()
        self.state = self.fault = self.due = None
        self._heard.clear()

    def ended(self) -> str | None:
        """How its process ended, if it just has; what it still told is heard first."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid == 0:
            return None
        code = os.waitstatus_to_exitcode(status)
        return f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"

    def forget(self) -> None:
        """Its process is gone; when another is due follows from how long it lived."""
        lived = time.monotonic() - self.started
        self.failures = 0 if lived > SOUND_S else self.failures + 1
        self.due = time.monotonic() + (min(MAX_PAUSE_S, 2.0 ** (self.failures - 1)) if self.failures else 0.0)
        self._close()
        self.pid, self.state = 0, None

    def _close(self) -> None:
        if self.channel is not None:
            self.channel.close()
            self.channel = None

    def told(self) -> Iterator[dict[str, Any]]:
        """What came since; of the newest state and of a fault notice is taken already."""
        for line in self._lines():
            told = json.loads(line)
            if "unopened" in told:
                component, category, code, message = told["unopened"]
                self.fault = DatasetAgentError(Component(component), Category(category), code, message)
            elif "began" in told:
                self.state = told
            yield told

    def tell(self, what: dict[str, Any]) -> None:
        """A worker that has long taken nothing is ended."""
        if self.channel is None:
            return
        line = json.dumps(what).encode() + b"\n"
        try:
            whole = self.channel.send(line) == len(line)
        except BlockingIOError:
            whole = False
        except OSError:  # it ends, which is noticed elsewhere
            return
        if not whole:
            self.signal(signal.SIGKILL)

    def signal(self, number: signal.Signals) -> None:
        if self.lives:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def _lines(self) -> list[bytes]:
        if self.channel is None:
            return []
        try:
            while piece := self.channel.recv(65_536):
                self._heard += piece
            self._close()  # it says nothing more, and is about to end
        except BlockingIOError:
            pass
        except ConnectionError:
            self._close()
        *lines, rest = bytes(self._heard).split(b"\n")
        self._heard[:] = rest
        return lines
