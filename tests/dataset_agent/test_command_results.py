"""``call --output``: large rows as a file that is whole, verified and private, or nothing."""

from __future__ import annotations

import io
import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from contract.canonical import sha256_hex
from evidence.reader import LedgerFile
from remote_agent.spool import Spool
from tests.dataset_agent.command_line import CommandLine, Run, command_for
from tests.large_world import DATASET, MARKER, large_agent
from tests.running_agent import RunningAgent

pytestmark = pytest.mark.live

ROWS = 30_000
IN_SCOPE = sum(n % 3 != 2 for n in range(ROWS))


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAgent]:
    with large_agent(tmp_path_factory.mktemp("large"), rows=ROWS) as running:
        yield running


@pytest.fixture(scope="module")
def command(agent: RunningAgent) -> CommandLine:
    return command_for(agent.settings, URL=agent.url, DATASETS=str(agent.settings.datasets))


def listed(command: CommandLine, *options: str, capability: str = "list", below: int = ROWS, **settings: str) -> Run:
    arguments = ("call", capability, "--as", "engineer", "--dataset", DATASET, "--arg", f"below={below}")
    return command(*arguments, *options, **settings)


def test_a_large_result_is_shown_by_what_it_is_and_how_it_is_had(command: CommandLine) -> None:
    run = listed(command)
    assert run.code == 0
    assert f"{IN_SCOPE} rows" in run.out
    assert "TIMESTAMP" in run.out
    assert "--output FILE" in run.err
    assert MARKER not in run.out + run.err


def test_its_json_has_everything_but_the_rows(command: CommandLine) -> None:
    result = listed(command, "--json").json["result"]
    assert (result["rows"], result["row_count"], result["truncated"]) == (None, IN_SCOPE, False)
    assert result["media_type"] == "application/json"
    assert [column["name"] for column in result["schema"]] == ["id", "site", "at", "value", "amount", "note"]
    assert {"size", "sha256", "result_id", "expires_at"} <= set(result)


def test_the_file_is_what_was_signed_and_its_owners_only(command: CommandLine, tmp_path: Path) -> None:
    rows, proof = tmp_path / "rows.json", tmp_path / "proof.json"
    run = listed(command, "--output", str(rows), "--save", str(proof), "--json")
    told = run.json["result"]
    assert (run.code, sha256_hex(rows.read_bytes()), rows.stat().st_size) == (0, told["sha256"], told["size"])
    assert stat.S_IMODE(rows.stat().st_mode) == 0o600
    assert json.loads(rows.read_bytes())["row_count"] == IN_SCOPE
    assert sorted(path.name for path in tmp_path.iterdir()) == ["proof.json", "rows.json"]
    assert MARKER not in run.out + run.err + proof.read_text()


def test_the_proof_holds_offline_for_the_file_and_for_no_other(command: CommandLine, tmp_path: Path) -> None:
    rows, proof = tmp_path / "rows.arrow", tmp_path / "proof.json"
    listed(command, "--output", str(rows), "--format", "arrow", "--save", str(proof))
    verify = ("provenance", "verify", str(proof))
    apart = command(*verify)
    assert (apart.code, "--result" in apart.line) == (2, True)
    held = command(*verify, "--result", str(rows), "--rows")
    assert (held.code, "The provenance holds" in held.out, MARKER in held.out) == (0, True, True)
    rows.write_bytes(rows.read_bytes()[:-1])
    changed = command(*verify, "--result", str(rows), "--json")
    assert (changed.code, changed.json["check"]) == (1, "digest")
    assert command(*verify, "--result", str(tmp_path / "nowhere")).code == 2


def test_arrow_is_a_stream_that_others_read(command: CommandLine, tmp_path: Path) -> None:
    rows = tmp_path / "rows.arrow"
    assert listed(command, "--output", str(rows), "--format", "arrow").code == 0
    assert pa.ipc.open_stream(io.BytesIO(rows.read_bytes())).read_all().num_rows == IN_SCOPE


def test_few_rows_are_written_too_and_shown(command: CommandLine, tmp_path: Path) -> None:
    rows, proof = tmp_path / "rows.json", tmp_path / "proof.json"
    run = listed(command, "--output", str(rows), "--save", str(proof), below=3)
    assert (run.code, json.loads(rows.read_bytes())["row_count"]) == (0, 2)
    assert "zebra" in run.out
    assert command("provenance", "verify", str(proof)).code == 0
    assert command("provenance", "verify", str(proof), "--result", str(rows)).code == 0


def test_a_question_fetches_as_a_call_does(command: CommandLine, tmp_path: Path) -> None:
    rows = tmp_path / "rows.json"
    run = command("ask", "--as", "engineer", f"list readings below {ROWS}", "--output", str(rows))
    assert (run.code, json.loads(rows.read_bytes())["row_count"]) == (0, IN_SCOPE)


def test_a_result_that_is_gone_leaves_no_file_and_a_row_that_says_so(
    agent: RunningAgent, command: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    earlier = tmp_path / "rows.json"
    earlier.write_text("what was there before")
    monkeypatch.setattr(Spool, "release", lambda self, name: self.drop(name))
    run = listed(command, "--output", str(earlier))
    assert (run.code, "RESULT_NOT_FOUND" in run.err) == (3, True)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["what was there before"]
    granted, blocked = [row.cells for row in LedgerFile(agent.settings.home / "root" / "ledger.sqlite").rows()][-2:]
    assert (granted["verdict"], blocked["kind"], blocked["reason"]) == ("GRANTED", "blocked", "RESULT_NOT_FOUND")
    assert blocked["caused_by"] == granted["decision_id"]


@pytest.mark.parametrize(
    "options",
    [
        ("--format", "arrow"),
        ("--output", "/nowhere/rows.json"),
        ("--output", "."),
        ("--output", "same", "--save", "same"),
        ("--format", "csv", "--output", "rows.csv"),
    ],
)
def test_what_cannot_be_written_is_said_before_anything_is_asked(
    agent: RunningAgent, command: CommandLine, options: tuple[str, ...]
) -> None:
    before = len(agent.rows())
    assert listed(command, *options).code == 2
    assert len(agent.rows()) == before


def test_the_ledger_shows_what_was_released(command: CommandLine, tmp_path: Path) -> None:
    size = listed(command, "--output", str(tmp_path / "rows.json"), "--json").json["result"]["size"]
    shown = command("evidence", "list", "--limit", "2").out
    assert "release_started" in shown
    assert shown.count(f"bytes {size}") == 2
