"""The name of what was done to a ledger, from its file or its export, the key, and one receipt at most."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from evidence.checkpoint import Checkpoint, Receipt
from evidence.damage import Damage
from evidence.entry import InvalidLedger
from evidence.exporting import export_lines
from evidence.merkle import Frontier, inclusion_path, leaf_hash
from evidence.reader import LedgerFile
from evidence.row import COLUMNS, leaf_data
from evidence.verify import LedgerReport, verify_ledger
from evidence.walk import Walk
from tests.evidence.evidence_builders import SeedSigner, head_as_sql, make_row, open_ledger, tamper

SIZE = 12
KEY = SeedSigner().public_key


@pytest.fixture
def lines(folder: Path) -> list[str]:
    return list(export_lines(folder / "ledger.db"))


def named(report: LedgerReport) -> tuple[Damage | None, int | None]:
    assert report.ok is (report.damage is None) is (report.problem is None)
    return report.damage, report.bad_row


class InExport:
    """Verifies lines as an export."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "export.jsonl"

    def __call__(self, lines: list[str], receipt: Receipt | Checkpoint | None = None) -> LedgerReport:
        self.path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        return verify_ledger(self.path, KEY, receipt=receipt)


@pytest.fixture
def check(tmp_path: Path) -> InExport:
    return InExport(tmp_path)


def in_file(folder: Path, receipt: Receipt | None = None) -> LedgerReport:
    return verify_ledger(folder / "ledger.db", KEY, receipt=receipt)


def edited(line: str, **members: object) -> str:
    return json.dumps({**json.loads(line), **members})


def test_a_whole_export_has_no_damage(check: InExport, lines: list[str], receipts: list[Receipt]) -> None:
    assert named(check(lines)) == (None, None)
    assert check(lines, receipts[5]).compared == 1


def test_a_cut_tail_is_named(check: InExport, lines: list[str]) -> None:
    assert named(check(lines[:-2])) == (Damage.TAIL_CUT, SIZE - 2)


def test_an_edited_row_is_named(check: InExport, lines: list[str]) -> None:
    lines[4] = edited(lines[4], reason="GRANT_REPLAYED")
    assert named(check(lines)) == (Damage.ROW_EDITED, 3)


def test_an_edited_root_is_an_edited_row(check: InExport, lines: list[str]) -> None:
    lines[4] = edited(lines[4], root="0" * 64)
    assert named(check(lines)) == (Damage.ROW_EDITED, 3)


def test_a_removed_row_is_named(check: InExport, lines: list[str]) -> None:
    report = check(lines[:4] + lines[5:])
    assert named(report) == (Damage.ROW_REMOVED, 3)
    assert report.problem == "row 3 is missing: it was removed"


def test_a_row_removed_and_the_rest_moved_up_is_named(check: InExport, lines: list[str]) -> None:
    moved = [edited(line, index=json.loads(line)["index"] - 1) for line in lines[5:]]
    report = check(lines[:4] + moved)
    assert named(report) == (Damage.ROW_REMOVED, 3)
    assert report.problem == "row 3 was removed, and row 4 was moved up to its place"


def test_reordered_lines_are_named(check: InExport, lines: list[str]) -> None:
    assert named(check([*lines[:3], lines[6], *lines[4:6], lines[3], *lines[7:]])) == (Damage.ROWS_REORDERED, 2)


def test_rows_that_changed_places_with_their_numbers_are_named(check: InExport, lines: list[str]) -> None:
    lines[3], lines[7] = edited(lines[7], index=2), edited(lines[3], index=6)
    report = check(lines)
    assert named(report) == (Damage.ROWS_REORDERED, 2)
    assert report.problem == "row 2 was moved to row 6, and row 6 stands in its place"


def test_rows_whose_cells_alone_changed_places_are_named(check: InExport, lines: list[str]) -> None:
    two, six = json.loads(lines[3]), json.loads(lines[7])
    kept = ("index", "leaf_hash", "root", "signature")
    lines[3] = json.dumps({**six, **{name: two[name] for name in kept}})
    lines[7] = json.dumps({**two, **{name: six[name] for name in kept}})
    assert named(check(lines)) == (Damage.ROWS_REORDERED, 2)


def test_a_row_that_stands_twice_is_named(check: InExport, lines: list[str]) -> None:
    assert named(check([*lines[:5], lines[4], *lines[5:]]))[0] in (Damage.ROWS_REORDERED, Damage.ROW_REMOVED)


def test_another_s_row_in_the_place_of_one_is_named(check: InExport, lines: list[str]) -> None:
    lines[4] = edited(lines[4], signature="A" * 86)
    assert named(check(lines)) == (Damage.NOT_SIGNED, 3)


def test_an_older_checkpoint_in_the_place_of_the_newest_is_named(
    check: InExport, lines: list[str], receipts: list[Receipt]
) -> None:
    lines[0] = json.dumps({"checkpoint": receipts[6].checkpoint.to_json()})
    assert named(check(lines)) == (Damage.CHECKPOINT_SWAPPED, 7)


