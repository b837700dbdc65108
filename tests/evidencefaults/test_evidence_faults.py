"""Each fault that a ledger meets, with fewer requests than ``make test-evidence`` has."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.evidencefaults.killed_serve import SERVED
from tests.evidencefaults.ledger_faults import FAULTS

pytestmark = pytest.mark.live


@pytest.mark.parametrize("name", FAULTS)
def test_whatever_happens_each_request_has_one_row_and_the_ledger_verifies(tmp_path: Path, name: str) -> None:
    report = FAULTS[name](tmp_path / "home", 12)
    assert report.broken == ()
    assert report.begun > 0


@pytest.mark.parametrize("name", SERVED)
def test_whatever_happens_to_serve_each_request_has_one_row(tmp_path: Path, name: str) -> None:
    report = SERVED[name](tmp_path / "home", 12)
    assert report.broken == ()
    assert report.written > 0
