from __future__ import annotations

import pytest

from cache.breaker import Breaker
from cache.store import StoreSilent, StoreUnavailable


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


async def fail() -> None:
    raise StoreUnavailable("down")


async def stay_silent() -> None:
    raise StoreSilent("no answer")


async def work() -> str:
    return "answer"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def breaker(clock: Clock) -> Breaker:
    return Breaker(failures=3, pause_s=5, clock=clock)


async def trip(breaker: Breaker, times: int = 3) -> None:
    for _ in range(times):
        with pytest.raises(StoreUnavailable):
            await breaker.call(fail)


async def test_it_passes_answers_through(breaker: Breaker) -> None:
    assert await breaker.call(work) == "answer"


async def test_it_opens_after_three_faults_in_a_row(breaker: Breaker) -> None:
    await trip(breaker)
    with pytest.raises(StoreUnavailable, match="left alone"):
        await breaker.call(work)


async def test_a_success_between_faults_keeps_it_closed(breaker: Breaker) -> None:
    await trip(breaker, 2)
    await breaker.call(work)
    await trip(breaker, 2)
    assert await breaker.call(work) == "answer"


async def test_after_the_pause_one_trial_goes_through(breaker: Breaker, clock: Clock) -> None:
    await trip(breaker)
    clock.now = 5.0
    assert breaker.allows()
    assert not breaker.allows()


async def test_a_trial_that_works_closes_it(breaker: Breaker, clock: Clock) -> None:
    await trip(breaker)
    clock.now = 5.0
    await breaker.call(work)
    assert not breaker.is_open


async def test_while_it_rests_nobody_is_let_through_and_to_look_at_it_is_no_trial(
    breaker: Breaker, clock: Clock
) -> None:
    assert not breaker.is_resting
    await trip(breaker)
    assert breaker.is_resting
    clock.now = 5.0
    assert (breaker.is_resting, breaker.is_resting) == (False, False)
    assert breaker.allows()


async def test_a_trial_that_fails_starts_the_pause_again(breaker: Breaker, clock: Clock) -> None:
    await trip(breaker)
    clock.now = 5.0
    await trip(breaker, 1)
    clock.now = 9.9
    assert not breaker.allows()


async def silence(breaker: Breaker) -> None:
    with pytest.raises(StoreUnavailable):
        await breaker.call(stay_silent)


async def test_one_silence_opens_it_so_that_no_call_waits_twice(breaker: Breaker, clock: Clock) -> None:
    await silence(breaker)
    assert not breaker.allows()
    clock.now = 0.5
    assert await breaker.call(work) == "answer"
    assert not breaker.is_open


async def test_each_silence_that_follows_doubles_the_pause_up_to_the_whole_one(breaker: Breaker, clock: Clock) -> None:
    for pause in (0.5, 1.0, 2.0, 4.0, 5.0, 5.0):
        await silence(breaker)
        clock.now += pause - 0.01
        assert not breaker.allows()
        clock.now += 0.02


async def test_calls_that_meet_one_silence_together_count_once(breaker: Breaker, clock: Clock) -> None:
    for _ in range(64):
        breaker.failed(silent=True)
    clock.now = 0.5
    assert breaker.allows()


async def test_it_logs_when_it_opens_and_when_it_closes(
    breaker: Breaker, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    await silence(breaker)
    for _ in range(5):
        with pytest.raises(StoreUnavailable):
            await breaker.call(work)
    clock.now = 0.5
    await breaker.call(work)
    await breaker.call(work)
    assert [record.getMessage() for record in caplog.records] == [
        "the cache store is silent: calls go on without it",
        "the cache store answers again",
    ]