def test_the_checkpoint_of_another_ledger_of_the_same_key_is_named(
    check: InExport, lines: list[str], tmp_path: Path
) -> None:
    other = open_ledger(tmp_path / "other")
    foreign = [other.append(make_row(number)) for number in range(SIZE)][-1].checkpoint
    lines[0] = json.dumps({"checkpoint": foreign.to_json()})
    assert named(check(lines)) == (Damage.CHECKPOINT_SWAPPED, 0)


def test_a_signed_checkpoint_of_another_root_is_named(
    check: InExport, lines: list[str], receipts: list[Receipt]
) -> None:
    newest = receipts[-1].checkpoint
    other = Checkpoint.sign(SeedSigner(), origin=newest.origin, size=SIZE, root=bytes(32), time=newest.time)
    assert named(check([json.dumps({"checkpoint": other.to_json()}), *lines[1:]]))[0] is Damage.CHECKPOINT_SWAPPED


def test_a_careful_cut_is_behind_a_later_receipt(check: InExport, lines: list[str], receipts: list[Receipt]) -> None:
    cut = [json.dumps({"checkpoint": receipts[7].checkpoint.to_json()}), *lines[1:9]]
    assert named(check(cut)) == (None, None)
    report = check(cut, receipts[9])
    assert named(report) == (Damage.BEHIND_RECEIPT, 8)
    assert "the tail was cut, or an old backup was put back" in str(report.problem)


def test_an_old_backup_put_back_is_behind_the_receipt_of_a_row_that_it_does_not_have(
    folder: Path, tmp_path: Path
) -> None:
    backup = Path(shutil.copytree(folder, tmp_path / "backup"))
    ledger = open_ledger(folder)
    receipt = [ledger.append(make_row(number)) for number in range(SIZE, SIZE + 3)][-1]
    ledger.close()
    assert named(in_file(backup, receipt)) == (Damage.BEHIND_RECEIPT, SIZE)


def test_an_old_backup_that_went_on_is_a_fork(folder: Path, tmp_path: Path) -> None:
    backup = Path(shutil.copytree(folder, tmp_path / "backup"))
    ledger, again = open_ledger(folder), open_ledger(backup)
    receipt = [ledger.append(make_row(number)) for number in range(SIZE, SIZE + 3)][-1]
    for number in range(SIZE, SIZE + 5):
        again.append(make_row(100 + number))
    ledger.close()
    again.close()
    assert named(in_file(backup)) == (None, None)
    assert named(in_file(backup, receipt)) == (Damage.FORK, SIZE + 2)


def test_two_trees_over_one_prefix_are_a_fork_for_whoever_holds_one_receipt(folder: Path, tmp_path: Path) -> None:
    one = Path(shutil.copytree(folder, tmp_path / "one"))
    other = Path(shutil.copytree(folder, tmp_path / "other"))
    mine = open_ledger(one)
    receipt = mine.append(make_row(20))
    mine.close()
    theirs = open_ledger(other)
    theirs.append(make_row(21))
    theirs.close()
    assert named(in_file(one, receipt)) == (None, None)
    assert named(in_file(other, receipt)) == (Damage.FORK, SIZE)


@pytest.mark.parametrize(
    "damage", ["", "{", '{"leaves":{"start":4}}', '{"leaves":{"start":"4","hashes":[]}}', "[1]", "\x00\x00"]
)
def test_a_damaged_line_is_named(check: InExport, lines: list[str], damage: str) -> None:
    assert named(check([*lines[:5], damage, *lines[6:]])) == (Damage.FILE_DAMAGED, 4)


def test_a_damaged_file_is_named(folder: Path) -> None:
    path = folder / "ledger.db"
    path.write_bytes(path.read_bytes()[:8192])
    assert in_file(folder).damage is Damage.FILE_DAMAGED


def test_something_else_is_no_ledger(tmp_path: Path) -> None:
    (tmp_path / "ledger.db").write_bytes(b"\x07" * 5000)
    assert in_file(tmp_path).damage is Damage.NOT_A_LEDGER


def test_a_receipt_of_another_ledger_and_one_that_proves_nothing_are_named(
    folder: Path, tmp_path: Path, receipts: list[Receipt]
) -> None:
    other = open_ledger(tmp_path / "other").append(make_row())
    assert named(in_file(folder, other)) == (Damage.OTHER_LEDGER, None)
    third = receipts[3]
    forged = Receipt(third.index, bytes(32), third.checkpoint, third.inclusion, third.opening)
    assert named(in_file(folder, forged)) == (Damage.RECEIPT_INVALID, None)


def test_of_several_receipts_those_of_other_ledgers_say_nothing(
    folder: Path, tmp_path: Path, receipts: list[Receipt]
) -> None:
    other = open_ledger(tmp_path / "other").append(make_row())
    report = verify_ledger(folder / "ledger.db", KEY, receipt=[other, receipts[3], receipts[8]])
    assert (report.ok, report.compared) == (True, 2)
    foreign = verify_ledger(folder / "ledger.db", KEY, receipt=[other, other])
    assert foreign.damage is Damage.OTHER_LEDGER


