"""Services that another process of this machine starts for a while: a free port, waiting until one answers, its end by its id."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from contextlib import ExitStack, suppress
from typing import Final

import httpx

_LOOK_S: Final = 0.05
_END_S: Final = 10.0


def free_ports(count: int) -> list[int]:
    """So many different ports of the loopback address that nobody listens on now."""
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]


def answers(url: str, process: subprocess.Popen[bytes], *, within_s: float) -> bool:
    """Whether ``url`` says 200 in time; at once ``False`` where the process has ended."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline and process.poll() is None:
        with suppress(httpx.HTTPError):
            if httpx.get(url, timeout=2, trust_env=False).status_code == 200:
                return True
        time.sleep(_LOOK_S)
    return False


def stop(process: subprocess.Popen[bytes]) -> None:
    """As an operator stops it; one that does not end is killed."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
