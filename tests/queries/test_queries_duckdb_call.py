"""Where a call runs, and what is bound with it: whatever no limit inside an engine bounds runs in a process of its own."""

from __future__ import annotations

from math import inf, nan

import pytest

from contract.verdict import NotGranted, Reason
from queries.duckdb_call import Calls, _supplied
from queries.govern import Shape
from tests.queries.supplied_world import PEAKS, document, peaks, supplied_template
from tests.queries.world import template

SHAPE = Shape((), ())
NOTES = template("SELECT CONCAT(note, note) AS x FROM orders ORDER BY x", "x:STRING")
AREAS = supplied_template("SELECT p.region AS r, p.area AS a FROM peaks AS p ORDER BY r, a", "r:STRING a:FLOAT64")
ROWS = document(PEAKS.columns, peaks())


def calls(memory: int, longest: int = 100) -> Calls:
    return Calls("k", {"orders.note": longest}, memory, threads=1)


def test_values_that_memory_does_not_hold_are_made_in_a_process_of_their_own() -> None:
    here, there = (calls(2**30, longest).call(NOTES, SHAPE, {}, None, 10) for longest in (100, 2**20))
    assert (here.in_worker, here.value_bytes) == (False, 200)
    assert (there.in_worker, there.value_bytes) == (True, 2 * 2**20)


def test_supplied_rows_may_be_as_long_as_all_of_them() -> None:
    call = calls(2**30).call(AREAS, SHAPE, {}, ROWS, 10)
    assert call.value_bytes >= len(ROWS.body)


@pytest.mark.parametrize("area", [nan, inf, -inf])
def test_a_supplied_number_that_is_not_finite_is_not_computed_with(area: float) -> None:
    assert _supplied(AREAS, ROWS)
    with pytest.raises(NotGranted) as refused:
        _supplied(AREAS, document(PEAKS.columns, [{**peaks()[0], "area": area}]))
    assert refused.value.reason is Reason.RESULT_INVALID
