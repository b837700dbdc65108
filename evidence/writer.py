"""The writer of a ledger: a process that commits the rows of serving processes, all that wait in one transaction.

A serving process's loop does not wait for the disk while several wait for it, and signs and
hashes nothing for their rows. The writer ends when its lifeline does, that is with the process
that started it.
"""

from __future__ import annotations

import logging
import os
import select
import selectors
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

from contract.signing import Signer
from contract.verdict import NotGranted, Reason
from evidence.frames import LOST, Frames, InvalidFrame, Members, framed, read_request, reply
from evidence.ledger import Ledger

log = logging.getLogger(__name__)

_RECEIVED_BYTES: Final = 1 << 18
_SEND_SECONDS: Final = 1.0
_HUNG_UP: Final = getattr(select, "POLLRDHUP", 0)


@dataclass(frozen=True, slots=True, eq=False)
class _Client:
    line: socket.socket
    frames: Frames = field(default_factory=Frames)
    gone: select.poll = field(default_factory=select.poll)

    def is_there(self) -> bool:
        """Whether it still waits: one that hung up, or died, may have its rows written by somebody else."""
        return self.line.fileno() >= 0 and not self.gone.poll(0)


@dataclass(frozen=True, slots=True)
class _Waiting:
    """The rows of one request, who waits for them, and who signs them: ``None`` where nobody can."""

    client: _Client
    signer: Signer | None
    rows: list[Members]


class Writer:
    """``signer_named`` gives the signer whose public key is this (hex), or ``None``."""

    def __init__(
        self, ledger: Ledger, listener: socket.socket, lifeline: int, signer_named: Callable[[str], Signer | None]
    ) -> None:
        self._ledger = ledger
        self._listener = listener
        self._lifeline = lifeline
        self._signer_named = signer_named
        self._selector = selectors.DefaultSelector()
        self._selector.register(lifeline, selectors.EVENT_READ)
        self._selector.register(listener, selectors.EVENT_READ)

    def run(self) -> None:
        """Serve until the lifeline is closed at its other end."""
        try:
            self._serve()
        finally:
            for key in list(self._selector.get_map().values()):
                if key.data is not None:
                    key.data.line.close()
            self._selector.close()

    def _serve(self) -> None:
        while True:
            waiting: list[_Waiting] = []
            for key, _ in self._selector.select():
                if key.fd == self._lifeline:
                    if not os.read(self._lifeline, 1):
                        return
                elif key.data is None:
                    self._accept()
                else:
                    waiting += self._received(key.data)
            for signer, together in groupby(waiting, key=lambda one: one.signer):  # nearly always one: in one commit
                self._settle(list(together), signer)

    def _accept(self) -> None:
        line, _ = self._listener.accept()
        line.settimeout(_SEND_SECONDS)
        client = _Client(line)
        client.gone.register(line, _HUNG_UP)
        self._selector.register(line, selectors.EVENT_READ, client)

    def _received(self, client: _Client) -> list[_Waiting]:
        waiting = []
        try:
            data = client.line.recv(_RECEIVED_BYTES)
            if not data:
                self._drop(client)
            for body in client.frames.feed(data):
                key, rows = read_request(body)
                waiting.append(_Waiting(client, self._signer_named(key), rows))
        except (OSError, InvalidFrame):
            self._drop(client)
        return waiting

    def _settle(self, together: Sequence[_Waiting], signer: Signer | None) -> None:
        """Commit, then answer: a client reads its answers in the order of its requests."""
        try:
            if signer is None:
                raise NotGranted(Reason.EVIDENCE_UNAVAILABLE, "the key that is to sign is not in this agent's store")
            given = self._ledger.append_plain(
                [one.rows for one in together], signer, lambda number: together[number].client.is_there()
            )
        except NotGranted as stop:
            log.error(
                "rows were not written: %s", stop.message if stop.__cause__ is None else type(stop.__cause__).__name__
            )
            for one in together:
                self._send(one.client, LOST)
            return
        for one, receipts in zip(together, given, strict=True):
            if receipts is not None:
                self._send(one.client, reply(receipts))

    def _send(self, client: _Client, body: bytes) -> None:
        """To a client that reads; one that does not is not waited for long."""
        try:
            client.line.sendall(framed(body))
        except OSError:
            self._drop(client)

    def _drop(self, client: _Client) -> None:
        if client.line.fileno() >= 0:
            self._selector.unregister(client.line)
            client.line.close()
