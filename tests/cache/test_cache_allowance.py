"""One call waits for the cache no longer than it may, all that it asks of the store together."""

from __future__ import annotations

import asyncio
import socket
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cache.allowance import Limit, _Steps, beside_calls, one_call, present
from cache.breaker import Breaker, LeftAlone
from cache.flight import Flights, nothing
from cache.keys import CacheKeys
from cache.redis_store import RedisStore
from cache.result_cache import Hit, ResultCache
from cache.sqlite_store import SqliteStore
from cache.store import CacheStore, OutOfTime, StoreSilent
from tests.authority_builder import NOW, make_authority
from tests.cache.cache_builder import BODY, PATIENCE_S, make_document, make_execution, make_intent

KEY = "dsc:1:{p}:e:i"
KEYS = CacheKeys.from_secret(bytes(32))
LEFT_S = 0.5
"""More than what a busy machine takes for what is quick."""


def left() -> float:
    allowance = present()
    assert allowance is not None
    return allowance.left


@contextmanager
def silent_server() -> Iterator[str]:
    """Takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"redis://127.0.0.1:{listening.getsockname()[1]}"


async def test_a_call_that_waited_for_a_silent_store_asks_it_no_more(valkey_url: str) -> None:
    with silent_server() as url, one_call(0.01):
        store, breaker = RedisStore.connect(url, budget_s=PATIENCE_S), Breaker()
        with pytest.raises(StoreSilent):
            await breaker.call(lambda: store.get(KEY, now=NOW))
        assert breaker.is_open
        with pytest.raises(LeftAlone, match="as long as it may"):
            await Breaker().call(lambda: store.get(KEY, now=NOW))
        await store.close()


async def test_what_a_call_has_not_left_to_wait_is_no_silence_of_the_store() -> None:
    with silent_server() as url, one_call(PATIENCE_S):
        store, breaker = RedisStore.connect(url, budget_s=PATIENCE_S), Breaker()
        allowance = present()
        assert allowance is not None
        allowance.left = 0.01
        with pytest.raises(OutOfTime):
            await breaker.call(lambda: store.get(KEY, now=NOW))
        assert not breaker.is_open
        await store.close()


async def test_what_goes_on_beside_a_call_takes_nothing_of_it() -> None:
    with one_call(LEFT_S):
        with beside_calls():
            assert present() is None
        assert left() == LEFT_S


async def test_counters_are_added_to_the_stores_whatever_the_call_has_left_that_set_the_timer(
    store: CacheStore, keys: CacheKeys
) -> None:
    results = ResultCache(store, keys)
    with one_call(LEFT_S):
        await results.find(make_authority(), make_intent(), freshness_class="standard", max_age_s=None, now=NOW)
        allowance = present()
        assert allowance is not None
        allowance.left = 0.0
        await results.flush()
    assert dict((await store.stats()).counters) == {"absent": 1}
    await results.close()


async def test_time_in_which_the_loop_is_busy_is_not_waited_for_the_store() -> None:
    with one_call(LEFT_S):
        async with Limit(PATIENCE_S):
            for _ in range(4):
                time.sleep(LEFT_S)
                await asyncio.sleep(0)
        assert left() > 0


async def test_a_call_that_follows_a_leader_of_another_process_does_not_pay_for_its_work(store: CacheStore) -> None:
    leading, go, looks = asyncio.Event(), asyncio.Event(), 0

    async def work(_: str | None) -> str:
        leading.set()
        await go.wait()
        return "made there"

    async def look() -> str | None:
        nonlocal looks
        looks += 1
        allowance = present()
        assert allowance is not None
        allowance.left -= LEFT_S / 3  # a store that answers, and slowly
        return "what it kept" if looks == 12 else None

    async def run(_: str | None) -> str:
        return "made here"

    there, here = Flights(store, Breaker()), Flights(store, Breaker(), poll_s=0.001)
    leader = asyncio.create_task(there.once(KEY, look=nothing, run=work, patience_s=PATIENCE_S, keys=KEYS))
    await leading.wait()
    with one_call(LEFT_S):
        assert await here.once(KEY, look=look, run=run, patience_s=PATIENCE_S, keys=KEYS) == "what it kept"
    go.set()
    assert await leader == "made there"


async def test_where_nobody_can_be_asked_who_leads_no_caller_waits_for_another(
    store: CacheStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def down(*_: object, **__: object) -> bool:
        raise StoreSilent("down")

    monkeypatch.setattr(store, "lease", down)
    flights, running, go = Flights(store, Breaker()), list[str | None](), asyncio.Event()

    async def run(owner: str | None) -> bool:
        running.append(owner)
        return await go.wait()

    calls = [
        asyncio.create_task(flights.once(KEY, look=nothing, run=run, patience_s=PATIENCE_S, keys=KEYS))
        for _ in range(4)
    ]
    while len(running) < 4:
        await asyncio.sleep(0.001)
    go.set()
    assert await asyncio.gather(*calls) == [True] * 4
    assert running == [None] * 4


async def test_an_answer_does_not_wait_for_what_is_slow_to_be_stored(tmp_path: Path, keys: CacheKeys) -> None:
    """And an equal call that comes meanwhile waits for it, rather than run again."""
    path = tmp_path / "cache.sqlite"
    results = ResultCache(SqliteStore(path, max_bytes=8 * 2**20), keys)
    authority, intent = make_authority(), make_intent()
    holding, held = threading.Event(), threading.Event()

    def hold() -> None:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        holding.set()
        held.wait(PATIENCE_S)
        other.execute("ROLLBACK")
        other.close()

    async def look() -> bytes | None:
        found = await results.find(authority, intent, freshness_class="standard", max_age_s=None, now=NOW)
        return found.document.body if isinstance(found, Hit) else None

    async def run(owner: str | None) -> bytes:
        threading.Thread(target=hold, daemon=True).start()
        await asyncio.to_thread(holding.wait, PATIENCE_S)
        await results.keep(
            authority,
            intent,
            make_document(),
            make_execution(),
            freshness_class="standard",
            reuse_s=60,
            now=NOW,
            owner=owner,
        )
        return b"its own"

    async def no_run(_: str | None) -> bytes:
        raise AssertionError("it ran again")

    with one_call(0.02):
        led = await results.once(authority, intent, freshness_class="standard", look=look, run=run)
    assert (led, held.is_set()) == (b"its own", False)
    next_one = asyncio.create_task(results.once(authority, intent, freshness_class="standard", look=look, run=no_run))
    await asyncio.sleep(0)
    held.set()
    assert await next_one == BODY
    await results.close()


async def test_a_limit_ends_in_a_timeout_and_a_cancellation_stays_one() -> None:
    async def waiting() -> None:
        async with Limit(PATIENCE_S):
            await asyncio.sleep(PATIENCE_S)

    with pytest.raises(TimeoutError):
        async with Limit(0.02):
            await asyncio.sleep(PATIENCE_S)
    stopped = asyncio.create_task(waiting())
    await asyncio.sleep(0)
    stopped.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopped
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_whoever_is_cancelled_just_when_its_time_is_over_is_cancelled() -> None:
    inside = asyncio.Event()

    async def waiting() -> None:
        async with Limit(0.001):
            inside.set()
            time.sleep(0.02)  # its time is over when the loop goes on
            await asyncio.sleep(PATIENCE_S)

    stopped = asyncio.create_task(waiting())
    await inside.wait()
    while not stopped.cancelling():
        await asyncio.sleep(0)
    stopped.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopped


async def test_limits_share_one_timer_and_each_ends_at_its_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, timers = asyncio.get_running_loop(), 0
    later = loop.call_later

    def counted(*given: Any, **named: Any) -> asyncio.TimerHandle:
        nonlocal timers
        timers += 1
        return later(*given, **named)

    async def over(seconds: float) -> float:
        began = loop.time()
        with pytest.raises(TimeoutError):
            async with Limit(seconds):
                await asyncio.get_running_loop().create_future()
        return loop.time() - began

    monkeypatch.setattr(loop, "call_later", counted)
    for _ in range(200):
        async with Limit(PATIENCE_S):
            pass
    assert timers == 1
    monkeypatch.undo()
    short, long = await asyncio.gather(over(0.02), over(0.2))
    assert 0.02 <= short < long
    assert long >= 0.2


async def test_what_arrived_while_the_loop_was_busy_is_read_before_the_time_is_over() -> None:
    loop = asyncio.get_running_loop()
    here, there = socket.socketpair()
    here.setblocking(False)

    def busy() -> None:
        there.send(b"x")
        time.sleep(0.05)

    with here, there:
        async with Limit(0.006):
            loop.call_soon(busy)
            assert await loop.sock_recv(here, 1) == b"x"


@pytest.mark.parametrize("seconds", [0.002, 0.02])
async def test_a_limit_ends_nothing_behind_its_block(seconds: float) -> None:
    async with Limit(seconds):
        await asyncio.sleep(0)
    await asyncio.sleep(0.05)


async def test_a_fault_that_follows_the_end_is_that_fault() -> None:
    async def failing() -> None:
        async with Limit(0.02):
            try:
                await asyncio.sleep(PATIENCE_S)
            except asyncio.CancelledError:
                raise ZeroDivisionError from None

    with pytest.raises(ZeroDivisionError):
        await failing()
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_where_nobody_waits_no_timer_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    looks, look = 0, _Steps._step

    def counted(steps: _Steps) -> None:
        nonlocal looks
        looks += 1
        look(steps)

    monkeypatch.setattr(_Steps, "_step", counted)
    async with Limit(PATIENCE_S):
        pass
    await asyncio.sleep(0.1)
    assert looks == 1


async def test_only_a_task_has_a_limit() -> None:
    told = asyncio.get_running_loop().create_future()

    def outside() -> None:
        try:
            Limit(PATIENCE_S).__aenter__().send(None)
        except RuntimeError as error:
            told.set_result(str(error))

    asyncio.get_running_loop().call_soon(outside)
    assert "only a task" in await told
