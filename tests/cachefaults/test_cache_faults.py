"""A cache server that is stopped, silent, full, evicting or failing over: right answers, and recovery by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cachefaults.faults import FAULTS, Fault, suffer

pytestmark = pytest.mark.live


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_answers_stay_right_and_the_cache_comes_back_by_itself(fault: Fault, tmp_path: Path) -> None:
    """``suffer`` compares the rows of every call, and waits for a hit after the fault."""
    report = suffer(fault, tmp_path, calls=12)
    assert report.standing == ("unavailable" if fault.noticed else "ok")
    assert report.faulty.outcomes["MISS"] == 12
