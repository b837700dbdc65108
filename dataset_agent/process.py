"""A serving process: one port, reload on SIGHUP, drain on SIGTERM, and a file that says who serves."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import uvicorn
from fastapi import FastAPI

from contract.errors import Category, Component, DatasetAgentError

DRAIN_S: Final = 20


def server_settings() -> dict[str, Any]:
    """How uvicorn serves here; the benchmarks give the echoes the same."""
    return {
        "log_config": None,
        "access_log": False,
        "server_header": False,
        "timeout_graceful_shutdown": DRAIN_S,
        "timeout_keep_alive": 30,
    }


def bind_port(host: str, port: int) -> socket.socket:
    """A listening socket, or one line that says the port is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio turns Nagle's delay off only on sockets that say they are TCP
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(2048)
    except OSError as error:
        listener.close()
        raise DatasetAgentError(
            Component.COMMAND,
            Category.CONFIGURATION,
            "command.serve.port",
            f"cannot listen on {host}:{port} ({error.strerror}): stop what uses it, or choose another --port",
        ) from error
    return listener


async def serve_app(
    app: FastAPI,
    listener: socket.socket,
    *,
    run_file: Path,
    status: Callable[[], Mapping[str, Any]],
    reload: Callable[[], Awaitable[None]],
    ready: Callable[[], None],
) -> None:
    """Serve until SIGTERM or SIGINT, then finish what is under way for up to ``DRAIN_S`` seconds.

    SIGHUP calls ``reload``. ``run_file`` holds the process id, the port and ``status()``, for
    ``reload --wait`` and ``doctor``; it is gone when the process ends.
    """
    server = uvicorn.Server(uvicorn.Config(app, **server_settings()))
    loop = asyncio.get_running_loop()
    pending: set[asyncio.Future[None]] = set()
    attempts = 0

    def note() -> None:
        body = {"pid": os.getpid(), "port": listener.getsockname()[1], "attempt": attempts, **status()}
        _write(run_file, json.dumps(body))

    async def reloaded() -> None:
        nonlocal attempts
        try:
            await reload()
        finally:
            attempts += 1
            note()

    def on_hangup() -> None:
        task = asyncio.ensure_future(reloaded())
        pending.add(task)
        task.add_done_callback(pending.discard)

    loop.add_signal_handler(signal.SIGHUP, on_hangup)
    note()
    try:
        ready()
        await server.serve(sockets=[listener])
    finally:
        loop.remove_signal_handler(signal.SIGHUP)
        _remove(run_file)


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".part")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)
