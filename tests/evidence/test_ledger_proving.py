"""What anybody can check with a public key: that a row is in a ledger, and that one state of it goes on from another."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from contract.errors import DatasetAgentError
from evidence.checkpoint import Receipt
from evidence.entry import InvalidLedger
from evidence.exporting import write_export
from evidence.keeping import rotate
from evidence.merkle import verify_consistency, verify_inclusion
from evidence.proving import tree_of
from evidence.segments import segments_of
from tests.evidence.evidence_builders import SeedSigner

SIZE = 9
KEYS = (SeedSigner().public_key,)


def hashes(told: Any) -> list[bytes]:
    return [bytes.fromhex(one) for one in told]


@pytest.fixture(params=["the file", "the file and a segment", "an export"])
def ledger(request: pytest.FixtureRequest, folder: Path) -> Path:
    path = folder / "ledger.db"
    if request.param == "the file and a segment":
        assert rotate(path, KEYS).segment is not None
    if request.param == "an export":
        write_export(path, folder / "export.jsonl")
        return folder / "export.jsonl"
    return path


def test_every_row_is_proven_to_be_in_the_tree_of_the_newest_checkpoint(ledger: Path) -> None:
    tree = tree_of(ledger)
    assert tree.checkpoint.size == len(tree.leaves) == SIZE
    for index, leaf in enumerate(tree.leaves):
        told = tree.inclusion(index)
        assert (told["index"], told["leaf_hash"]) == (index, leaf.hex())
        assert told["checkpoint"] == tree.checkpoint.to_json()
        assert verify_inclusion(leaf, index, SIZE, hashes(told["inclusion"]), tree.checkpoint.root)
        assert not verify_inclusion(bytes(32), index, SIZE, hashes(told["inclusion"]), tree.checkpoint.root)
    with pytest.raises(IndexError):
        tree.inclusion(SIZE)


def test_a_ledger_goes_on_from_every_receipt_that_it_gave(ledger: Path, receipts: list[Receipt]) -> None:
    tree = tree_of(ledger)
    for receipt in receipts:
        earlier = receipt.checkpoint
        told = tree.consistency(earlier)
        assert (told["from"], told["to"]) == (earlier.to_json(), tree.checkpoint.to_json())
        assert verify_consistency(earlier.size, earlier.root, SIZE, tree.checkpoint.root, hashes(told["path"]))


def test_of_what_is_no_earlier_state_there_is_no_proof(folder: Path, receipts: list[Receipt]) -> None:
    tree, earlier = tree_of(folder / "ledger.db"), receipts[4].checkpoint
    for other, said in (
        (replace(earlier, origin="urn:dataset-agent:other"), "another ledger"),
        (replace(earlier, size=0), "speaks of 0 rows"),
        (replace(earlier, size=SIZE + 1), f"speaks of {SIZE + 1} rows, the ledger has {SIZE}"),
        (replace(earlier, root=bytes(32)), "two histories"),
        (replace(earlier, size=4), "two histories"),
    ):
        with pytest.raises(InvalidLedger, match=said):
            tree.consistency(other)


def test_where_rows_are_not_here_nothing_is_proven(folder: Path, tmp_path: Path) -> None:
    part = tmp_path / "part.jsonl"
    write_export(folder / "ledger.db", part, start=3)
    with pytest.raises(DatasetAgentError, match="rows 0 to 2 are not here"):
        tree_of(part)
    rotate(folder / "ledger.db", KEYS)
    segments_of(folder / "ledger.db")[0].path.unlink()
    with pytest.raises(DatasetAgentError, match=f"rows 0 to {SIZE - 1} are not here"):
        tree_of(folder / "ledger.db")
    with pytest.raises(DatasetAgentError) as caught:
        tree_of(tmp_path / "none.db")
    assert caught.value.is_not_found
