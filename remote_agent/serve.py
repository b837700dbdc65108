"""Serving a dataset agent: one process, one port, reload on SIGHUP, drain on SIGTERM."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import uvicorn

from contract.errors import Category, Component, DatasetAgentError
from contract.settings import Settings
from remote_agent.app import create_app
from remote_agent.lifecycle import Lifecycle
from remote_agent.telemetry import quiet_content_loggers

DRAIN_S = 20


def bind_port(host: str, port: int) -> socket.socket:
    """A listening socket, or one line that says the port is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(2048)
    except OSError as error:
        listener.close()
        raise DatasetAgentError(
            Component.REMOTE_AGENT,
            Category.CONFIGURATION,
            "remote_agent.serve.port",
            f"cannot listen on {host}:{port} ({error.strerror}): stop what uses it, or choose another --port",
        ) from error
    return listener


def server_settings() -> dict[str, Any]:
    """How uvicorn serves here; the benchmarks give the echoes the same."""
    return {
        "log_config": None,
        "access_log": False,
        "server_header": False,
        "timeout_graceful_shutdown": DRAIN_S,
        "timeout_keep_alive": 30,
    }


async def serve(settings: Settings, *, port: int, ready: Callable[[str], None] | None = None) -> None:
    """Serve until SIGTERM or SIGINT. ``ready`` gets the address once requests are answered.

    SIGHUP re-reads descriptors, principals, policies and trust. The run file in
    ``home/run`` says which process serves and which generation it serves.
    """
    listener = bind_port(settings.host, port)
    bound = listener.getsockname()[1]
    address = settings.public_url or f"http://{settings.host}:{bound}"
    try:
        lifecycle = await Lifecycle.open(settings, public_url=address)
    except BaseException:
        listener.close()
        raise
    app = create_app(lifecycle)
    quiet_content_loggers()
    server = uvicorn.Server(uvicorn.Config(app, **server_settings()))
    run_file = settings.home / "run" / f"serve-{bound}.json"
    loop = asyncio.get_running_loop()
    pending: set[asyncio.Task[None]] = set()

    async def reload() -> None:
        await lifecycle.reload()
        _write_run_file(run_file, bound, lifecycle)

    def on_hangup() -> None:
        task = asyncio.ensure_future(reload())
        pending.add(task)
        task.add_done_callback(pending.discard)

    loop.add_signal_handler(signal.SIGHUP, on_hangup)
    _write_run_file(run_file, bound, lifecycle)
    try:
        if ready is not None:
            ready(address)
        await server.serve(sockets=[listener])
    finally:
        loop.remove_signal_handler(signal.SIGHUP)
        with suppress(OSError):
            run_file.unlink()


def _write_run_file(path: Path, port: int, lifecycle: Lifecycle) -> None:
    """Who serves what, for ``reload --wait`` and ``doctor``; replaced atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    world = lifecycle.service.world
    body = {
        "pid": os.getpid(),
        "port": port,
        "generation": world.generation,
        "attempt": lifecycle.attempts,
        "fault": lifecycle.fault,
        "invalid": dict(world.invalid),
    }
    partial = path.with_suffix(".part")
    partial.write_text(json.dumps(body), encoding="utf-8")
    partial.replace(path)
