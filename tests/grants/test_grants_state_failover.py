"""A Redis that restarts, fails over, comes back, is loaded or evicts is noticed by whoever asks first."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
import redis

from contract.errors import DatasetAgentError
from contract.verdict import NotGranted, Reason
from grants.state import RevocationKind
from grants.state_redis import MEMORY, SPENT, RedisState
from tests.grants.grants_world import NOW, accept, make_chain, make_root
from tests.grants.state_worlds import (
    BUDGET,
    POLICY,
    OwnServer,
    RedisWorld,
    code_of,
    issued,
    refused,
    refused_again,
)

pytestmark = pytest.mark.live


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
    reasons = await asyncio.gather(*(refused(store, accept(make_chain())) for _ in range(16)))
    assert set(reasons) == {Reason.REPLAY_MEMORY_LOST}
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
        with pytest.raises(DatasetAgentError) as stop:
            await store.revoke(RevocationKind.TXN, "t", not_before=NOW)
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


async def test_a_copy_from_before_the_last_loss_is_another_loss(redis_world: RedisWorld) -> None:
    """It has as many leaves as it says, on the very server: only the count of losses tells."""
    store = redis_world.open(NOW)
    raw = redis.Redis.from_url(redis_world.address)
    await store.spend(accept(make_chain()), policy=POLICY, now=NOW)
    await store.spend(accept(make_chain()), policy=POLICY, now=NOW)
    kept = {key: raw.dump(key) or b"" for key in (MEMORY, SPENT)}
    raw.unlink(SPENT)
    assert await refused(store, accept(make_chain())) is Reason.REPLAY_MEMORY_LOST
    later = issued(NOW + 20)
    await store.spend(later, policy=POLICY, now=NOW + 20)
    for key, dump in kept.items():
        raw.restore(key, 0, dump, replace=True)
    raw.close()
    assert await refused(store, later, now=NOW + 21) is Reason.REPLAY_MEMORY_LOST
    await store.close()


async def test_a_clock_that_is_behind_arms_nothing_earlier_after_a_loss(redis_world: RedisWorld) -> None:
    store = redis_world.open(NOW + 100)
    await store.spend(issued(NOW + 100), policy=POLICY, now=NOW + 100)
    with redis.Redis.from_url(redis_world.address) as client:
        client.unlink(SPENT)
    for since in (50, 70):
        with pytest.raises(NotGranted) as stop:
            await store.spend(issued(NOW + since), policy=POLICY, now=NOW + since)
        assert stop.value.reason is Reason.REPLAY_MEMORY_LOST
    await store.close()
