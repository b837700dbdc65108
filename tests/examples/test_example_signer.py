"""The example of a signer out of process: agents that hold no private key, and what they do without the daemon."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from contract.settings import Settings
from contract.signing import PublicKey
from contract.verdict import Verdict
from dataset_agent.login import identity_token
from evidence.dsse import open_envelope
from evidence.verify import verify_ledger
from examples.signer.client import SocketSigner
from grants.key_list import list_keys
from grants.keys import init_keys
from grants.trust import load_trust
from root_agent.asking import Answer
from root_agent.entry import ask
from root_agent.opening import close_service, open_service
from tests.dataset_agent.command_line import command_for
from tests.running_agent import COMPARE, Asker, RunningAgent, agent_home, decision_of, result_of, running_agent

pytestmark = pytest.mark.live

HOUSE = Path(__file__).resolve().parents[2]
FACTORY = "examples.signer.client:open_signer"
QUESTION = "Compare the recovery of batches B001 and B002"
CALL = {"dataset": "purification-batches", "capability": "compare_batches", "arguments": COMPARE}


@dataclass
class Daemon:
    """The signing process, which has the key of ``name`` in a folder that no agent knows."""

    folder: Path
    name: str
    process: subprocess.Popen[str] | None = None

    @property
    def socket(self) -> Path:
        return self.folder / "sockets" / f"{self.name}.sock"

    def start(self) -> Daemon:
        command = [sys.executable, "-m", "examples.signer.daemon", "--make"]
        command += ["--key", str(self.folder / "private" / f"{self.name}.jwk"), "--socket", str(self.socket)]
        self.process = subprocess.Popen(command, cwd=HOUSE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        assert "signs as" in self.process.stdout.readline()
        return self

    def signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def end(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.communicate(timeout=10)
            self.process = None

    @property
    def key(self) -> PublicKey:
        return SocketSigner(self.socket, timeout=5).public_key


@contextmanager
def daemons(folder: Path, *names: str) -> Iterator[list[Daemon]]:
    started = [Daemon(folder, name).start() for name in names]
    try:
        yield started
    finally:
        for daemon in started:
            daemon.end()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SIGNER_SOCKETS", str(tmp_path / "signer" / "sockets"))
    monkeypatch.setenv("SIGNER_TIMEOUT", "30")
    return tmp_path / "signer"


@contextmanager
def keyless(folder: Path) -> Iterator[RunningAgent]:
    """A dataset agent whose key the daemon has."""
    with running_agent(agent_home(folder / "home", remote_signer=FACTORY)) as agent:
        yield agent


def call(agent: RunningAgent) -> dict[str, Any]:
    return Asker(agent.settings, agent.url).ask("purification-batches", "compare_batches", COMPARE)


def test_a_dataset_agent_without_a_private_key_answers_under_the_daemons(folder: Path, tmp_path: Path) -> None:
    with daemons(folder, "remote") as (daemon,):
        settings = agent_home(tmp_path / "home", remote_signer=FACTORY)
        assert sorted(path.name for path in settings.home.rglob("*.jwk")) == ["grant.jwk", "holder.jwk", "identity.jwk"]
        assert load_trust(settings.trust_path).agents[settings.agent_id].key == daemon.key
        with running_agent(settings) as agent:
            task = call(agent)
            assert decision_of(task)["verdict"] == "GRANTED"
            assert result_of(task)["row_count"] == 2
            assert open_envelope(envelope_of(task), daemon.key)
            card = httpx.get(f"{agent.url}/.well-known/agent-card.json").json()
            assert card["signatures"]
        assert verify_ledger(settings.home / "remote" / "ledger.sqlite", daemon.key).size == 1


def envelope_of(task: dict[str, Any]) -> dict[str, Any]:
    return result_of(
        {"artifacts": [dict(item, name="result") for item in task["artifacts"] if item["name"] == "provenance"]}
    )


def test_without_the_daemon_no_row_leaves_and_with_it_they_do_again(folder: Path, tmp_path: Path) -> None:
    with daemons(folder, "remote") as (daemon,), keyless(tmp_path) as agent:
        assert decision_of(call(agent))["verdict"] == "GRANTED"
        daemon.end()
        for _ in range(2):  # the second would be a hit
            task = call(agent)
            assert decision_of(task)["verdict"] == "INDETERMINATE"
            assert decision_of(task)["reason"] == "EVIDENCE_UNAVAILABLE"
            assert not task.get("artifacts")
        daemon.start()
        assert decision_of(call(agent))["verdict"] == "GRANTED"
        told = [row.cells["reason"] for row in agent.rows()]
        assert told.count("PRINCIPAL_AUTHORIZED") == 2
        assert set(told) <= {"PRINCIPAL_AUTHORIZED", "EVIDENCE_UNAVAILABLE"}  # whose rows come late, and once each
        assert len(told) <= 4


def test_who_has_no_card_yet_is_told_that_the_agent_cannot_now_and_is_answered_when_it_can(
    folder: Path, tmp_path: Path
) -> None:
    with daemons(folder, "remote") as (daemon,), keyless(tmp_path) as agent:
        asker, command = Asker(agent.settings, agent.url), command_for(agent.settings, URL=agent.url)
        assert httpx.get(f"{agent.url}/.well-known/agent-card.json").status_code == 200  # from now on it is kept
        daemon.end()
        extended = asker.rpc("GetExtendedAgentCard", {}, asker.headers())
        assert (extended.status_code, extended.json()["code"]) == (503, "grants.signer.unavailable")
        asked = command("ask", "--as", "process_engineer", QUESTION)
        assert (asked.code, asked.line.split(":")[0]) == (4, "INDETERMINATE REMOTE_UNAVAILABLE")
        daemon.start()
        assert command("ask", "--as", "process_engineer", QUESTION).code == 0


def test_while_a_signature_is_waited_for_others_are_served(folder: Path, tmp_path: Path) -> None:
    with daemons(folder, "remote") as (daemon,), ThreadPoolExecutor(1) as threads, keyless(tmp_path) as agent:
        daemon.signal(signal.SIGSTOP)
        waiting = threads.submit(call, agent)
        _until(lambda: _asked(daemon))
        for path in ("/healthz", "/.well-known/jwks.json", "/readyz"):
            assert httpx.get(agent.url + path).status_code == 200
        assert not waiting.done()
        daemon.signal(signal.SIGCONT)
        assert decision_of(waiting.result(30))["verdict"] == "GRANTED"


def test_a_daemon_that_hangs_is_not_waited_for_forever(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIGNER_TIMEOUT", "0.2")
    with daemons(folder, "remote") as (daemon,), keyless(tmp_path) as agent:
        daemon.signal(signal.SIGSTOP)
        assert decision_of(call(agent))["reason"] == "EVIDENCE_UNAVAILABLE"
        card = httpx.get(f"{agent.url}/.well-known/agent-card.json")
        assert (card.status_code, card.json()["code"]) == (503, "grants.signer.unavailable")


def _asked(daemon: Daemon) -> bool:
    """Whether a connection waits at the daemon's socket, as the kernel lists them."""
    waiting = f"{daemon.socket}\n"
    return sum(line.endswith(waiting) for line in Path("/proc/net/unix").read_text().splitlines(keepends=True)) > 1


