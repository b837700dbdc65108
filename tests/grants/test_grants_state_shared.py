"""Other processes that come and go while one holds the SQLite state store."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from contract.verdict import NotGranted, Reason
from grants.derive import header_value
from grants.state_sqlite import SqliteState
from tests.grants.grants_world import NOW, accept, make_chain, make_root

pytestmark = pytest.mark.live

HOUSE = Path(__file__).resolve().parents[2]


class Process:
    def __init__(self, child: subprocess.Popen[str]) -> None:
        self._child = child

    def __call__(self, *words: str) -> str:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(" ".join(words) + "\n")
        self._child.stdin.flush()
        return self._child.stdout.readline().strip()


@contextmanager
def process(path: Path) -> Iterator[Process]:
    command = [sys.executable, "-m", "tests.grants.state_worker", str(path)]
    with subprocess.Popen(command, cwd=HOUSE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        try:
            yield Process(child)
            child.communicate(timeout=30)
        finally:
            child.kill()
        assert child.returncode == 0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "state.sqlite3"


@pytest.mark.parametrize("visit", ["health", "spend"])
def test_a_process_that_comes_and_goes_takes_no_memory_away(path: Path, visit: str) -> None:
    root = make_root()
    spent, revoked = header_value(make_chain()), header_value(make_chain(root))
    with process(path) as agent:
        assert agent("spend", header_value(make_chain())) == "OK"
        with process(path) as visitor:
            assert visitor(visit, header_value(make_chain())) == "OK"
        log = Path(f"{path}-wal").stat().st_ino
        assert agent("spend", spent) == "OK"
        with process(path) as second:
            assert second("spend", spent) == "GRANT_REPLAYED"
            assert second("revoke", "grant", accept(header_value(make_chain(root))).root_jti) == "OK"
        assert agent("recheck", revoked) == "GRANT_REVOKED"
        assert agent("spend", revoked) == "GRANT_REVOKED"
        assert Path(f"{path}-wal").stat().st_ino == log
    with process(path) as next_agent:
        assert next_agent("spend", spent) == "GRANT_REPLAYED"


def test_opening_and_closing_a_second_store_of_the_process_keeps_the_locks_of_the_first(path: Path) -> None:
    with process(path) as agent:
        assert agent("health") == "OK"
    store = SqliteState.open(path, now=NOW)
    SqliteState.open(path, now=NOW)._thread.shutdown()
    log = Path(f"{path}-wal").stat().st_ino
    with process(path) as visitor:
        assert visitor("health") == "OK"
    assert Path(f"{path}-wal").stat().st_ino == log
    store._thread.submit(store._patient.disconnect).result()
    store._thread.shutdown()


@pytest.mark.parametrize("taken", [["-wal"], ["-shm"], ["-wal", "-shm"]])
async def test_a_log_that_is_taken_away_is_a_memory_lost(path: Path, taken: list[str]) -> None:
    store = SqliteState.open(path, now=NOW)
    for _ in range(2):
        await store.spend(accept(make_chain()), policy=None, now=NOW)
    for suffix in taken:
        Path(f"{path}{suffix}").unlink()
    await store.health()
    with pytest.raises(NotGranted) as stop:
        await store.spend(accept(make_chain()), policy=None, now=NOW)
    assert stop.value.reason is Reason.REPLAY_MEMORY_LOST
    later = NOW + 10
    fresh = header_value(make_chain(make_root(now=later), now=later))
    grant = accept(fresh, now=later)
    await store.spend(grant, policy=None, now=later)
    other = SqliteState.open(path, now=later)
    with pytest.raises(NotGranted) as stop:
        await other.spend(grant, policy=None, now=later)
    assert stop.value.reason is Reason.GRANT_REPLAYED
    await other.close()
    await store.close()


async def test_a_file_put_in_the_place_of_the_open_one_is_a_memory_lost(path: Path) -> None:
    earlier = SqliteState.open(path, now=NOW)
    await earlier.close()
    backup = path.read_bytes()
    store = SqliteState.open(path, now=NOW)
    grant = accept(make_chain())
    await store.spend(grant, policy=None, now=NOW)
    fresh = path.with_name("restored")
    fresh.write_bytes(backup)
    for suffix in ("-wal", "-shm"):
        Path(f"{path}{suffix}").unlink()
    fresh.replace(path)
    with pytest.raises(NotGranted) as stop:
        await store.spend(grant, policy=None, now=NOW)
    assert stop.value.reason is Reason.REPLAY_MEMORY_LOST
    await store.close()


def test_a_full_disk_is_indeterminate_spends_nothing_and_forgets_nothing(path: Path) -> None:
    spent, grant = header_value(make_chain()), header_value(make_chain())
    with process(path) as agent, process(path) as other:
        assert agent("spend", spent) == "OK"
        assert agent("limit", str(Path(f"{path}-wal").stat().st_size)) == "OK"
        assert agent("spend", grant) == "STATE_UNAVAILABLE"
        assert agent("revoke", "txn", "txn-a") == "grants.state.unavailable"
        assert agent("health") in ("OK", "grants.state.unavailable")
        assert agent("recheck", spent) == "OK"
        assert other("spend", spent) == "GRANT_REPLAYED"
        assert agent("unlimit") == "OK"
        assert agent("spend", spent) == "GRANT_REPLAYED"
        assert agent("spend", grant) == "OK"
        assert other("spend", grant) == "GRANT_REPLAYED"


def test_a_killed_process_loses_nothing_and_hinders_nobody(path: Path) -> None:
    spent = header_value(make_chain())
    for _ in range(3):
        with killed(path) as agent:
            agent("spend", spent)
    with process(path) as agent:
        assert agent("spend", spent) == "GRANT_REPLAYED"
        assert agent("spend", header_value(make_chain())) == "OK"


@contextmanager
def killed(path: Path) -> Iterator[Process]:
    command = [sys.executable, "-m", "tests.grants.state_worker", str(path)]
    with subprocess.Popen(command, cwd=HOUSE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        try:
            yield Process(child)
        finally:
            child.kill()
