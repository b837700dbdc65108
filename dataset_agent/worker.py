"""One of several workers: it serves like a process of its own, and is led by the one that started it.

Over a socket to that process go lines of JSON: what it serves, after each reload; back come that
it should reload, and how the workers stand. Where that socket ends the leader is gone, and the
worker drains.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import time
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any, Final

import uvicorn

from contract.errors import DatasetAgentError
from contract.settings import Settings
from dataset_agent.framing import OneLength
from dataset_agent.process import DrainingServer, server_settings, settle_memory
from dataset_agent.worker_place import Place
from evidence.writer_process import WriterElsewhere
from remote_agent.app import create_app
from remote_agent.lifecycle import Lifecycle
from remote_agent.siblings_door import HandOver

log = logging.getLogger(__name__)

WATCHER: Final = 0
"""The worker that looks for edits, so that all take one over at one time."""


def become_worker(
    settings: Settings,
    place: Place,
    number: int,
    leader: socket.socket,
    *,
    generation: int,
    writer: WriterElsewhere | None,
) -> int:
    """Serve until told to stop; the exit code. What keeps it from opening is told to the leader."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all: the leader stops them in order
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        asyncio.run(_Worker(settings, place, number, leader).serve(generation, writer))
    except DatasetAgentError as fault:
        told = [fault.component.value, fault.category.value, fault.code, fault.message]
        leader.sendall(_line({"unopened": told}))
        return 1
    return 0


class _Worker:
    def __init__(self, settings: Settings, place: Place, number: int, leader: socket.socket) -> None:
        self._settings = settings
        self._place = place
        self._siblings = place.siblings(number)
        self._leader = leader
        self._pending: set[asyncio.Future[None]] = set()
        self._reloaded = asyncio.Event()

    async def serve(self, generation: int, writer: WriterElsewhere | None) -> None:
        """Raises ``DatasetAgentError`` where it cannot be opened."""
        self._began = time.monotonic()
        self._lifecycle = await Lifecycle.open(
            self._settings,
            public_url=self._place.public_url,
            siblings=self._siblings,
            generation=generation,
            writer=writer,
        )
        app = HandOver(OneLength(create_app(self._lifecycle)), self._siblings)
        self._server = DrainingServer(uvicorn.Config(app, **server_settings()))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._leave)
        reader, self._writer = await asyncio.open_connection(sock=self._leader)
        led = asyncio.ensure_future(self._be_led(reader))
        watching = asyncio.ensure_future(self._lifecycle.watch(self._ask_for_reload))
        if self._siblings.own != WATCHER:
            watching.cancel()
        settle_memory()
        sockets = [self._place.listener(), self._siblings.listener()]
        self._tell()
        try:
            await self._server.serve(sockets=sockets)
        finally:
            for task in (led, watching):
                task.cancel()
            await asyncio.gather(*self._pending, led, watching, return_exceptions=True)
            self._writer.close()

    def _leave(self) -> None:
        if self._server.should_exit:
            self._server.force_exit = True
        self._siblings.leaving = True
        self._server.should_exit = True

    async def _be_led(self, reader: asyncio.StreamReader) -> None:
        with suppress(ConnectionError):
            while line := await reader.readline():
                told = json.loads(line)
                if "do" in told:
                    self._start(self._reload())
                else:
                    self._siblings.told = told
        log.error("worker %d drains: the process that started it is gone", self._siblings.own)
        self._leave()

    async def _reload(self) -> None:
        began = time.monotonic()
        try:
            await self._lifecycle.reload()
        finally:
            self._began = max(self._began, began)
            self._reloaded.set()
            self._tell()

    async def _ask_for_reload(self) -> None:
        """All of them; it is over when this one has."""
        self._reloaded.clear()
        self._writer.write(_line({"ask": "reload"}))
        await self._reloaded.wait()

    def _tell(self) -> None:
        self._writer.write(_line({"pid": os.getpid(), "began": self._began, **self._lifecycle.status()}))

    def _start(self, what: Awaitable[None]) -> None:
        task = asyncio.ensure_future(what)
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)


def _line(told: dict[str, Any]) -> bytes:
    return json.dumps(told).encode() + b"\n"