def _until(met: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not met():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("gone", [None, "issuer", "root"])
async def test_a_root_agent_whose_keys_are_elsewhere_mints_and_asks_or_says_that_it_cannot(
    folder: Path, tmp_path: Path, gone: str | None
) -> None:
    with daemons(folder, "issuer", "root") as started:
        settings = Settings(home=tmp_path / "home", issuer_signer=FACTORY, root_signer=FACTORY)
        init_keys(settings)
        assert sorted(path.name for path in settings.home.rglob("*.jwk")) == ["agent.jwk", "identity.jwk"]
        with running_agent(settings) as agent:
            answer = await _answer(
                settings.model_copy(update={"url": agent.url}), [d for d in started if d.name == gone]
            )
    reasons = {
        None: ("GRANTED", "PRINCIPAL_AUTHORIZED"),
        "issuer": ("INDETERMINATE", "KEYS_UNAVAILABLE"),
        "root": ("INDETERMINATE", "EVIDENCE_UNAVAILABLE"),  # what it would say could not be recorded
    }
    assert (answer.verdict.value, answer.decision.reason.value) == reasons[gone]
    assert (answer.document is not None) == (answer.verdict is Verdict.GRANTED)


async def _answer(settings: Settings, gone: list[Daemon]) -> Answer:
    service = open_service(settings)
    try:
        for daemon in gone:
            daemon.end()
        return await ask(service, identity_token(settings, "process_engineer"), call=CALL)
    finally:
        await close_service(service)


def test_a_signer_that_is_away_hides_only_its_own_key_from_the_list(folder: Path, tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home", remote_signer=FACTORY, issuer_signer=FACTORY)
    with daemons(folder, "remote", "issuer") as (remote, _):
        init_keys(settings)
        kid = remote.key.thumbprint
        whole = {(record.role, record.kid) for record in list_keys(settings, now=time.time())}
        remote.end()
        records = list_keys(settings, now=time.time())
    assert {(record.role, record.kid) for record in records} == whole
    (away,) = [record for record in records if record.fault]
    assert (away.role, away.kid, away.source) == ("remote", kid, "DATASET_AGENT_REMOTE_SIGNER")
    assert "see that what it asks runs" in str(away.advice(time.time()))


def test_an_agent_does_not_start_without_its_signer(folder: Path, tmp_path: Path) -> None:
    settings = agent_home(tmp_path / "home")
    outside = settings.model_copy(update={"remote_signer": FACTORY, "remote_keys": tmp_path / "none"})
    with pytest.raises(Exception, match=f"DATASET_AGENT_REMOTE_SIGNER names {FACTORY}"), running_agent(outside):
        pass


# the daemon itself


def test_the_socket_is_the_users_own(folder: Path) -> None:
    with daemons(folder, "remote") as (daemon,):
        assert os.stat(daemon.socket).st_mode & 0o777 == 0o600
        assert os.stat(daemon.socket.parent).st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    "asked",
    [b"", b"K", b"X\x00\x00\x00\x00", b"K\x00\x00\x00\x01x", b"S\xff\xff\xff\xff", b"S\x00\x00\x00\x05abc"],
    ids=["nothing", "half a head", "unknown", "key of something", "endless", "cut"],
)
def test_what_is_no_request_gets_no_answer(folder: Path, asked: bytes) -> None:
    with daemons(folder, "remote") as (daemon,), socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(10)
        connection.connect(str(daemon.socket))
        connection.sendall(asked)
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(100) == b""
        assert daemon.key  # it serves on


def test_its_signatures_are_its_keys(folder: Path) -> None:
    with daemons(folder, "remote") as (daemon,), ThreadPoolExecutor(8) as threads:
        signer = SocketSigner(daemon.socket, timeout=30)
        messages = [bytes([number]) * number * 1_000 for number in range(64)]
        for message, signature in zip(messages, threads.map(signer.sign, messages), strict=True):
            assert signer.public_key.verifies(signature, message)
