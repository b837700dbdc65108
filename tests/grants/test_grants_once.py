"""What is no leaf and is used once all the same, in both memories."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from contract.verdict import NotGranted, Reason
from grants.once import Once
from grants.state import PUT_BACK, StateStore
from tests.grants.grants_world import NOW, accept, make_chain
from tests.grants.state_worlds import POLICY, StateWorld

GIVEN = Once("approval", "apr-1", since=NOW, ends=NOW + 86_400)


async def refusal(store: StateStore, once: Once, *, now: float = NOW) -> Reason | None:
    try:
        await store.use(once, now=now)
    except NotGranted as stop:
        return stop.reason
    return None


async def test_it_is_used_once_however_late_and_whatever_is_used_beside_it(store: StateStore) -> None:
    others = [replace(GIVEN, name="apr-2"), replace(GIVEN, kind="consent")]
    assert [await refusal(store, one) for one in (GIVEN, *others)] == [None, None, None]
    await store.spend(accept(make_chain()), policy=POLICY, now=NOW)
    for later in (0, 1, 86_399):
        assert await refusal(store, GIVEN, now=NOW + later) is Reason.GRANT_REPLAYED


async def test_what_its_own_place_says_of_its_times_makes_it_no_other(store: StateStore) -> None:
    assert await refusal(store, GIVEN) is None
    assert await refusal(store, replace(GIVEN, since=NOW + 5, ends=NOW + 90_000), now=NOW + 6) is Reason.GRANT_REPLAYED


async def test_of_several_at_once_one_uses_it(world: StateWorld) -> None:
    stores = [world.open(NOW) for _ in range(3)]
    told = await asyncio.gather(*[refusal(store, GIVEN) for store in stores for _ in range(4)])
    assert sorted(map(str, told)) == ["GRANT_REPLAYED"] * 11 + ["None"]
    for store in stores:
        await store.close()


async def test_after_a_loss_what_was_given_before_is_not_used_and_what_is_given_later_is(
    world: StateWorld, store: StateStore
) -> None:
    assert await refusal(store, GIVEN) is None
    world.flush()
    for name in ("apr-1", "apr-2"):
        await _again(store, replace(GIVEN, name=name), Reason.REPLAY_MEMORY_LOST)
    assert await refusal(store, replace(GIVEN, name="apr-3", since=NOW + 60), now=NOW + 60) is None


async def test_it_is_remembered_longer_than_any_clock_takes_it(store: StateStore) -> None:
    short = replace(GIVEN, ends=NOW + 10)
    assert await refusal(store, short) is None
    assert await refusal(store, short, now=NOW + 10 + PUT_BACK) is Reason.GRANT_REPLAYED
    after = short.until + 1
    assert await refusal(store, replace(GIVEN, name="apr-2"), now=after) is None  # by which the first is forgotten
    assert await refusal(store, short, now=NOW) is Reason.STATE_UNAVAILABLE  # a clock that was put back


async def test_a_memory_that_does_not_answer_lets_nothing_be_used(world: StateWorld, store: StateStore) -> None:
    with world.silent():
        assert await refusal(store, GIVEN) is Reason.STATE_UNAVAILABLE
    with pytest.raises(NotGranted):
        await store.use(GIVEN, now=GIVEN.until)


async def _again(store: StateStore, once: Once, reason: Reason) -> None:
    """The first answer may be that the memory is gone just now."""
    if await refusal(store, once, now=NOW + 1) is not reason:
        assert await refusal(store, once, now=NOW + 1) is reason
