"""The cache and the state over TLS, a cluster, and a primary that sentinels replace: with real servers."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis.crc import key_slot

from cache.redis_store import RedisStore
from cache.store import CacheStore, StoreUnavailable
from contract.errors import DatasetAgentError
from contract.verdict import Reason
from grants.state import RevocationKind
from grants.state_redis import MEMORY, SPENT, RedisState
from tests.cache.valkey_world import (
    Certificates,
    Server,
    Watched,
    behind_tls,
    cluster,
    cluster_url,
    node_id,
    running,
    until,
    watched,
)
from tests.grants.grants_world import NOW as THEN
from tests.grants.grants_world import accept, make_chain
from tests.grants.state_worlds import POLICY, issued, refused

pytestmark = pytest.mark.live
NOW = 1_000.0
KEYS = [f"dsc:1:{{part{number}}}:e:i" for number in range(60)]
PATIENT = 2.0


async def keep(store: CacheStore, keys: list[str] = KEYS) -> None:
    for key in keys:
        assert await store.put(key, b"entry of " + key.encode(), exp=NOW + 600, now=NOW)


async def works(store: CacheStore, key: str = KEYS[0]) -> bool:
    """Asked until it answers, as calls do."""
    try:
        return await store.put(key, b"x", exp=NOW + 60, now=NOW) and await store.get(key, now=NOW) == b"x"
    except StoreUnavailable:
        return False


async def recovers(store: CacheStore, key: str = KEYS[0]) -> None:
    deadline = time.monotonic() + 30
    while not await works(store, key):
        assert time.monotonic() < deadline


# a cluster


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[tuple[Server, ...]]:
    with cluster(tmp_path) as made:
        yield made


def sent_on(node: Server) -> int:
    """How many commands the server has sent to where their key is."""
    with node.client() as client:
        told = client.info("errorstats")
    assert isinstance(told, dict)
    return int(told.get("errorstat_MOVED", {"count": 0})["count"])


async def test_entries_are_kept_found_listed_and_deleted_over_all_servers_of_a_cluster(
    nodes: tuple[Server, ...],
) -> None:
    store = RedisStore.connect(cluster_url(nodes[:1]), budget_s=PATIENT)
    await keep(store)
    assert [await store.get(key, now=NOW) for key in KEYS] == [b"entry of " + key.encode() for key in KEYS]
    for node in nodes:
        with node.client() as client:
            assert 0 < client.dbsize() < len(KEYS)
    assert {entry.key async for entry in store.entries()} == set(KEYS)
    await store.count({"hit": 3, "absent": 2})
    told = await store.stats()
    assert (told.entries, dict(told.counters)) == (len(KEYS), {"hit": 3, "absent": 2})
    assert len(await store.memory()) == len(nodes)
    assert await store.delete(KEYS[:50]) == 50
    assert {entry.key async for entry in store.entries()} == set(KEYS[50:])
    await store.close()


async def test_an_entry_its_lease_and_its_partition_are_in_one_slot_of_a_cluster(nodes: tuple[Server, ...]) -> None:
    store = RedisStore.connect(cluster_url(nodes), budget_s=PATIENT)
    for key in KEYS:
        assert await store.lease(key, "me", life_s=5, now=NOW)
        assert not await store.lease(key, "other", life_s=5, now=NOW)
        assert await store.put(key, b"mine", exp=NOW + 60, now=NOW, owner="me")
        assert not await store.put(key, b"late", exp=NOW + 60, now=NOW, owner="other")
        assert await store.get(key, now=NOW) == b"mine"
        assert await store.release(key, "me")
    assert sum(map(sent_on, nodes)) == 0
    await store.close()


async def test_a_slot_is_followed_while_it_moves_and_after(nodes: tuple[Server, ...]) -> None:
    store = RedisStore.connect(cluster_url(nodes), budget_s=PATIENT)
    slot = key_slot(b"part0")
    source = next(node for number, node in enumerate(nodes) if slot < 16_384 * (number + 1) // 3)
    target = next(node for node in nodes if node is not source)
    # the slot is empty: whatever is asked for meanwhile is at its new place (ASK)
    other = RedisStore.connect(cluster_url(nodes), budget_s=PATIENT)
    assert [await each.get(KEYS[0], now=NOW) for each in (store, other)] == [None, None]
    with source.client() as old, target.client() as new:
        new.execute_command("CLUSTER SETSLOT", slot, "IMPORTING", node_id(source))
        old.execute_command("CLUSTER SETSLOT", slot, "MIGRATING", node_id(target))
        await keep(store, KEYS[:1])
        assert await store.get(KEYS[0], now=NOW) == b"entry of " + KEYS[0].encode()
        for client in (new, old):
            client.execute_command("CLUSTER SETSLOT", slot, "NODE", node_id(target))
    before = sent_on(source)
    for _ in range(4):
        assert await store.get(KEYS[0], now=NOW) == b"entry of " + KEYS[0].encode()
    assert sent_on(source) - before == 1  # then it is known where the key is
    assert await other.delete(KEYS[:1]) == 1  # by one that has not heard of it
    await other.close()
    await store.close()


async def test_a_server_of_a_cluster_that_is_away_costs_its_own_keys_and_comes_back(
    tmp_path: Path,
) -> None:
    with cluster(tmp_path, cluster_require_full_coverage="no") as nodes:
        store = RedisStore.connect(cluster_url(nodes), budget_s=PATIENT)
        await keep(store)
        here = [key for key in KEYS if key_slot(key.encode()) < 16_384 // 3]
        nodes[0].stop()
        with pytest.raises(StoreUnavailable):
            await store.get(here[0], now=NOW)
        elsewhere = next(key for key in KEYS if key not in here)
        assert await store.get(elsewhere, now=NOW) is not None
        nodes[0].start()
        await recovers(store, here[0])
        await store.close()


async def test_the_state_of_a_cluster_is_in_one_slot(tmp_path: Path) -> None:
    with cluster(tmp_path, appendonly="yes", maxmemory_policy="noeviction") as nodes:
        store = RedisState.open(cluster_url(nodes), now=THEN, budget=PATIENT)
        grant = accept(make_chain())
        await store.spend(grant, policy=POLICY, now=THEN)
        await store.recheck(grant, policy=POLICY, now=THEN)
        assert await refused(store, grant) is Reason.GRANT_REPLAYED
        await store.health()
        await store.close()


async def test_the_state_is_followed_while_its_slot_moves_and_after(tmp_path: Path) -> None:
    with cluster(tmp_path, appendonly="yes", maxmemory_policy="noeviction") as nodes:
        store = RedisState.open(cluster_url(nodes), now=THEN, budget=PATIENT)
        spent = accept(make_chain())
        await store.spend(spent, policy=POLICY, now=THEN)
        slot = key_slot(MEMORY.encode())
        source = next(node for number, node in enumerate(nodes) if slot < 16_384 * (number + 1) // 3)
        target = next(node for node in nodes if node is not source)
        with source.client() as old, target.client() as new:
            new.execute_command("CLUSTER SETSLOT", slot, "IMPORTING", node_id(source))
            old.execute_command("CLUSTER SETSLOT", slot, "MIGRATING", node_id(target))
            assert await refused(store, spent) is Reason.GRANT_REPLAYED  # all of it is still there
            old.execute_command("MIGRATE", "127.0.0.1", target.port, SPENT, 0, 5_000)
            # No server has the whole memory now: what is asked waits until it has arrived.
            waiting = asyncio.create_task(refused(store, spent))
            await asyncio.sleep(0.1)
            assert not waiting.done()
            old.execute_command("MIGRATE", "127.0.0.1", target.port, MEMORY, 0, 5_000)
            # It is another server, so what it remembers is judged as after a failover.
            assert await waiting is Reason.REPLAY_MEMORY_LOST
            later = issued(THEN + 120)
            await store.spend(later, policy=POLICY, now=THEN + 120)
            await store.revoke(RevocationKind.GRANT, "gone", not_before=THEN + 120)
            for client in (new, old):
                client.execute_command("CLUSTER SETSLOT", slot, "NODE", node_id(target))
        assert await refused(store, later, now=THEN + 120) is Reason.GRANT_REPLAYED
        assert [revocation.value for revocation in await store.revocations()] == ["gone"]
        await store.close()


# sentinels


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[Watched]:
    with watched(tmp_path) as made:
        yield made


async def test_the_primary_that_sentinels_name_is_found_past_one_that_is_silent_and_one_that_is_away(
    watch: Watched,
) -> None:
    watch.sentinels[0].signal(signal.SIGSTOP)
    watch.sentinels[1].stop()
    store = RedisStore.connect(watch.url, budget_s=PATIENT)
    await keep(store)
    with watch.primary.client() as client:
        assert client.dbsize() == len(KEYS)
    await store.close()


@pytest.mark.parametrize("ending", ["killed", "silent"])
async def test_a_primary_that_ends_is_followed_to_its_successor(watch: Watched, ending: str) -> None:
    store = RedisStore.connect(watch.url, budget_s=0.2)
    await recovers(store)
    if ending == "killed":
        watch.primary.stop()
    else:
        watch.primary.signal(signal.SIGSTOP)
    with pytest.raises(StoreUnavailable):
        await store.get(KEYS[0], now=NOW)
    watch.failed_over()
    await recovers(store)
    with watch.replica.client() as client:
        assert client.exists(KEYS[0])
    await store.close()


async def test_a_primary_that_was_demoted_is_followed_within_one_command(watch: Watched) -> None:
    store = RedisStore.connect(watch.url, budget_s=PATIENT)
    await recovers(store)
    with watch.sentinels[0].client() as client:
        client.execute_command("SENTINEL FAILOVER", "cache")
    watch.failed_over()
    with watch.primary.client() as client:
        until(lambda: client.execute_command("ROLE")[0] == "slave", "it is not demoted")
    for sentinel in watch.sentinels:
        with sentinel.client() as client:
            until(
                lambda client=client: (  # type: ignore[misc]
                    int(client.execute_command("SENTINEL GET-MASTER-ADDR-BY-NAME", "cache")[1]) == watch.replica.port
                ),
                "a sentinel did not hear of it",
            )
    await keep(store, KEYS[:1])
    assert await store.get(KEYS[0], now=NOW) is not None
    await store.close()


async def test_the_state_behind_sentinels_is_a_memory_lost_after_a_failover_and_goes_on(tmp_path: Path) -> None:
    with watched(tmp_path, appendonly="yes", maxmemory_policy="noeviction") as watch:
        store = RedisState.open(watch.url, now=THEN, budget=PATIENT)
        grant = accept(make_chain())
        await store.spend(grant, policy=POLICY, now=THEN)
        watch.primary.stop()
        assert await refused(store, accept(make_chain())) is Reason.STATE_UNAVAILABLE
        watch.failed_over()
        reasons = {Reason.STATE_UNAVAILABLE}
        deadline = time.monotonic() + 30
        while reasons == {Reason.STATE_UNAVAILABLE} and time.monotonic() < deadline:
            reasons = {await refused(store, accept(make_chain()), now=THEN + 1)}
        assert reasons == {Reason.REPLAY_MEMORY_LOST}
        assert await refused(store, grant, now=THEN + 1) is Reason.REPLAY_MEMORY_LOST
        await store.close()


# TLS


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)


@pytest.fixture
def gate(tmp_path: Path, certificates: Certificates) -> Iterator[int]:
    server = Server(tmp_path / "behind", {"appendonly": "yes"}, password="p@ss/word?#")
    with running(server), behind_tls(server.port, certificates) as port:
        yield port


def tls(
    port: int, certificates: Certificates, *, host: str = "127.0.0.1", authority: bool = True, own: bool = True
) -> str:
    ca = f"&ssl_ca_certs={certificates.path('ca.pem')}" if authority else ""
    mine = (
        f"&ssl_certfile={certificates.path('client.pem')}&ssl_keyfile={certificates.path('client.key')}" if own else ""
    )
    return f"rediss://default:p%40ss%2Fword%3F%23@{host}:{port}/0?ssl_cert_reqs=required{ca}{mine}"


async def test_the_cache_and_the_state_speak_tls_with_a_certificate_of_their_own(
    gate: int, certificates: Certificates
) -> None:
    store = RedisStore.connect(tls(gate, certificates), budget_s=PATIENT)
    await keep(store)
    assert await store.get(KEYS[0], now=NOW) is not None
    assert (await store.stats()).entries == len(KEYS)
    await store.close()
    state = RedisState.open(tls(gate, certificates), now=THEN, budget=PATIENT)
    grant = accept(make_chain())
    await state.spend(grant, policy=POLICY, now=THEN)
    assert await refused(state, grant) is Reason.GRANT_REPLAYED
    await state.close()


@pytest.mark.parametrize("lacking", ["authority", "own"])
async def test_without_the_authority_or_a_certificate_nothing_is_said(
    gate: int, certificates: Certificates, lacking: str
) -> None:
    store = RedisStore.connect(
        tls(gate, certificates, authority=lacking != "authority", own=lacking != "own"), budget_s=PATIENT
    )
    with pytest.raises(StoreUnavailable):
        await store.get(KEYS[0], now=NOW)
    await store.close()


async def test_a_certificate_of_another_name_is_none(gate: int, certificates: Certificates) -> None:
    store = RedisStore.connect(tls(gate, certificates, host="localhost"), budget_s=PATIENT)
    with pytest.raises(StoreUnavailable):
        await store.get(KEYS[0], now=NOW)
    await store.close()


async def test_a_certificate_file_that_is_not_there_is_told_without_the_password(
    certificates: Certificates, tmp_path: Path
) -> None:
    with pytest.raises(DatasetAgentError, match="ssl_ca_certs") as caught:
        RedisStore.connect(tls(1, certificates).replace("ca.pem", "none.pem"))
    assert "p@ss" not in str(caught.value)
    assert "p%40ss" not in str(caught.value)
