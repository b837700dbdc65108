"""``doctor`` on keys, trust, permissions, clocks and the state store: each weakness by its name, with what to run."""

from __future__ import annotations

import os
import shutil
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from contract.settings import SHIPPED_DATASETS, Settings
from dataset_agent import doctor
from dataset_agent.doctor_clocks import beyond, check_clocks, judged
from dataset_agent.doctor_keys import check_keys
from dataset_agent.doctor_places import check_places
from dataset_agent.finding import Finding, acheck, check
from grants.key_files import FileSigner
from grants.key_store import KeyName, KeyStore
from grants.keys import init_keys
from grants.rotation import stage, switch
from grants.state import open_state
from tests.dataset_agent.command_line import CommandLine
from tests.running_agent import COMPARE, Asker, agent_home, running_agent
from tests.valkey_server import ValkeyServer

pytestmark = pytest.mark.live

LONG_AGO = time.time() - 100 * 86_400


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return agent_home(tmp_path / "home", datasets=Path(shutil.copytree(SHIPPED_DATASETS, tmp_path / "datasets")))


def keys_of(settings: Settings) -> dict[str, Finding]:
    return {finding.check: finding for finding in check_keys(settings)}


def places_of(settings: Settings) -> list[Finding]:
    return list(check_places(settings))


# keys


def test_fresh_keys_are_in_order(settings: Settings) -> None:
    found = keys_of(settings)
    assert {finding.status for finding in found.values()} == {"ok"}
    assert "key rotation" in found


@pytest.mark.parametrize("name", list(KeyName))
def test_an_old_key_is_worth_a_word_and_breaks_nothing(settings: Settings, name: KeyName) -> None:
    store = KeyStore.of(settings, name)
    (kid,) = [kid for kid, dates in store._history().items() if _signs(store, kid)]
    store.note(kid, created_at=int(LONG_AGO))
    finding = keys_of(settings)[f"current {name} key"]
    assert (finding.status, "100 days old" in finding.advice) == ("ok", True)
    assert f"keys rotate --role {name} --stage" in finding.advice


def _signs(store: KeyStore, kid: str) -> bool:
    return FileSigner.load(store.current).public_key.thumbprint == kid


@pytest.mark.parametrize("name", list(KeyName))
def test_a_change_of_keys_that_nobody_went_on_with_is_told(settings: Settings, name: KeyName) -> None:
    stage(settings, name, now=LONG_AGO)
    assert "was staged 100 days ago" in keys_of(settings)[f"staged {name} key"].advice
    switch(settings, name, now=LONG_AGO, at_once=True)
    assert "is still accepted" in keys_of(settings)[f"replaced {name} key"].advice


@pytest.mark.parametrize(
    ("name", "pins"),
    [
        (KeyName.ISSUER, "pins other keys for https://issuer"),
        (KeyName.IDENTITY, "pins other keys for https://issuer"),
        (KeyName.ROOT, "and not this key: bring the newest trust.toml"),
        (KeyName.REMOTE, "and not this key: bring the newest trust.toml"),
    ],
)
def test_a_key_that_is_not_the_pinned_one_is_broken(
    settings: Settings, tmp_path: Path, name: KeyName, pins: str
) -> None:
    other = agent_home(tmp_path / "other")
    mixed = settings.model_copy(update={"trust_file": other.trust_path})
    finding = keys_of(mixed)[f"current {name} key"]
    assert (finding.status, pins in finding.advice) == ("broken", True)


def test_a_trust_file_that_is_older_than_the_switch_is_told(settings: Settings) -> None:
    stage(settings, KeyName.ROOT, now=LONG_AGO)
    older = settings.trust_path.read_bytes()
    switch(settings, KeyName.ROOT, now=time.time())
    settings.trust_path.write_bytes(older)
    finding = keys_of(settings)["current root key"]
    assert (finding.status, "names another as the present one" in finding.advice) == ("ok", True)


@pytest.mark.parametrize(
    "weaken",
    [
        lambda store: store.current.chmod(0o640),
        lambda store: store.folder.chmod(0o755),
        lambda store: store.current.write_text("{}"),
    ],
    ids=["file", "folder", "content"],
)
def test_a_key_that_does_not_open_is_broken(settings: Settings, weaken: Callable[[KeyStore], Any]) -> None:
    weaken(KeyStore.of(settings, KeyName.ROOT))
    assert keys_of(settings)["root holder key"].status == "broken"


