"""``provenance verify`` and ``evidence verify`` as an auditor runs them: nothing serves, keys have changed since."""

from __future__ import annotations

import base64
import json
import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from grants.trust import load_trust
from tests.dataset_agent.command_line import HOUSE, CommandLine, command_for
from tests.running_agent import RunningAgent, agent_home, running_agent

pytestmark = pytest.mark.live

REMOTE, ROOT = "urn:dataset-agent:remote", "urn:dataset-agent:root"


@dataclass(frozen=True)
class Evidence:
    """What was kept: an answer from before ``keys init --force`` and one from after it, and a receipt."""

    home: Path
    before: Path
    after: Path
    receipt: Path
    kids: dict[str, list[str]]

    @property
    def command(self) -> CommandLine:
        return CommandLine({"HOME": str(self.home), "URL": "http://127.0.0.1:1"})

    def copy(self, folder: Path, side: str = "remote") -> Path:
        return Path(shutil.copy(self.home / side / "ledger.sqlite", folder / "copy.sqlite"))


@contextmanager
def serving(home: Path) -> Iterator[tuple[CommandLine, RunningAgent]]:
    with running_agent(agent_home(home)) as agent:
        yield command_for(agent.settings, URL=agent.url), agent


def ask(command: CommandLine, first: str, file: Path) -> None:
    run = command("ask", "--as", "analyst", f"Compare the recovery of batches {first} and B002", "--save", str(file))
    assert run.code == 0, run.err
    assert run.err.splitlines()[-1].startswith(f"saved in {file}")


def kids(home: Path) -> dict[str, str]:
    return {name: agent.key.thumbprint for name, agent in load_trust(home / "trust.toml").agents.items()}


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    folder = tmp_path_factory.mktemp("kept")
    home, receipt = folder / "home", folder / "receipt.json"
    with serving(home) as (command, _):
        ask(command, "B001", folder / "before.json")
    old = kids(home)
    run = command("keys", "init", "--force")
    assert (run.code, "reload what runs" in run.out) == (0, True)
    with serving(home) as (command, _):
        ask(command, "B003", folder / "after.json")
        answer = command.ask("Compare the recovery of batches B004 and B005").json
        receipt.write_text(json.dumps(answer["evidence"]["remote"]))
    new = kids(home)
    both = {name: [old[name], new[name]] for name in (REMOTE, ROOT)}
    return Evidence(home, folder / "before.json", folder / "after.json", receipt, both)


# a saved answer


def test_a_saved_answer_is_verified_with_nothing_running_and_says_what_it_vouches_for(kept: Evidence) -> None:
    run = kept.command("provenance", "verify", str(kept.after))
    assert run.code == 0
    assert run.out.startswith(f"The provenance holds: signed by {ROOT}\n")
    assert "It rests on what 1 more agent answered" in run.out
    assert max(len(line) for line in run.out.splitlines()) <= 80
    told = dict(re.findall(r"^([a-z][\w -]*?)  +(\S.*?) *$", run.out, re.M))
    assert told["with key"] == kept.kids[ROOT][1]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", told["signed at"])
    assert told["decision"] == "GRANTED by BPD-DATA-014, policies 2026.09.01"
    assert (told["dataset"], told["capability"], told["rows"]) == ("purification-batches", "compare_batches", "2")
    assert {"version", "revision", "as of", "executed at", "ledger row", "for", "asked by"} <= set(told)
    assert "B003" not in run.out


def test_the_rows_are_shown_where_they_are_asked_for(kept: Evidence) -> None:
    run = kept.command("provenance", "verify", str(kept.after), "--rows")
    assert run.code == 0
    assert re.search(r"^batch_id +B003 +B002 *$", run.out, re.M) or re.search(
        r"^batch_id +B002 +B003 *$", run.out, re.M
    )


