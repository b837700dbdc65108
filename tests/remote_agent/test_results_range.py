"""Which bytes a range is: one that the result has, or none."""

from __future__ import annotations

import pytest

from remote_agent.results_range import Unsatisfiable, span_of


@pytest.mark.parametrize("header", ["bytes=0-1,3-4", "bytes=", "bytes=a-b", "bytes=--1", "bytes=1", "bytes=0x0-1"])
def test_what_is_not_one_range_is_none(header: str) -> None:
    with pytest.raises(Unsatisfiable, match="one range"):
        span_of(header, 10)


@pytest.mark.parametrize("header", ["bytes=10-", "bytes=10-12", "bytes=5-4", "bytes=-0"])
def test_what_the_result_does_not_have_is_no_range(header: str) -> None:
    assert (span_of("bytes=9-", 10).length, span_of("bytes=-99", 10).length) == (1, 10)
    with pytest.raises(Unsatisfiable, match="does not have"):
        span_of(header, 10)
