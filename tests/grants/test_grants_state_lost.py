"""A memory that was emptied, exchanged or put back to an earlier copy is noticed, once, and works again by itself."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest
import redis

from contract.errors import DatasetAgentError
from contract.verdict import Reason
from grants.state import Progress, RevocationKind, StateStore
from grants.state_redis import MEMORY, SPENT, RedisState
from grants.state_seen import SeenFile
from grants.state_sqlite import SqliteState
from tests.grants.grants_world import NOW, accept, make_chain, make_root
from tests.grants.state_worlds import (
    BUDGET,
    POLICY,
    OwnServer,
    RedisWorld,
    SqliteWorld,
    StateWorld,
    code_of,
    issued,
    refused,
    refused_again,
)

# emptied


async def test_an_emptied_memory_is_noticed_and_armed_anew(world: StateWorld, store: StateStore) -> None:
    spent, unspent = accept(make_chain()), accept(make_chain())
    await store.spend(spent, policy=POLICY, now=NOW)
    world.flush()
    assert await refused_again(store, spent, now=NOW + 1) is Reason.REPLAY_MEMORY_LOST
    assert await refused(store, spent, now=NOW + 1) is Reason.REPLAY_MEMORY_LOST
    assert await refused(store, unspent, now=NOW + 2) is Reason.REPLAY_MEMORY_LOST
    later = NOW + 10
    fresh_leaf = accept(make_chain(make_root(), now=later), now=later)
    assert await refused(store, fresh_leaf, now=later) is Reason.REPLAY_MEMORY_LOST  # it may have been revoked
    await store.spend(issued(later), policy=POLICY, now=later)


async def test_the_refusals_after_a_loss_end_with_the_first_second_that_no_clock_can_have_stamped(
    world: StateWorld, store: StateStore
) -> None:
    world.flush()
    for stamped in range(NOW, NOW + 6):  # an issuer's clock may be 5 s ahead
        assert await refused(store, issued(stamped), now=NOW + 0.9) is Reason.REPLAY_MEMORY_LOST
    await store.spend(issued(NOW + 6), policy=POLICY, now=NOW + 1)


async def test_one_loss_is_one_loss_however_many_processes_come_to_it_and_whenever(world: StateWorld) -> None:
    stores = [world.open(NOW) for _ in range(3)]
    world.flush()
    for store, after in zip(stores, (0, 60, 3_600), strict=True):
        if after:
            await store.spend(issued(NOW + after), policy=POLICY, now=NOW + after)
        else:
            assert await refused(store, accept(make_chain())) is Reason.REPLAY_MEMORY_LOST
    for store in stores:
        await store.close()


async def test_a_revocation_in_an_emptied_memory_does_not_hide_the_loss(world: StateWorld, store: StateStore) -> None:
    spent = accept(make_chain())
    await store.spend(spent, policy=POLICY, now=NOW)
    world.flush()
    await store.revoke(RevocationKind.TXN, "txn-other", not_before=NOW)
    await store.health()
    assert await refused(store, spent) is Reason.REPLAY_MEMORY_LOST
    assert [one.value for one in await store.revocations()] == ["txn-other"]


async def test_a_memory_emptied_while_nobody_ran_is_a_loss_and_not_a_beginning(world: StateWorld) -> None:
    """The issuer's clock is 2 s ahead: its grant is younger than the second in which the next process opens."""
    first = world.open(NOW)
    grant = accept(make_chain(make_root(now=NOW + 2), now=NOW + 2))
    await first.spend(grant, policy=POLICY, now=NOW)
    await first.close()
    world.flush()
    second = world.open(NOW + 1)
    assert await refused(second, grant, now=NOW + 1) is Reason.REPLAY_MEMORY_LOST
    await second.spend(issued(NOW + 7), policy=POLICY, now=NOW + 7)
    await second.close()


