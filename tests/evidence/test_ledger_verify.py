"""Everything that can be done to a ledger behind its back, and the row that verification names."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from contract.errors import DatasetAgentError
from evidence.checkpoint import Checkpoint, Receipt
from evidence.entry import INSERT_ENTRY, UPDATE_HEAD, Entry, read_entries, read_head
from evidence.exporting import export_lines
from evidence.merkle import Frontier, leaf_hash
from evidence.reader import LedgerFile
from evidence.row import COLUMNS, leaf_data
from evidence.verify import LedgerReport, verify_ledger
from tests.evidence.evidence_builders import SeedSigner, head_as_sql, make_row, open_ledger, tamper

SIZE = 9
KEY = SeedSigner().public_key


def verify(folder: Path, receipt: Receipt | Checkpoint | None = None) -> LedgerReport:
    return verify_ledger(folder / "ledger.db", KEY, receipt=receipt)


def rewrite(
    folder: Path,
    change: Callable[[list[Entry]], list[Entry]],
    signer: SeedSigner | None = None,
    *,
    keep_signatures: bool = True,
) -> None:
    """What a careful forger does: change entries, then recompute indices, leaves, roots, peaks and head.

    Signatures are kept, or made with a key that is not the ledger's.
    """
    forger = SeedSigner(66) if signer is None else signer
    connection = sqlite3.connect(folder / "ledger.db", isolation_level=None)
    head = read_head(connection)
    entries = change(list(read_entries(connection)))
    connection.execute("DELETE FROM entries")
    frontier, newest = Frontier(), head.checkpoint
    for index, entry in enumerate(entries):
        leaf = leaf_hash(leaf_data(index, entry.cells))
        frontier = frontier.append(leaf)
        newest = Checkpoint.sign(
            forger,
            origin=head.checkpoint.origin,
            size=index + 1,
            root=frontier.root(),
            time=str(entry.cells["recorded_at"]),
        )
        signature = entry.signature if keep_signatures else newest.signature
        connection.execute(INSERT_ENTRY, (index, *entry.cells.values(), leaf, frontier.root(), signature))
    signature = entries[-1].signature if keep_signatures else newest.signature
    connection.execute(UPDATE_HEAD, (frontier.size, frontier.root(), newest.time, signature, frontier.to_bytes()))
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


def test_an_untouched_ledger_verifies(folder: Path) -> None:
    report = verify(folder)
    assert (report.ok, report.size, report.bad_row, report.problem) == (True, SIZE, None, None)


@pytest.mark.parametrize("number", range(SIZE))
def test_an_untouched_ledger_verifies_with_any_receipt(folder: Path, receipts: list[Receipt], number: int) -> None:
    assert verify(folder, receipts[number]).ok
    assert verify(folder, receipts[number].checkpoint).ok


@pytest.mark.parametrize("column", COLUMNS)
def test_an_edited_cell_is_named_whatever_its_column(folder: Path, column: str) -> None:
    value = "17" if column in ("rows_returned", "bytes_released", "derived") else "'INSUFFICIENT_PRIVILEGE'"
    tamper(folder, f"UPDATE entries SET {column} = {value} WHERE idx = 4")
    report = verify(folder)
    assert (report.ok, report.bad_row, report.size) == (False, 4, 4)


@pytest.mark.parametrize("column", COLUMNS)
def test_an_emptied_cell_is_named_whatever_its_column(folder: Path, column: str) -> None:
    ledger = sqlite3.connect(folder / "ledger.db")
    was = ledger.execute(f"SELECT {column} FROM entries WHERE idx = 4").fetchone()[0]
    ledger.close()
    tamper(folder, f"UPDATE entries SET {column} = NULL WHERE idx = 4")
    assert verify(folder).bad_row == (None if was is None else 4)


@pytest.mark.parametrize("column", ["leaf_hash", "root", "signature"])
def test_an_edited_hash_or_signature_is_named(folder: Path, column: str) -> None:
    tamper(folder, f"UPDATE entries SET {column} = randomblob(length({column})) WHERE idx = 5")
    assert verify(folder).bad_row == 5


def test_a_cell_of_a_foreign_type_is_named(folder: Path) -> None:
    tamper(
        folder,
        "PRAGMA writable_schema=ON",
        "UPDATE sqlite_schema SET sql = replace(sql, ') STRICT', ')') WHERE name = 'entries'",
        "PRAGMA writable_schema=RESET",
        "UPDATE entries SET reason = x'00ff' WHERE idx = 3",
    )
    assert verify(folder).bad_row == 3


@pytest.mark.parametrize("column", ["leaf_hash", "root", "signature"])
def test_a_hash_that_is_text_is_named(folder: Path, column: str) -> None:
    tamper(
        folder,
        "PRAGMA writable_schema=ON",
        "UPDATE sqlite_schema SET sql = replace(sql, ') STRICT', ')') WHERE name = 'entries'",
        "PRAGMA writable_schema=RESET",
        f"UPDATE entries SET {column} = substr(hex({column}), 1, length({column})) WHERE idx = 3",
    )
    assert verify(folder).bad_row == 3


def test_an_index_that_is_none_is_not_read(folder: Path) -> None:
    tamper(
        folder,
        "CREATE TABLE others AS SELECT * FROM entries",
        "DROP TABLE entries",
        "ALTER TABLE others RENAME TO entries",
        "UPDATE entries SET idx = 3.5 WHERE idx = 3",
    )
    with pytest.raises(DatasetAgentError, match="foreign type"):
        list(LedgerFile(folder / "ledger.db").rows())


@pytest.mark.parametrize("peaks", ["randomblob(length(peaks))", "zeroblob(length(peaks))"])
def test_nothing_is_signed_on_peaks_that_do_not_hash_to_the_root(folder: Path, peaks: str) -> None:
    """Root and signature are as they were: only the next row would be of another tree."""
    tamper(folder, f"UPDATE head SET peaks = {peaks}")
    with pytest.raises(DatasetAgentError, match="peaks do not hash"):
        open_ledger(folder)


@pytest.mark.parametrize("column", ["size", "root", "peaks", "time", "origin", "signature"])
def test_a_head_of_foreign_types_is_found(folder: Path, column: str) -> None:
    tamper(
        folder,
        "PRAGMA writable_schema=ON",
        "UPDATE sqlite_schema SET sql = replace(sql, ') STRICT', ')') WHERE name = 'head'",
        "PRAGMA writable_schema=RESET",
        f"UPDATE head SET {column} = {'1.5' if column in ('size', 'time', 'origin') else chr(39) + 'x' * 64 + chr(39)}",
    )
    assert not verify(folder).ok


def test_text_that_is_no_unicode_is_named(folder: Path) -> None:
    tamper(folder, "UPDATE entries SET trace_id = CAST(x'c328' AS TEXT) WHERE idx = 3")
    assert verify(folder).bad_row == 3


@pytest.mark.parametrize("index", range(SIZE - 1))
def test_a_row_deleted_in_the_middle_is_named(folder: Path, index: int) -> None:
    tamper(folder, f"DELETE FROM entries WHERE idx = {index}")
    assert verify(folder).bad_row == index


def test_a_row_deleted_and_the_rest_moved_up_is_named(folder: Path) -> None:
    tamper(folder, "DELETE FROM entries WHERE idx = 4", "UPDATE entries SET idx = idx - 1 WHERE idx > 4")
    assert verify(folder).bad_row == 4


def test_a_tail_cut_without_care_is_named(folder: Path) -> None:
    tamper(folder, f"DELETE FROM entries WHERE idx >= {SIZE - 2}")
    report = verify(folder)
    assert (report.bad_row, report.problem) == (SIZE - 2, f"rows 7 to {SIZE - 1} are missing: the tail was cut")


def test_two_rows_exchanged_are_named(folder: Path) -> None:
    tamper(
        folder,
        "UPDATE entries SET idx = -1 WHERE idx = 2",
        "UPDATE entries SET idx = 2 WHERE idx = 6",
        "UPDATE entries SET idx = 6 WHERE idx = -1",
    )
    assert verify(folder).bad_row == 2


def test_a_row_behind_the_head_is_named(folder: Path) -> None:
    columns = ", ".join((*COLUMNS, "leaf_hash", "root", "signature"))
    tamper(folder, f"INSERT INTO entries SELECT {SIZE}, {columns} FROM entries WHERE idx = 0")
    assert verify(folder).bad_row == SIZE


@pytest.mark.parametrize("keep_signatures", [True, False])
def test_a_careful_edit_fails_at_the_row_s_signature(folder: Path, keep_signatures: bool) -> None:
    def grant(entries: list[Entry]) -> list[Entry]:
        entries[3].cells["verdict"] = "GRANTED"
        return entries

    rewrite(folder, grant, keep_signatures=keep_signatures)
    assert verify(folder).bad_row == (3 if keep_signatures else 0)


def test_a_careful_deletion_fails_at_the_row_s_signature(folder: Path) -> None:
    rewrite(folder, lambda entries: entries[:4] + entries[5:])
    assert verify(folder).bad_row == 4


def test_a_careful_exchange_fails_at_the_row_s_signature(folder: Path) -> None:
    rewrite(folder, lambda entries: [*entries[:4], entries[5], entries[4], *entries[6:]])
    assert verify(folder).bad_row == 4


def test_a_careful_cut_of_the_tail_shows_against_a_later_receipt(folder: Path, receipts: list[Receipt]) -> None:
    rewrite(folder, lambda entries: entries[:-2])
    assert verify(folder).ok  # nothing in the file can tell
    for later in (receipts[-1], receipts[-2]):
        assert verify(folder, later).bad_row == SIZE - 2
        assert verify(folder, later.checkpoint).bad_row == SIZE - 2
    assert verify(folder, receipts[-3]).ok


def test_a_fork_by_the_signer_itself_shows_against_a_receipt(folder: Path, receipts: list[Receipt]) -> None:
    def edit(entries: list[Entry]) -> list[Entry]:
        entries[4].cells["trace_id"] = "another story"
        return entries

    rewrite(folder, edit, SeedSigner(), keep_signatures=False)
    assert verify(folder).ok
    assert verify(folder, receipts[3]).ok
    assert verify(folder, receipts[4]).bad_row == 4
    assert verify(folder, receipts[6].checkpoint).bad_row == 6


def test_a_forged_newest_checkpoint_is_found(folder: Path) -> None:
    tamper(folder, "UPDATE head SET signature = randomblob(64)")
    report = verify(folder)
    assert (report.ok, report.bad_row) == (False, SIZE - 1)


@pytest.mark.parametrize(
    "change", ["origin = 'urn:other'", "time = '2020-01-01T00:00:00.000000Z'", "root = randomblob(32)", "size = 8"]
)
def test_an_edited_head_is_found(folder: Path, change: str) -> None:
    tamper(folder, f"UPDATE head SET {change}")
    assert not verify(folder).ok


@pytest.mark.parametrize(
    "statement", ["DELETE FROM head", "DROP TABLE head", "DROP TABLE entries", "UPDATE head SET format = 2"]
)
def test_a_missing_table_is_found(folder: Path, statement: str) -> None:
    tamper(folder, statement)
    assert not verify(folder).ok


def test_an_older_head_put_back_is_found(folder: Path, tmp_path: Path) -> None:
    ledger = open_ledger(folder)
    earlier = head_as_sql(folder)
    ledger.append(make_row(SIZE))
    ledger.close()
    tamper(folder, earlier)
    assert verify(folder).bad_row == SIZE


def test_a_receipt_of_another_ledger_is_told_apart(folder: Path, tmp_path: Path) -> None:
    foreign = open_ledger(tmp_path / "other").append(make_row())
    report = verify(folder, foreign)
    assert (report.ok, report.problem) == (False, "the receipt belongs to another ledger")


def test_a_receipt_nobody_trusted_signed_is_told_apart(folder: Path, receipts: list[Receipt]) -> None:
    checkpoint = receipts[2].checkpoint
    forged = Checkpoint.sign(
        SeedSigner(2), origin=checkpoint.origin, size=checkpoint.size, root=checkpoint.root, time=checkpoint.time
    )
    assert verify(folder, forged).problem == (
        f"the receipt is signed by a key that is not trusted here (trusted: kid {KEY.thumbprint})"
    )


def test_the_wrong_key_fails_at_the_first_row(folder: Path) -> None:
    assert verify_ledger(folder / "ledger.db", SeedSigner(2).public_key).bad_row == 0


@pytest.mark.parametrize("pages", range(1, 4))
def test_a_truncated_file_is_found(folder: Path, pages: int) -> None:
    path = folder / "ledger.db"
    path.write_bytes(path.read_bytes()[: pages * 4096])
    report = verify(folder)
    assert not report.ok
    assert report.problem


def test_an_empty_file_is_no_ledger(folder: Path) -> None:
    (folder / "ledger.db").write_bytes(b"")
    report = verify(folder)
    assert (report.ok, report.is_ledger, report.bad_row) == (False, False, None)


def test_a_file_of_noise_is_no_ledger(folder: Path) -> None:
    (folder / "ledger.db").write_bytes(b"\x07" * 10_000)
    report = verify(folder)
    assert (report.ok, report.is_ledger, report.bad_row) == (False, False, None)
    assert report.problem == "not a ledger: it is no database"


def test_a_damaged_ledger_is_a_ledger_all_the_same(folder: Path) -> None:
    tamper(folder, "UPDATE head SET peaks = x'00'")
    assert verify(folder).is_ledger


def test_every_flipped_byte_of_the_rows_is_found_or_changes_nothing(
    folder: Path, pristine: tuple[Path, list[Receipt]]
) -> None:
    path = folder / "ledger.db"
    whole = path.read_bytes()
    before = list(LedgerFile(pristine[0] / "ledger.db").rows())
    for at in range(4096 * 2, len(whole), 97):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x20]) + whole[at + 1 :])
        if verify(folder).ok:
            assert list(LedgerFile(path).rows()) == before


def test_no_file_is_a_fault_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(DatasetAgentError) as caught:
        verify_ledger(tmp_path / "none.db", KEY)
    assert caught.value.is_not_found


def test_a_report_is_json(folder: Path) -> None:
    tamper(folder, "DELETE FROM entries WHERE idx = 4")
    assert json.loads(json.dumps(verify(folder).public()))["bad_row"] == 4


def test_verifying_writes_nothing(folder: Path) -> None:
    before = (folder / "ledger.db").read_bytes()
    verify(folder)
    assert (folder / "ledger.db").read_bytes() == before


class TestExport:
    """A ledger taken away as JSON lines verifies like the file it came from."""

    @pytest.fixture
    def lines(self, folder: Path) -> list[str]:
        return list(export_lines(folder / "ledger.db"))

    def verify(self, tmp_path: Path, lines: list[str], receipt: Receipt | None = None) -> LedgerReport:
        path = tmp_path / "ledger.jsonl"
        path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        return verify_ledger(path, KEY, receipt=receipt)

    def test_it_verifies_with_every_receipt(self, tmp_path: Path, lines: list[str], receipts: list[Receipt]) -> None:
        assert len(lines) == SIZE + 1
        reports = [self.verify(tmp_path, lines, receipt) for receipt in (None, *receipts)]
        assert {(report.ok, report.size) for report in reports} == {(True, SIZE)}

    @pytest.mark.parametrize("name", [*COLUMNS, "leaf_hash", "root", "signature"])
    def test_an_edited_member_is_named(self, tmp_path: Path, lines: list[str], name: str) -> None:
        row = json.loads(lines[5])
        row[name] = "edited" if row[name] is None or name == "rows_returned" else str(row[name])[::-1] + "x"
        assert self.verify(tmp_path, [*lines[:5], json.dumps(row), *lines[6:]]).bad_row == 4

    @pytest.mark.parametrize("value", [1.5, True, [], {"a": 1}])
    def test_a_member_of_a_foreign_type_is_named(self, tmp_path: Path, lines: list[str], value: object) -> None:
        row = {**json.loads(lines[5]), "reason": value}
        assert self.verify(tmp_path, [*lines[:5], json.dumps(row), *lines[6:]]).bad_row == 4

    def test_a_missing_line_is_named(self, tmp_path: Path, lines: list[str]) -> None:
        assert self.verify(tmp_path, lines[:5] + lines[6:]).bad_row == 4

    def test_a_cut_tail_is_named(self, tmp_path: Path, lines: list[str]) -> None:
        assert self.verify(tmp_path, lines[:-2]).bad_row == SIZE - 2

    @pytest.mark.parametrize("line", ["", "{", "[]", "{}", "5", '{"index":4}'])
    def test_a_line_that_is_no_entry_is_named(self, tmp_path: Path, lines: list[str], line: str) -> None:
        assert self.verify(tmp_path, [*lines[:5], line, *lines[6:]]).bad_row == 4

    def test_a_line_cut_in_the_middle_is_named(self, tmp_path: Path, lines: list[str]) -> None:
        assert self.verify(tmp_path, [*lines[:-1], lines[-1][:100]]).bad_row == SIZE - 1

    @pytest.mark.parametrize("first", ["{}", '{"checkpoint":{}}', '{"checkpoint"'])
    def test_an_export_begins_with_a_checkpoint(self, tmp_path: Path, lines: list[str], first: str) -> None:
        assert not self.verify(tmp_path, [first, *lines[1:]]).ok

    def test_a_forged_checkpoint_is_found(self, tmp_path: Path, lines: list[str]) -> None:
        head = json.loads(lines[0])
        head["checkpoint"]["signature"] = "A" * 86
        assert not self.verify(tmp_path, [json.dumps(head), *lines[1:]]).ok

    def test_an_empty_ledger_has_an_export_too(self, tmp_path: Path) -> None:
        ledger = open_ledger(tmp_path)
        assert self.verify(tmp_path, list(export_lines(ledger.path))).ok


def test_rows_are_found_by_trace(folder: Path) -> None:
    found = list(LedgerFile(folder / "ledger.db").find("trace_id", f"{4:032x}"))
    assert [entry.index for entry in found] == [4]


def test_rows_are_found_by_columns_of_the_ledger_only(folder: Path) -> None:
    with pytest.raises(ValueError, match="no column"):
        next(LedgerFile(folder / "ledger.db").find("1=1 --", "x"))


@pytest.mark.parametrize("name", ["none.db", "noise.db"])
def test_reading_what_is_no_ledger_is_a_fault(tmp_path: Path, name: str) -> None:
    (tmp_path / "noise.db").write_bytes(b"\x07" * 10_000)
    with pytest.raises(DatasetAgentError):
        list(LedgerFile(tmp_path / name).rows())
