"""A serving process: one port, reload on SIGHUP, drain on SIGTERM, and a file that says who serves."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import signal
import socket
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from ipaddress import IPv6Address, ip_address
from typing import Any, Final

import uvicorn
from fastapi import FastAPI

from contract.errors import Category, Component, DatasetAgentError, WrongSetting
from contract.settings import Settings
from dataset_agent.connection import Connection, raise_files
from dataset_agent.console import note
from dataset_agent.framing import OneLength
from dataset_agent.run_files import Kind, run_file

DRAIN_S: Final = 20
UNREAD_MS: Final = 75_000
"""How long what was sent may lie unread before the connection is ended: a peer that reads nothing holds answers in memory."""

QUEUE: Final = 2_048
"""Connections that the system holds until they are taken."""
TAKEN_AT_ONCE: Final = 32
"""Of these, before anything else is done: what is taken counts as soon as it is served. The event loop also tries and logs so often
where there is no file left for one more."""


def server_settings() -> dict[str, Any]:
    """How uvicorn serves here; the benchmarks give the echoes the same."""
    return {
        "http": Connection,
        "ws": "none",
        "log_config": None,
        "access_log": False,
        "server_header": False,
        "timeout_graceful_shutdown": DRAIN_S,
        "timeout_keep_alive": 30,
    }


def tcp_socket(host: str) -> socket.socket:
    """A socket that may be bound to ``host``. The connections that it takes have its settings."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio turns Nagle's delay off only on sockets that say they are TCP
    found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNREAD_MS)
    return found


def bind_port(host: str, port: int, *, found_by: str | None = None) -> socket.socket:
    """A listening socket, or one line that says the port is taken.

    ``found_by`` is the setting by which those who ask it find it on another port.
    """
    listener = tcp_socket(host)
    try:
        listener.bind((host, port))
        listener.listen(QUEUE)
    except OSError as error:
        listener.close()
        raise DatasetAgentError(
            Component.COMMAND,
            Category.CONFIGURATION,
            "command.serve.port",
            f"cannot listen on {host}:{port} ({error.strerror}): {_instead(error, found_by)}",
        ) from error
    return listener


def _instead(error: OSError, found_by: str | None) -> str:
    taken = error.errno == errno.EADDRINUSE
    instead = "stop what uses it, or choose another --port" if taken else "choose another --port or --host"
    return instead if found_by is None else f"{instead} and set {found_by} to it where it is asked from"


def address_of(listener: socket.socket) -> str:
    """The http address that a socket listens on."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def advertised_address(settings: Settings, listener: socket.socket) -> str:
    """What a card may say. Raises CONFIGURATION where only the operator can know it."""
    if settings.public_url is None and _is_any_address(listener.getsockname()[0]):
        told = f"{settings.host} is every address and none that a client could ask: set DATASET_AGENT_PUBLIC_URL"
        raise WrongSetting(Component.COMMAND, "command.serve.public_url", told)
    return settings.public_url or address_of(listener)


def _is_any_address(host: str) -> bool:
    found = ip_address(host)
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return (mapped or found).is_unspecified


def settle_memory() -> None:
    """Take what was loaded at start out of every later garbage collection, and collect less often.

    The engine, the agent runtime and the templates are some hundred thousand objects that live
    as long as the process; walking them costs a request milliseconds.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


async def serve_app(
    app: FastAPI,
    listener: socket.socket,
    *,
    settings: Settings,
    kind: Kind,
    status: Callable[[], Mapping[str, Any]],
    reload: Callable[[], Awaitable[None]],
    ready: Callable[[], None],
    watch: Callable[[Callable[[], Awaitable[None]]], Awaitable[None]] | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT, then finish what is under way for up to ``DRAIN_S`` seconds.

    SIGHUP calls ``reload``, and so does ``watch``, which is given it and runs until it is
    cancelled. The run file holds the process id, the port and ``status()``, for
    ``reload --wait``; it is gone when the process ends. Raises ``KeyboardInterrupt`` after a
    drain that SIGINT asked for.
    """
    server = DrainingServer(uvicorn.Config(OneLength(app), **server_settings()))
    loop = asyncio.get_running_loop()
    pending: set[asyncio.Future[None]] = set()
    port, newest = listener.getsockname()[1], 0.0

    with run_file(settings, kind) as file:

        def write() -> None:
            file.write({"pid": os.getpid(), "port": port, "began": newest, **status()})

        async def reloaded() -> None:
            nonlocal newest
            began = time.monotonic()
            try:
                await reload()
            finally:
                newest = max(newest, began)
                write()

        def started(what: Awaitable[None]) -> asyncio.Future[None]:
            task = asyncio.ensure_future(what)
            pending.add(task)
            task.add_done_callback(pending.discard)
            return task

        def on_hangup() -> None:
            started(reloaded())

        with server.stopping(loop):
            loop.add_signal_handler(signal.SIGHUP, on_hangup)
            write()
            ready()
            watching = None if watch is None else started(watch(reloaded))
            try:
                settle_memory()
                await server.serve(sockets=[listener])
            finally:
                loop.remove_signal_handler(signal.SIGHUP)
                if watching is not None:
                    watching.cancel()
                await asyncio.gather(*pending, return_exceptions=True)
    if server.interrupted:
        raise KeyboardInterrupt


class DrainingServer(uvicorn.Server):
    """uvicorn's server, which ends by returning: uvicorn itself would kill the process with the signal it got."""

    interrupted = False

    def __init__(self, config: uvicorn.Config) -> None:
        config.backlog = TAKEN_AT_ONCE
        super().__init__(config)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        raise_files()
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(QUEUE)  # asyncio makes the system's queue as short as what it takes at once

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    @contextmanager
    def stopping(self, loop: asyncio.AbstractEventLoop) -> Iterator[None]:
        """SIGTERM and SIGINT drain; a second one ends at once."""
        stops = (signal.SIGTERM, signal.SIGINT)
        for number in stops:
            loop.add_signal_handler(number, self._stop, number)
        try:
            yield
        finally:
            for number in stops:
                loop.remove_signal_handler(number)

    def _stop(self, number: signal.Signals) -> None:
        if self.should_exit:
            self.force_exit = True
            return
        self.should_exit = True
        self.interrupted = number is signal.SIGINT
        note(f"stopping: requests under way get up to {DRAIN_S} s")
