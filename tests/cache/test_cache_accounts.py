"""The accounts of docs/operate.md on a real server: all that the product does works under them, and nothing else."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from redis.exceptions import NoPermissionError

from cache.redis_store import RedisStore
from contract.settings import Settings
from grants.state import RevocationKind
from grants.state_reading import read_memory
from grants.state_redis import MEMORY, RedisState
from tests.cache.valkey_world import Server, cluster, cluster_url, running
from tests.grants.grants_world import NOW as THEN
from tests.grants.grants_world import accept, make_chain
from tests.grants.state_worlds import POLICY, issued

pytestmark = pytest.mark.live
PAGE = Path(__file__).parents[2] / "docs" / "operate.md"
PATIENT = 2.0
NOW = 1_000.0
KEY = "dsc:1:{part}:e:i"
ALWAYS = {"auth", "hello", "info", "acl|setuser", "config|resetstat", "command|docs"}


def documented(user: str) -> list[str]:
    """The command that makes the account, word by word as it is in the page."""
    text = PAGE.read_text()
    found = re.search(rf"^\$ redis-cli (ACL SETUSER {user} (?:.*\\\n)*.*)$", text, re.MULTILINE)
    assert found
    return shlex.split(found[1].replace("\\\n", " "))


def granted(user: str) -> set[str]:
    return {word[1:] for word in documented(user) if word.startswith("+")}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path / "server", {"appendonly": "yes", "maxmemory-policy": "noeviction"})
    with running(made):
        with made.client() as client:
            for user in ("cache", "state"):
                client.execute_command(*documented(user))
            client.config_resetstat()
        yield made


def used(server: Server) -> set[str]:
    with server.client() as client:
        told: Any = client.info("commandstats")
    return {name.removeprefix("cmdstat_") for name, facts in told.items() if int(facts["calls"])} - ALWAYS


def url(server: Server, user: str) -> str:
    return f"redis://{user}:PASSWORD@127.0.0.1:{server.port}"


async def everything_of_the_cache(store: RedisStore) -> None:
    await store.health()
    assert await store.lease(KEY, "me", life_s=5, now=NOW)
    assert await store.renew(KEY, "me", life_s=5, now=NOW)
    assert not await store.lease(KEY, "other", life_s=5, now=NOW)
    assert await store.put(KEY, b"entry", exp=NOW + 60, now=NOW, owner="me")
    assert await store.release(KEY, "me")
    assert await store.put(KEY, b"entry", exp=NOW + 60, now=NOW)
    assert await store.get(KEY, now=NOW) == b"entry"
    await store.count({"hit": 1})
    told = await store.stats()
    assert (told.entries, dict(told.counters)) == (1, {"hit": 1})
    assert await store.memory()
    assert await store.delete([KEY]) == 1
    await store.close()


async def everything_of_the_state(address: str, home: Path) -> None:
    store = RedisState.open(address, now=THEN, budget=PATIENT)
    grant = accept(make_chain())
    await store.spend(grant, policy=POLICY, now=THEN)
    await store.recheck(grant, policy=POLICY, now=THEN)
    await store.revoke(RevocationKind.TXN, grant.txn, not_before=THEN)
    assert len(await store.revocations()) == 1
    assert len((await read_memory(Settings(home=home, state_url=address))).revocations) == 1
    await store.health()
    await store.spend(issued(THEN + 1_000), policy=POLICY, now=THEN + 1_000)  # forgets the first
    await store.close()


async def test_the_cache_s_account_can_do_what_the_cache_does_and_each_right_is_used(server: Server) -> None:
    await everything_of_the_cache(RedisStore.connect(url(server, "cache"), budget_s=PATIENT))
    assert used(server) == granted("cache") - {"info"}


async def test_the_state_s_account_can_do_what_the_state_does_and_each_right_is_used(
    server: Server, tmp_path: Path
) -> None:
    await everything_of_the_state(url(server, "state"), tmp_path)
    assert used(server) == granted("state") - {"info"}


DENIED: list[tuple[str, Callable[[Redis], Any]]] = [
    ("KEYS", lambda client: client.keys("*")),
    ("FLUSHALL", lambda client: client.flushall()),
    ("FLUSHDB", lambda client: client.flushdb()),
    ("CONFIG", lambda client: client.config_get("maxmemory")),
    ("ACL", lambda client: client.acl_list()),
    ("MONITOR", lambda client: client.execute_command("MONITOR")),
    ("SHUTDOWN", lambda client: client.execute_command("SHUTDOWN", "NOSAVE")),
    ("REPLICAOF", lambda client: client.replicaof("NO", "ONE")),
    ("SCRIPT", lambda client: client.script_flush()),
    ("FUNCTION", lambda client: client.function_list()),
    ("CLIENT", lambda client: client.execute_command("CLIENT", "LIST")),
    ("SUBSCRIBE", lambda client: client.publish("x", "y")),
    ("BLPOP", lambda client: client.blpop(["dsc:1:x"], timeout=1)),
    ("RENAME", lambda client: client.rename("dsc:1:x", "y")),
    ("DUMP", lambda client: client.dump(MEMORY)),
    ("RESTORE", lambda client: client.restore(MEMORY, 0, b"")),
    ("a key that is not its own", lambda client: client.execute_command("EVAL", "return redis.call('GET', 'x')", 0)),
]


@pytest.mark.parametrize("user", ["cache", "state"])
def test_everything_else_is_denied(server: Server, user: str) -> None:
    with server.client() as admin:
        admin.set("x", "of another")
    with Redis.from_url(url(server, user), driver_info=None) as client:
        for name, command in DENIED:
            with pytest.raises(Exception, match="permission|No permissions|can't access") as refused:
                command(client)
            assert isinstance(refused.value, NoPermissionError) or "ACL" in str(refused.value), name


async def test_neither_account_reaches_the_other_s_keys(server: Server) -> None:
    for user, key in (("cache", MEMORY), ("state", "dsc:1:counters")):
        with Redis.from_url(url(server, user), driver_info=None) as client, pytest.raises(NoPermissionError):
            client.hgetall(key)


async def test_in_a_cluster_they_need_what_the_page_says_beside_it(tmp_path: Path) -> None:
    with cluster(tmp_path, appendonly="yes", maxmemory_policy="noeviction") as nodes:
        for node in nodes:
            with node.client() as client:
                for user in ("cache", "state"):
                    client.execute_command(*documented(user), "+cluster|slots", "+asking")
        address = cluster_url(nodes)
        as_user = {user: address.replace("//", f"//{user}:PASSWORD@") for user in ("cache", "state")}
        await everything_of_the_cache(RedisStore.connect(as_user["cache"], budget_s=PATIENT))
        await everything_of_the_state(as_user["state"], tmp_path)


async def test_a_database_needs_select(server: Server) -> None:
    with server.client() as client:
        client.execute_command(*documented("cache"), "+select")
    await everything_of_the_cache(RedisStore.connect(url(server, "cache") + "/3", budget_s=PATIENT))
