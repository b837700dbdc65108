"""Two verifiers that share no line agree about ledgers with every kind of damage, alone and together."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evidence.checkpoint import Checkpoint, Receipt
from evidence.damage import Damage
from evidence.exporting import export_lines
from evidence.keeping import already_told, removable, rotate, strip
from evidence.merkle import Frontier, leaf_hash
from evidence.row import COLUMNS, Kind, leaf_data
from evidence.verify import LedgerReport, verify_ledger
from tests.evidence import independent_verifier
from tests.evidence.evidence_builders import NOW, SeedSigner, make_row, open_ledger, refused_row
from tests.evidence.independent_verifier import verifies

SIGNER = SeedSigner()
KEYS = [Ed25519PublicKey.from_public_bytes(SIGNER.public_key.raw)]
SIZE = 12

Lines = list[str]
Edit = Callable[[Lines, Any], Lines]


class Histories:
    """Exports of a ledger that was never rotated, of one that was pruned, and of another history of the same key."""

    def __init__(self, folder: Path) -> None:
        ledger = open_ledger(folder / "plain")
        self.receipts = [ledger.append(make_row(n) if n % 3 else refused_row(n)) for n in range(SIZE)]
        shutil.copytree(folder / "plain", folder / "fork")
        ledger.close()
        self.plain = list(export_lines(ledger.path))
        self.newer = list(export_lines(ledger.path, start=5))
        fork = open_ledger(folder / "fork")
        self.forked = [fork.append(make_row(n)) for n in range(50, 54)]
        fork.close()
        self.pruned_receipts, self.pruned = self._pruned(folder / "pruned")
        other = open_ledger(folder / "other")
        self.foreign = [other.append(make_row(n)) for n in range(SIZE)]
        self.other = list(export_lines(other.path))
        other.close()

    @staticmethod
    def _pruned(folder: Path) -> tuple[list[Receipt], Lines]:
        ledger = open_ledger(folder)
        receipts = [ledger.append(make_row(n)) for n in range(5)]
        rotate(ledger.path, (SIGNER.public_key,))
        receipts += [ledger.append(make_row(n)) for n in range(5, 8)]
        for removal in removable(ledger.path, before=NOW + 100):
            assert removal.text not in already_told(ledger.rows())
            receipts.append(ledger.append(make_row(90, kind=Kind.SEGMENT_REMOVED, segment=removal.text)))
            strip(removal, (SIGNER.public_key,))
        receipts += [ledger.append(make_row(n)) for n in range(9, 12)]
        ledger.close()
        return receipts, list(export_lines(ledger.path))

    def all_receipts(self) -> list[Receipt | None]:
        return [None, *self.receipts, *self.forked, *self.pruned_receipts, *self.foreign[:2]]


@pytest.fixture(scope="module")
def histories(tmp_path_factory: pytest.TempPathFactory) -> Histories:
    return Histories(tmp_path_factory.mktemp("histories"))


def ours(lines: Lines, receipt: Receipt | None) -> LedgerReport:
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as file:
        file.write("".join(line + "\n" for line in lines))
        file.flush()
        return verify_ledger(Path(file.name), SIGNER.public_key, receipt=receipt)


def agreed(lines: Lines, receipt: Receipt | None) -> LedgerReport:
    report = ours(lines, receipt)
    theirs = bool(lines) and verifies(lines, KEYS, None if receipt is None else receipt.to_json())
    assert report.ok is theirs, (report.damage, report.problem)
    return report


def rows_of(lines: Lines) -> list[int]:
    return [at for at, line in enumerate(lines) if at and "leaf_hash" in line]


def cut(lines: Lines, draw: Any) -> Lines:
    return lines[: draw(st.integers(0, len(lines)))]


def drop(lines: Lines, draw: Any) -> Lines:
    at = draw(st.integers(0, len(lines) - 1))
    return lines[:at] + lines[at + 1 :]


def exchange(lines: Lines, draw: Any) -> Lines:
    one, other = (draw(st.integers(0, len(lines) - 1)) for _ in range(2))
    lines[one], lines[other] = lines[other], lines[one]
    return lines


def repeat(lines: Lines, draw: Any) -> Lines:
    at = draw(st.integers(0, len(lines) - 1))
    return [*lines[: at + 1], *lines[at:]]


def edit_cell(lines: Lines, draw: Any) -> Lines:
    rows = rows_of(lines)
    if rows:
        at = draw(st.sampled_from(rows))
        row = json.loads(lines[at])
        name = draw(st.sampled_from(sorted([*COLUMNS, "index", "leaf_hash", "root", "signature"])))
        row[name] = draw(st.sampled_from([None, 1, "x", "0" * 64, "A" * 86, row.get(name), 1.5, True, []]))
        lines[at] = json.dumps(row)
    return lines


def renumber(lines: Lines, draw: Any) -> Lines:
    by = draw(st.sampled_from([-1, 1]))
    for at in rows_of(lines)[draw(st.integers(0, 5)) :]:
        row = json.loads(lines[at])
        lines[at] = json.dumps({**row, "index": row["index"] + by})
    return lines


def to_hash(lines: Lines, draw: Any) -> Lines:
    rows = rows_of(lines)
    if rows:
        at = draw(st.sampled_from(rows))
        row = json.loads(lines[at])
        lines[at] = json.dumps({"leaves": {"start": row["index"], "hashes": [row["leaf_hash"]]}})
    return lines


def flip(lines: Lines, draw: Any) -> Lines:
    at = draw(st.integers(0, len(lines) - 1))
    if lines[at]:
        where = draw(st.integers(0, len(lines[at]) - 1))
        lines[at] = lines[at][:where] + draw(st.sampled_from('0a"}z')) + lines[at][where + 1 :]
    return lines


def forge(lines: Lines, draw: Any) -> Lines:
    """Every hash made anew behind an edit, signed by the ledger's key, another's, or not again."""
    rows = rows_of(lines)
    if len(rows) != len(lines) - 1 or not rows:
        return lines
    try:
        origin = json.loads(lines[0])["checkpoint"]["origin"]
        if "begins" in lines[0]:
            return lines
        signer = draw(st.sampled_from([SIGNER, SeedSigner(7), None]))
        frontier, told, made = Frontier(), lines[0], [lines[0]]
        edited = draw(st.integers(0, len(rows)))
        for number, at in enumerate(rows):
            row = json.loads(lines[at])
            cells = {name: row.get(name) for name in COLUMNS}
            if number == edited:
                cells["reason"] = "GRANT_REPLAYED"
            leaf = leaf_hash(leaf_data(number, cells))
            frontier = frontier.append(leaf)
            root = frontier.root()
            signature = row["signature"]
            if signer is not None:
                checkpoint = Checkpoint.sign(
                    signer, origin=origin, size=number + 1, root=root, time=str(cells["recorded_at"])
                )
                signature, told = checkpoint.to_json()["signature"], json.dumps({"checkpoint": checkpoint.to_json()})
            row = {"index": number, **cells, "leaf_hash": leaf.hex(), "root": root.hex(), "signature": signature}
            made.append(json.dumps(row))
        return [told, *made[1:]]
    except (ValueError, TypeError, KeyError):
        return lines


EDITS: list[Edit] = [cut, drop, exchange, repeat, edit_cell, renumber, to_hash, flip, forge]


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_both_agree_about_whatever_is_done_to_an_export(histories: Histories, data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(["plain", "pruned", "newer", "other"]))
    lines = list(getattr(histories, kind))
    for edit in data.draw(st.lists(st.sampled_from(EDITS), max_size=3)):
        if lines:
            with suppress(ValueError, TypeError, KeyError, AttributeError):  # what an edit before it left is no row
                lines = edit(list(lines), data.draw)
    if data.draw(st.booleans()) and lines:
        held = data.draw(st.sampled_from([*histories.receipts, *histories.foreign]))
        lines[0] = json.dumps({"checkpoint": held.checkpoint.to_json()})
    agreed(lines, data.draw(st.sampled_from(histories.all_receipts())))


def test_both_take_what_is_whole_and_no_receipt_of_elsewhere(histories: Histories) -> None:
    for lines, own in ((histories.plain, histories.receipts), (histories.pruned, histories.pruned_receipts)):
        assert all(agreed(lines, receipt).ok for receipt in (None, *own))
        assert not any(agreed(lines, receipt).ok for receipt in histories.foreign)
    assert agreed(histories.newer, histories.receipts[4]).ok
    assert agreed(histories.plain, histories.forked[0]).damage is Damage.BEHIND_RECEIPT


def test_the_other_verifier_knows_nothing_of_the_product() -> None:
    tree = ast.parse(Path(independent_verifier.__file__).read_text(encoding="utf-8"))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in names} - set(sys.stdlib_module_names) == {"cryptography"}


def test_it_runs_by_itself_on_files_alone(histories: Histories, tmp_path: Path) -> None:
    (tmp_path / "export.jsonl").write_text("\n".join(histories.plain))
    (tmp_path / "key.json").write_text(json.dumps(SIGNER.public_key.jwk()))
    (tmp_path / "receipt.json").write_text(json.dumps(histories.receipts[3].to_json()))
    program = shutil.copy(independent_verifier.__file__, tmp_path / "verifier.py")
    files = [str(tmp_path / name) for name in ("export.jsonl", "key.json", "receipt.json")]
    ran = subprocess.run([sys.executable, "-I", program, *files], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "whole\n"), ran.stderr