def test_receipts_of_two_histories_are_a_fork(folder: Path, receipts: list[Receipt], tmp_path: Path) -> None:
    mine = receipts[4].checkpoint
    other = Checkpoint.sign(SeedSigner(), origin=mine.origin, size=mine.size, root=bytes(32), time=mine.time)
    assert verify_ledger(folder / "ledger.db", KEY, receipt=[mine, other]).damage is Damage.FORK


def test_a_head_put_back_in_the_file_is_a_swapped_checkpoint(folder: Path) -> None:
    ledger = open_ledger(folder)
    earlier = head_as_sql(folder)
    ledger.append(make_row(SIZE))
    ledger.close()
    tamper(folder, earlier)
    assert named(in_file(folder)) == (Damage.CHECKPOINT_SWAPPED, SIZE)


def test_rows_that_are_hashes_only_are_withheld_unless_a_row_tells_of_it(check: InExport, lines: list[str]) -> None:
    hashes = [json.loads(line)["leaf_hash"] for line in lines[4:7]]
    report = check([*lines[:4], json.dumps({"leaves": {"start": 3, "hashes": hashes}}), *lines[7:]])
    assert named(report) == (Damage.ROWS_WITHHELD, 3)


def test_a_beginning_that_nobody_signed_is_named(check: InExport, folder: Path) -> None:
    lines = list(export_lines(folder / "ledger.db", start=6))
    first = json.loads(lines[0])
    assert named(check(lines)) == (Damage.HEAD_CUT, 0)
    first["begins"]["checkpoint"]["signature"] = "A" * 86
    assert named(check([json.dumps(first), *lines[1:]])) == (Damage.CHECKPOINT_SWAPPED, None)


def test_a_beginning_whose_peaks_do_not_fit_is_damage(check: InExport, folder: Path) -> None:
    lines = list(export_lines(folder / "ledger.db", start=6))
    first = json.loads(lines[0])
    first["begins"]["peaks"].reverse()
    assert check([json.dumps(first), *lines[1:]]).damage is Damage.FILE_DAMAGED


def test_a_beginning_of_another_ledger_of_the_same_key_is_named(check: InExport, folder: Path, tmp_path: Path) -> None:
    lines = list(export_lines(folder / "ledger.db", start=6))
    other = open_ledger(tmp_path / "other")
    for number in range(6):
        other.append(make_row(number))
    foreign = json.loads(next(export_lines(other.path, start=6)))
    lines[0] = json.dumps({**json.loads(lines[0]), "begins": foreign["begins"]})
    assert named(check(lines)) == (Damage.CHECKPOINT_SWAPPED, None)


def test_hashes_out_of_their_place_are_named(check: InExport, lines: list[str]) -> None:
    hashes = [json.loads(line)["leaf_hash"] for line in lines[4:7]]
    report = check([*lines[:4], json.dumps({"leaves": {"start": 4, "hashes": hashes}}), *lines[7:]])
    assert named(report) == (Damage.ROW_REMOVED, 3)


def test_a_receipt_with_a_later_checkpoint_names_the_row_it_was_given_for(
    folder: Path, tmp_path: Path, receipts: list[Receipt], lines: list[str]
) -> None:
    leaves = [bytes.fromhex(json.loads(line)["leaf_hash"]) for line in lines[1:10]]
    later = Receipt(4, leaves[4], receipts[8].checkpoint, inclusion_path(4, leaves), receipts[4].opening)
    assert later.holds((KEY,))
    assert named(in_file(folder, later)) == (None, None)
    head = receipts[3].checkpoint
    (tmp_path / "fork").mkdir()
    fork = tmp_path / "fork" / "fork.jsonl"
    frontier, made = Frontier(), lines[:5]
    for line in lines[1:5]:
        frontier = frontier.append(bytes.fromhex(json.loads(line)["leaf_hash"]))
    for number, line in enumerate(lines[5:], 4):
        cells = {name: json.loads(line).get(name) for name in COLUMNS} | {"client": "urn:forged"}
        leaf = leaf_hash(leaf_data(number, cells))
        frontier = frontier.append(leaf)
        head = Checkpoint.sign(
            SeedSigner(), origin=head.origin, size=number + 1, root=frontier.root(), time=str(cells["recorded_at"])
        )
        hashes = {"leaf_hash": leaf.hex(), "root": head.root.hex(), "signature": head.to_json()["signature"]}
        made.append(json.dumps({"index": number, **cells, **hashes}))
    fork.write_text("\n".join([json.dumps({"checkpoint": head.to_json()}), *made[1:]]) + "\n")
    assert verify_ledger(fork, KEY).ok
    assert named(verify_ledger(fork, KEY, receipt=later)) == (Damage.FORK, 4)


def test_what_has_no_newest_checkpoint_is_no_ledger(folder: Path) -> None:
    (entry, *_) = LedgerFile(folder / "ledger.db").rows()
    with pytest.raises(InvalidLedger, match="no head"):
        Walk((KEY,), ()).run(iter([entry]), lambda: iter(()))