def test_a_program_reads_who_signed_what_and_the_result(kept: Evidence) -> None:
    told = kept.command("provenance", "verify", str(kept.after), "--json").json
    assert told["verified"] is True
    assert told["signed_by"] == {"agent_id": ROOT, "kid": kept.kids[ROOT][1], "retired": False}
    below = told["tree"]["upstream"]
    assert [(b["agent_id"], b["kid"], b["asked_by"]) for b in below] == [(REMOTE, kept.kids[REMOTE][1], ROOT)]
    assert told["statement"]["predicate"]["operation"]["capability"] == "compare_batches"
    assert told["result"]["row_count"] == len(told["result"]["rows"]) == 2


def test_an_answer_from_before_the_keys_changed_still_verifies_and_names_the_retired_key(kept: Evidence) -> None:
    run = kept.command("provenance", "verify", str(kept.before))
    assert run.code == 0
    assert f"{kept.kids[ROOT][0]} (retired)" in run.out
    assert "the key is retired" in run.err
    assert "a key in the tree is retired" in run.err
    told = kept.command("provenance", "verify", str(kept.before), "--json").json
    assert told["signed_by"] == {"agent_id": ROOT, "kid": kept.kids[ROOT][0], "retired": True}
    assert [(b["kid"], b["retired"]) for b in told["tree"]["upstream"]] == [(kept.kids[REMOTE][0], True)]


def _of_the_dataset_agent_alone(file: Path, folder: Path) -> str:
    """As files were saved before: the dataset agent's own envelope."""
    saved = json.loads(file.read_text())
    statement = json.loads(base64.b64decode(saved["envelope"]["payload"]))
    older = folder / "older.json"
    older.write_text(json.dumps(saved | {"envelope": statement["predicate"]["upstream"][0]["envelope"]}))
    return str(older)


def test_a_file_with_the_dataset_agents_envelope_alone_still_verifies(kept: Evidence, tmp_path: Path) -> None:
    older = _of_the_dataset_agent_alone(kept.before, tmp_path)
    told = kept.command("provenance", "verify", older, "--json").json
    assert told["signed_by"] == {"agent_id": REMOTE, "kid": kept.kids[REMOTE][0], "retired": True}
    assert told["tree"]["upstream"] == []
    assert kept.command("provenance", "verify", older, "--agent", REMOTE).code == 0
    wrong = kept.command("provenance", "verify", older, "--agent", ROOT)
    assert wrong.code == 1
    assert wrong.line.endswith(f"it says to be of {REMOTE}: --agent {REMOTE}")


def _edited(kept: Evidence, folder: Path, **members: Any) -> str:
    edited = folder / "edited.json"
    edited.write_text(json.dumps(json.loads(kept.after.read_text()) | members))
    return str(edited)


def test_an_edited_answer_does_not_verify_and_the_check_is_named(kept: Evidence, tmp_path: Path) -> None:
    file = _edited(kept, tmp_path, result_base64="e30=")
    run = kept.command("provenance", "verify", file)
    assert run.code == 1
    assert "does NOT hold (digest)" in run.line
    assert kept.command("provenance", "verify", file, "--json").json["check"] == "digest"
    run = kept.command("provenance", "verify", _edited(kept, tmp_path, envelope={}))
    assert run.code == 1
    assert "does NOT hold (envelope)" in run.line


def test_an_answer_of_an_unknown_key_names_it(kept: Evidence, tmp_path: Path) -> None:
    assert kept.command("keys", "init", HOME=str(tmp_path)).code == 0
    run = kept.command("provenance", "verify", str(kept.after), HOME=str(tmp_path))
    assert run.code == 1
    assert f"signed by a key that is not trusted here (kid {kept.kids[ROOT][1]})" in run.line


def test_a_file_that_is_no_answer_or_an_agent_nobody_pins_is_one_line(kept: Evidence) -> None:
    run = kept.command("provenance", "verify", str(HOUSE / "LICENSE"))
    assert run.code == 2
    assert "is not a saved artifact" in run.line
    run = kept.command("provenance", "verify", str(kept.after), "--agent", "urn:somebody:else")
    assert run.code == 2
    assert "pins no agent urn:somebody:else" in run.line


