"""Several processes on one ledger, a process that is killed, and a disk that is full."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from evidence.checkpoint import Receipt
from evidence.reader import LedgerFile
from evidence.verify import verify_ledger
from tests.evidence.evidence_builders import SeedSigner, make_row, open_ledger

KEY = SeedSigner().public_key
WRITER = Path(__file__).with_name("ledger_writer.py")


def start(folder: Path, name: str, count: int, *more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(WRITER), str(folder), name, str(count), *more], stdout=subprocess.PIPE, text=True
    )


def receipts_of(lines: list[str]) -> list[Receipt]:
    return [Receipt.from_json(json.loads(line)) for line in lines if line.startswith("{") and line.endswith("}\n")]


def test_processes_that_write_at_once_lose_and_repeat_nothing(tmp_path: Path) -> None:
    writers = [start(tmp_path, name, 60) for name in ("a", "b", "c")]
    outputs = [writer.communicate()[0].splitlines(keepends=True) for writer in writers]
    receipts = [receipt for lines in outputs for receipt in receipts_of(lines)]
    assert sorted(receipt.index for receipt in receipts) == list(range(180))
    assert all(receipt.holds((KEY,)) for receipt in receipts)
    report = verify_ledger(tmp_path / "ledger.db", KEY, receipt=max(receipts, key=lambda receipt: receipt.index))
    assert (report.ok, report.size) == (True, 180)
    requests = [entry.cells["request_id"] for entry in LedgerFile(tmp_path / "ledger.db").rows()]
    assert sorted(map(str, requests)) == sorted(f"{name}-{number}" for name in "abc" for number in range(60))


@pytest.mark.parametrize("rows", [1, 40])
def test_a_killed_process_leaves_every_row_it_gave_a_receipt_for(tmp_path: Path, rows: int) -> None:
    with start(tmp_path, "killed", 100_000) as writer:
        assert writer.stdout is not None
        lines = [writer.stdout.readline() for _ in range(rows)]
        writer.kill()
        lines += writer.stdout.readlines()
    last = receipts_of(lines)[-1]
    report = verify_ledger(tmp_path / "ledger.db", KEY, receipt=last)
    assert report.ok, report.problem
    assert report.size > last.index
    assert open_ledger(tmp_path).append(make_row()).index == report.size


def test_a_full_disk_withholds_and_keeps_what_was_written(tmp_path: Path) -> None:
    lines = start(tmp_path, "full", 100_000, str(600_000)).communicate()[0].splitlines(keepends=True)
    assert lines[-1] == "withheld EVIDENCE_UNAVAILABLE\n"
    last = receipts_of(lines)[-1]
    report = verify_ledger(tmp_path / "ledger.db", KEY, receipt=last)
    assert (report.ok, report.size) == (True, last.index + 1)
