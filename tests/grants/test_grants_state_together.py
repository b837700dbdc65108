"""Leaves that are spent side by side share a transaction, and nothing else: each has its own answer."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.grant import VerifiedGrant
from contract.verdict import NotGranted, Reason
from grants.state import RevocationKind
from grants.state_lock import Asked
from grants.state_sqlite import SqliteState
from grants.state_together import Together
from tests.grants.grants_world import NOW, accept, make_chain
from tests.grants.state_worlds import POLICY, SqliteWorld, issued


@pytest.fixture
async def store(sqlite_world: SqliteWorld) -> AsyncIterator[SqliteState]:
    opened = SqliteState.open(sqlite_world.path, now=NOW, budget=0.2)
    yield opened
    await opened.close()


async def spent(store: SqliteState, grant: VerifiedGrant, now: float = NOW) -> Reason | None:
    try:
        await store.spend(grant, policy=POLICY, now=now)
    except NotGranted as stop:
        return stop.reason
    return None


async def side_by_side(store: SqliteState, *grants: VerifiedGrant) -> list[Reason | None]:
    return await asyncio.gather(*(spent(store, grant) for grant in grants))


async def crowd(store: SqliteState) -> None:
    """Until the store spends together what is spent in one turn."""
    for _ in range(4):
        await side_by_side(store, *(accept(make_chain()) for _ in range(8)))
    assert store._together._crowded


async def test_of_several_that_spend_one_leaf_in_a_turn_one_has_it(store: SqliteState) -> None:
    await crowd(store)
    grants = [accept(make_chain()) for _ in range(4)]
    reasons = await side_by_side(store, *(grants * 4))
    assert Counter(reasons) == {None: 4, Reason.GRANT_REPLAYED: 12}
    assert reasons[:4] == [None] * 4


async def test_a_leaf_that_is_refused_stops_no_other_of_its_turn(store: SqliteState) -> None:
    await crowd(store)
    revoked, old, good = accept(make_chain()), issued(NOW - 200), accept(make_chain())
    await store.revoke(RevocationKind.GRANT, revoked.leaf_jti, not_before=NOW)
    reasons = await side_by_side(store, good, revoked, good, old, accept(make_chain()))
    assert reasons == [None, Reason.GRANT_REVOKED, Reason.GRANT_REPLAYED, Reason.REPLAY_MEMORY_LOST, None]


async def test_where_the_file_is_locked_each_of_a_turn_is_told_by_an_exception_of_its_own(
    store: SqliteState, sqlite_world: SqliteWorld
) -> None:
    await crowd(store)
    grants = [accept(make_chain()) for _ in range(3)]
    with closing(sqlite3.connect(sqlite_world.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        trying = [asyncio.ensure_future(store.spend(grant, policy=POLICY, now=NOW)) for grant in grants]
        stops = await asyncio.gather(*trying, return_exceptions=True)
        other.execute("ROLLBACK")
    assert [isinstance(stop, NotGranted) and stop.reason for stop in stops] == [Reason.STATE_UNAVAILABLE] * 3
    assert len({id(stop) for stop in stops}) == 3
    assert await side_by_side(store, *grants) == [None] * 3


async def test_who_leaves_while_its_turn_ends_has_used_its_leaf_up(store: SqliteState) -> None:
    await crowd(store)
    grant, beside = accept(make_chain()), accept(make_chain())
    leaving = asyncio.ensure_future(spent(store, grant))
    staying = asyncio.ensure_future(spent(store, beside))
    await asyncio.sleep(0)
    leaving.cancel()
    assert await staying is None
    assert await spent(store, grant) is Reason.GRANT_REPLAYED


async def test_who_is_alone_for_a_while_waits_for_no_turn(store: SqliteState) -> None:
    await crowd(store)
    for _ in range(20):
        assert await spent(store, accept(make_chain())) is None
        await asyncio.sleep(0)  # as between two requests
    assert not store._together._crowded
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.ensure_future(count())
    await asyncio.sleep(0)
    before = turns
    assert await spent(store, accept(make_chain())) is None
    assert turns == before
    counting.cancel()


async def test_a_fault_that_nobody_foresaw_is_everybodys_of_the_turn() -> None:
    async def failing(asked: object) -> list[NotGranted | None]:
        raise ValueError("unforeseen")

    together = Together()
    together._loop, together._crowded = asyncio.get_running_loop(), True
    asked = Asked(accept(make_chain()), POLICY, NOW)
    found = await asyncio.gather(*(together.spend(asked, failing) for _ in range(3)), return_exceptions=True)
    assert [type(fault) for fault in found] == [ValueError] * 3


@given(turns=st.lists(st.lists(st.integers(0, 9), max_size=6), max_size=12))
def test_however_leaves_come_each_is_good_once_and_first_come_has_it(turns: list[list[int]]) -> None:
    """Against a set of what was spent, in the order of asking."""
    leaves = [Asked(accept(make_chain()), POLICY, NOW) for _ in range(10)]
    held: set[str] = set()

    async def spend_each(asked: Sequence[Asked]) -> list[NotGranted | None]:
        stops: list[NotGranted | None] = []
        for one in asked:
            stops.append(NotGranted(Reason.GRANT_REPLAYED, "used") if one.grant.leaf_jti in held else None)
            held.add(one.grant.leaf_jti)
        return stops

    async def ask(together: Together, number: int) -> bool:
        try:
            await together.spend(leaves[number], spend_each)
        except NotGranted:
            return False
        return True

    async def run() -> list[list[bool]]:
        together = Together()
        return [await asyncio.gather(*(ask(together, number) for number in turn)) for turn in turns]

    seen: set[int] = set()
    expected = []
    for turn in turns:
        expected.append([number not in seen and number not in turn[:at] for at, number in enumerate(turn)])
        seen.update(turn)
    assert asyncio.run(run()) == expected
