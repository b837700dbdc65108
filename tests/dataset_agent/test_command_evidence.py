"""``evidence show|verify|export|rotate|prune|forget`` over a ledger that nothing serves."""

from __future__ import annotations

import base64
import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from contract.settings import Settings
from evidence.checkpoint import Checkpoint, Receipt
from evidence.merkle import verify_consistency, verify_inclusion
from evidence.row import Side
from evidence.statement import draft
from grants.key_store import KeyName
from grants.signers import open_signer
from grants.trust import load_trust
from remote_agent.own_ledger import open_ledger
from tests.authority_builder import make_authority
from tests.dataset_agent.command_line import CommandLine
from tests.evidence.evidence_builders import ISSUER, SUBJECT, draft_members, make_row, refused_row
from tests.running_agent import agent_home

pytestmark = pytest.mark.live

SIZE = 8
DAY = 86_400
TRACE = "a" * 32


class Kept:
    """A home with a dataset agent's ledger of some rows, the older half of them ten days old."""

    def __init__(self, folder: Path) -> None:
        self.settings: Settings = agent_home(folder / "home")
        self.home = self.settings.home
        self.path = self.home / "remote" / "ledger.sqlite"
        self.command = CommandLine({"HOME": str(self.home), "URL": "http://127.0.0.1:1"})
        self.receipts = self.append(SIZE // 2, time.time() - 10 * DAY) + self.append(SIZE // 2, time.time())

    def append(self, count: int, at: float, **members: Any) -> list[Receipt]:
        signer = open_signer(self.settings, KeyName.REMOTE)
        ledger = open_ledger(self.settings, signer, load_trust(self.settings.trust_path))
        rows = [make_row(number, recorded_at=at + number, side=Side.REMOTE, **members) for number in range(count)]
        receipts = ledger.append_many([*rows, refused_row(count, recorded_at=at + count, trace_id=TRACE)][:count])
        ledger.close()
        return receipts

    def saved(self, name: str, value: object) -> str:
        path = self.home / name
        path.write_text(json.dumps(value))
        return str(path)


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    return Kept(tmp_path_factory.mktemp("kept"))


@pytest.fixture
def kept(pristine: Kept, tmp_path: Path) -> Kept:
    copy = object.__new__(Kept)
    copy.home = Path(shutil.copytree(pristine.home, tmp_path / "home"))
    copy.settings = pristine.settings.model_copy(update={"home": copy.home, "trust_file": None})
    copy.path = copy.home / "remote" / "ledger.sqlite"
    copy.command = CommandLine({"HOME": str(copy.home), "URL": "http://127.0.0.1:1"})
    copy.receipts = pristine.receipts
    return copy


def test_a_row_is_shown_with_the_proof_that_it_is_in(kept: Kept) -> None:
    told = kept.command("evidence", "show", "3", "--json").json
    assert told["row"]["request_id"] == "req-3"
    proof, newest = told["proof"], Checkpoint.from_json(told["proof"]["checkpoint"])
    path = [bytes.fromhex(node) for node in proof["inclusion"]]
    assert verify_inclusion(bytes.fromhex(proof["leaf_hash"]), 3, newest.size, path, newest.root)
    assert "inclusion" in kept.command("evidence", "show", "3").out


def test_a_ledger_proves_that_it_went_on_from_a_receipt(kept: Kept) -> None:
    receipt = kept.receipts[2]
    file = kept.saved("receipt.json", receipt.to_json())
    told = kept.command("evidence", "show", "7", "--since", file, "--json").json["consistency"]
    newest = Checkpoint.from_json(told["to"])
    path = [bytes.fromhex(node) for node in told["path"]]
    assert verify_consistency(3, receipt.checkpoint.root, newest.size, newest.root, path)
    first = kept.append(2, 0.0)[-1]
    elsewhere = kept.saved("later.json", first.to_json())
    run = kept.command("evidence", "show", "3", "--since", elsewhere, "--ledger", str(kept.home / "none"))
    assert run.code == 2


def test_a_trace_is_shown_over_the_ledgers_that_are_here(kept: Kept) -> None:
    told = kept.command("evidence", "show", "--trace", f"{1:032x}", "--json").json
    assert [row["request_id"] for row in told] == ["req-1", "req-1"]
    assert kept.command("evidence", "show", "--trace", f"{1:032x}").code == 0
    assert kept.command("evidence", "show").code == 2


def test_a_row_or_a_trace_that_is_not_there_is_told_with_what_shows_those_that_are(kept: Kept) -> None:
    for words, how in ((("--trace", "nothing"), "evidence show INDEX tells the trace_id"), (("99",), "evidence list")):
        run = kept.command("evidence", "show", *words)
        assert (run.code, how in run.line) == (2, True)


def test_an_export_verifies_with_a_public_key_alone(kept: Kept, tmp_path: Path) -> None:
    file = tmp_path / "export.jsonl"
    assert kept.command("evidence", "export", str(file), "--json").json == {
        "file": str(file),
        "begins": 0,
        "size": SIZE,
        "resumed": 0,
    }
    key = load_trust(kept.settings.trust_path).agents["urn:dataset-agent:remote"].key
    away = {"HOME": str(tmp_path / "nothing"), "TRUST_FILE": str(tmp_path / "none")}
    for written in (key.jwk(), {"keys": [key.jwk()]}):
        (tmp_path / "key.json").write_text(json.dumps(written))
        run = kept.command("evidence", "verify", "--ledger", str(file), "--key", str(tmp_path / "key.json"), **away)
        assert (run.code, run.out.splitlines()[0]) == (0, f"The ledger is whole: {SIZE} rows"), run.err
    (tmp_path / "key.json").write_text("{}")
    assert kept.command("evidence", "verify", "--ledger", str(file), "--key", str(tmp_path / "key.json")).code == 2


def test_what_was_saved_of_an_answer_is_a_receipt(kept: Kept, tmp_path: Path) -> None:
    receipt = kept.receipts[6]
    sealed = draft(make_authority(), **draft_members()).seal(receipt, open_signer(kept.settings, KeyName.REMOTE))
    foreign = {**receipt.to_json(), "checkpoint": {**receipt.checkpoint.to_json(), "origin": "urn:another"}}
    kinds = {
        "receipt": receipt.to_json(),
        "answer": {"evidence": {"root": foreign, "remote": receipt.to_json()}},
        "artifact": {"envelope": sealed, "result_base64": base64.b64encode(b"x").decode()},
        "envelope": sealed,
        "checkpoint": receipt.checkpoint.to_json(),
    }
    shutil.copy(kept.path, tmp_path / "cut.sqlite")
    cut = tmp_path / "cut.jsonl"
    assert kept.command("evidence", "export", str(cut)).code == 0
    lines = cut.read_text().splitlines()
    earlier = json.dumps({"checkpoint": kept.receipts[4].checkpoint.to_json()})
    cut.write_text("\n".join([earlier, *lines[1:6]]) + "\n")
    for name, value in kinds.items():
        file = kept.saved(f"{name}.json", value)
        assert kept.command("evidence", "verify", "--receipt", file).code == 0, name
        told = kept.command("evidence", "verify", "--ledger", str(cut), "--receipt", file, "--json")
        assert (told.code, told.json["damage"], told.json["bad_row"]) == (1, "behind_receipt", 5), name
    assert kept.command("evidence", "verify", "--receipt", kept.saved("none.json", {"a": 1})).code == 2


def test_a_later_export_is_a_receipt_too(kept: Kept, tmp_path: Path) -> None:
    export = tmp_path / "export.jsonl"
    assert kept.command("evidence", "export", str(export)).code == 0
    kept.append(1, time.time())
    assert kept.command("evidence", "verify", "--receipt", str(export)).code == 0


def test_an_export_into_a_folder_is_refused_before_anything_is_written(kept: Kept, tmp_path: Path) -> None:
    folder = tmp_path / "backup"
    folder.mkdir()
    run = kept.command("evidence", "export", str(folder))
    assert (run.code, run.line) == (2, f"error: {folder} is a folder: name a file in it")
    assert list(folder.iterdir()) == [] and not (tmp_path / "backup.partial").exists()


def test_an_export_goes_on_where_it_broke_off(kept: Kept, tmp_path: Path) -> None:
    file = tmp_path / "export.jsonl"
    assert kept.command("evidence", "export", str(file)).code == 0
    lines = file.read_text().splitlines(keepends=True)
    file.unlink()
    (tmp_path / "export.jsonl.partial").write_text("".join(lines[:4]) + "{")
    told = kept.command("evidence", "export", str(file), "--json").json
    assert (told["resumed"], told["size"]) == (3, SIZE)
    assert file.read_text() == "".join(lines)


def test_an_export_of_the_newer_rows_is_a_part(kept: Kept, tmp_path: Path) -> None:
    file = str(tmp_path / "export.jsonl")
    assert kept.command("evidence", "export", file, "--from", "5").out == f"{file}: rows 5 to 7\n"
    run = kept.command("evidence", "verify", "--ledger", file)
    assert (run.code, "the head was cut, or the rows are in another file" in run.err) == (1, True)
    assert kept.command("evidence", "verify", "--ledger", file, "--part").code == 0


def test_a_disk_that_cannot_be_written_is_said(kept: Kept, tmp_path: Path) -> None:
    run = kept.command("evidence", "export", str(tmp_path / "no" / "folder.jsonl"))
    assert (run.code, "cannot be written" in run.err) == (1, True)


def test_old_rows_are_rotated_and_removed_and_the_ledger_verifies_throughout(kept: Kept) -> None:
    assert "Rows 0 to 3 are in" in kept.command("evidence", "rotate", "--older-than", "5d").out
    assert kept.command("evidence", "verify").out.splitlines()[0] == f"The remote ledger is whole: {SIZE} rows"
    assert kept.command("evidence", "rotate", "--older-than", "5d").out == "No row is old enough to be moved.\n"
    assert kept.command("evidence", "prune", "--older-than", "20d").out.startswith("No segment is old enough")
    assert kept.command("evidence", "prune", "--older-than", "5d").code == 2
    dry = kept.command("evidence", "prune", "--older-than", "5d", "--dry-run")
    assert "rows 0 to 3" in dry.out
    assert "would be removed" in dry.out
    assert kept.command("evidence", "verify", "--json").json["size"] == SIZE
    run = kept.command("evidence", "prune", "--older-than", "5d", "--yes")
    assert "were removed; their hashes and the row that says so are kept" in run.out, run.err
    told = kept.command("evidence", "verify").out
    assert f"rows 0 to 3 were removed by retention, as row {SIZE} says" in told
    for receipt in kept.receipts:
        assert kept.command("evidence", "verify", "--receipt", kept.saved("r.json", receipt.to_json())).code == 0
    assert kept.command("evidence", "show", "2").code == 2
    assert kept.command("evidence", "list", "--json").json[-1]["kind"] == "segment_removed"
    assert kept.command("evidence", "prune", "--older-than", "5d", "--yes").out.startswith("No segment")


def test_an_age_that_is_none_is_said(kept: Kept) -> None:
    assert kept.command("evidence", "rotate", "--older-than", "five").code == 2


def test_a_person_is_forgotten_in_every_ledger_and_segment_and_the_tree_verifies(kept: Kept) -> None:
    assert kept.command("evidence", "rotate", "--older-than", "5d").code == 0
    assert kept.command("evidence", "forget", "--subject", SUBJECT).code == 2
    dry = kept.command("evidence", "forget", "--subject", SUBJECT, "--dry-run", "--json").json
    (one,) = [ledger for ledger in dry["ledgers"] if ledger["known"]]
    assert (one["rows"], one["forgotten"]) == (SIZE, False)
    key = (kept.home / "remote" / "subjects.sqlite").read_bytes()
    run = kept.command("evidence", "forget", "--subject", SUBJECT, "--issuer", ISSUER, "--yes")
    assert (run.code, f"remote ledger: {SIZE} rows are nobody's now" in run.out) == (0, True), run.err
    assert "backups" in run.err
    assert (kept.home / "remote" / "subjects.sqlite").read_bytes() != key
    assert "nobody of this name is known" in kept.command("evidence", "forget", "--subject", SUBJECT, "--yes").out
    told = kept.command("evidence", "verify", "--json").json
    assert (told["ok"], told["size"]) == (True, SIZE + 1)
    newest = kept.command("evidence", "list", "--limit", "1", "--json").json[0]
    assert (newest["kind"], newest["policy_id"]) == ("subject_forgotten", "operator:forget")
    assert SUBJECT not in json.dumps(newest)


@pytest.mark.parametrize("verb", [["rotate"], ["prune", "--older-than", "1d", "--yes"], ["export", "x"], ["show", "1"]])
def test_a_ledger_that_is_not_there_is_said(kept: Kept, tmp_path: Path, verb: list[str]) -> None:
    run = kept.command("evidence", *verb, "--side", "root")
    assert (run.code, "there is no ledger at" in run.err) == (2, True)
    if verb[0] in ("export", "show"):
        assert "this home has that of --side remote" in run.line


def test_who_names_a_person_by_the_label_of_the_directory_is_told_the_subject(kept: Kept) -> None:
    run = kept.command("evidence", "forget", "--subject", "analyst", "--dry-run")
    assert "nobody of this name is known" in run.out
    assert "analyst is a label of principals.yaml, whose subject is u-" in run.err


def test_an_export_into_no_folder_says_to_name_another(kept: Kept, tmp_path: Path) -> None:
    run = kept.command("evidence", "export", str(tmp_path / "nowhere" / "x.jsonl"))
    assert (run.code, "name a file in a folder" in run.line, "partial" in run.line) == (1, True, False)


def test_forgetting_where_no_ledger_is_says_nothing_was_done(tmp_path: Path, kept: Kept) -> None:
    shutil.rmtree(kept.home / "remote")
    told = kept.command("evidence", "forget", "--subject", "x", "--json").json
    assert told == {"ledgers": [], "approvals": 0, "dry_run": False}
    said = kept.command("evidence", "forget", "--subject", "x", "--yes")
    assert (said.code, said.line.partition(",")[0]) == (0, f"there is no ledger in {kept.home}")
    elsewhere = kept.command("evidence", "forget", "--subject", "x", "--yes", HOME=str(tmp_path / "none"))
    assert (elsewhere.code, "there is no home at" in elsewhere.line) == (2, True)