# a ledger


@pytest.mark.parametrize(("side", "agent"), [("remote", REMOTE), ("root", ROOT)])
def test_a_ledger_went_on_under_the_new_key_and_says_which_key_signed_what(
    kept: Evidence, side: str, agent: str
) -> None:
    run = kept.command("evidence", "verify", "--side", side)
    assert run.code == 0
    assert run.out.startswith(f"The {side} ledger is whole: 3 rows\n  file {kept.home}/{side}/ledger.sqlite\n")
    old, new = kept.kids[agent]
    assert f"  retired kid {old}: rows 0 to 0\n  kid {new}: rows 1 to 2\n" in run.out
    told = kept.command("evidence", "verify", "--side", side, "--json").json
    assert [signed["kid"] for signed in told["signed_by"]] == [old, new]


def test_doctor_says_whether_a_ledger_can_go_on(kept: Evidence, tmp_path: Path) -> None:
    found = {f["check"]: f["status"] for f in kept.command("doctor", "--json").json["findings"]}
    assert (found["remote ledger"], found["root ledger"]) == ("ok", "ok")
    home = Path(shutil.copytree(kept.home, tmp_path / "home"))
    (home / "trust.toml").unlink()
    shutil.rmtree(home / "keys")
    command = CommandLine({"HOME": str(home), "URL": "http://127.0.0.1:1"})
    assert command("keys", "init").code == 0
    run = command("doctor", "--json")
    advice = {f["check"]: f["advice"] for f in run.json["findings"] if f["status"] == "broken"}
    assert run.code == 1
    assert set(advice) == {"remote ledger", "root ledger"}
    assert f"{home}/remote/ledger.sqlite" in advice["remote ledger"]
    assert "retired_keys" in advice["remote ledger"]
    assert command("serve", "--port", "0").line == f"error: {advice['remote ledger']}"


def test_an_unknown_key_is_no_forgery_and_side_and_file_are_named(kept: Evidence, tmp_path: Path) -> None:
    assert kept.command("keys", "init", HOME=str(tmp_path / "other")).code == 0
    copy = kept.copy(tmp_path)
    run = kept.command("evidence", "verify", "--ledger", str(copy), HOME=str(tmp_path / "other"))
    assert run.code == 1
    assert run.line.startswith(
        f"error: the remote ledger {copy} is NOT whole: row 0 is signed by a key that is not trusted here (trusted: kid "
    )
    assert "forged" not in run.line


def test_the_other_sides_ledger_is_told_apart(kept: Evidence, tmp_path: Path) -> None:
    copy = kept.copy(tmp_path, "root")
    run = kept.command("evidence", "verify", "--ledger", str(copy))
    assert run.code == 1
    assert run.line == (
        f"error: {copy} is not the remote ledger: it is the one of {ROOT}, and whole as such; add --side root"
    )
    assert kept.command("evidence", "verify", "--ledger", str(copy), "--side", "root").code == 0


def test_a_ledger_of_any_pinned_agent_is_verified_with_its_keys_and_another_is_told_whose_it_is(
    kept: Evidence, tmp_path: Path
) -> None:
    copy = str(kept.copy(tmp_path, "root"))
    away = {"AGENT_ID": "urn:dataset-agent:other", "ROOT_ID": "urn:dataset-agent:other-root"}
    run = kept.command("evidence", "verify", "--ledger", copy, "--agent", ROOT, **away)
    assert run.code == 0
    assert run.out.startswith(f"The ledger of {ROOT} is whole: 3 rows\n")
    for verb, first in (("verify", f"not the ledger of {REMOTE}"), ("list", f"not the ledger of {REMOTE}")):
        run = kept.command("evidence", verb, "--ledger", copy, "--agent", REMOTE, **away)
        assert run.code == 1
        assert first in run.line
        assert run.line.endswith(f"it is the one of {ROOT}, and whole as such; add --agent {ROOT}")
    assert len(kept.command("evidence", "list", "--ledger", copy, "--agent", ROOT, "--json").json) == 3
    run = kept.command("evidence", "verify", "--ledger", copy, "--agent", "urn:somebody:else")
    assert run.code == 2
    assert "pins no agent urn:somebody:else" in run.line


