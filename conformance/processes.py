"""The processes a run of the kit asks: a policy server and a dataset agent, with keys and files of their own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from typer.testing import CliRunner

from conformance.issuer import KEY as ISSUER_KEY
from contract.settings import PREFIX, Settings
from dataset_agent.child_services import answers, free_ports, stop
from dataset_agent.cli import app
from grants.keys import init_keys

START_S: Final = 60.0
LEAF_S: Final = 2
"""How long a leaf lives here. It is used at once; one that has run out is made by a clock that is that far behind."""


class CommandFailed(Exception):
    """A command of the product did not do what a verb of the kit needs."""


@dataclass(frozen=True, slots=True)
class Execution:
    """One run of an engine: of ``dataset.capability``, for a call that came by the door ``a2a`` or ``mcp``."""

    door: str
    name: str


@dataclass
class Processes:
    """What serves, and the commands of whoever operates it."""

    home: Path
    settings: Settings
    taps: Path
    policy: subprocess.Popen[bytes]
    agent: subprocess.Popen[bytes]
    _policy_command: tuple[str, ...]
    _policy_starts: bool = False
    _ready_at: float = 0.0

    def reload(self) -> dict[str, Any]:
        """``dataset-agent reload --wait``: both have taken over what lies on disk. What they say of it.

        A reload that names datasets it cannot serve ends with an exit code of its own; here that is no
        failure, since the kit registers such datasets on purpose.
        """
        self.policy_ready()
        return command("reload", "--wait", "--json", allow_failure=True)

    def forget_results(self) -> None:
        command("cache", "purge", "--all", "--yes", "--json")

    def executions(self) -> list[Execution]:
        """What engines ran since the agent was started."""
        lines = self.taps.read_text(encoding="utf-8").splitlines() if self.taps.exists() else []
        told = [json.loads(line) for line in lines]
        return [Execution(line["door"], f"{line['dataset']}.{line['capability']}") for line in told]

    def outlast(self, seconds: float) -> None:
        """Wait until the dataset agent's memory of spent grants is older than that: no older grant is judged at all."""
        time.sleep(max(0.0, self._ready_at + seconds - time.time()))

    def kill_policy_server(self) -> None:
        self.policy.kill()
        self.policy.wait()

    def start_policy_server(self) -> None:
        """In the background: ``policy_ready`` waits for it."""
        self.policy = _start(self.home, self._policy_command)
        self._policy_starts = True

    def policy_ready(self) -> None:
        if self._policy_starts:
            _await(f"{self.settings.policy_url}/health", self.policy)
            self._policy_starts = False

    @contextmanager
    def policy_server_stands_still(self) -> Iterator[None]:
        """It takes connections and answers none of them, as a process does that gets no processor."""
        self.policy.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.policy.send_signal(signal.SIGCONT)


@contextmanager
def processes(home: Path, datasets: Path, *, policy_budget: float) -> Iterator[Processes]:
    """Both, ready, over a datasets folder that is there; their settings are those of this process meanwhile.

    They are stopped by process id. The issuer's key lies elsewhere, with a signer that counts what it signs.
    """
    settings = {
        "HOME": str(home),
        "DATASETS": str(datasets),
        "URL": f"http://127.0.0.1:{free_ports(1)[0]}",
        "POLICY_URL": f"http://127.0.0.1:{free_ports(1)[0]}",
        "POLICY_BUDGET": str(policy_budget),
        "LEAF_TTL": str(LEAF_S),
        "WATCH_INTERVAL": "0",
    }
    with _environment(settings):
        init_keys(Settings())
        os.environ[f"{PREFIX}ISSUER_SIGNER"] = "conformance.issuer:counting_signer"
        shutil.move(home / "keys" / "issuer" / "grant.jwk", home / ISSUER_KEY)
        taps = home / "executions.jsonl"
        found = Settings()
        policy_command = (
            "-c",
            "from dataset_agent.cli import main; main()",
            "policy",
            "serve",
            "--port",
            _port(found.policy_url),
        )
        policy = _start(home, policy_command)
        agent = _start(home, ("-m", "conformance.served", str(taps), "serve", "--port", _port(found.url)))
        running = Processes(home, found, taps, policy, agent, policy_command, True)
        try:
            running.policy_ready()
            _await(f"{found.url}/readyz", agent)
            running._ready_at = time.time()
            yield running
        finally:
            stop(running.agent)
            stop(running.policy)


def command(*arguments: str, allow_failure: bool = False) -> dict[str, Any]:
    """A command of the product with ``--json``, in this process. Raises ``CommandFailed``."""
    done = CliRunner().invoke(app, list(arguments))
    try:
        told = json.loads(done.stdout)
    except ValueError:
        told = None
    if not isinstance(told, dict) or (done.exit_code and not allow_failure):
        raise CommandFailed(f"{' '.join(arguments)}: exit {done.exit_code}: {done.output[-400:]}")
    return told


@contextmanager
def scratch() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="conformance-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _environment(settings: dict[str, str]) -> Iterator[None]:
    """Of the caller's settings none is taken over."""
    before = dict(os.environ)
    for name in [name for name in os.environ if name.startswith(PREFIX)]:
        del os.environ[name]
    os.environ.update({f"{PREFIX}{name}": value for name, value in settings.items()})
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _start(home: Path, command: tuple[str, ...]) -> subprocess.Popen[bytes]:
    with (home / "services.log").open("ab") as log:
        return subprocess.Popen([sys.executable, *command], stdout=log, stderr=log)


def _await(url: str, process: subprocess.Popen[bytes]) -> None:
    if not answers(url, process, within_s=START_S):
        raise CommandFailed(f"nothing answers at {url}: see services.log")


def _port(url: str | None) -> str:
    return str(url).rpartition(":")[2]
