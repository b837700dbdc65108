"""A limiter holds callers to their limits over processes, and asks its store seldom."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from quota import limiter as limiting
from quota.limiter import KEPT_S, PLACE_S, Caller, Limiter, LimitExceeded, Quota
from quota.rate import Rate, Taken
from quota.sqlite_store import SqliteQuotas
from quota.store import Names, QuotaStore, Room, StoreUnavailable, key_of

NOW = 1_790_000_000.0
AGENT = Caller.agent("urn:a", at="urn:here")
ALICE = Caller.person("https://issuer", "acme", "alice", at="urn:here")
BOB = Caller.person("https://issuer", "acme", "bob", at="urn:here")
NONE = Quota()
NAMES = Names(b"s" * 32)


class Counted(SqliteQuotas):
    asked = 0

    async def take(self, key: str, rate: Rate, wanted: int, *, now: float) -> Taken:
        self.asked += 1
        return await super().take(key, rate, wanted, now=now)


def limiter(store: QuotaStore | None, *, person: Quota = NONE, agent: Quota = NONE, names: Names = NAMES) -> Limiter:
    return Limiter(store, agent=agent, person=person, names=names, pause_s=0)


async def made(one: Limiter, caller: Caller, calls: int, *, now: float = NOW) -> int:
    """How many of so many calls are let through."""
    through = 0
    for _ in range(calls):
        try:
            await one.count(caller, now=now)
        except LimitExceeded:
            continue
        through += 1
    return through


async def test_two_processes_let_through_no_more_than_one_would(tmp_path: Path) -> None:
    quota = Quota(Rate(100, 160))
    both = [limiter(SqliteQuotas(tmp_path / "q.sqlite3"), person=quota) for _ in range(2)]
    through = [await made(one, ALICE, 200) for one in both]
    assert sum(through) == 160
    assert sum([await made(one, BOB, 50) for one in both]) == 100
    for one in both:
        await one.close()


async def test_a_store_is_asked_for_many_calls_at_once(tmp_path: Path) -> None:
    store = Counted(tmp_path / "q.sqlite3")
    one = limiter(store, person=Quota(Rate(100, 160)))
    assert await made(one, ALICE, 100) == 100
    assert store.asked == 10
    before = store.asked
    assert await made(one, ALICE, 500) == 60
    assert store.asked - before == 7  # what is known to be over is not asked again
    await one.close()


async def test_calls_at_once_take_one_share(tmp_path: Path) -> None:
    store = Counted(tmp_path / "q.sqlite3")
    one = limiter(store, person=Quota(Rate(100, 160)))
    await asyncio.gather(*[one.count(ALICE, now=NOW) for _ in range(10)])
    assert store.asked == 1
    await one.close()


async def test_calls_that_were_taken_and_not_made_are_not_kept(tmp_path: Path) -> None:
    one = limiter(SqliteQuotas(tmp_path / "q.sqlite3"), person=Quota(Rate(100, 160)))
    await one.count(ALICE, now=NOW)
    assert await made(one, ALICE, 1_000, now=NOW + KEPT_S + 0.01) == 160
    await one.close()


async def test_who_is_over_is_told_when_to_come_back_and_may_then(tmp_path: Path) -> None:
    one = limiter(SqliteQuotas(tmp_path / "q.sqlite3"), person=Quota(Rate(0.5, 1)))
    await one.count(ALICE, now=NOW)
    for later in (0.0, 0.5):
        with pytest.raises(LimitExceeded, match="this person has had as many calls a second as is allowed") as over:
            await one.count(ALICE, now=NOW + later)
        assert over.value.retry_after_s == pytest.approx(2 - later, abs=1e-3)
    await one.count(ALICE, now=NOW + 2.01)
    await one.close()


async def test_executions_at_once_are_counted_over_processes_and_of_every_caller(tmp_path: Path) -> None:
    both = [
        limiter(SqliteQuotas(tmp_path / "q.sqlite3"), agent=Quota(running=3), person=Quota(running=2)) for _ in range(2)
    ]
    inside, leave = asyncio.Semaphore(0), asyncio.Event()

    async def execute(one: Limiter, person: Caller) -> str:
        try:
            async with asyncio.timeout(10), one.running([AGENT, person], clock=lambda: NOW):
                inside.release()
                await leave.wait()
                return "ran"
        except LimitExceeded as over:
            return over.kind

    first = [asyncio.ensure_future(execute(both[number % 2], ALICE)) for number in range(2)]
    for _ in first:
        await inside.acquire()
    assert await execute(both[0], ALICE) == await execute(both[1], ALICE) == "person"
    last = asyncio.ensure_future(execute(both[1], BOB))
    await inside.acquire()
    assert await execute(both[0], BOB) == "agent"
    leave.set()
    assert await asyncio.gather(*first, last) == ["ran"] * 3
    for one in both:
        await one.close()
    again = limiter(SqliteQuotas(tmp_path / "q.sqlite3"), agent=Quota(running=3), person=Quota(running=2))
    assert await execute(again, ALICE) == "ran"
    await again.close()


async def test_a_place_is_left_however_an_execution_ends(tmp_path: Path) -> None:
    one = limiter(SqliteQuotas(tmp_path / "q.sqlite3"), person=Quota(running=1))

    async def failing() -> None:
        async with one.running([ALICE], clock=lambda: NOW):
            raise RuntimeError

    async def endless() -> None:
        async with one.running([ALICE], clock=lambda: NOW):
            await asyncio.sleep(60)

    with pytest.raises(RuntimeError):
        await failing()
    stopped = asyncio.ensure_future(endless())
    await asyncio.sleep(0.05)
    stopped.cancel()
    await asyncio.gather(stopped, return_exceptions=True)
    async with one.running([ALICE], clock=lambda: NOW + PLACE_S / 2):
        pass
    await one.close()


async def test_whoever_executes_longer_than_a_place_lasts_keeps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limiting, "_RENEW_S", 0.001)
    renewed, clock = asyncio.Semaphore(0), [NOW]

    class Renewed(SqliteQuotas):
        async def stay(self, rooms: Sequence[Room], holder: str, *, until: float) -> None:
            await super().stay(rooms, holder, until=until)
            if until >= clock[0] + PLACE_S:
                renewed.release()

    one = limiter(Renewed(tmp_path / "q.sqlite3"), person=Quota(running=1))
    async with asyncio.timeout(10), one.running([ALICE], clock=lambda: clock[0]):
        clock[0] = NOW + PLACE_S - 1
        await renewed.acquire()
        clock[0] = NOW + PLACE_S + 1
        with pytest.raises(LimitExceeded):
            async with one.running([ALICE], clock=lambda: clock[0]):
                pass
    await one.close()


async def test_who_is_cancelled_while_coming_in_holds_no_place(tmp_path: Path) -> None:
    entered = asyncio.Event()

    class Slow(SqliteQuotas):
        async def enter(self, rooms: Sequence[Room], holder: str, *, until: float, now: float) -> int | None:
            full = await super().enter(rooms, holder, until=until, now=now)
            entered.set()
            await asyncio.sleep(0.05)
            return full

    path = tmp_path / "q.sqlite3"
    leaver, stayer = limiter(Slow(path), person=Quota(running=1)), limiter(SqliteQuotas(path), person=Quota(running=1))

    async def come_in() -> None:
        async with leaver.running([ALICE], clock=lambda: NOW):
            raise AssertionError("whoever is cancelled executes nothing")

    coming = asyncio.ensure_future(come_in())
    await entered.wait()
    coming.cancel()
    assert isinstance((await asyncio.gather(coming, return_exceptions=True))[0], asyncio.CancelledError)
    await leaver.close()
    async with stayer.running([ALICE], clock=lambda: NOW):
        pass
    await stayer.close()


async def test_without_limits_no_store_is_asked() -> None:
    one = limiter(None)
    assert await made(one, ALICE, 100) == 100
    async with one.running([AGENT, ALICE], clock=lambda: NOW):
        pass
    await one.close()


async def test_a_store_that_fails_lets_nobody_through(tmp_path: Path) -> None:
    (tmp_path / "q.sqlite3").write_bytes(b"no database" * 1_000)
    one = limiter(SqliteQuotas(tmp_path / "q.sqlite3"), person=Quota(Rate(10, 10), running=2))
    with pytest.raises(StoreUnavailable):
        await one.count(ALICE, now=NOW)
    with pytest.raises(StoreUnavailable):
        async with one.running([ALICE], clock=lambda: NOW):
            pass
    await one.close()


async def test_whoever_watches_is_told_of_each_call_that_was_over(tmp_path: Path) -> None:
    one = limiter(SqliteQuotas(tmp_path / "q.sqlite3"), agent=Quota(Rate(1, 1), running=1))
    told: list[str] = []
    one.exceeded = lambda over: told.append(f"{over.kind} {over.what}")
    await made(one, AGENT, 4)
    async with one.running([AGENT], clock=lambda: NOW):
        with pytest.raises(LimitExceeded, match="this agent has had as many executions at once as is allowed"):
            async with one.running([AGENT], clock=lambda: NOW):
                pass
    assert told == ["agent rate"] * 3 + ["agent running"]
    await one.close()


async def test_agents_that_share_a_store_limit_each_for_itself(tmp_path: Path) -> None:
    one = limiter(SqliteQuotas(tmp_path / "q.sqlite3"), person=Quota(Rate(1, 3)), agent=Quota(Rate(1, 3)))
    there = Caller.person("https://issuer", "acme", "alice", at="urn:there")
    assert await made(one, ALICE, 9) == await made(one, there, 9) == 3
    assert await made(one, AGENT, 9) == await made(one, Caller.agent("urn:a", at="urn:there"), 9) == 3
    await one.close()


async def test_in_a_store_nobody_is_named_nor_found_by_who_tries_names_out(tmp_path: Path) -> None:
    store = SqliteQuotas(tmp_path / "q.sqlite3")
    one = limiter(store, person=Quota(Rate(1, 3), running=2), agent=Quota(Rate(1, 3), running=2))
    for caller in (ALICE, AGENT):
        await one.count(caller, now=NOW)
    async with one.running([ALICE, AGENT], clock=lambda: NOW):
        with closing(sqlite3.connect(tmp_path / "q.sqlite3")) as db:
            held = {key for (key,) in db.execute("SELECT key FROM rates UNION SELECT key FROM places")}
    tried = key_of("person", "urn:here", "https://issuer", "acme", "alice"), key_of("agent", "urn:here", "urn:a")
    assert tried == (ALICE.key, AGENT.key)
    assert held == {NAMES.of(key) for key in tried}
    assert not held & {*tried, *[Names(b"t" * 32).of(key) for key in tried]}
    await one.close()


async def test_processes_that_have_one_secret_count_together_and_under_another_anew(tmp_path: Path) -> None:
    one, other = [limiter(SqliteQuotas(tmp_path / "q.sqlite3"), person=Quota(Rate(0.01, 1))) for _ in "ab"]
    assert [await made(each, ALICE, 1) for each in (one, other)] == [1, 0]
    one.take_over(Names(b"t" * 32))
    assert await made(one, ALICE, 2, now=NOW + KEPT_S + 1) == 1
    await one.close()
    await other.close()


async def test_a_place_that_was_taken_under_another_secret_is_given_back(tmp_path: Path) -> None:
    one = limiter(SqliteQuotas(tmp_path / "q.sqlite3"), person=Quota(running=1))
    async with one.running([ALICE], clock=lambda: NOW):
        one.take_over(Names(b"t" * 32))
    one.take_over(NAMES)
    await asyncio.gather(*one._leaving)
    async with one.running([ALICE], clock=lambda: NOW):
        pass
    await one.close()


def test_a_secret_that_is_too_short_names_nobody_and_none_is_shown() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        Names(b"s" * 31)
    assert repr(NAMES) == "Names(…)"


async def test_a_name_that_two_tenants_or_issuers_have_is_of_two_people(tmp_path: Path) -> None:
    one = limiter(SqliteQuotas(tmp_path / "q.sqlite3"), person=Quota(Rate(1, 3)))
    for issuer, tenant in (("https://issuer", "acme"), ("https://issuer", "globex"), ("https://other", "acme")):
        assert await made(one, Caller.person(issuer, tenant, "alice", at="urn:here"), 9) == 3
    await one.close()


async def test_of_callers_without_end_the_last_ones_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limiting, "_MOST_KNOWN", 4)
    store = Counted(tmp_path / "q.sqlite3")
    one = limiter(store, person=Quota(Rate(100, 160)), agent=Quota(Rate(100, 160)))
    for caller in (ALICE, *[Caller.agent(f"urn:{number}", at="urn:here") for number in range(4)]):
        await one.count(caller, now=NOW)
    assert store.asked == 5
    await one.count(ALICE, now=NOW)
    assert store.asked == 6
    await one.close()


async def test_a_store_that_did_not_answer_is_asked_again_after_a_second(tmp_path: Path) -> None:
    path = tmp_path / "q.sqlite3"
    path.write_bytes(b"no database" * 1_000)
    store = Counted(path)
    one = limiter(store, person=Quota(Rate(10, 10)))
    for now in (NOW, NOW, NOW + 0.9):
        with pytest.raises(StoreUnavailable):
            await one.count(ALICE, now=now)
    assert store.asked == 1
    path.unlink()
    await one.count(ALICE, now=NOW + 1.1)
    assert store.asked == 2
    await one.close()


async def test_who_is_over_a_rate_waits_for_the_answer_and_nobody_else_does(tmp_path: Path) -> None:
    slow = Limiter(
        SqliteQuotas(tmp_path / "q.sqlite3"), agent=NONE, person=Quota(Rate(0.01, 2)), names=NAMES, pause_s=60
    )
    over = [asyncio.ensure_future(made(slow, ALICE, 3)) for _ in range(3)]
    await asyncio.wait_for(slow.count(BOB, now=NOW), 30)
    done, waiting = await asyncio.wait(over, timeout=0.2)
    assert (len(done), len(waiting)) == (0, 3)
    for one in over:
        one.cancel()
    await asyncio.gather(*over, return_exceptions=True)
    await slow.close()
