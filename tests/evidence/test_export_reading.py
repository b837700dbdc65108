"""An export is read as the ledger that it was taken from."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from contract.errors import DatasetAgentError
from evidence.export_reading import ExportReading
from evidence.exporting import write_export
from evidence.ledger import Ledger
from evidence.reader import LedgerFile
from evidence.reading_file import write_reading
from evidence.verify import verify_ledger
from tests.evidence.evidence_builders import NOW, SeedSigner, make_row

SIGNER = SeedSigner()


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    path = tmp_path / "ledger.sqlite"
    opened = Ledger.open(path, SIGNER, subject_key_path=tmp_path / "subjects.sqlite", now=NOW)
    for number in range(7):
        opened.append(make_row(number))
    opened.close()
    return path


@pytest.mark.parametrize("start", [0, 4])
def test_an_export_has_the_rows_the_head_and_the_beginning_of_its_ledger(
    ledger: Path, tmp_path: Path, start: int
) -> None:
    write_export(ledger, tmp_path / "export.jsonl", start=start)
    taken, file = LedgerFile(tmp_path / "export.jsonl"), LedgerFile(ledger)
    assert taken.checkpoint() == file.checkpoint()
    assert list(taken.rows()) == list(file.rows(start=start))
    assert taken.get(5) == file.get(5)
    assert list(taken.find("request_id", "req-6")) == list(file.find("request_id", "req-6"))
    with taken.reading() as one, file.reading() as other:
        assert one.head() == other.head()
        base = one.base()
        assert (base.frontier.size if base else 0) == start
        with pytest.raises(ValueError, match="no column"):
            next(iter(one.find("1=1 --", "x")))


def test_what_is_read_of_a_store_is_the_export_that_verifies(ledger: Path, tmp_path: Path) -> None:
    told: list[int] = []
    with LedgerFile(ledger).reading() as opened:
        write_reading(opened, tmp_path / "taken.jsonl", told.append)
    write_export(ledger, tmp_path / "export.jsonl")
    assert (tmp_path / "taken.jsonl").read_bytes() == (tmp_path / "export.jsonl").read_bytes()
    assert (tmp_path / "taken.jsonl").stat().st_mode & 0o777 == 0o600
    assert verify_ledger(tmp_path / "taken.jsonl", SIGNER.public_key).size == 7


def test_an_export_that_begins_with_something_else_is_told_as_that(tmp_path: Path, ledger: Path) -> None:
    file = tmp_path / "export.jsonl"
    write_export(ledger, file)
    lines = file.read_text(encoding="utf-8").splitlines()
    file.write_text("\n".join([*lines[:1], "{}", *lines[1:]]), encoding="utf-8")
    with pytest.raises(DatasetAgentError, match="cannot be read as a ledger"):
        list(LedgerFile(file).rows())
    assert ExportReading(file).checkpoint().size == 7


@pytest.mark.parametrize(("place", "name"), [(0, "checkpoint"), (3, "index"), (3, "verdict")])
def test_a_line_that_has_two_readings_is_none(ledger: Path, tmp_path: Path, place: int, name: str) -> None:
    """A member that stands twice is one value for this reader, and may be the other for the next."""
    file = tmp_path / "export.jsonl"
    write_export(ledger, file)
    lines = file.read_bytes().splitlines(keepends=True)
    lines[place] = b'{"%s":0,' % name.encode() + lines[place][1:]
    file.write_bytes(b"".join(lines))
    assert verify_ledger(file, SIGNER.public_key).damage == ("not_a_ledger" if place == 0 else "file_damaged")


@pytest.mark.parametrize("written", [str.upper, lambda text: f"{text[:8]} {text[8:]}", lambda text: f" {text}"])
@pytest.mark.parametrize("place", ["peaks", "leaf_hash", "root", "hashes"])
def test_a_hash_has_one_spelling(ledger: Path, tmp_path: Path, place: str, written: Callable[[str], str]) -> None:
    """What whoever reads takes for another text is not what was exported."""
    file = tmp_path / "export.jsonl"
    write_export(ledger, file, start=4)
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    held = lines[0]["begins"] if place == "peaks" else lines[1]
    if place == "hashes":
        hashes = [json.loads(line)["leaf_hash"] for line in file.read_text(encoding="utf-8").splitlines()[1:]]
        lines = [lines[0], {"leaves": {"start": 4, "hashes": hashes}}]
        held = lines[1]["leaves"]
    held[place] = [written(one) for one in held[place]] if place in ("peaks", "hashes") else written(held[place])
    file.write_text("\n".join(json.dumps(line) for line in lines) + "\n", encoding="utf-8")
    assert verify_ledger(file, SIGNER.public_key, part=True).damage == "file_damaged"
