"""A rate lets through what it says, and never more, whatever the clock does."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quota.rate import Rate, take

rates = st.builds(Rate, st.floats(0.1, 1_000, allow_nan=False).map(lambda value: round(value, 3)), st.integers(1, 200))
waits = st.lists(st.tuples(st.floats(0, 3), st.integers(1, 60)), min_size=1, max_size=60)


@given(rates, waits, st.floats(0, 2e9))
def test_no_stretch_of_time_has_more_than_its_burst_and_its_rate(
    rate: Rate, asked: list[tuple[float, int]], start: float
) -> None:
    at, now, made = None, start, list[tuple[float, int]]()
    for wait, wanted in asked:
        now += wait
        taken, at = take(rate, at, wanted, now=now)
        assert 0 <= taken.number <= wanted
        made.append((now, taken.number))
    for first in range(len(made)):
        since = sum(number for _, number in made[first:])
        stretch = made[-1][0] - made[first][0]
        assert since <= rate.burst + stretch * rate.per_second + 1e-3


@given(rates, st.floats(0, 2e9))
def test_after_a_pause_the_whole_burst_may_come_at_once_and_then_one_a_step(rate: Rate, now: float) -> None:
    taken, at = take(rate, None, rate.burst + 10, now=now)
    assert taken.number == rate.burst
    over, at = take(rate, at, 1, now=now)
    assert over.number == 0
    assert over.retry_after_s == pytest.approx(rate.step_s, rel=1e-2, abs=1e-5)
    again, _ = take(rate, at, 1, now=now + over.retry_after_s + 1e-5)
    assert again.number == 1


@given(rates, st.floats(1e6, 2e9), st.floats(0, 1e6))
def test_a_clock_that_was_put_back_locks_nobody_out(rate: Rate, now: float, back: float) -> None:
    _, at = take(rate, None, rate.burst, now=now)
    earlier = now - back
    told, _ = take(rate, at, 1, now=earlier)
    assert told.retry_after_s <= rate.room_s + rate.step_s + 1e-5
    if back > rate.room_s + 1e-3:
        assert take(rate, at, rate.burst, now=earlier)[0].number == rate.burst


def test_no_rate_is_no_limit_and_one_that_is_none_is_refused() -> None:
    assert Rate.of(0, 5) is None
    for per_second, burst in ((-1.0, 1), (1.0, 0), (math.inf, 1), (math.nan, 1)):
        with pytest.raises(ValueError, match="a rate has"):
            Rate(per_second, burst)
