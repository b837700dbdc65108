"""A memory that was emptied, exchanged or put back to an earlier copy is noticed, once, and works again by itself."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import redis

from contract.errors import DatasetAgentError
from contract.files import of_another_user
from contract.settings import Settings
from contract.verdict import Reason
from grants.state import Progress, RevocationKind, StateStore, open_state, reach_state
from grants.state_redis import MEMORY, SPENT, RedisState
from grants.state_seen import SeenFile
from grants.state_sqlite import SqliteState
from tests.grants.grants_world import NOW, accept, make_chain, make_root
from tests.grants.state_worlds import (
    POLICY,
    RedisWorld,
    SqliteWorld,
    StateWorld,
    copied,
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
    for _ in range(5):  # further than the first store came
        await others.spend(accept(make_chain()), policy=POLICY, now=NOW)
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
    fourth = SqliteState.open(home / "state.sqlite3", now=NOW + 60)
    await fourth.spend(issued(NOW + 60), policy=POLICY, now=NOW + 60)
    await fourth.close()


async def test_a_home_whose_sighting_another_hand_wrote_does_not_believe_its_server(
    redis_world: RedisWorld, tmp_path: Path
) -> None:
    first = redis_world.open(NOW)
    grant = accept(make_chain(make_root(now=NOW + 2), now=NOW + 2))
    await first.close()
    age(tmp_path / "state.seen", 3)
    second = redis_world.open(NOW + 1)
    assert await refused(second, grant, now=NOW + 1) is Reason.REPLAY_MEMORY_LOST
    await second.close()


def age(path: Path, seconds: float) -> None:
    """As if it had been written so long ago."""
    raw = json.loads(path.read_text())
    raw["written"] -= seconds
    path.write_text(json.dumps(raw))


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", b'{"memory": "m"}', b"\xff", b'{"memory":"m","epoch":"x","seq":1}']
)
async def test_a_sighting_that_another_hand_spoilt_is_a_loss_and_no_sighting_of_nothing(
    world: StateWorld, content: bytes
) -> None:
    first = world.open(NOW)
    grant = accept(make_chain(make_root(now=NOW + 2), now=NOW + 2))
    await first.close()
    (world.home / "state.seen").write_bytes(content)
    second = world.open(NOW + 1)
    assert await refused(second, grant, now=NOW + 1) is Reason.REPLAY_MEMORY_LOST
    await second.spend(issued(NOW + 8), policy=POLICY, now=NOW + 8)
    await second.close()
    third = world.open(NOW + 9)
    await third.spend(issued(NOW + 9), policy=POLICY, now=NOW + 9)
    await third.close()


async def test_a_store_does_not_start_beside_a_sighting_that_it_cannot_read(world: StateWorld) -> None:
    """As one that another user left behind; here a folder, which nobody reads as a file."""
    first = world.open(NOW)
    await first.close()
    seen = world.home / "state.seen"
    seen.unlink()
    seen.mkdir()
    with pytest.raises(DatasetAgentError, match="state.seen cannot be read") as stop:
        world.open(NOW)
    assert stop.value.code == "grants.state.seen"
    seen.rmdir()


@pytest.mark.parametrize("name", ["state.seen", "state.sqlite3"])
def test_a_store_whose_files_are_another_users_is_opened_by_that_user_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / name).write_bytes(b"")
    mine = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
    for opened in (open_state, reach_state):
        with pytest.raises(DatasetAgentError, match=f"belongs to user {mine}.*run this as that user") as stop:
            opened(Settings(home=tmp_path))
        assert stop.value.code == "grants.state.user"
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_the_superuser_begins_no_store_in_another_users_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert of_another_user(tmp_path, tmp_path / "state.seen") is None
    if os.geteuid() == 0:
        os.chown(tmp_path, 65534, 65534)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert of_another_user(tmp_path, tmp_path / "state.seen") == (tmp_path, tmp_path.stat().st_uid)


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


# put back


@dataclass
class Copy:
    """What an operator kept of a store, and puts back under running processes."""

    world: StateWorld
    folder: Path
    dumps: dict[str, bytes] = field(default_factory=dict)

    def keep(self) -> None:
        if isinstance(self.world, SqliteWorld):
            copied(self.world.path).replace(self.folder / "kept")
        else:
            with redis.Redis.from_url(self.world.address) as client:
                self.dumps = {key: client.dump(key) or b"" for key in (MEMORY, SPENT)}

    def put_back(self) -> None:
        if isinstance(self.world, SqliteWorld):
            for suffix in ("-wal", "-shm"):
                Path(f"{self.world.path}{suffix}").unlink()
            (self.folder / "kept").replace(self.world.path)
        else:
            with redis.Redis.from_url(self.world.address) as client:
                for key, dump in self.dumps.items():
                    client.restore(key, 0, dump, replace=True)


@pytest.fixture
def copy(world: StateWorld, tmp_path: Path) -> Copy:
    return Copy(world, tmp_path)


async def test_a_revocation_that_is_put_back_to_before_it_was_made_is_a_memory_lost(
    world: StateWorld, store: StateStore, copy: Copy
) -> None:
    grant = accept(make_chain())
    await store.spend(grant, policy=POLICY, now=NOW)
    copy.keep()
    await store.revoke(RevocationKind.GRANT, grant.root_jti, not_before=NOW)
    assert await refused_again(store, grant) is Reason.GRANT_REVOKED
    copy.put_back()
    assert await refused_again(store, grant) is Reason.REPLAY_MEMORY_LOST


async def test_one_loss_is_one_loss_also_to_the_process_that_had_seen_most(
    world: StateWorld, store: StateStore, copy: Copy
) -> None:
    furthest = world.open(NOW)
    await store.spend(accept(make_chain()), policy=POLICY, now=NOW)
    copy.keep()
    await store.spend(accept(make_chain()), policy=POLICY, now=NOW)
    for _ in range(9):
        await furthest.spend(accept(make_chain()), policy=POLICY, now=NOW)
    copy.put_back()
    assert await refused(store, accept(make_chain())) is Reason.REPLAY_MEMORY_LOST
    await furthest.spend(issued(NOW + 600), policy=POLICY, now=NOW + 600)
    await furthest.close()