async def test_a_memory_that_holds_leaves_but_no_beginning_is_a_loss_also_to_who_never_saw_it(
    world: StateWorld, tmp_path: Path
) -> None:
    first = world.open(NOW)
    grant = accept(make_chain(make_root(now=NOW + 2), now=NOW + 2))
    await first.spend(grant, policy=POLICY, now=NOW)
    await first.close()
    for seen in tmp_path.rglob("state.seen"):
        seen.unlink()
    world.forget_the_beginning()
    second = world.open(NOW + 1)
    assert await refused(second, grant, now=NOW + 1) is Reason.REPLAY_MEMORY_LOST
    await second.close()


async def test_a_grant_issued_before_the_memory_began_is_not_accepted(world: StateWorld) -> None:
    grant = accept(make_chain())
    store = world.open(NOW + 1)
    assert await refused(store, grant, now=NOW + 1) is Reason.REPLAY_MEMORY_LOST
    await store.close()


async def test_a_second_process_does_not_arm_again(world: StateWorld, store: StateStore) -> None:
    later = world.open(NOW + 100)
    await later.spend(accept(make_chain()), policy=POLICY, now=NOW)
    await later.close()


async def test_a_home_that_takes_another_store_trusts_it_from_then_on_only(
    sqlite_world: SqliteWorld, redis_world: RedisWorld, tmp_path: Path
) -> None:
    """What was spent in the first store is unknown to the second, which others have used for long."""
    seen = tmp_path / "state.seen"
    others = RedisState.open(redis_world.address, now=NOW - 1_000)
    first = SqliteState.open(sqlite_world.path, now=NOW, seen_file=seen)
    grant = accept(make_chain())
    await first.spend(grant, policy=POLICY, now=NOW)
    await first.close()
    second = RedisState.open(redis_world.address, now=NOW + 1, seen_file=seen)
    assert await refused(second, grant, now=NOW + 1) is Reason.REPLAY_MEMORY_LOST
    await second.spend(issued(NOW + 8), policy=POLICY, now=NOW + 8)
    await others.close()
    await second.close()


# what a home saw


async def test_a_home_that_was_put_back_whole_is_noticed(tmp_path: Path) -> None:
    home, backup = tmp_path / "home", tmp_path / "backup"
    first = SqliteState.open(home / "state.sqlite3", now=NOW)
    await first.spend(accept(make_chain()), policy=POLICY, now=NOW)
    await first.close()
    shutil.copytree(home, backup)
    second = SqliteState.open(home / "state.sqlite3", now=NOW)
    grant = accept(make_chain())
    await second.spend(grant, policy=POLICY, now=NOW)
    await second.close()
    age(backup / "state.seen", 3)
    for kept in backup.iterdir():  # the same inodes as before, the times that the copies have
        shutil.copy2(kept, home / kept.name)
    third = SqliteState.open(home / "state.sqlite3", now=NOW)
    assert await refused(third, grant) is Reason.REPLAY_MEMORY_LOST
    await third.close()


def age(path: Path, seconds: float) -> None:
    """As if it had been written so long ago."""
    raw = json.loads(path.read_text())
    raw["written"] -= seconds
    path.write_text(json.dumps(raw))


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", b'{"memory": "m"}', b"\xff", b'{"memory":"m","epoch":"x","seq":1}']
)
async def test_a_sighting_that_does_not_read_is_none(world: StateWorld, tmp_path: Path, content: bytes) -> None:
    first = world.open(NOW)
    await first.close()
    for seen in tmp_path.rglob("state.seen"):
        seen.write_bytes(content)
    second = world.open(NOW)
    await second.spend(accept(make_chain()), policy=POLICY, now=NOW)
    await second.close()


