"""The state store in a real Valkey: one round trip, a server that may forget, and answers out of step."""

from __future__ import annotations

import asyncio
import random
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import redis

from contract.errors import Category, DatasetAgentError
from contract.grant import VerifiedGrant
from contract.settings import Settings
from contract.verdict import Reason
from grants import state_redis
from grants.state import RevocationKind, names_of, remembered_until, replay_key
from grants.state_look import look
from grants.state_reading import read_memory
from grants.state_redis import MEMORY, SPENT, RedisState, _Question
from grants.state_script import ASK
from tests.grants.grants_world import NOW, accept, make_chain
from tests.grants.state_worlds import (
    POLICY,
    OwnServer,
    RedisWorld,
    code_of,
    issued,
    refused,
    refused_again,
    start_valkey,
)

# one round trip


@contextmanager
def commands_seen(url: str) -> Iterator[list[str]]:
    """The commands that clients send meanwhile, without what a script does inside the server."""
    seen: list[str] = []

    def listen(monitor: Any) -> None:
        for one in monitor.listen():
            if one["command"] == "ECHO done":
                return
            if one["client_type"] != "lua":
                seen.append(str(one["command"]).partition(" ")[0].upper())

    with redis.Redis.from_url(url) as client, redis.Redis.from_url(url) as other:
        other.ping()
        with client.monitor() as monitor:
            listening = threading.Thread(target=listen, args=(monitor,))
            listening.start()
            yield seen
            other.echo("done")
            listening.join(10)


async def test_a_spend_with_its_revocations_is_one_command_and_a_recheck_is_one(redis_world: RedisWorld) -> None:
    store = redis_world.open(NOW)
    await store.spend(accept(make_chain()), policy=POLICY, now=NOW)  # connects
    grants = [accept(make_chain()) for _ in range(5)]
    await store.revoke(RevocationKind.TXN, grants[4].txn, not_before=NOW)
    with commands_seen(redis_world.address) as seen:
        for grant in grants[:4]:
            await store.spend(grant, policy=POLICY, now=NOW)
            await store.recheck(grant, policy=POLICY, now=NOW)
        assert await refused(store, grants[0]) is Reason.GRANT_REPLAYED
        assert await refused(store, grants[4]) is Reason.GRANT_REVOKED
        await store.health()
    assert seen == ["EVALSHA"] * 11
    await store.close()


async def test_a_server_that_forgot_its_scripts_is_told_them_again(redis_world: RedisWorld) -> None:
    store = redis_world.open(NOW)
    await store.spend(accept(make_chain()), policy=POLICY, now=NOW)
    with redis.Redis.from_url(redis_world.address) as client:
        client.script_flush()
    await store.spend(accept(make_chain()), policy=POLICY, now=NOW)
    await store.close()


async def test_an_account_with_the_documented_rights_suffices(redis_world: RedisWorld) -> None:
    documented = "EVAL EVALSHA INFO HGET HMGET HSET HINCRBY HGETALL ZADD ZCARD ZRANGEBYSCORE ZREM"
    rights = [f"+{command.lower()}" for command in documented.split()]
    with redis.Redis.from_url(redis_world.address) as client:
        client.execute_command(
            "ACL", "SETUSER", "agent", "reset", "on", ">secret", "~{dataset-agent}:state:2:*", *rights
        )
    url = redis_world.address.replace("redis://", "redis://agent:secret@")
    store = RedisState.open(url, now=NOW)
    grant = accept(make_chain())
    await store.spend(grant, policy=POLICY, now=NOW)
    await store.recheck(grant, policy=POLICY, now=NOW)
    await store.revoke(RevocationKind.TXN, grant.txn, not_before=NOW)
    assert len(await store.revocations()) == 1
    held = await read_memory(Settings(home=redis_world.home, state_url=url))
    assert (held.armed, [revoked.value for revoked in held.revocations]) == (NOW, [grant.txn])
    await store.health()
    later = NOW + 1_000
    await store.spend(issued(later), policy=POLICY, now=later)  # forgets the first
    await store.close()
    assert documented in str(state_redis.__doc__)