def test_a_signer_elsewhere_is_made_to_sign(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, remote_signer="examples.signer.client:open_signer")
    finding = keys_of(settings)["dataset agent key"]
    assert (finding.status, "DATASET_AGENT_REMOTE_SIGNER" in finding.advice) == ("broken", True)
    both = settings.model_copy(update={"remote_jwk": Settings(remote_jwk="x").remote_jwk})
    assert "unset one" in keys_of(both)["dataset agent key"].advice


# places


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """A home in which a dataset agent has answered."""
    settings = agent_home(tmp_path_factory.mktemp("used"))
    with running_agent(settings) as agent:
        Asker(settings, agent.url).ask("purification-batches", "compare_batches", COMPARE)
    return settings


def test_what_the_processes_make_themselves_is_private(used: Settings) -> None:
    assert places_of(used) == [Finding("permissions", "ok")]


@pytest.mark.parametrize("name", ["state.sqlite3", "cache.sqlite", "remote/ledger.sqlite", "remote/subjects.sqlite"])
@pytest.mark.parametrize("bits", [0o040, 0o004, 0o020])
def test_a_store_that_others_could_open_is_named(used: Settings, name: str, bits: int) -> None:
    path = used.home / name
    before = stat.S_IMODE(path.stat().st_mode)
    path.chmod(before | bits)
    (finding,) = places_of(used)
    path.chmod(before)
    assert (finding.check, finding.status) == (f"permissions of {path}", "broken")
    assert finding.advice == f"others may read or change it; run: chmod 600 {path}"


@pytest.mark.parametrize(
    ("place", "bits", "fix"),
    [
        (lambda settings: settings.trust_path, 0o020, "chmod 644"),
        (lambda settings: settings.trust_path, 0o002, "chmod 644"),
        (lambda settings: settings.home, 0o022, "chmod go-w"),
        (lambda settings: settings.home / "keys", 0o002, "chmod go-w"),
        (lambda settings: settings.datasets / "principals.yaml", 0o002, "chmod o-w"),
        (lambda settings: settings.datasets / "policies", 0o002, "chmod o-w"),
    ],
)
def test_what_is_believed_and_others_could_write_is_named(
    settings: Settings, place: Callable[[Settings], Path], bits: int, fix: str
) -> None:
    path = place(settings)
    path.chmod(stat.S_IMODE(path.stat().st_mode) | bits)
    (finding,) = places_of(settings)
    assert (finding.check, f"run: {fix} {path}" in finding.advice) == (f"permissions of {path}", True)


def test_there_is_nothing_weak_about_a_home_that_is_not_there(tmp_path: Path) -> None:
    assert places_of(Settings(home=tmp_path / "none")) == []


# clocks


@pytest.mark.parametrize(
    ("told", "ahead"), [((90, 91), -9.0), ((99.5, 100.5), 0.0), ((101, 102), 0.0), ((103, 104), 1.0), ((110, 110), 8.0)]
)
def test_a_clock_is_off_only_by_what_is_certain(told: tuple[float, float], ahead: float) -> None:
    assert beyond(*told, began=100.0, ended=102.0) == ahead


@pytest.mark.parametrize(
    ("ahead", "status", "says"),
    [
        (0.0, "ok", ""),
        (-0.9, "ok", ""),
        (4.0, "ok", "it is 4.0 s ahead of this one; 5 s are allowed"),
        (-5.5, "broken", "it is 5.5 s behind this one, and grants are refused beyond 5 s: keep both by NTP"),
    ],
)
def test_a_clock_is_judged_by_the_skew_that_grants_allow(ahead: float, status: str, says: str) -> None:
    assert judged("c", ahead) == Finding("c", status, says)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    server = ValkeyServer(
        data_dir=tmp_path_factory.mktemp("valkey"), config={"appendonly": "yes", "maxmemory-policy": "noeviction"}
    )
    server.start()
    yield str(server.connection_url)
    server.stop()


