"""What only a server can do wrong: refuse, hang, be slow to die, hold other people's keys."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis import Redis
from redis.asyncio.connection import Connection

from cache.breaker import Breaker
from cache.keys import CacheKeys
from cache.redis_lane import CONCURRENT, RedisLanes, WrongType, is_wrong_type, packed
from cache.redis_store import RedisStore
from cache.result_cache import Hit, Miss, ResultCache
from cache.store import StoreUnavailable
from contract.errors import DatasetAgentError
from contract.redis_options import read_place
from tests.authority_builder import NOW, make_authority
from tests.cache.cache_builder import PATIENCE_S, make_document, make_execution, make_intent

AUTHORITY, INTENT = make_authority(), make_intent()


async def find(results: ResultCache) -> Hit | Miss:
    return await results.find(AUTHORITY, INTENT, freshness_class="standard", max_age_s=None, now=NOW)


async def keep(results: ResultCache) -> None:
    await results.keep(
        AUTHORITY, INTENT, make_document(), make_execution(), freshness_class="standard", reuse_s=60, now=NOW
    )


@pytest.fixture
async def hung_url() -> AsyncIterator[str]:
    """A server that accepts and never answers."""
    writers: list[asyncio.StreamWriter] = []

    async def swallow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)

    server = await asyncio.start_server(swallow, "127.0.0.1", 0)
    yield f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}/0"
    server.close()
    for writer in writers:
        writer.close()
        await writer.wait_closed()


@pytest.fixture
async def results(valkey: Redis, valkey_url: str, keys: CacheKeys) -> AsyncIterator[ResultCache]:
    opened = ResultCache(RedisStore.connect(valkey_url, budget_s=PATIENCE_S), keys)
    yield opened
    await opened.close()


def commands(valkey: Redis) -> dict[str, int]:
    raw = valkey.info("commandstats")
    assert isinstance(raw, dict)
    ours = {name.removeprefix("cmdstat_"): int(value["calls"]) for name, value in raw.items()}
    return {name: calls for name, calls in ours.items() if name not in ("info", "config|resetstat", "flushall")}


async def test_a_lookup_is_one_command(results: ResultCache, valkey: Redis) -> None:
    await keep(results)
    await find(results)
    valkey.config_resetstat()
    assert isinstance(await find(results), Hit)
    assert commands(valkey) == {"get": 1}


async def test_a_connection_needs_no_other_command(results: ResultCache, valkey: Redis) -> None:
    valkey.config_resetstat()
    await find(results)
    assert set(commands(valkey)) <= {"get", "select"}


async def test_a_lookup_renews_no_ttl(results: ResultCache, valkey: Redis) -> None:
    await keep(results)
    (key,) = valkey.keys("dsc:1:{*")
    valkey.pexpire(key, 30_000)
    await find(results)
    assert 0 < valkey.pttl(key) <= 30_000


async def test_the_header_s_expiry_holds_where_the_ttl_does_not(results: ResultCache, valkey: Redis) -> None:
    await keep(results)
    (key,) = valkey.keys("dsc:1:{*")
    valkey.persist(key)
    late = await results.find(AUTHORITY, INTENT, freshness_class="standard", max_age_s=None, now=NOW + 61)
    assert isinstance(late, Miss)
    assert late.reason == "expired"


async def test_no_key_or_value_on_the_server_shows_a_row_an_argument_or_a_person(
    valkey: Redis, valkey_url: str, keys: CacheKeys
) -> None:
    store = RedisStore.connect(valkey_url, budget_s=PATIENCE_S)
    authority = make_authority(subject="s-SECRET", tenant="t-SECRET", rows={"t.c": {"one_of": ["r-SECRET"]}})
    results = ResultCache(store, keys)
    await results.keep(
        authority,
        make_intent({"batch": "a-SECRET"}),
        make_document(b'["b-SECRET"]'),
        make_execution(),
        freshness_class="standard",
        reuse_s=60,
        now=NOW,
    )
    await results.close()
    (key,) = valkey.keys("dsc:1:{*")
    assert b"SECRET" not in key
    assert b"SECRET" not in (valkey.get(key) or b"")


async def test_a_hung_server_is_a_miss_within_the_budget(hung_url: str, keys: CacheKeys) -> None:
    results = ResultCache(RedisStore.connect(hung_url), keys)
    started = time.perf_counter()
    found = await find(results)
    spent = time.perf_counter() - started
    await results.close()
    assert isinstance(found, Miss)
    assert found.reason == "unavailable"
    # 50 ms and what a busy machine adds; a client that retries takes 58 s.
    assert spent < 1.0


async def test_after_three_faults_a_hung_server_costs_nothing(hung_url: str, keys: CacheKeys) -> None:
    breaker = Breaker(clock=lambda: 0.0)
    results = ResultCache(RedisStore.connect(hung_url), keys, breaker=breaker)
    for _ in range(3):
        await find(results)
    assert breaker.is_open
    started = time.perf_counter()
    for _ in range(100):
        await find(results)
    assert time.perf_counter() - started < 1.0
    await results.close()


@dataclass
class Echo:
    """Lanes to a server that answers each command with its last word, ``late`` once ``slow`` is set; or it is an error."""

    lanes: RedisLanes
    slow: asyncio.Event
    connections: set[asyncio.Task[None]]


@pytest.fixture
async def echo() -> AsyncIterator[Echo]:
    slow = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while request := await reader.readuntil(b"\r\n"):
            words = [
                (await reader.readuntil(b"\r\n"), await reader.readuntil(b"\r\n")) for _ in range(int(request[1:]))
            ]
            word = words[-1][1]
            if word == b"late\r\n":
                await slow.wait()
            if word == b"leave\r\n":
                return
            writer.write(b"-%s" % word if word.isupper() else b"$%d\r\n%s" % (len(word) - 2, word))
            await writer.drain()

    tasks = set[asyncio.Task[None]]()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def serve() -> None:
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                await answer(reader, writer)
            writer.close()

        tasks.add(asyncio.create_task(serve()))

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    lanes = RedisLanes(read_place(f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}"), budget_s=0.2)
    yield Echo(lanes, slow, tasks)
    slow.set()
    await lanes.close()
    server.close()
    await asyncio.gather(*tasks)


async def test_a_late_answer_never_reaches_the_next_caller(echo: Echo) -> None:
    """The first answer comes after its budget; the connection that carries it must be gone."""
    with pytest.raises(StoreUnavailable):
        await echo.lanes.ask("GET", "late")
    echo.slow.set()
    assert [await echo.lanes.ask("GET", name) for name in ("second", "third")] == [b"second", b"third"]


async def test_of_many_answers_a_late_one_never_reaches_the_next_caller(echo: Echo) -> None:
    commands = [("GET", name) for name in ("first", "late", "next")]
    with pytest.raises(StoreUnavailable):
        await echo.lanes.ask_each(commands, within_s=0.2)
    echo.slow.set()
    assert await echo.lanes.ask("GET", "second") == b"second"
    assert await echo.lanes.ask_each(commands[::2], within_s=PATIENCE_S) == [b"first", b"next"]


async def test_a_connection_is_used_again_and_a_burst_has_so_many_and_no_more(echo: Echo) -> None:
    for _ in range(5):
        assert await echo.lanes.ask("GET", "x") == b"x"
    assert len(echo.connections) == 1
    await asyncio.gather(*(echo.lanes.ask("GET", "late") for _ in range(4 * CONCURRENT)), return_exceptions=True)
    assert len(echo.connections) <= 2 * CONCURRENT
    echo.slow.set()


async def test_who_closes_a_connection_on_a_command_is_not_sent_it_again(echo: Echo) -> None:
    with pytest.raises(StoreUnavailable):
        await echo.lanes.ask("GET", "leave")
    assert len(echo.connections) == 1


async def test_what_a_server_says_of_an_error_is_not_repeated(echo: Echo) -> None:
    with pytest.raises(StoreUnavailable) as stop:
        await echo.lanes.ask("GET", "ERR A KEY OR A ROW")
    assert "ROW" not in str(stop.value)


async def test_a_key_of_another_type_is_told_from_a_server_that_is_away(echo: Echo) -> None:
    with pytest.raises(WrongType):
        await echo.lanes.ask("GET", "WRONGTYPE OPERATION")
    told = await echo.lanes.ask_each([("GET", "x"), ("GET", "WRONGTYPE OPERATION"), ("GET", "y")], within_s=PATIENCE_S)
    assert (told[0], is_wrong_type(told[1]), told[2]) == (b"x", True, b"y")


async def test_connections_the_server_closed_while_idle_are_no_fault(results: ResultCache, valkey: Redis) -> None:
    await keep(results)
    await asyncio.gather(*(find(results) for _ in range(8)))
    valkey.client_kill_filter(skipme=True, _type="normal")
    assert isinstance(await find(results), Hit)


async def test_keeping_on_a_server_that_refuses_raises_nothing(keys: CacheKeys, unused_url: str) -> None:
    results = ResultCache(RedisStore.connect(unused_url), keys)
    await keep(results)
    assert isinstance(await find(results), Miss)
    await results.close()


@pytest.fixture
async def unused_url() -> str:
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    return f"redis://127.0.0.1:{port}/0"


async def test_a_server_that_refuses_is_not_healthy(unused_url: str) -> None:
    store = RedisStore.connect(unused_url)
    with pytest.raises(StoreUnavailable, match="cannot be used"):
        await store.health()
    await store.close()


async def test_a_server_that_wants_a_password_is_a_miss(valkey: Redis, valkey_url: str, keys: CacheKeys) -> None:
    results = ResultCache(RedisStore.connect(valkey_url), keys)
    valkey.config_set("requirepass", "pw")
    try:
        assert isinstance(await find(results), Miss)
    finally:
        valkey.execute_command("AUTH", "pw")
        valkey.config_set("requirepass", "")
        await results.close()


async def test_a_value_of_another_type_under_our_key_is_a_miss(results: ResultCache, valkey: Redis) -> None:
    valkey.lpush(results.locate(AUTHORITY, INTENT, freshness_class="standard").key, "x")
    found = await find(results)
    assert isinstance(found, Miss)


@pytest.mark.parametrize("url", ["http://user:pw@host", "redis", "", "redis://h:port", "redis://h/0?socket_timeout=x"])
async def test_another_url_is_a_fault_that_does_not_repeat_it(url: str) -> None:
    with pytest.raises(DatasetAgentError, match="DATASET_AGENT_CACHE_URL") as caught:
        RedisStore.connect(url)
    assert "pw" not in str(caught.value)


async def test_other_people_s_keys_are_neither_listed_nor_counted(valkey: Redis, valkey_url: str) -> None:
    valkey.set("session:1", "x")
    valkey.set("dsc:2:{a}:e:b", "x")
    store = RedisStore.connect(valkey_url)
    assert [entry async for entry in store.entries()] == []
    assert (await store.stats()).entries == 0
    await store.close()


async def test_an_answer_that_came_while_the_loop_was_busy_is_no_silence(valkey_url: str, valkey: Redis) -> None:
    """The store answered within the budget; it is this process that looks late."""
    valkey.set("dsc:1:{p}:e:i", b"x", px=60_000)
    store = RedisStore.connect(valkey_url, budget_s=0.3)
    await store.get("dsc:1:{p}:e:i", now=NOW)  # connects
    valkey.execute_command("CLIENT", "PAUSE", 100, "ALL")  # so that the answer comes while the loop is busy
    asked = asyncio.create_task(store.get("dsc:1:{p}:e:i", now=NOW))
    for _ in range(10):  # the command is sent
        await asyncio.sleep(0)
    assert not asked.done()
    time.sleep(0.6)
    assert await asked == b"x"
    await store.close()


PARTS = st.text(st.characters(exclude_categories=["Cs"])) | st.binary() | st.integers(-(2**63), 2**63 - 1)


@given(st.lists(PARTS, max_size=5))
def test_a_command_is_packed_as_the_client_packs_it(parts: list[str | bytes | int]) -> None:
    assert packed(("GET", *parts)) == b"".join(Connection().pack_command("GET", *parts))


async def test_parts_of_any_bytes_and_size_arrive_as_they_are(valkey_url: str, valkey: Redis) -> None:
    store = RedisStore.connect(valkey_url, budget_s=PATIENCE_S)
    for value in (b"", b"\r\n$3\r\nGET\r\n", bytes(range(256)) * 5_000):
        assert await store.put("dsc:1:{é}:e:1", value, exp=NOW + 60, now=NOW)
        assert valkey.get("dsc:1:{é}:e:1".encode()) == value
        assert await store.get("dsc:1:{é}:e:1", now=NOW) == value
    await store.close()
