"""Rows are supplied exactly where a template reads some, and no more of them than there may be."""

from __future__ import annotations

import pytest

from contract.verdict import NotGranted, Reason
from queries import supplied
from queries.supplied import bound_rows, check_supplied
from tests.queries.supplied_world import PEAKS, document, peaks, supplied_template
from tests.queries.world import template

LOADED = supplied_template("SELECT p.order_id AS id FROM peaks AS p ORDER BY id", "id:INT64")
ALONE = template("SELECT id FROM orders ORDER BY id", "id:INT64")
ROWS = document(PEAKS.columns, peaks())


def test_rows_are_supplied_where_some_are_read_and_nowhere_else() -> None:
    check_supplied(LOADED, ROWS)
    check_supplied(ALONE, None)
    for loaded, given in ((LOADED, None), (ALONE, ROWS)):
        with pytest.raises(NotGranted) as refused:
            check_supplied(loaded, given)
        assert refused.value.reason is Reason.EXECUTION_FAILED


@pytest.mark.parametrize(
    ("bound", "most"),
    [("MAX_SUPPLIED_ROWS", ROWS.row_count), ("MAX_SUPPLIED_BYTES", len(ROWS.body))],
    ids=["rows", "bytes"],
)
def test_supplied_rows_have_a_number_and_a_size(monkeypatch: pytest.MonkeyPatch, bound: str, most: int) -> None:
    monkeypatch.setattr(supplied, bound, most)
    assert len(bound_rows(LOADED, ROWS) or ()) == ROWS.row_count
    monkeypatch.setattr(supplied, bound, most - 1)
    with pytest.raises(NotGranted) as refused:
        bound_rows(LOADED, ROWS)
    assert refused.value.reason is Reason.RESULT_TOO_LARGE