async def test_both_clocks_are_compared_with_this_machines(
    used: Settings, valkey: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = time.time
    with running_agent(used) as agent:
        settings = used.model_copy(update={"url": agent.url, "state_url": valkey})
        assert [finding.status async for finding in check_clocks(settings)] == ["ok", "ok"]
        monkeypatch.setattr(time, "time", lambda: real() + 30)
        found = {finding.check: finding async for finding in check_clocks(settings)}
        monkeypatch.undo()
    # in this process the served agent has the same clock as the doctor; the server has its own
    assert found["clock of the state store"].status == "broken"
    assert "behind this one" in found["clock of the state store"].advice


async def test_what_does_not_answer_has_no_clock(used: Settings) -> None:
    settings = used.model_copy(update={"url": "http://127.0.0.1:1", "state_url": "redis://127.0.0.1:1"})
    assert [finding async for finding in check_clocks(settings)] == []


# the state store


def test_the_state_store_says_since_when_it_remembers(used: Settings, tmp_path: Path) -> None:
    run = CommandLine({"HOME": str(used.home), "URL": "http://127.0.0.1:1"})("doctor", "--json")
    found = {finding["check"]: finding for finding in run.json["findings"]}
    assert found["state store"]["status"] == "ok"
    assert found["state store"]["advice"].startswith("complete since 20")
    assert set(run.json) == {"home", "findings"}
    assert all(set(finding) == {"check", "status", "advice"} for finding in run.json["findings"])


@pytest.mark.parametrize(
    ("config", "says"), [({"maxmemory-policy": "allkeys-lru"}, "noeviction"), ({"appendonly": "no"}, "appendonly yes")]
)
def test_a_state_store_that_may_forget_is_broken(tmp_path: Path, config: dict[str, str], says: str) -> None:
    settings = Settings(home=tmp_path / "home")
    init_keys(settings)
    server = ValkeyServer(data_dir=tmp_path, config={"appendonly": "yes", "maxmemory-policy": "noeviction"} | config)
    server.start()
    try:
        command = CommandLine({"HOME": str(settings.home), "STATE_URL": str(server.connection_url)})
        found = {finding["check"]: finding for finding in command("doctor", "--json").json["findings"]}
    finally:
        server.stop()
    assert found["state store"]["status"] == "broken"
    assert says in found["state store"]["advice"]


async def test_a_memory_that_was_lost_is_told_and_stays_lost_for_who_serves_next(tmp_path: Path) -> None:
    settings = agent_home(tmp_path / "home")
    store = open_state(settings)
    await store.close()
    (settings.home / "state.sqlite3").unlink()
    (settings.home / "state.sqlite3").touch(0o600)
    command = CommandLine({"HOME": str(settings.home), "URL": "http://127.0.0.1:1"})
    for _ in range(2):
        found = {finding["check"]: finding for finding in command("doctor", "--json").json["findings"]}
        assert "its memory was lost" in found["state store"]["advice"]
    assert (settings.home / "state.sqlite3").stat().st_size == 0


# what answers in the agent's place


@contextmanager
def answering(body: bytes) -> Iterator[str]:
    class Fixed(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Fixed)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("body", [b"[]", b"7", b"null", b"{}", b"", b"<html>", b"\xff", b"[" * 50_000, b"1" * 200_000])
async def test_something_else_in_the_agents_place_is_one_finding(body: bytes) -> None:
    with answering(body) as url:
        finding = await doctor._agent(Settings(url=url))
    assert finding.status == "broken"
    assert "no dataset agent" in finding.advice


async def test_a_check_that_breaks_is_a_finding_too() -> None:
    def breaks() -> None:
        raise LookupError("x")

    async def breaks_too() -> None:
        raise TypeError("x")

    assert check("c", breaks) == Finding("c", "broken", "it could not be checked (LookupError)")
    assert await acheck("c", breaks_too) == Finding("c", "broken", "it could not be checked (TypeError)")


def test_what_another_user_left_in_a_home_is_named(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    left = settings.home / "state.seen"
    left.touch(0o600)
    assert places_of(settings) == [Finding("permissions", "ok")]
    real = Path.stat

    def stat_of(path: Path, **options: Any) -> os.stat_result:
        """The home is user 1234's, and the file the superuser's."""
        told = list(real(path, **options))
        told[4] = 0 if path == left else 1234
        return os.stat_result(told)

    monkeypatch.setattr(Path, "stat", stat_of)
    for user in (0, 1234):
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        (finding,) = places_of(settings)
        assert (finding.check, finding.status) == (f"owner of {left}", "broken")
        assert f"chown 1234 {left}" in finding.advice