def test_a_sighting_never_goes_back_within_one_memory(tmp_path: Path) -> None:
    one, two = SeenFile(tmp_path / "seen"), SeenFile(tmp_path / "seen")
    one.keep(Progress("m", 1, 9))
    two.keep(Progress("m", 1, 8))
    held = one.read()
    assert held is not None
    assert held.progress == Progress("m", 1, 9)
    two.keep(Progress("n", 1, 1))
    assert two.read() != held
    assert list(tmp_path.iterdir()) == [tmp_path / "seen"]
    assert (tmp_path / "seen").stat().st_mode & 0o077 == 0


async def test_a_home_that_cannot_be_written_costs_the_sighting_only(redis_world: RedisWorld, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = RedisState.open(redis_world.address, now=NOW, seen_file=tmp_path / "file" / "state.seen")
    await store.spend(accept(make_chain()), policy=POLICY, now=NOW)
    await store.close()


# SQLite: exchanged and put back


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


def copied(path: Path) -> Path:
    """A consistent copy of the database, as a backup makes it."""
    backup = path.with_name("backup")
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(backup)) as copy:
        source.backup(copy)
    return backup


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


async def test_revocations_survive_what_is_put_aside_as_far_as_they_read(sqlite_world: SqliteWorld) -> None:
    path = sqlite_world.path
    store = SqliteState.open(path, now=NOW)
    await store.revoke(RevocationKind.SUBJECT, "u-eng-01", not_before=NOW + 10_000)
    backup = copied(path)
    shutil.copyfile(backup, path)
    assert await refused(store, issued(NOW + 60), now=NOW + 60) is Reason.REPLAY_MEMORY_LOST
    assert await refused(store, issued(NOW + 120), now=NOW + 120) is Reason.GRANT_REVOKED
    await store.close()


# Redis: failover and restored copies


async def test_a_restart_is_a_memory_lost_and_recovers_by_itself(own_server: OwnServer) -> None:
    store = RedisState.open(own_server.url, now=NOW, budget=BUDGET)
    spent = accept(make_chain())
    await store.spend(spent, policy=POLICY, now=NOW)
    own_server.stop()
    assert await refused(store, accept(make_chain())) is Reason.STATE_UNAVAILABLE
    assert await refused_again(store, spent) is Reason.STATE_UNAVAILABLE
    own_server.start()
    assert await refused(store, accept(make_chain()), now=NOW + 1) is Reason.REPLAY_MEMORY_LOST
    await store.spend(issued(NOW + 20), policy=POLICY, now=NOW + 20)
    await store.close()


async def test_the_end_of_a_server_costs_each_process_one_call_and_not_one_for_each_connection(
    own_server: OwnServer,
) -> None:
    store = RedisState.open(own_server.url, now=NOW, budget=BUDGET)
    await asyncio.gather(*(store.spend(accept(make_chain()), policy=POLICY, now=NOW) for _ in range(16)))
    own_server.stop()
    own_server.start()
    await refused(store, accept(make_chain()))
    for _ in range(20):
        assert await refused(store, accept(make_chain())) is Reason.REPLAY_MEMORY_LOST
    await store.close()


async def test_a_server_that_restarted_while_nobody_ran_is_a_memory_lost(own_server: OwnServer) -> None:
    """It may have lost the last second of its log; the issuer's clock is 2 s ahead."""
    first = RedisState.open(own_server.url, now=NOW)
    grant = accept(make_chain(make_root(now=NOW + 2), now=NOW + 2))
    await first.close()
    own_server.stop()
    own_server.start()
    second = RedisState.open(own_server.url, now=NOW + 1)
    assert await refused(second, grant, now=NOW + 1) is Reason.REPLAY_MEMORY_LOST
    await second.close()


