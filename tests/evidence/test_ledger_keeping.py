"""Rotation, retention and exports from a row on: one tree through all of it, and what is gone was told of."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import pytest

from contract.errors import DatasetAgentError
from contract.signing import PublicKey
from evidence import keeping
from evidence.checkpoint import Receipt
from evidence.damage import Damage
from evidence.entry import InvalidLedger
from evidence.exporting import Exported, RowsRemoved, export_lines, write_export
from evidence.keeping import already_told, removable, rotate, strip
from evidence.ledger import Ledger
from evidence.reader import LedgerFile
from evidence.row import Kind
from evidence.segments import segments_of
from evidence.verify import LedgerReport, verify_ledger
from tests.evidence.evidence_builders import ISSUER, NOW, SUBJECT, SeedSigner, make_row, open_ledger, tamper

KEYS = (SeedSigner().public_key,)


def fill(ledger: Ledger, count: int, first: int = 0) -> list[Receipt]:
    return [ledger.append(make_row(first + number)) for number in range(count)]


def verify(path: Path, receipt: Receipt | None = None, **options: bool) -> LedgerReport:
    return verify_ledger(path, KEYS, receipt=receipt, **options)


def remove(ledger: Ledger, *, before: float) -> list[str]:
    """What ``evidence retain`` does."""
    told = []
    for removal in removable(ledger.path, before=before):
        if removal.text not in already_told(ledger.rows()):
            row = make_row(
                900, kind=Kind.SEGMENT_REMOVED, segment=removal.text, subject=None, call_hash=None, result_digest=None
            )
            ledger.append(row)
        strip(removal, KEYS)
        told.append(removal.text)
    return told


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return open_ledger(tmp_path)


@pytest.fixture
def receipts(ledger: Ledger) -> list[Receipt]:
    return fill(ledger, 10)


def test_a_rotated_ledger_goes_on_and_verifies_as_one(ledger: Ledger, receipts: list[Receipt]) -> None:
    rotated = rotate(ledger.path, KEYS)
    assert (rotated.start, rotated.stop) == (0, 10)
    receipts += fill(ledger, 5, 10)
    rotate(ledger.path, KEYS)
    receipts += fill(ledger, 3, 15)
    assert [(one.start, one.stop) for one in segments_of(ledger.path)] == [(0, 10), (10, 15)]
    for receipt in receipts:
        report = verify(ledger.path, receipt)
        assert (report.ok, report.size, report.begins, report.compared) == (True, 18, 0, 1), report.problem
    with sqlite3.connect(ledger.path) as connection:
        assert connection.execute("SELECT count(*), min(idx) FROM entries").fetchone() == (3, 15)
    connection.close()


def test_each_segment_verifies_by_itself_with_what_it_stands_on(ledger: Ledger, receipts: list[Receipt]) -> None:
    rotate(ledger.path, KEYS)
    fill(ledger, 5, 10)
    second = rotate(ledger.path, KEYS).segment
    assert second is not None
    assert verify(second).damage is Damage.HEAD_CUT
    assert (verify(second, part=True).ok, verify(second, part=True).begins) == (True, 10)
    assert verify(second, receipts[9]).ok  # the receipt of exactly the rows before stands for them
    assert verify(second, receipts[8]).damage is Damage.HEAD_CUT


def test_nothing_is_rotated_where_nothing_is_old_enough(ledger: Ledger, receipts: list[Receipt]) -> None:
    assert rotate(ledger.path, KEYS, before=NOW).segment is None
    assert rotate(ledger.path, KEYS, before=NOW + 4).stop == 4
    assert verify(ledger.path, receipts[9]).size == 10


def test_a_clock_that_stepped_back_keeps_rows_in_their_order(ledger: Ledger) -> None:
    for number in (5, 6, 50, 7, 8):
        ledger.append(make_row(number))
    assert rotate(ledger.path, KEYS, before=NOW + 10).stop == 2
    assert verify(ledger.path).ok


def test_a_damaged_ledger_is_not_rotated(tmp_path: Path, ledger: Ledger, receipts: list[Receipt]) -> None:
    ledger.close()
    tamper(tmp_path, "UPDATE entries SET reason = 'GRANT_REPLAYED' WHERE idx = 4")
    with pytest.raises(InvalidLedger, match="nothing was moved: row 4 was changed"):
        rotate(ledger.path, KEYS)
    assert segments_of(ledger.path) == ()
    assert len(list(LedgerFile(ledger.path).rows())) == 10


def test_who_rotates_while_another_does_moves_nothing_and_loses_no_row(
    ledger: Ledger, receipts: list[Receipt], monkeypatch: pytest.MonkeyPatch
) -> None:
    check = keeping._check

    def late(path: Path, keys: tuple[PublicKey, ...]) -> None:
        monkeypatch.setattr(keeping, "_check", check)
        assert rotate(ledger.path, KEYS, before=NOW + 4).stop == 4
        check(path, keys)

    monkeypatch.setattr(keeping, "_check", late)
    with pytest.raises(InvalidLedger, match="rotated meanwhile"):
        rotate(ledger.path, KEYS)
    assert [entry.index for entry in LedgerFile(ledger.path).rows()] == list(range(10))
    assert all(verify(ledger.path, receipt).ok for receipt in receipts)


def test_rows_are_read_and_found_across_segments(ledger: Ledger, receipts: list[Receipt]) -> None:
    rotate(ledger.path, KEYS)
    fill(ledger, 2, 10)
    file = LedgerFile(ledger.path)
    assert [entry.index for entry in file.rows()] == list(range(12))
    assert [entry.index for entry in file.rows(start=8)] == [8, 9, 10, 11]
    entry = file.get(3)
    assert entry is not None
    assert entry.cells["request_id"] == "req-3"
    assert [found.index for found in file.find("request_id", "req-4")] == [4]
    assert len(list(ledger.entries_of((ISSUER, SUBJECT)))) == 12
    ledger.forget(ISSUER, SUBJECT)
    assert list(ledger.entries_of((ISSUER, SUBJECT))) == []
    assert verify(ledger.path).ok


def test_a_segment_that_is_gone_shows(ledger: Ledger, receipts: list[Receipt]) -> None:
    first = rotate(ledger.path, KEYS).segment
    fill(ledger, 5, 10)
    second = rotate(ledger.path, KEYS).segment
    fill(ledger, 2, 15)
    assert first is not None
    assert second is not None
    away = first.with_suffix(".away")
    first.rename(away)
    assert verify(ledger.path).damage is Damage.HEAD_CUT
    away.rename(first)
    second.unlink()
    report = verify(ledger.path)
    assert (report.damage, report.bad_row) == (Damage.ROW_REMOVED, 10)


def test_a_segment_of_another_history_shows(ledger: Ledger, receipts: list[Receipt], tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    other = open_ledger(copy)
    fill(other, 10, 50)
    foreign, own = rotate(other.path, KEYS).segment, rotate(ledger.path, KEYS).segment
    fill(ledger, 1, 10)
    assert foreign is not None
    assert own is not None
    shutil.copy(foreign, own)
    assert not verify(ledger.path).ok


def test_retention_leaves_the_hashes_and_a_signed_row_and_old_receipts_still_prove(
    ledger: Ledger, receipts: list[Receipt]
) -> None:
    rotate(ledger.path, KEYS)
    receipts += fill(ledger, 5, 10)
    rotate(ledger.path, KEYS)
    (text,) = remove(ledger, before=NOW + 10)
    assert text.startswith("0-10:")
    for receipt in receipts:
        report = verify(ledger.path, receipt)
        assert (report.ok, report.size, report.compared) == (True, 16, 1), report.problem
    (removed,) = report.removed
    assert (removed.start, removed.stop, removed.by) == (0, 10, 15)
    first, second = segments_of(ledger.path)
    assert b"req-" not in first.path.read_bytes()
    assert b"req-12" in second.path.read_bytes()
    assert list(removable(ledger.path, before=NOW + 10)) == []


def test_rows_stripped_without_a_row_that_says_so_are_withheld(ledger: Ledger, receipts: list[Receipt]) -> None:
    rotate(ledger.path, KEYS)
    fill(ledger, 2, 10)
    for removal in removable(ledger.path, before=NOW + 100):
        strip(removal, KEYS)
    report = verify(ledger.path)
    assert (report.damage, report.bad_row) == (Damage.ROWS_WITHHELD, 0)


def test_a_removal_of_other_rows_or_of_another_root_covers_nothing(ledger: Ledger, receipts: list[Receipt]) -> None:
    rotate(ledger.path, KEYS)
    (removal,) = removable(ledger.path, before=NOW + 100)
    for text in ("0-9:" + "0" * 64, "1-10:" + removal.text[-64:], "0-10:" + "0" * 64):
        ledger.append(make_row(900, kind=Kind.SEGMENT_REMOVED, segment=text))
    strip(removal, KEYS)
    assert verify(ledger.path).damage is Damage.ROWS_WITHHELD
    ledger.append(make_row(901, kind=Kind.SEGMENT_REMOVED, segment=removal.text))
    assert verify(ledger.path).ok


def test_a_segment_removed_whole_after_its_row_verifies_from_there_on(ledger: Ledger, receipts: list[Receipt]) -> None:
    rotate(ledger.path, KEYS)
    (text,) = remove(ledger, before=NOW + 100)
    segments_of(ledger.path)[0].path.unlink()
    report = verify(ledger.path)
    assert (report.ok, report.begins, report.removed[0].by) == (True, 10, 10)
    assert text == f"0-10:{receipts[9].checkpoint.root.hex()}"


def test_a_removal_that_broke_off_is_not_told_twice(ledger: Ledger, receipts: list[Receipt]) -> None:
    rotate(ledger.path, KEYS)
    (removal,) = removable(ledger.path, before=NOW + 100)
    ledger.append(make_row(900, kind=Kind.SEGMENT_REMOVED, segment=removal.text))
    assert remove(ledger, before=NOW + 100) == [removal.text]
    assert ledger.size == 11
    assert verify(ledger.path).ok


def test_a_damaged_segment_is_not_stripped(ledger: Ledger, receipts: list[Receipt]) -> None:
    segment = rotate(ledger.path, KEYS).segment
    assert segment is not None
    segment.write_text(segment.read_text().replace("req-4", "req-5", 1))
    with pytest.raises(InvalidLedger, match="nothing of it was removed"):
        remove(ledger, before=NOW + 100)


class TestExport:
    def test_it_is_whole_across_segments_and_what_retention_left(
        self, ledger: Ledger, receipts: list[Receipt], tmp_path: Path
    ) -> None:
        rotate(ledger.path, KEYS)
        fill(ledger, 5, 10)
        rotate(ledger.path, KEYS)
        remove(ledger, before=NOW + 10)
        receipts += fill(ledger, 2, 20)
        file = tmp_path / "export.jsonl"
        exported = write_export(ledger.path, file)
        assert (exported.begins, exported.size, exported.resumed) == (0, 18, 0)
        assert all(verify(file, receipt).ok for receipt in receipts)
        assert not file.with_name("export.jsonl.partial").exists()
        assert file.stat().st_mode & 0o777 == 0o600

    @pytest.mark.parametrize("start", [1, 4, 7, 10, 12])
    def test_it_begins_at_a_row_and_joins_the_one_before(
        self, ledger: Ledger, receipts: list[Receipt], tmp_path: Path, start: int
    ) -> None:
        rotate(ledger.path, KEYS, before=NOW + 8)
        receipts += fill(ledger, 5, 10)
        file = tmp_path / "export.jsonl"
        assert write_export(ledger.path, file, start=start).begins == start
        report = verify(file, receipts[start - 1])
        assert (report.ok, report.begins, report.size) == (True, start, 15), report.problem

    def test_of_no_ledger_there_is_none(self, tmp_path: Path) -> None:
        with pytest.raises(DatasetAgentError) as caught:
            next(export_lines(tmp_path / "none.db"))
        assert caught.value.is_not_found

    def test_it_cannot_begin_between_rows_of_which_only_hashes_are_left(
        self, ledger: Ledger, receipts: list[Receipt], tmp_path: Path
    ) -> None:
        rotate(ledger.path, KEYS)
        remove(ledger, before=NOW + 100)
        with pytest.raises(RowsRemoved):
            list(export_lines(ledger.path, start=4))
        assert write_export(ledger.path, tmp_path / "export.jsonl", start=10) == Exported(
            ledger.checkpoint().origin, 10, 11
        )

    @pytest.mark.parametrize("kept", [1, 2, 5, 10])
    def test_one_that_broke_off_goes_on_with_the_checkpoint_it_began_with(
        self, ledger: Ledger, receipts: list[Receipt], tmp_path: Path, kept: int
    ) -> None:
        lines = list(export_lines(ledger.path))
        partial = tmp_path / "export.jsonl.partial"
        partial.write_text("".join(line + "\n" for line in lines[:kept]) + lines[kept][:40])
        fill(ledger, 3, 10)
        exported = write_export(ledger.path, tmp_path / "export.jsonl")
        assert (exported.size, exported.resumed) == (10, kept - 1)
        assert (tmp_path / "export.jsonl").read_text() == "".join(line + "\n" for line in lines)

    @pytest.mark.parametrize("rubbish", ["", "{}", "rubbish\n", '{"checkpoint":{"origin":"urn:other","size":3}}\n'])
    def test_what_is_no_beginning_of_it_is_written_anew(
        self, ledger: Ledger, receipts: list[Receipt], tmp_path: Path, rubbish: str
    ) -> None:
        (tmp_path / "export.jsonl.partial").write_text(rubbish)
        assert write_export(ledger.path, tmp_path / "export.jsonl").resumed == 0
        assert verify(tmp_path / "export.jsonl").size == 10

    def test_a_write_that_fails_leaves_the_file_that_was_there(
        self, ledger: Ledger, receipts: list[Receipt], tmp_path: Path
    ) -> None:
        file = tmp_path / "export.jsonl"
        write_export(ledger.path, file)
        before = file.read_bytes()
        fill(ledger, 3, 10)

        def fails(lines: object, count: int) -> object:
            raise OSError("no space left")

        with pytest.raises(OSError, match="no space"):
            write_export(ledger.path, file, progress=fails)  # type: ignore[arg-type]
        assert file.read_bytes() == before
        assert json.loads(before.splitlines()[0])["checkpoint"]["size"] == 10


def test_hashes_of_another_history_show_where_the_ledger_stands_on_them(
    ledger: Ledger, receipts: list[Receipt]
) -> None:
    rotate(ledger.path, KEYS)
    remove(ledger, before=NOW + 100)
    (segment,) = segments_of(ledger.path)
    first, leaves = segment.path.read_text().splitlines()
    hashes = json.loads(leaves)
    hashes["leaves"]["hashes"][4] = "0" * 64
    segment.path.write_text(first + "\n" + json.dumps(hashes) + "\n")
    assert verify(ledger.path).damage is Damage.FORK
