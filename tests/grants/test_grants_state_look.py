"""Looking into the memory: the same answer that a spend would get, and nothing is spent or written by it."""

from __future__ import annotations

from pathlib import Path

import pytest
import redis

from contract.errors import DatasetAgentError
from contract.settings import Settings
from contract.verdict import Reason
from grants.state import RevocationKind, StateStore, reach_state
from grants.state_look import look
from grants.state_reading import has_memory, read_memory
from grants.state_redis import RedisState
from tests.grants.grants_world import ISSUER, NOW, SIGNERS, accept, make_chain, make_root
from tests.grants.state_worlds import POLICY, OwnServer, RedisWorld, SqliteWorld, StateWorld, issued, refused
from tests.valkey_server import ValkeyServer


@pytest.fixture
def settings(world: StateWorld, tmp_path: Path) -> Settings:
    """Of somebody who shares the store of the world."""
    home = world.home if isinstance(world, SqliteWorld) else tmp_path / "elsewhere"
    return Settings(home=home, state_url=None if isinstance(world, SqliteWorld) else world.address)


async def reason(settings: Settings, **changes: object) -> Reason | None:
    stop = await look(settings, accept(make_chain(), **changes), now=NOW)
    return None if stop is None else stop.reason


async def test_looking_spends_nothing(store: StateStore, settings: Settings) -> None:
    grant = accept(make_chain())
    for _ in range(3):
        assert await look(settings, grant, now=NOW) is None
    await store.spend(grant, policy=POLICY, now=NOW)


async def test_a_leaf_that_was_spent_is_called_so(store: StateStore, settings: Settings) -> None:
    grant, other = accept(make_chain()), accept(make_chain())
    await store.spend(grant, policy=POLICY, now=NOW)
    for looked, expected in ((grant, Reason.GRANT_REPLAYED), (other, None)):
        stop = await look(settings, looked, now=NOW)
        assert (stop.reason if stop else None) is expected
    assert await refused(store, grant) is Reason.GRANT_REPLAYED


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (RevocationKind.SUBJECT, "u-eng-01"),
        (RevocationKind.KEY, SIGNERS[ISSUER].public_key.thumbprint),
        (RevocationKind.DATASET, "purification-batches@1.0.0"),
        (RevocationKind.POLICY, "BPD-DATA-014@2026.1"),
    ],
)
async def test_a_revocation_is_seen(store: StateStore, settings: Settings, kind: RevocationKind, value: str) -> None:
    assert await reason(settings) is None
    await store.revoke(kind, value, not_before=NOW)
    assert await reason(settings) is Reason.GRANT_REVOKED


async def test_a_grant_that_is_older_than_the_memory_is_indeterminate(store: StateStore, settings: Settings) -> None:
    stop = await look(settings, issued(NOW - 100), now=NOW)
    assert stop is not None
    assert stop.reason is Reason.REPLAY_MEMORY_LOST


async def test_a_memory_that_was_lost_is_told_as_whoever_spends_next_will_find_it_and_stays_as_it_is(
    world: StateWorld, settings: Settings
) -> None:
    await world.open(NOW).close()  # what was seen is beside the store by then
    if not isinstance(world, SqliteWorld):
        settings = settings.model_copy(update={"home": world.home})
    world.flush()
    for _ in range(3):
        assert await reason(settings) is Reason.REPLAY_MEMORY_LOST
    again = world.open(NOW + 20)
    assert await refused(again, accept(make_chain(make_root())), now=NOW + 20) is Reason.REPLAY_MEMORY_LOST
    await again.spend(issued(NOW + 26), policy=POLICY, now=NOW + 26)  # armed by the one who spends, and only now
    await again.close()


async def test_a_store_in_which_nothing_was_ever_kept_would_take_what_is_issued_from_now_on(
    valkey: ValkeyServer, tmp_path: Path
) -> None:
    settings = Settings(home=tmp_path, state_url=valkey.connection_url)
    with redis.Redis.from_url(valkey.connection_url) as client:
        client.flushall()
        assert await look(settings, issued(NOW), now=NOW) is None
        older = await look(settings, issued(NOW - 1), now=NOW)
        assert older is not None
        assert older.reason is Reason.REPLAY_MEMORY_LOST
        assert client.dbsize() == 0