def test_a_key_that_is_still_accepted_is_not_called_retired(kept: Evidence, tmp_path: Path) -> None:
    trust = tmp_path / "trust.toml"
    text = (kept.home / "trust.toml").read_text().replace("retired_keys", "keys")
    trust.write_text(re.sub(r"^revoked_keys = \[[^]]*\]$", "", text, flags=re.M))
    run = kept.command("evidence", "verify", TRUST_FILE=str(trust))
    assert run.code == 0
    assert f"  further accepted kid {kept.kids[REMOTE][0]}: rows 0 to 0\n" in run.out


def test_an_edited_row_is_named(kept: Evidence, tmp_path: Path) -> None:
    copy = kept.copy(tmp_path)
    with sqlite3.connect(copy) as edited:
        edited.execute("UPDATE entries SET verdict = 'REFUSED' WHERE idx = 1")
    run = kept.command("evidence", "verify", "--ledger", str(copy))
    assert run.code == 1
    assert "NOT whole: row 1 was changed" in run.line
    told = kept.command("evidence", "verify", "--ledger", str(copy), "--json")
    assert (told.code, told.json["ok"], told.json["bad_row"]) == (1, False, 1)


def test_a_later_receipt_shows_a_cut_tail(kept: Evidence, tmp_path: Path) -> None:
    whole = kept.command("evidence", "verify", "--receipt", str(kept.receipt))
    assert (whole.code, "agrees with every receipt" in whole.out) == (0, True)
    assert "receipt" not in kept.command("evidence", "verify").out
    other = kept.command("evidence", "verify", "--receipt", str(kept.receipt), "--side", "root")
    assert other.code == 1
    assert "receipt" in other.line
    assert kept.command("evidence", "verify", "--receipt", str(tmp_path / "none")).code == 2


def test_auditing_leaves_nothing_beside_the_evidence(kept: Evidence, tmp_path: Path) -> None:
    copy = kept.copy(tmp_path)
    for verb in ("verify", "list"):
        assert kept.command("evidence", verb, "--ledger", str(copy)).code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["copy.sqlite"]


@pytest.mark.parametrize("verb", ["verify", "list"])
def test_a_file_that_is_no_ledger_is_said_to_be_none(kept: Evidence, verb: str, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    for file in (HOUSE / "LICENSE", kept.receipt, tmp_path / "empty"):
        run = kept.command("evidence", verb, "--ledger", str(file))
        assert run.code == 1
        assert run.line.startswith(f"error: {file} is not a ledger")
    gone = kept.command("evidence", verb, "--ledger", str(tmp_path / "none"))
    assert gone.code == 2
    assert gone.line == f"error: there is no ledger at {tmp_path / 'none'}: name the file, or ask something first"


@pytest.mark.parametrize("what", ["evidence", "provenance"])
def test_an_auditor_without_a_trust_file_gets_it_and_makes_none(kept: Evidence, tmp_path: Path, what: str) -> None:
    file = ["--ledger", str(kept.copy(tmp_path))] if what == "evidence" else [str(kept.after)]
    run = kept.command(what, "verify", *file, HOME=str(tmp_path / "empty"))
    assert run.code == 1
    assert run.line == (
        f"error: there is no trust file at {tmp_path}/empty/trust.toml: get trust.toml from the operator of the "
        "dataset agent, and name it with DATASET_AGENT_TRUST_FILE"
    )
    assert kept.command(what, "verify", *file, TRUST_FILE=str(kept.home / "trust.toml")).code == 0
