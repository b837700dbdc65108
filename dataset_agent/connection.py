"""A connection as uvicorn serves it, which is not kept for a peer that is waited for in vain.

uvicorn waits without end for a request that somebody has begun, or has not, and takes connections until
the process has no more files: then it can accept nobody, and whoever holds them need not be known. Here a
request has to come in a bounded time, and at the bound of connections the one goes whose peer was waited for
longest; nobody's goes while their request is worked on. Connections stay HTTP: nothing here speaks WebSocket.
"""

from __future__ import annotations

import asyncio
import resource
from contextlib import suppress
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_S: Final = 40.0
"""How long a connection may last without a whole head of a request, from its beginning or from the answer before."""
BODY_S: Final = 60.0
"""How long the body of a request may take, also one that nobody reads."""
KEPT_FILES: Final = 256
"""Open files that are kept from connections: for stores, queries, and connections to others."""
FEWEST: Final = 64
MOST: Final = 10_000
FILES: Final = 16_384
"""Open files that a serving process asks the system for: the most connections, and some for each other agent and each store."""
MOST_UNREAD: Final = 256 * 2**20
"""Bytes of answers that may lie in this process's memory for peers who have not read them yet, of all connections together."""

_LIMITS: Final = {h11.IDLE: HEAD_S, h11.SEND_BODY: BODY_S}


def raise_files() -> None:
    """Raise the soft limit of open files to the hard one, up to ``FILES``; systems start processes with 1,024.

    A higher limit stays as it is. Where the system allows none, connections keep within what there is.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < files:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))


def most_connections() -> int:
    """As many as this process may open files for now, and leave some."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = MOST if files == resource.RLIM_INFINITY else files - min(KEPT_FILES, files // 2)
    return min(MOST, max(FEWEST, free))


class Connection(H11Protocol):
    """uvicorn's HTTP/1.1, with an end to every wait for a peer."""

    _phase: Any = None
    _since: float | None = None
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)  # type: ignore[arg-type]
        self._note()
        self._look_later(min(_LIMITS.values()))
        if len(self.connections) > most_connections():
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._note()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._note()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._note()
        self._shed()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._note()

    @property
    def waits_since(self) -> float | None:
        """Since when, by the loop's clock, the peer has to send or to read something; ``None`` while it waits for us."""
        return self._since

    @property
    def is_held(self) -> bool:
        """Whether it is more than a connection that is about to be gone."""
        return not self.transport.is_closing() or self.transport.get_write_buffer_size() > 0

    def end(self) -> None:
        """Let go of it at once: what its peer has not read yet is not kept for it."""
        self.transport.abort()

    def _should_upgrade(self) -> bool:
        """An upgrade that is not offered is ignored (RFC 9110, section 7.8), without a line in the log for each."""
        return False

    def _note(self) -> None:
        """What is waited for; how long is counted anew only where that is something else."""
        phase = self.conn.their_state if self.conn.their_state in _LIMITS else None
        if phase is None and self.flow.write_paused:
            phase = h11.SWITCHED_PROTOCOL  # any other than those: it is to read
        if phase is not self._phase:
            self._phase, self._since = phase, None if phase is None else self.loop.time()

    def _look_later(self, seconds: float) -> None:
        self._timer = self.loop.call_later(seconds, self._look)

    def _look(self) -> None:
        """End what waited too long, and look again when that may be. One timer a connection: requests set none."""
        limit = _LIMITS.get(self._phase)
        left = min(_LIMITS.values()) if limit is None or self._since is None else self._since + limit - self.loop.time()
        if left > 0:
            self._look_later(left)
            return
        self.transport.close()  # what was answered is still there to be read

    def _make_room(self) -> None:
        """End the connection whose peer was waited for longest, which may be this one."""
        min(self._waiting(), default=(0.0, 0, self))[2].end()

    def _shed(self) -> None:
        """End those whose peers have not read for longest, until what lies unread is no more than may be held."""
        unread = [(*told, told[2].transport.get_write_buffer_size()) for told in self._waiting()]
        held = sum(size for *_, size in unread)
        if held <= MOST_UNREAD:
            return
        for _, _, one, size in sorted(unread):
            if held <= MOST_UNREAD:
                return
            if size:
                one.end()
                held -= size

    def _waiting(self) -> list[tuple[float, int, Connection]]:
        return [
            (one.waits_since, id(one), one)
            for one in self.connections
            if isinstance(one, Connection) and one.waits_since is not None and one.is_held
        ]
