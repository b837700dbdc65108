"""Servers as processes of their own, pinned to a core and stopped by process id."""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

START_S = 30.0


_SERVED: Final = {
    "OTEL_INSTRUMENTATION_A2A_SDK_ENABLED": "false",
    "PYTHONWARNINGS": "ignore::UserWarning",
    # One person and one agent ask as fast as they can: calls are counted as always, and never over the limit.
    "DATASET_AGENT_AGENT_RATE": "100000",
    "DATASET_AGENT_AGENT_BURST": "1000000",
    "DATASET_AGENT_PERSON_RATE": "100000",
    "DATASET_AGENT_PERSON_BURST": "1000000",
}


@dataclass(frozen=True, slots=True)
class Server:
    """A started server that answers on ``port``."""

    port: int
    process: subprocess.Popen[bytes]

    @classmethod
    def python(cls, module: str, *, core: int) -> Server:
        port = free_port()
        return cls.start([sys.executable, "-m", module, str(port)], port, core=core, env={})

    @classmethod
    def start(cls, command: list[str], port: int, *, core: int | None, env: dict[str, str]) -> Server:
        """On one core, or on those of this process."""
        process = subprocess.Popen(
            command,
            env=os.environ | _SERVED | env,
            stderr=subprocess.DEVNULL,
            preexec_fn=None if core is None else lambda: os.sched_setaffinity(0, {core}),
        )
        server = cls(port, process)
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline and process.poll() is None:
            if _answers(port):
                return server
            time.sleep(0.05)
        server.stop()
        raise SystemExit(f"{command} did not start")

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _answers(port: int) -> bool:
    """Whether whoever listens there also answers: an agent has its port before it has its state."""
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=START_S)
    try:
        line.request("GET", "/readyz")
        line.getresponse().read()
    except OSError:
        return False
    finally:
        line.close()
    return True


def fdatasync_ms(folder: Path) -> float:
    """The median time of one small durable write, in milliseconds."""
    times = []
    with (folder / "probe").open("wb", buffering=0) as file:
        for _ in range(50):
            started = time.perf_counter()
            file.write(b"x" * 512)
            os.fdatasync(file.fileno())
            times.append((time.perf_counter() - started) * 1000)
    return sorted(times)[25]
