"""The demo's policy server and dataset agent: processes of their own, with keys and state of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from contract.errors import Category, Component, DatasetAgentError
from contract.settings import PREFIX, Settings
from dataset_agent.child_services import answers, free_ports, stop
from dataset_agent.configuration import default_settings, load_settings
from dataset_agent.console import note, progress
from grants.keys import init_keys

START_S: Final = 60.0
_PATIENT_S: Final = 5.0  # a machine that is busy with something else is no part of the story
_PROGRAM: Final = "from dataset_agent.cli import main; main()"


@dataclass(frozen=True, slots=True)
class DemoServices:
    """What runs, and how to reach it."""

    settings: Settings
    policy: subprocess.Popen[bytes]

    def stop_policy_server(self) -> None:
        stop(self.policy)


@contextmanager
def demo_services(*, keep: bool) -> Iterator[DemoServices]:
    """Both services, ready; stopped by process id. Their home goes with them unless ``keep``.

    Of the caller's settings only the addresses of the two stores are taken over.
    """
    home = Path(tempfile.mkdtemp(prefix="dataset-agent-demo-"))
    started: list[subprocess.Popen[bytes]] = []
    try:
        with progress("making keys and starting a policy server and a dataset agent"):
            settings = _settings(home)
            init_keys(settings)
            started.append(_start(settings, "policy", "serve", "--port", _port(settings.policy_url)))
            started.append(_start(settings, "serve", "--port", _port(settings.url)))
            _await(f"{settings.policy_url}/health", started[0])
            _await(f"{settings.url}/readyz", started[1])
        yield DemoServices(settings, started[0])
    finally:
        for process in reversed(started):
            stop(process)
        if keep:
            note(f"the demo's home: {home}")
        else:
            shutil.rmtree(home, ignore_errors=True)


def _settings(home: Path) -> Settings:
    given = load_settings()
    return default_settings(
        home,
        url=f"http://127.0.0.1:{free_ports(1)[0]}",
        policy_url=f"http://127.0.0.1:{free_ports(1)[0]}",
        policy_budget=_PATIENT_S,
        state_url=given.state_url,
        cache_url=given.cache_url,
    )


def _port(url: str | None) -> str:
    return str(url).rpartition(":")[2]


def _start(settings: Settings, *command: str) -> subprocess.Popen[bytes]:
    wanted = {
        "HOME": str(settings.home),
        "POLICY_URL": settings.policy_url,
        "POLICY_BUDGET": str(settings.policy_budget),
        "STATE_URL": settings.state_url,
        "CACHE_URL": settings.cache_url,
    }
    env = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    env |= {f"{PREFIX}{name}": value for name, value in wanted.items() if value is not None}
    with (settings.home / "services.log").open("ab") as log:
        return subprocess.Popen([sys.executable, "-P", "-c", _PROGRAM, *command], env=env, stdout=log, stderr=log)  # noqa: S603 - our own command


def _await(url: str, process: subprocess.Popen[bytes]) -> None:
    if not answers(url, process, within_s=START_S):
        raise DatasetAgentError(
            Component.COMMAND,
            Category.UNAVAILABLE,
            "command.demo.start",
            f"a service of the demo did not start at {url}: run with --keep and read services.log in its home",
        )
