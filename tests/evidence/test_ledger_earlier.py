"""A ledger of an earlier release lacks a column: it is read, verified and continued, and no hash of it changes."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from evidence.exporting import export_lines
from evidence.ledger import Ledger
from evidence.reader import LedgerFile
from evidence.row import LATER, Kind
from evidence.verify import verify_ledger
from tests.evidence.evidence_builders import NOW, SeedSigner, make_row, open_ledger

KEY = SeedSigner().public_key


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    """Three rows in a file as it was before the column came."""
    ledger = open_ledger(tmp_path)
    for number in range(3):
        ledger.append(make_row(number))
    ledger.close()
    with sqlite3.connect(ledger.path) as connection:
        for name in LATER:
            connection.execute(f"ALTER TABLE entries DROP COLUMN {name}")
    connection.close()
    return ledger.path


def reopened(path: Path) -> Ledger:
    return Ledger.open(path, SeedSigner(), subject_key_path=path.with_name("again.sqlite"), now=NOW)


def test_an_earlier_ledger_verifies_where_it_lies(earlier: Path) -> None:
    report = verify_ledger(earlier, KEY)
    assert (report.ok, report.size) == (True, 3)
    assert [entry.cells["bytes_released"] for entry in LedgerFile(earlier).rows()] == [None] * 3


def test_an_earlier_ledger_goes_on_with_what_later_rows_say(earlier: Path) -> None:
    ledger = reopened(earlier)
    receipt = ledger.append(make_row(3, kind=Kind.RELEASE_STARTED, bytes_released=7))
    assert receipt.holds((KEY,))
    ledger.close()
    report = verify_ledger(earlier, KEY, receipt=receipt)
    assert (report.ok, report.size) == (True, 4)
    assert [entry.cells["bytes_released"] for entry in LedgerFile(earlier).rows()] == [None, None, None, 7]


def test_an_earlier_export_verifies(earlier: Path, tmp_path: Path) -> None:
    export = tmp_path / "export.jsonl"
    lines = [line.replace(',"bytes_released":null', "") for line in export_lines(earlier)]
    assert all("bytes_released" not in line for line in lines)
    export.write_text("\n".join(lines) + "\n")
    assert verify_ledger(export, KEY).ok


@pytest.mark.parametrize("value", ["8", "NULL"])
def test_what_was_released_cannot_be_changed_unseen(tmp_path: Path, value: str) -> None:
    ledger = open_ledger(tmp_path)
    ledger.append(make_row(0, bytes_released=7))
    ledger.close()
    with sqlite3.connect(ledger.path) as connection:
        connection.execute(f"UPDATE entries SET bytes_released = {value}")
    connection.close()
    assert verify_ledger(ledger.path, KEY).bad_row == 0
