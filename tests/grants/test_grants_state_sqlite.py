"""The state store in a SQLite file: its log, its locks, its disk; and that nothing is ever lost without a cause."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from contract.errors import DatasetAgentError
from contract.grant import VerifiedGrant
from contract.settings import Settings
from contract.verdict import Reason
from grants import state_file, state_paths
from grants.state import RevocationKind
from grants.state_header import read_header
from grants.state_look import look
from grants.state_sqlite import SqliteState
from tests.grants.grants_world import NOW, accept, make_chain, make_root
from tests.grants.state_worlds import POLICY, SqliteWorld, issued, refused, refused_again


@pytest.fixture
def path(sqlite_world: SqliteWorld) -> Path:
    return sqlite_world.path


@pytest.fixture
def short_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log is moved into the file after every few commits."""
    monkeypatch.setattr(state_file, "LOG_BYTES", 40_000)


async def test_a_locked_file_is_unavailable_within_the_budget(path: Path) -> None:
    store = SqliteState.open(path, now=NOW, budget=0.05)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert await refused(store, accept(make_chain())) is Reason.STATE_UNAVAILABLE
        other.execute("ROLLBACK")
    await store.spend(accept(make_chain()), policy=POLICY, now=NOW)
    await store.close()


async def test_a_locked_file_holds_up_no_other_work_of_the_process(path: Path) -> None:
    store = SqliteState.open(path, now=NOW, budget=0.3)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        waiting = asyncio.create_task(store.spend(accept(make_chain()), policy=POLICY, now=NOW))
        turns = 0
        while not waiting.done() and turns < 20:
            await asyncio.sleep(0.002)
            turns += 1
        assert not waiting.done()
        other.execute("ROLLBACK")
    await waiting
    await store.close()


