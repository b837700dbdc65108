"""The two dataset agents as processes of their own, on loopback, each with its own home."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from contract.settings import PREFIX, Settings
from dataset_agent.child_services import answers, free_ports, stop
from examples.two_agents.homes import Homes, build_homes

_START_S: Final = 60.0
_PROGRAM: Final = "from dataset_agent.cli import main; main()"


@contextmanager
def temporary_homes(*, keep: bool) -> Iterator[Homes]:
    """Homes on two free ports, gone afterwards unless ``keep``."""
    folder = Path(tempfile.mkdtemp(prefix="two-agents-"))
    try:
        first, second = (f"http://127.0.0.1:{port}" for port in free_ports(2))
        yield build_homes(folder, purification_url=first, chromatography_url=second)
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def serving(*agents: Settings) -> Iterator[None]:
    """Serve each agent until the block ends; every process is stopped by its id."""
    with ExitStack() as stack:
        started = []
        for settings in agents:
            process = _start(settings)
            stack.callback(stop, process)
            started.append((settings, process))
        for settings, process in started:
            _await(settings, process)
        yield


def _start(settings: Settings) -> subprocess.Popen[bytes]:
    """``dataset-agent serve`` with this agent's settings and none of the caller's."""
    wanted = {"HOME": settings.home, "DATASETS": settings.datasets, "AGENT_ID": settings.agent_id}
    env = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    env |= {f"{PREFIX}{name}": str(value) for name, value in wanted.items()}
    command = [sys.executable, "-P", "-c", _PROGRAM, "serve", "--port", settings.url.rpartition(":")[2]]
    with (settings.home / "service.log").open("ab") as log:
        return subprocess.Popen(command, env=env, stdout=log, stderr=log)  # noqa: S603 - our own command


def _await(settings: Settings, process: subprocess.Popen[bytes]) -> None:
    if not answers(f"{settings.url}/readyz", process, within_s=_START_S):
        raise RuntimeError(f"{settings.agent_id} did not start: run with --keep and read {settings.home}/service.log")
