"""Many equal cold calls at once: one execution, whoever fails or dies."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from cache.breaker import Breaker
from cache.flight import Flights, nothing
from cache.keys import CacheKeys
from cache.lead import mark
from cache.redis_store import RedisStore
from cache.result_cache import Hit, ResultCache
from cache.sqlite_store import SqliteStore
from cache.store import CacheStore, StoreUnavailable
from contract.authority import Authority
from tests.authority_builder import NOW, make_authority
from tests.cache.cache_builder import PATIENCE_S, make_document, make_execution, make_intent

INTENT = make_intent()
KEYS = CacheKeys.from_secret(bytes(32))


class Engine:
    """Counts its executions; each waits until ``go`` is set."""

    def __init__(self) -> None:
        self.runs = 0
        self.go = asyncio.Event()

    async def run(self, owner: str | None = None) -> bytes:
        self.runs += 1
        number = self.runs
        await self.go.wait()
        return b"result %d" % number


async def ask(results: ResultCache, engine: Engine, authority: Authority | None = None, *, keep: bool = True) -> bytes:
    authority = authority or make_authority()

    async def look() -> bytes | None:
        found = await results.find(authority, INTENT, freshness_class="standard", max_age_s=None, now=NOW)
        return found.document.body if isinstance(found, Hit) else None

    async def run(owner: str | None) -> bytes:
        body = await engine.run()
        if keep and owner is not None:
            await results.keep(
                authority,
                INTENT,
                make_document(body),
                make_execution(),
                freshness_class="standard",
                reuse_s=60,
                now=NOW,
                owner=owner,
            )
        return body

    return await results.once(authority, INTENT, freshness_class="standard", look=look, run=run, patience_s=PATIENCE_S)


async def started(engine: Engine, runs: int = 1) -> None:
    while engine.runs < runs:
        await asyncio.sleep(0.001)


async def test_64_cold_calls_over_four_services_are_one_execution(store: CacheStore, keys: CacheKeys) -> None:
    services = [ResultCache(store, keys) for _ in range(4)]
    engine = Engine()
    calls = [asyncio.create_task(ask(services[number % 4], engine)) for number in range(64)]
    await started(engine)
    engine.go.set()
    assert await asyncio.gather(*calls) == [b"result 1"] * 64
    assert engine.runs == 1


async def test_another_partition_does_not_wait(results: ResultCache) -> None:
    engine = Engine()
    calls = [asyncio.create_task(ask(results, engine, make_authority(tenant=name))) for name in ("acme", "borg")]
    await started(engine, runs=2)
    engine.go.set()
    assert set(await asyncio.gather(*calls)) == {b"result 1", b"result 2"}


async def test_a_failure_is_its_own_caller_s_and_the_next_one_tries(results: ResultCache) -> None:
    engine = Engine()

    class FailsOnce(Engine):
        async def run(self, owner: str | None = None) -> bytes:
            if (await engine.run()) == b"result 1":
                raise RuntimeError("engine failed")
            return b"second try"

    calls = [asyncio.create_task(ask(results, FailsOnce())) for _ in range(8)]
    await started(engine)
    engine.go.set()
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert sum(isinstance(answer, RuntimeError) for answer in answers) == 1
    assert answers.count(b"second try") == 7
    assert engine.runs == 2


async def test_a_cancelled_leader_leaves_the_lead_to_a_waiter(results: ResultCache) -> None:
    engine = Engine()
    leader = asyncio.create_task(ask(results, engine))
    await started(engine)
    follower = asyncio.create_task(ask(results, engine))
    await asyncio.sleep(0)
    leader.cancel()
    await started(engine, runs=2)
    engine.go.set()
    assert await follower == b"result 2"


async def test_where_a_result_is_not_kept_the_waiters_run_beside_one_another(results: ResultCache) -> None:
    engine = Engine()
    calls = [asyncio.create_task(ask(results, engine, keep=False)) for _ in range(4)]
    await started(engine)
    engine.go.set()
    assert len(set(await asyncio.gather(*calls))) == 4


async def test_a_dead_leader_s_lease_ends_and_another_process_leads(store: CacheStore) -> None:
    flights = Flights(store, Breaker(), life_s=0.1)
    said = mark("dsc:1:{p}:e:i", "the-dead", keys=KEYS, now=time.time())
    assert await store.lease("dsc:1:{p}:e:i", "the-dead", life_s=0.1, now=0.0, mark=said)

    async def run(_: str | None) -> str:
        return "led"

    assert await flights.once("dsc:1:{p}:e:i", look=nothing, run=run, patience_s=PATIENCE_S, keys=KEYS) == "led"


async def test_a_living_leader_keeps_its_lease(store: CacheStore) -> None:
    first, second = (Flights(store, Breaker(), life_s=0.6) for _ in range(2))
    order: list[str] = []

    def named(name: str, seconds: float) -> Callable[[str | None], Awaitable[str]]:
        async def run(_: str | None) -> str:
            order.append(f"{name} starts")
            await asyncio.sleep(seconds)
            order.append(f"{name} ends")
            return name

        return run

    slow = asyncio.create_task(
        first.once("dsc:1:{p}:e:i", look=nothing, run=named("slow", 1.5), patience_s=PATIENCE_S, keys=KEYS)
    )
    while not order:
        await asyncio.sleep(0.001)
    await second.once("dsc:1:{p}:e:i", look=nothing, run=named("next", 0), patience_s=PATIENCE_S, keys=KEYS)
    await slow
    assert order == ["slow starts", "slow ends", "next starts", "next ends"]


async def test_patience_ends_and_the_caller_runs_by_itself(results: ResultCache, store: CacheStore) -> None:
    flights = Flights(store, Breaker())
    engine = Engine()
    leader = asyncio.create_task(
        flights.once("dsc:1:{p}:e:i", look=nothing, run=engine.run, patience_s=PATIENCE_S, keys=KEYS)
    )
    await started(engine)
    impatient = asyncio.create_task(
        flights.once("dsc:1:{p}:e:i", look=nothing, run=engine.run, patience_s=0, keys=KEYS)
    )
    await started(engine, runs=2)
    engine.go.set()
    assert {await leader, await impatient} == {b"result 1", b"result 2"}


async def test_a_store_that_is_down_makes_nobody_wait(store: CacheStore, monkeypatch: pytest.MonkeyPatch) -> None:
    async def down(*_: object, **__: object) -> bool:
        raise StoreUnavailable("down")

    monkeypatch.setattr(store, "lease", down)
    engine = Engine()
    engine.go.set()
    flights = Flights(store, Breaker())
    assert (
        await flights.once("dsc:1:{p}:e:i", look=nothing, run=engine.run, patience_s=PATIENCE_S, keys=KEYS)
        == b"result 1"
    )


async def test_switched_off_every_call_runs(keys: CacheKeys) -> None:
    engine = Engine()
    engine.go.set()
    results = ResultCache(None, keys)
    assert [await ask(results, engine) for _ in range(2)] == [b"result 1", b"result 2"]


async def test_a_leader_that_was_stopped_longer_than_its_lease_writes_nothing_and_its_waiters_get_the_younger_result(
    store: CacheStore, keys: CacheKeys
) -> None:
    stopped, other = ResultCache(store, keys), ResultCache(store, keys)
    late, early = Engine(), Engine()
    late.runs = 10  # its result is told from the other's
    leader = asyncio.create_task(ask(stopped, late))
    await started(late, runs=11)
    waiters = [asyncio.create_task(ask(stopped, late)) for _ in range(2)]
    key = stopped.locate(make_authority(), INTENT, freshness_class="standard").key
    await end_lease(store, key)
    leading = asyncio.create_task(ask(other, early))
    await started(early)
    early.go.set()
    assert await leading == b"result 1"
    late.go.set()
    assert await asyncio.gather(leader, *waiters) == [b"result 11", b"result 1", b"result 1"]
    assert await ask(other, early) == b"result 1"


async def end_lease(store: CacheStore, key: str) -> None:
    """As after a pause of its owner: whoever comes next takes it."""
    if isinstance(store, SqliteStore):
        with store._write() as db:
            db.execute("DELETE FROM leases WHERE key = ?", (key,))
    else:
        assert isinstance(store, RedisStore)
        await store._lanes.ask("DEL", key.replace("}:e:", "}:l:"))


async def test_who_leads_nobody_is_given_no_owner(store: CacheStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither who lost patience, nor who cannot ask for a lease: what they make is stored by whoever leads."""
    flights, owners = Flights(store, Breaker()), list[str | None]()
    engine = Engine()

    async def run(owner: str | None) -> bytes:
        owners.append(owner)
        return await engine.run()

    leader = asyncio.create_task(flights.once("dsc:1:{p}:e:i", look=nothing, run=run, patience_s=PATIENCE_S, keys=KEYS))
    await started(engine)
    impatient = asyncio.create_task(flights.once("dsc:1:{p}:e:i", look=nothing, run=run, patience_s=0, keys=KEYS))
    await started(engine, runs=2)
    engine.go.set()
    await asyncio.gather(leader, impatient)

    async def down(*_: object, **__: object) -> bool:
        raise StoreUnavailable("down")

    monkeypatch.setattr(store, "lease", down)
    await flights.once("dsc:1:{p}:e:i", look=nothing, run=run, patience_s=PATIENCE_S, keys=KEYS)
    assert [owner is None for owner in owners] == [False, True, True]


async def test_waiters_of_another_process_get_what_its_leader_stores(store: CacheStore, keys: CacheKeys) -> None:
    leading, waiting = ResultCache(store, keys), ResultCache(store, keys)
    engine = Engine()
    leader = asyncio.create_task(ask(leading, engine))
    await started(engine)
    waiters = [asyncio.create_task(ask(waiting, engine)) for _ in range(8)]
    await asyncio.sleep(0.1)
    engine.go.set()
    assert await asyncio.gather(leader, *waiters) == [b"result 1"] * 9


async def test_a_waiter_that_asks_for_the_others_and_goes_away_leaves_them_waiting(
    store: CacheStore, keys: CacheKeys
) -> None:
    leading, waiting = ResultCache(store, keys), ResultCache(store, keys)
    engine = Engine()
    leader = asyncio.create_task(ask(leading, engine))
    await started(engine)
    first, second = (asyncio.create_task(ask(waiting, engine)) for _ in range(2))
    await asyncio.sleep(0.05)
    first.cancel()
    await asyncio.sleep(0.05)
    engine.go.set()
    assert await asyncio.gather(leader, second) == [b"result 1"] * 2