async def test_another_boot_of_the_machine_arms_anew(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = SqliteState.open(path, now=NOW)
    await first.close()
    boot = tmp_path / "boot_id"
    boot.write_text("another")
    monkeypatch.setattr(state_paths, "_BOOT_ID", boot)
    second = SqliteState.open(path, now=NOW + 20)
    assert await refused(second, accept(make_chain()), now=NOW + 20) is Reason.REPLAY_MEMORY_LOST
    await second.close()


async def test_where_no_boot_can_be_told_every_commit_is_synced(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_paths, "_BOOT_ID", path / "none")
    store = SqliteState.open(path, now=NOW)
    await store.spend(accept(make_chain()), policy=POLICY, now=NOW)
    reading = store._here._reading
    assert reading is not None
    assert reading.connection.execute("PRAGMA synchronous").fetchone() == (2,)
    await store.close()


async def test_leaves_that_nobody_accepts_any_more_are_forgotten(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_file, "SWEEP_EVERY", 2)
    store = SqliteState.open(path, now=NOW)
    for _ in range(5):
        await store.spend(accept(make_chain()), policy=POLICY, now=NOW)
    await store.spend(issued(NOW + 400), policy=POLICY, now=NOW + 400)
    await store.close()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM spent").fetchone() == (1,)


async def test_every_file_of_the_store_is_its_owners_alone(path: Path) -> None:
    store = SqliteState.open(path, now=NOW)
    await store.spend(accept(make_chain()), policy=POLICY, now=NOW)
    names = {file.name: file.stat().st_mode & 0o077 for file in path.parent.iterdir()}
    own = {path.name, f"{path.name}-wal", f"{path.name}-shm", f"{path.name}-lock", "state.seen"}
    assert names == dict.fromkeys(own, 0)
    await store.close()


# the log


@pytest.mark.usefixtures("short_log")
async def test_a_log_that_grew_is_moved_into_the_file_and_nothing_is_lost_by_it(path: Path) -> None:
    stores = [SqliteState.open(path, now=NOW) for _ in range(3)]
    spent: list[VerifiedGrant] = []
    for turn in range(120):
        grant = accept(make_chain())
        await stores[turn % 3].spend(grant, policy=POLICY, now=NOW)
        spent.append(grant)
        await stores[(turn + 1) % 3].recheck(grant, policy=POLICY, now=NOW)
    for store in stores:
        if store._checkpoint is not None:
            store._checkpoint.result()
    await stores[0].spend(accept(make_chain()), policy=POLICY, now=NOW)
    assert Path(f"{path}-wal").stat().st_size < 120_000
    for grant in spent:
        assert await refused(stores[0], grant) is Reason.GRANT_REPLAYED
    for store in stores:
        await store.close()


async def test_processes_that_move_the_log_at_the_same_time_tear_nothing(path: Path) -> None:
    stores = [SqliteState.open(path, now=NOW, budget=5) for _ in range(4)]
    spent: list[VerifiedGrant] = []
    for _ in range(40):
        moving = [store._thread.submit(store._patient.checkpoint) for store in stores]
        grants = [accept(make_chain()) for _ in stores]
        for store, grant in zip(stores, grants, strict=True):
            await store.spend(grant, policy=POLICY, now=NOW)
            await store.recheck(grant, policy=POLICY, now=NOW)
        spent += grants
        for moved in moving:
            moved.result()
    assert not path.with_name(f"{path.name}.torn").exists()
    for grant in spent:
        assert await refused(stores[0], grant) is Reason.GRANT_REPLAYED
    for store in stores:
        await store.close()


@pytest.mark.usefixtures("short_log")
@pytest.mark.parametrize("seed", range(6))
async def test_whatever_processes_do_in_whatever_order_no_leaf_is_good_twice_and_nothing_is_lost_without_a_cause(
    path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    stores = [SqliteState.open(path, now=NOW)]
    spent: list[VerifiedGrant] = []
    revoked: list[VerifiedGrant] = []
    for turn in range(150):
        store = chance.choice(stores)
        match chance.randrange(8):
            case 0 if len(stores) < 4:
                stores.append(SqliteState.open(path, now=NOW))
            case 1 if len(stores) > 1 or turn % 3 == 0:
                stores.remove(store)
                await store.close()
                stores = stores or [SqliteState.open(path, now=NOW)]
            case 2 if spent:
                assert await refused(store, chance.choice(spent)) is Reason.GRANT_REPLAYED
            case 3 if spent:
                await store.recheck(chance.choice(spent), policy=POLICY, now=NOW)
            case 4:
                grant = accept(make_chain(make_root()))
                await store.revoke(RevocationKind.GRANT, grant.root_jti, not_before=NOW)
                revoked.append(grant)
            case 5 if revoked:
                assert await refused(store, chance.choice(revoked)) is Reason.GRANT_REVOKED
            case 6:
                store._thread.submit(store._move_log).result()
            case _:
                grant = accept(make_chain())
                await store.spend(grant, policy=POLICY, now=NOW)
                spent.append(grant)
    for store in stores:
        for grant in spent[-20:]:
            assert await refused(store, grant) is Reason.GRANT_REPLAYED
        await store.close()


async def test_somebody_who_only_looks_with_a_tool_takes_nothing_away(path: Path) -> None:
    store = SqliteState.open(path, now=NOW)
    grant = accept(make_chain())
    await store.spend(grant, policy=POLICY, now=NOW)
    with closing(sqlite3.connect(path)) as tool:
        assert tool.execute("SELECT count(*) FROM spent").fetchone() == (1,)
    await store.spend(accept(make_chain()), policy=POLICY, now=NOW)
    await store.close()
    with closing(sqlite3.connect(path)) as tool:
        tool.execute("SELECT * FROM revoked").fetchall()
    again = SqliteState.open(path, now=NOW)
    assert await refused(again, grant) is Reason.GRANT_REPLAYED
    await again.spend(accept(make_chain()), policy=POLICY, now=NOW)
    await again.close()


async def test_a_process_that_was_killed_loses_nothing(path: Path) -> None:
    """Its log lies there unmoved, as after SIGKILL."""
    first = SqliteState.open(path, now=NOW)
    grant = accept(make_chain())
    await first.spend(grant, policy=POLICY, now=NOW)
    files = {suffix: Path(f"{path}{suffix}").read_bytes() for suffix in ("-wal", "-shm")}
    status = path.stat()
    content = path.read_bytes()
    await first.close()
    import os

    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    for suffix, held in files.items():
        Path(f"{path}{suffix}").write_bytes(held)
    second = SqliteState.open(path, now=NOW)
    assert await refused(second, grant) is Reason.GRANT_REPLAYED
    await second.spend(accept(make_chain()), policy=POLICY, now=NOW)
    await second.close()


# the disk


async def test_a_file_that_cannot_be_written_is_indeterminate_and_spends_nothing(path: Path) -> None:
    store = SqliteState.open(path, now=NOW)
    spent, grant = accept(make_chain()), accept(make_chain())
    await store.spend(spent, policy=POLICY, now=NOW)
    reading = store._here._reading
    assert reading is not None
    reading.connection.execute("PRAGMA query_only = 1")  # what a file system that went read-only makes SQLite say
    assert await refused(store, grant) is Reason.STATE_UNAVAILABLE
    await store.recheck(spent, policy=POLICY, now=NOW)
    for ask in (store.health(), store.revoke(RevocationKind.TXN, "t", not_before=NOW)):
        with pytest.raises(DatasetAgentError, match="unavailable|cannot be written|does not take"):
            await ask
    reading.connection.execute("PRAGMA query_only = 0")
    await store.spend(grant, policy=POLICY, now=NOW)
    await store.close()


# what another program wrote


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE memory SET armed = 'x'",
        "UPDATE memory SET armed = 0",
        "UPDATE memory SET armed = -5",
        "UPDATE memory SET armed = 1.5",
        "UPDATE memory SET clock = 'x'",
        "UPDATE memory SET clock = 9e999",
        "UPDATE memory SET seq = x'00'",
        "UPDATE memory SET name = x'00'",
        "UPDATE memory SET modified = 'x'",
        "INSERT INTO revoked VALUES ('subject', 'u-eng-01', 'x')",
    ],
)
async def test_what_is_not_of_its_form_is_indeterminate_and_never_raises_out(path: Path, statement: str) -> None:
    store = SqliteState.open(path, now=NOW)
    grant = issued(NOW)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute(statement)
    assert await refused(store, grant) is Reason.STATE_UNAVAILABLE
    assert await refused_again(store, grant) is Reason.STATE_UNAVAILABLE
    told = await look(Settings(home=path.parent), grant, now=NOW)
    assert told is not None
    assert told.reason is Reason.STATE_UNAVAILABLE
    await store.close()


def test_a_clock_that_is_no_instant_is_not_read(path: Path) -> None:
    SqliteState.open(path, now=NOW)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("UPDATE memory SET clock = 9e999")
        with pytest.raises(OSError, match="did not write"):
            read_header(other)