# a server that may forget


@pytest.mark.parametrize(
    ("config", "code", "says"),
    [
        ({"maxmemory_policy": "allkeys-lru"}, "grants.state.evicting", "CONFIG SET maxmemory-policy noeviction"),
        ({"maxmemory_policy": "volatile-ttl"}, "grants.state.evicting", "CONFIG SET maxmemory-policy noeviction"),
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


@pytest.mark.parametrize(
    ("name", "value", "back", "code"),
    [
        ("maxmemory-policy", "allkeys-lfu", "noeviction", "grants.state.evicting"),
        ("appendonly", "no", "yes", "grants.state.not_durable"),
    ],
)
async def test_a_server_that_may_forget_from_now_on_is_noticed_with_the_very_next_answer(
    own_server: OwnServer, name: str, value: str, back: str, code: str
) -> None:
    store = RedisState.open(own_server.url, now=NOW)
    spent = accept(make_chain())
    await store.spend(spent, policy=POLICY, now=NOW)
    with own_server.client() as client:
        client.config_set(name, value)
        assert await refused(store, accept(make_chain())) is Reason.STATE_UNAVAILABLE
        assert await refused_again(store, spent) is Reason.STATE_UNAVAILABLE
        for ask in (store.health(), store.revoke(RevocationKind.TXN, "t", not_before=NOW)):
            with pytest.raises(DatasetAgentError) as stop:
                await ask
            assert code_of(stop) == code
        assert client.zcard(SPENT) == 1
        client.config_set(name, back)
    await store.health()
    assert await refused(store, spent) is Reason.GRANT_REPLAYED
    await store.spend(accept(make_chain()), policy=POLICY, now=NOW)
    await store.close()


async def test_a_full_server_is_indeterminate_and_forgets_nothing(own_server: OwnServer) -> None:
    store = RedisState.open(own_server.url, now=NOW)
    spent, grant = accept(make_chain()), accept(make_chain())
    await store.spend(spent, policy=POLICY, now=NOW)
    with own_server.client() as client:
        client.config_set("maxmemory", "1")
        assert await refused(store, grant) is Reason.STATE_UNAVAILABLE
        client.config_set("maxmemory", "0")
    assert await refused(store, spent) is Reason.GRANT_REPLAYED
    await store.spend(grant, policy=POLICY, now=NOW)
    await store.close()


async def test_what_is_spent_has_no_life_that_the_servers_clock_could_end(redis_world: RedisWorld) -> None:
    store = redis_world.open(NOW)
    await store.spend(accept(make_chain()), policy=POLICY, now=NOW)
    with redis.Redis.from_url(redis_world.address) as client:
        keys = list(client.scan_iter("*"))
        assert len(keys) == 2
        assert {client.ttl(key) for key in keys} == {-1}
        assert client.zrange(SPENT, 0, -1, withscores=True)[0][1] == NOW + 60 + 10 + 300
        later = NOW + 1_000
        await store.spend(issued(later), policy=POLICY, now=later)
        assert client.zcard(SPENT) == 1
    await store.close()


async def test_no_identity_is_in_the_name_of_a_spent_leaf(redis_world: RedisWorld) -> None:
    store = redis_world.open(NOW)
    grant = accept(make_chain())
    await store.spend(grant, policy=POLICY, now=NOW)
    with redis.Redis.from_url(redis_world.address, decode_responses=True) as client:
        held = str([list(client.scan_iter("*")), client.zrange(SPENT, 0, -1)])
    assert grant.leaf_jti not in held
    assert grant.subject not in held
    await store.close()


# answers out of step


async def test_an_answer_to_another_question_is_no_answer(redis_world: RedisWorld) -> None:
    """As where a connection is a reply behind: the reply to one leaf must not spend another."""
    store = redis_world.open(NOW)
    await store.spend(accept(make_chain()), policy=POLICY, now=NOW)
    pool = store._server._client(store._server._place.nodes[0]).connection_pool
    connection = await pool.get_connection()
    reply = await asked(connection, store, accept(make_chain()))
    held, connection.read_response = connection.read_response, replaying(reply)
    await pool.release(connection)
    assert await refused(store, accept(make_chain())) is Reason.STATE_UNAVAILABLE
    connection.read_response = held
    await store.close()


async def asked(connection: Any, store: RedisState, grant: VerifiedGrant) -> Any:
    question = _Question(names_of(grant, POLICY), replay_key(grant), remembered_until(grant), NOW)
    await connection.send_command("EVAL", ASK, 2, MEMORY, SPENT, *question.arguments("ask-other", store._seen))
    return await connection.read_response()


def replaying(reply: Any) -> Any:
    async def read_response(*args: Any, **kwargs: Any) -> Any:
        return reply

    return read_response


async def test_calls_that_are_cancelled_at_any_moment_leave_no_connection_a_reply_behind(
    redis_world: RedisWorld,
) -> None:
    store = redis_world.open(NOW)
    spent = accept(make_chain())
    await store.spend(spent, policy=POLICY, now=NOW)
    chance = random.Random(7)
    for _ in range(150):
        call = asyncio.create_task(store.spend(accept(make_chain()), policy=POLICY, now=NOW))
        for _ in range(chance.randrange(12)):
            await asyncio.sleep(0)
        call.cancel()
        with suppress(asyncio.CancelledError):
            await call
        assert await refused(store, spent) is Reason.GRANT_REPLAYED
        await store.spend(accept(make_chain()), policy=POLICY, now=NOW)
    await store.close()


async def test_a_server_that_accepts_and_says_nothing_costs_no_more_than_the_budget(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"redis://127.0.0.1:{silent.getsockname()[1]}"
        store = RedisState(url, budget=0.05)
        async with asyncio.timeout(5):  # redis-py by itself would try for a minute
            assert await refused(store, accept(make_chain())) is Reason.STATE_UNAVAILABLE
        await store.close()


# what another program wrote


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[("armed", value) for value in ("x", "", "nan", "inf", "-1", "0", "-1e308", "1e308", "\xff")],
        *[("clock", value) for value in ("x", "nan", "inf")],
        *[("epoch", value) for value in ("x", "nan")],
        ("seq", "x"),
        *[(f"revoked subject {issued(NOW).subject}", value) for value in ("x", "nan", "")],
    ],
)
async def test_what_is_no_number_of_ours_is_indeterminate_and_never_raises_out(
    redis_world: RedisWorld, field: str, value: str
) -> None:
    store = redis_world.open(NOW)
    await store.spend(issued(NOW), policy=POLICY, now=NOW)
    with redis.Redis.from_url(redis_world.address, encoding="latin-1") as client:
        client.hset(MEMORY, field, value)
    settings = Settings(home=redis_world.home, state_url=redis_world.address)
    grant = issued(NOW)
    assert await refused(store, grant) is Reason.STATE_UNAVAILABLE
    assert await refused_again(store, grant) is Reason.STATE_UNAVAILABLE
    told = await look(settings, grant, now=NOW)
    assert told is not None
    assert told.reason in (Reason.STATE_UNAVAILABLE, Reason.REPLAY_MEMORY_LOST)
    await store.close()


async def test_a_revocation_of_no_kind_is_one_fault(redis_world: RedisWorld) -> None:
    store = redis_world.open(NOW)
    with redis.Redis.from_url(redis_world.address) as client:
        client.hset(MEMORY, "revoked nonsense x", "1")
    with pytest.raises(DatasetAgentError, match="cannot be read"):
        await store.revocations()
    await store.close()
