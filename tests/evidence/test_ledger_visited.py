"""Processes that open and close a ledger while a service writes it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from contract.verdict import NotGranted, Reason
from evidence.verify import verify_ledger
from tests.evidence.evidence_builders import SeedSigner, make_row, open_ledger

KEY = SeedSigner().public_key
WRITER = Path(__file__).with_name("ledger_writer.py")
VERIFY = """
import sys
from pathlib import Path
from evidence.verify import verify_ledger
from tests.evidence.evidence_builders import SeedSigner
print(verify_ledger(Path(sys.argv[1]), SeedSigner().public_key).size)
"""


def visit(folder: Path, rows: int) -> None:
    subprocess.run([sys.executable, str(WRITER), str(folder), "visitor", str(rows)], check=True, capture_output=True)


def size_elsewhere(path: Path) -> int:
    house = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-c", VERIFY, str(path)]
    return int(subprocess.run(command, cwd=house, check=True, capture_output=True, text=True).stdout)


@pytest.mark.parametrize("rows", [0, 2])
def test_a_row_after_a_visit_is_in_the_file(tmp_path: Path, rows: int) -> None:
    ledger, second = open_ledger(tmp_path), open_ledger(tmp_path)
    ledger.append(make_row(0))
    visit(tmp_path, rows)
    assert ledger.append(make_row(1)).index == rows + 1
    assert second.append(make_row(2)).index == rows + 2
    assert size_elsewhere(ledger.path) == rows + 3
    second.close()
    visit(tmp_path, rows)
    ledger.append(make_row(3))
    assert size_elsewhere(ledger.path) == 2 * rows + 4
    ledger.close()
    report = verify_ledger(ledger.path, KEY)
    assert (report.ok, report.size) == (True, 2 * rows + 4)


@pytest.mark.parametrize("suffix", ["-wal", "-shm"])
def test_nothing_is_released_on_a_row_that_nobody_else_would_see(tmp_path: Path, suffix: str) -> None:
    ledger = open_ledger(tmp_path)
    ledger.append(make_row(0))
    Path(f"{ledger.path}{suffix}").unlink()
    with pytest.raises(NotGranted) as stop:
        ledger.append(make_row(1))
    assert stop.value.reason is Reason.EVIDENCE_UNAVAILABLE
    ledger.close()
