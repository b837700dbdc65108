"""What is told of words that a call leaves over: whether they may be left out of the question."""

from __future__ import annotations

import pytest

from control_plane.limits import is_limiting
from tests.control_plane.test_reading_accounts import _asked


@pytest.mark.parametrize(
    "question",
    [
        "Find batches without resin fouling",
        "Find rejected batches with resin fouling",
        "Calculate the yield for batch B003 in 2023",
        "Compare B001 and B002 yesterday",
        "Don't compare B001 and B002",
        "Which batches are anomalous in titre in Basel",
        "Aggregate resolution over runs above 1.5",
        "Calculate the yield of batch B003 in kg",
        "Which batches are most anomalous in titre",
    ],
)
def test_what_denies_filters_times_or_compares_is_never_told_to_be_left_out(question: str) -> None:
    left = _asked(question).left
    assert left
    assert is_limiting(question, left)


@pytest.mark.parametrize(
    "question",
    [
        "Calcualte the yield for batch B003",
        "Compare the recovry of batches B001 and B002",
        "Compare b001 with b002 again",
    ],
)
def test_what_no_list_knows_may_be_left_out(question: str) -> None:
    left = _asked(question).left
    assert left
    assert not is_limiting(question, left)
