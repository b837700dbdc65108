"""A state file that is deleted, exchanged, put back, overwritten or torn, under running processes and while none ran."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from contract.grant import VerifiedGrant
from contract.verdict import Reason
from grants import state_file
from grants.state import RevocationKind, replay_key
from grants.state_sqlite import SqliteState
from tests.grants.grants_world import NOW, accept, make_chain
from tests.grants.state_worlds import (
    POLICY,
    SqliteWorld,
    copied,
    issued,
    refused,
    refused_again,
)


async def test_a_deleted_file_is_a_memory_lost(sqlite_world: SqliteWorld) -> None:
    path = sqlite_world.path
    store, other = SqliteState.open(path, now=NOW), SqliteState.open(path, now=NOW)
    grant = accept(make_chain())
    await store.spend(grant, policy=POLICY, now=NOW)
    path.unlink()
    assert await refused(other, grant) is Reason.REPLAY_MEMORY_LOST
    assert await refused(store, grant) is Reason.REPLAY_MEMORY_LOST
    await store.spend(issued(NOW + 60), policy=POLICY, now=NOW + 60)
    await store.close()
    await other.close()


@pytest.mark.parametrize("times", ["kept", "new"])
@pytest.mark.parametrize("way", ["over it", "in its place", "in its place, without its log"])
async def test_an_earlier_copy_put_back_under_running_processes_is_noticed_by_the_first_to_ask(
    sqlite_world: SqliteWorld, way: str, times: str
) -> None:
    """Also by one that had seen nothing of what was lost."""
    path = sqlite_world.path
    writer, idle = SqliteState.open(path, now=NOW), SqliteState.open(path, now=NOW)
    for _ in range(3):
        await writer.spend(accept(make_chain()), policy=POLICY, now=NOW)
    await idle.health()
    backup = copied(path)
    grant = accept(make_chain())
    await writer.spend(grant, policy=POLICY, now=NOW)
    writer._thread.submit(writer._move_log).result()
    copy = shutil.copy2 if times == "kept" else shutil.copyfile
    if way == "over it":
        copy(backup, path)
    else:
        copy(backup, path.with_name("new"))
        if way.endswith("log"):
            for suffix in ("-wal", "-shm"):
                Path(f"{path}{suffix}").unlink()
        path.with_name("new").replace(path)
    assert await refused(idle, grant, now=NOW + 1) is Reason.REPLAY_MEMORY_LOST
    assert await refused(writer, grant, now=NOW + 2) is Reason.REPLAY_MEMORY_LOST
    for store in (idle, writer):
        fresh = issued(NOW + 60)
        await store.spend(fresh, policy=POLICY, now=NOW + 60)
        assert await refused(writer, fresh, now=NOW + 60) is Reason.GRANT_REPLAYED
    await idle.close()
    await writer.close()


@pytest.mark.parametrize("stopped", ["cleanly", "killed"])
async def test_an_earlier_copy_put_back_while_nobody_ran_is_noticed(sqlite_world: SqliteWorld, stopped: str) -> None:
    path = sqlite_world.path
    first = SqliteState.open(path, now=NOW)
    backup = copied(path)
    grant = accept(make_chain())
    await first.spend(grant, policy=POLICY, now=NOW)
    leftover = {suffix: Path(f"{path}{suffix}").read_bytes() for suffix in ("", "-wal", "-shm")}
    await first.close()
    if stopped == "killed":
        for suffix in ("-wal", "-shm"):
            Path(f"{path}{suffix}").write_bytes(leftover[suffix])
    shutil.copy2(backup, path)
    second = SqliteState.open(path, now=NOW)
    assert await refused(second, grant) is Reason.REPLAY_MEMORY_LOST
    await second.spend(issued(NOW + 60), policy=POLICY, now=NOW + 60)
    await second.close()


@pytest.mark.parametrize(
    "rubbish", [b"", b"no database at all " * 400, os.urandom(20_000)], ids=["empty", "text", "noise"]
)
async def test_a_file_that_was_overwritten_with_rubbish_is_put_aside_and_begun_anew(
    sqlite_world: SqliteWorld, rubbish: bytes
) -> None:
    path = sqlite_world.path
    running = SqliteState.open(path, now=NOW)
    grant = accept(make_chain())
    await running.spend(grant, policy=POLICY, now=NOW)
    with path.open("r+b") as file:
        file.truncate(0)
        file.write(rubbish)
    assert await refused(running, grant) is Reason.REPLAY_MEMORY_LOST
    await running.spend(issued(NOW + 60), policy=POLICY, now=NOW + 60)
    await running.close()
    path.write_bytes(rubbish)
    next_one = SqliteState.open(path, now=NOW + 60)
    assert await refused(next_one, issued(NOW + 60), now=NOW + 60) is Reason.REPLAY_MEMORY_LOST
    await next_one.close()


async def test_rubbish_found_by_a_home_that_never_saw_its_store_is_no_beginning(sqlite_world: SqliteWorld) -> None:
    path = sqlite_world.path
    path.parent.mkdir()
    path.write_bytes(b"no database at all " * 400)
    store = SqliteState.open(path, now=NOW)
    assert await refused(store, accept(make_chain())) is Reason.REPLAY_MEMORY_LOST
    await store.close()


async def test_a_file_that_is_a_link_is_watched_where_it_leads(tmp_path: Path) -> None:
    real, path = tmp_path / "volume" / "real.sqlite3", tmp_path / "home" / "state.sqlite3"
    for folder in (real.parent, path.parent):
        folder.mkdir()
    path.symlink_to(real)
    store = SqliteState.open(path, now=NOW)
    backup = copied(real)
    grant = accept(make_chain())
    await store.spend(grant, policy=POLICY, now=NOW)
    shutil.copyfile(backup, path)
    assert await refused(store, grant) is Reason.REPLAY_MEMORY_LOST
    await store.spend(issued(NOW + 60), policy=POLICY, now=NOW + 60)
    Path(f"{real}-wal").unlink()
    assert await refused(store, issued(NOW + 60), now=NOW + 60) is Reason.REPLAY_MEMORY_LOST
    await store.close()


async def test_rows_put_back_in_the_same_file_are_noticed_by_who_saw_more(sqlite_world: SqliteWorld) -> None:
    """As a file system that is put back to a snapshot does: the file is the same, its times too."""
    store = SqliteState.open(sqlite_world.path, now=NOW)
    grant = accept(make_chain())
    await store.spend(grant, policy=POLICY, now=NOW)
    with closing(sqlite3.connect(sqlite_world.path, isolation_level=None)) as snapshot:
        (seq,) = snapshot.execute("SELECT seq FROM memory").fetchone()
        await store.revoke(RevocationKind.GRANT, grant.root_jti, not_before=NOW)
        assert await refused_again(store, grant) is Reason.GRANT_REVOKED
        snapshot.execute("DELETE FROM revoked")
        snapshot.execute("UPDATE memory SET seq = ?", (seq,))
    assert await refused_again(store, grant) is Reason.REPLAY_MEMORY_LOST
    await store.close()


async def test_what_was_found_torn_is_put_aside_once(sqlite_world: SqliteWorld) -> None:
    """Two processes found it; the second comes when the first has begun anew, and takes nothing away."""
    path = sqlite_world.path
    first, second = SqliteState.open(path, now=NOW), SqliteState.open(path, now=NOW)
    await second.health()
    torn = second._here.identity
    path.write_bytes(b"no database")
    assert await refused(first, accept(make_chain())) is Reason.REPLAY_MEMORY_LOST
    fresh = issued(NOW + 60)
    await first.spend(fresh, policy=POLICY, now=NOW + 60)
    second._here.put_aside(torn)
    assert await refused(second, fresh, now=NOW + 60) is Reason.GRANT_REPLAYED
    await first.close()
    await second.close()


async def test_a_spend_into_a_file_that_is_exchanged_before_its_end_is_none(
    sqlite_world: SqliteWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody else would ever see it."""
    path = sqlite_world.path
    store = SqliteState.open(path, now=NOW)
    await store.health()

    def exchanged(grant: VerifiedGrant) -> str:
        path.unlink(missing_ok=True)
        return replay_key(grant)

    monkeypatch.setattr(state_file, "replay_key", exchanged)
    assert await refused(store, accept(make_chain())) is Reason.REPLAY_MEMORY_LOST
    await store.close()


async def test_revocations_survive_what_is_put_aside_as_far_as_they_read(sqlite_world: SqliteWorld) -> None:
    path = sqlite_world.path
    store = SqliteState.open(path, now=NOW)
    await store.revoke(RevocationKind.SUBJECT, "u-eng-01", not_before=NOW + 10_000)
    backup = copied(path)
    shutil.copyfile(backup, path)
    assert await refused(store, issued(NOW + 60), now=NOW + 60) is Reason.REPLAY_MEMORY_LOST
    assert await refused(store, issued(NOW + 120), now=NOW + 120) is Reason.GRANT_REVOKED
    await store.close()