@pytest.mark.parametrize("setting", [("maxmemory-policy", "allkeys-lru"), ("appendonly", "no")])
async def test_a_server_that_may_forget_is_unavailable_as_to_the_receiver(
    own_server: OwnServer, tmp_path: Path, setting: tuple[str, str]
) -> None:
    settings = Settings(home=tmp_path, state_url=own_server.url)
    store = RedisState.open(own_server.url, now=NOW)
    assert await reason(settings) is None
    with own_server.client() as client:
        client.config_set(*setting)
    assert await reason(settings) is Reason.STATE_UNAVAILABLE
    assert await refused(store, accept(make_chain())) is Reason.STATE_UNAVAILABLE
    with pytest.raises(DatasetAgentError, match=f"CONFIG SET {setting[0]}"):
        await read_memory(settings)
    await store.close()


def everything(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Every file: its inode, when it was written and what is in it; SQLite's index is of its readers too."""
    return {
        path.name: (path.stat().st_ino, path.stat().st_mtime_ns, path.read_bytes())
        for path in folder.iterdir()
        if not path.name.endswith("-shm")
    }


async def test_looking_leaves_a_stopped_store_as_it_was(sqlite_world: SqliteWorld) -> None:
    store = sqlite_world.open(NOW)
    grant = accept(make_chain())
    await store.spend(grant, policy=POLICY, now=NOW)
    await store.close()
    home = sqlite_world.path.parent
    before = everything(home)
    assert await reason(Settings(home=home)) is None
    stop = await look(Settings(home=home), grant, now=NOW)
    assert stop is not None
    assert stop.reason is Reason.GRANT_REPLAYED
    assert everything(home) == before
    assert not list(home.glob("*-shm"))


async def test_looking_leaves_a_store_in_use_as_it_was(sqlite_world: SqliteWorld) -> None:
    store = sqlite_world.open(NOW)
    await store.revoke(RevocationKind.TXN, "t", not_before=NOW)
    before = everything(sqlite_world.path.parent)
    held = await read_memory(Settings(home=sqlite_world.path.parent))
    assert [revoked.value for revoked in held.revocations] == ["t"]
    assert (held.armed, held.lost) == (NOW, False)
    assert everything(sqlite_world.path.parent) == before
    await store.spend(accept(make_chain()), policy=POLICY, now=NOW)
    await store.close()


async def test_looking_does_not_arm_a_server_whose_memory_was_lost_by_a_clock_that_is_ahead(
    redis_world: RedisWorld,
) -> None:
    store = redis_world.open(NOW)
    redis_world.flush()
    settings = Settings(home=redis_world.home, state_url=redis_world.address)
    assert (await read_memory(settings)).lost
    assert await look(settings, issued(NOW), now=NOW + 86_400) is not None
    assert await refused(store, issued(NOW)) is Reason.REPLAY_MEMORY_LOST
    await store.spend(issued(NOW + 6), policy=POLICY, now=NOW + 6)
    await store.close()


async def test_a_revocation_does_not_arm_a_memory_that_was_lost_and_notes_nothing_beside_it(
    world: StateWorld, settings: Settings
) -> None:
    store = world.open(NOW)
    world.flush()
    reached = reach_state(settings)
    await reached.revoke(RevocationKind.TXN, "t", not_before=NOW + 100)
    assert [revoked.value for revoked in await reached.revocations()] == ["t"]
    await reached.close()
    assert await refused(store, issued(NOW)) is Reason.REPLAY_MEMORY_LOST
    await store.spend(issued(NOW + 6), policy=POLICY, now=NOW + 6)
    assert [revoked.value for revoked in await store.revocations()] == ["t"]
    await store.close()


async def test_a_revocation_in_a_store_that_never_began_is_there_when_it_does(
    world: StateWorld, settings: Settings
) -> None:
    reached = reach_state(settings)
    grant = issued(NOW)
    await reached.revoke(RevocationKind.SUBJECT, grant.subject, not_before=NOW)
    await reached.close()
    assert not (settings.home / "state.seen").exists()
    store = world.open(NOW)
    assert await refused(store, grant) is Reason.GRANT_REVOKED
    await store.close()


async def test_a_store_that_is_silent_is_unavailable(store: StateStore, world: StateWorld, settings: Settings) -> None:
    grant = accept(make_chain())
    with world.silent():
        stop = await look(settings, grant, now=NOW)
    assert stop is not None
    assert stop.reason is Reason.STATE_UNAVAILABLE


def test_without_a_store_there_is_nothing_to_look_into(tmp_path: Path) -> None:
    assert not has_memory(Settings(home=tmp_path / "home"))
    assert has_memory(Settings(home=tmp_path, state_url="redis://127.0.0.1:1"))
    assert list(tmp_path.iterdir()) == []