async def test_a_failover_to_a_lagging_replica_is_a_memory_lost(own_server: OwnServer, tmp_path: Path) -> None:
    """The replica takes the primary's address over; it never heard of the last leaf."""
    replica = OwnServer(tmp_path / "replica")
    with own_server.client() as primary, replica.client() as other:
        follow(other, own_server.port)
        store, idle = (RedisState.open(own_server.url, now=NOW) for _ in range(2))
        primary.wait(1, 2_000)
        other.replicaof("NO", "ONE")
        spent = accept(make_chain())
        await store.spend(spent, policy=POLICY, now=NOW)
        own_server.stop()
        assert await refused(store, spent) is Reason.STATE_UNAVAILABLE
        other.config_set("port", own_server.port)
    assert await refused(idle, spent, now=NOW + 1) is Reason.REPLAY_MEMORY_LOST
    assert await refused(store, spent, now=NOW + 2) is Reason.REPLAY_MEMORY_LOST
    fresh = issued(NOW + 20)
    await store.spend(fresh, policy=POLICY, now=NOW + 20)
    assert await refused(idle, fresh, now=NOW + 20) is Reason.GRANT_REPLAYED
    await store.close()
    await idle.close()
    replica.stop()


def follow(replica: redis.Redis, port: int) -> None:
    replica.replicaof("127.0.0.1", port)
    deadline = time.monotonic() + 10
    while replica.info("replication").get("master_link_status") != "up" and time.monotonic() < deadline:
        time.sleep(0.02)


async def test_a_primary_that_is_demoted_answers_nothing_and_is_not_believed_when_it_returns(
    own_server: OwnServer, tmp_path: Path
) -> None:
    """Connections stay open through a demotion. It comes back with what its new primary knew, and the same run id."""
    other = OwnServer(tmp_path / "other")
    with own_server.client() as primary, other.client() as second:
        follow(second, own_server.port)
        store, idle = (RedisState.open(own_server.url, now=NOW) for _ in range(2))
        primary.wait(1, 2_000)
        second.replicaof("NO", "ONE")
        spent = accept(make_chain())
        await store.spend(spent, policy=POLICY, now=NOW)
        follow(primary, other.port)
        assert await refused_again(store, spent) is Reason.STATE_UNAVAILABLE
        assert await refused(store, accept(make_chain())) is Reason.STATE_UNAVAILABLE
        with pytest.raises(DatasetAgentError) as stop:
            await store.health()
        assert code_of(stop) == "grants.state.replica"
        primary.replicaof("NO", "ONE")
    assert await refused(idle, spent, now=NOW + 1) is Reason.REPLAY_MEMORY_LOST
    await store.spend(issued(NOW + 20), policy=POLICY, now=NOW + 20)
    await store.close()
    await idle.close()
    other.stop()


async def test_a_copy_loaded_into_a_running_server_is_a_memory_lost(own_server: OwnServer) -> None:
    store = RedisState.open(own_server.url, now=NOW)
    with own_server.client() as client:
        raw = redis.Redis.from_url(own_server.url)
        await store.spend(accept(make_chain()), policy=POLICY, now=NOW)
        kept = {key: raw.dump(key) or b"" for key in (MEMORY, SPENT)}
        spent = accept(make_chain())
        await store.spend(spent, policy=POLICY, now=NOW)
        for key, dump in kept.items():
            raw.restore(key, 0, dump, replace=True)
        raw.close()
        assert client.zcard(SPENT) == 1
    assert await refused(store, spent) is Reason.REPLAY_MEMORY_LOST
    await store.close()


@pytest.mark.parametrize("key", [MEMORY, SPENT])
async def test_a_key_that_is_evicted_is_a_memory_lost(redis_world: RedisWorld, key: str) -> None:
    """Whatever evicted it, and however short the policy was another."""
    store, idle = redis_world.open(NOW), redis_world.open(NOW)
    spent = accept(make_chain())
    await store.spend(spent, policy=POLICY, now=NOW)
    with redis.Redis.from_url(redis_world.address) as client:
        assert client.unlink(key) == 1
    assert await refused(idle, spent) is Reason.REPLAY_MEMORY_LOST
    assert await refused(store, spent) is Reason.REPLAY_MEMORY_LOST
    await store.spend(issued(NOW + 20), policy=POLICY, now=NOW + 20)
    await store.close()
    await idle.close()
