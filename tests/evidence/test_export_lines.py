"""What an export says line by line: of rows, of hashes that are left of rows, and of what the first of them stands on."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from contract.errors import DatasetAgentError
from evidence import export as module
from evidence.checkpoint import Checkpoint, Receipt
from evidence.entry import Entry, InvalidLedger, NotALedger
from evidence.export import Beginning, Leaves, leaves_line, read_export, stripped
from evidence.export_reading import ExportReading
from evidence.exporting import write_export
from evidence.reader import LedgerFile
from evidence.verify import verify_ledger
from tests.evidence.evidence_builders import SeedSigner

SIZE = 7
KEY = SeedSigner().public_key
Edit = Callable[[dict[str, Any]], object]


@pytest.fixture(params=[0, 3])
def file(folder: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """The whole ledger, and the part of it from row 3 on."""
    taken = tmp_path / "export.jsonl"
    write_export(folder / "ledger.db", taken, start=request.param)
    return taken


@pytest.fixture
def whole(folder: Path, tmp_path: Path) -> Path:
    taken = tmp_path / "export.jsonl"
    write_export(folder / "ledger.db", taken)
    return taken


def without_rows(file: Path) -> Path:
    lines = list(stripped(read_export(file)))
    left = file.with_name("stripped.jsonl")
    left.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return left


def edited(file: Path, place: int, edit: Edit) -> Path:
    lines = file.read_text(encoding="utf-8").splitlines()
    value = json.loads(lines[place])
    edit(value)
    lines[place] = json.dumps(value)
    file.write_text("\n".join(lines), encoding="utf-8")
    return file


@pytest.mark.parametrize("at_once", [1, 2, 3, 256])
def test_what_is_left_of_an_export_without_its_rows_has_their_hashes_and_stands_on_the_same(
    file: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(module, "_LEAVES_A_LINE", at_once)
    left = without_rows(file)
    assert b"req-" not in left.read_bytes()
    assert ExportReading(left).head() == ExportReading(file).head()
    assert ExportReading(left).base() == ExportReading(file).base()
    assert list(ExportReading(left).entries()) == []
    leaves = [part for part in read_export(left) if isinstance(part, Leaves)]
    assert max(len(part.hashes) for part in leaves) <= at_once
    base = ExportReading(file).base()
    assert leaves[0].start == (base.frontier.size if base else 0)
    assert all(one.start + len(one.hashes) == other.start for one, other in pairwise(leaves))


def test_what_was_stripped_before_stays_as_it_is(file: Path) -> None:
    left = without_rows(file)
    before = left.read_bytes()
    assert without_rows(left).read_bytes() == before


def test_an_export_begins_with_a_checkpoint_also_where_it_is_stripped(whole: Path) -> None:
    parts = list(read_export(whole))
    for others in (parts[1:], []):
        with pytest.raises(InvalidLedger, match="does not begin with a checkpoint"):
            next(stripped(others))


def test_rows_are_read_from_one_on_and_found_by_their_value(file: Path, folder: Path) -> None:
    taken, kept = ExportReading(file), list(LedgerFile(folder / "ledger.db").rows())
    assert list(taken.entries(5)) == kept[5:]
    assert list(taken.find("request_id", "req-4")) == [kept[4]]
    assert list(taken.find("request_id", "req-none")) == []


@pytest.mark.parametrize("first", ["[]", '"checkpoint"', "5", "null", '{"checkpoint": 1, "index": 2}'])
def test_a_file_that_begins_with_something_else_is_no_export(whole: Path, first: str) -> None:
    lines = whole.read_text(encoding="utf-8").splitlines()
    whole.write_text("\n".join([first, *lines[1:]]), encoding="utf-8")
    with pytest.raises(NotALedger):
        next(read_export(whole))


def test_a_receipt_is_no_export(tmp_path: Path, receipts: list[Receipt]) -> None:
    saved = tmp_path / "receipt.json"
    saved.write_text(json.dumps(receipts[2].to_json()), encoding="utf-8")
    with pytest.raises(NotALedger):
        next(read_export(saved))


@pytest.mark.parametrize(
    "edit",
    [
        lambda line: line["begins"].pop("peaks"),
        lambda line: line["begins"].update(peaks=["zz"]),
        lambda line: line["begins"].update(peaks=7),
        lambda line: line["begins"]["peaks"].reverse(),
        lambda line: line["begins"].pop("checkpoint"),
        lambda line: line.update(begins=[]),
    ],
    ids=["no peaks", "peaks of no hex", "a number", "peaks in another order", "no checkpoint", "a list"],
)
def test_what_the_rows_stand_on_is_whole_and_hashes_to_its_root(folder: Path, tmp_path: Path, edit: Edit) -> None:
    file = tmp_path / "export.jsonl"
    write_export(folder / "ledger.db", file, start=3)
    assert [type(part) for part in read_export(file)][:2] == [Checkpoint, Beginning]
    with pytest.raises(InvalidLedger, match="stand on"):
        list(read_export(edited(file, 0, edit)))


NO_ROWS: dict[str, Edit] = {
    "a member more": lambda line: line.update(more=1),
    "a cell less": lambda line: line.pop("reason"),
    "no signature": lambda line: line.pop("signature"),
    "a row that is a text": lambda line: line.update(index="2"),
    "a row that is a fraction": lambda line: line.update(index=2.0),
    "a row that is true": lambda line: line.update(index=True),
    "a root of no hex": lambda line: line.update(root="zz"),
    "hashes beside it": lambda line: line.update(leaves={"start": 2, "hashes": []}),
}


@pytest.mark.parametrize("edit", NO_ROWS.values(), ids=NO_ROWS)
def test_a_line_of_other_members_is_no_row(whole: Path, edit: Edit) -> None:
    edited(whole, 3, edit)
    with pytest.raises(InvalidLedger, match="line 4 is not an entry"):
        list(read_export(whole))
    with pytest.raises(DatasetAgentError):
        list(LedgerFile(whole).rows())


NO_HASHES: dict[str, Edit] = {
    "a member more": lambda leaves: leaves.update(more=1),
    "no row": lambda leaves: leaves.pop("start"),
    "a row that is a text": lambda leaves: leaves.update(start="0"),
    "a row that is false": lambda leaves: leaves.update(start=False),
    "a short hash": lambda leaves: leaves["hashes"].append("00"),
    "a long hash": lambda leaves: leaves["hashes"].append("00" * 33),
    "a number": lambda leaves: leaves["hashes"].append(7),
    "no list": lambda leaves: leaves.update(hashes=None),
}


@pytest.mark.parametrize("edit", NO_HASHES.values(), ids=NO_HASHES)
def test_hashes_that_are_left_are_hashes_and_begin_at_a_row(whole: Path, edit: Edit) -> None:
    left = edited(without_rows(whole), 1, lambda line: edit(line["leaves"]))
    with pytest.raises(InvalidLedger, match="line 2 is not an entry"):
        list(read_export(left))


def test_a_line_of_hashes_says_nothing_beside_them(whole: Path) -> None:
    left = edited(without_rows(whole), 1, lambda line: line.update(index=0))
    with pytest.raises(InvalidLedger, match="line 2 is not an entry"):
        list(read_export(left))


def test_hashes_at_another_row_do_not_verify(whole: Path) -> None:
    """They hold no row that anybody signed, so only a row behind them that fits shows where they stand."""
    entries = [part for part in read_export(whole) if isinstance(part, Entry)]
    lines = whole.read_text(encoding="utf-8").splitlines()
    for start, fits in ((0, True), (1, False)):
        leaves = Leaves(start, tuple(entry.leaf_hash for entry in entries[:4]))
        whole.write_text("\n".join([lines[0], leaves_line(leaves), *lines[5:]]), encoding="utf-8")
        assert (verify_ledger(whole, KEY).damage == "rows_withheld") is fits
