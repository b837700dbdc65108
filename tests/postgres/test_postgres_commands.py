"""The commands of the evidence over a ledger that lies on a server: as over a file, and offline afterwards."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from contract.settings import Settings
from evidence.ledger import Ledger
from evidence.opening import open_own
from grants.key_files import FileSigner
from grants.keys import init_keys
from tests.dataset_agent.command_line import CommandLine
from tests.evidence.evidence_builders import NOW, SUBJECT, make_row
from tests.postgres.postgres_server import PostgresServer

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    made = PostgresServer()
    made.start()
    yield made
    made.close()


def own(settings: Settings) -> Ledger:
    signer = FileSigner.load(settings.remote_dir / "agent.jwk")
    return open_own(settings, settings.agent_id, settings.home / "remote", signer, now=NOW, retired=())


def test_a_ledger_on_a_server_is_listed_shown_verified_exported_and_a_person_forgotten(
    tmp_path: Path, server: PostgresServer
) -> None:
    settings = Settings.model_validate({"home": tmp_path / "home", "ledger_url": server.url})
    init_keys(settings)
    ledger = own(settings)
    ledger.append_many([make_row(number) for number in range(5)])
    ledger.close()
    command = CommandLine({"HOME": str(settings.home), "LEDGER_URL": server.url})

    listed = json.loads(command("evidence", "list", "--limit", "2", "--json").out)
    assert [row["index"] for row in listed] == [3, 4]
    shown = json.loads(command("evidence", "show", "2", "--json").out)
    assert (shown["row"]["request_id"], shown["proof"]["index"]) == ("req-2", 2)
    assert json.loads(command("evidence", "verify", "--json").out)["size"] == 5
    export = tmp_path / "taken.jsonl"
    assert command("evidence", "export", str(export)).code == 0
    offline = CommandLine({"HOME": str(settings.home)})
    assert json.loads(offline("evidence", "verify", "--ledger", str(export), "--json").out)["ok"] is True
    assert len(json.loads(offline("evidence", "list", "--ledger", str(export), "--json").out)) == 5

    told = json.loads(command("evidence", "forget", "--subject", SUBJECT, "--side", "remote", "--yes", "--json").out)
    assert told["ledgers"] == [{"side": "remote", "known": True, "rows": 5, "forgotten": True}]
    assert json.loads(command("evidence", "verify", "--json").out)["size"] == 6
    refused = command("evidence", "rotate")
    assert refused.code == 1
    assert "lies on a server" in refused.err


def test_doctor_asks_the_server_and_says_which_ledger_is_there(tmp_path: Path, server: PostgresServer) -> None:
    settings = Settings.model_validate(
        {"home": tmp_path / "home", "ledger_url": server.url, "agent_id": "urn:dataset-agent:looked-at"}
    )
    init_keys(settings)
    own(settings).close()
    named = {"HOME": str(settings.home), "AGENT_ID": settings.agent_id}
    assert found(CommandLine({**named, "LEDGER_URL": server.url})) == {"remote": "ok", "root": "absent"}


def test_a_server_that_is_away_is_told_with_what_to_do(tmp_path: Path) -> None:
    settings = Settings.model_validate({"home": tmp_path / "home"})
    init_keys(settings)
    command = CommandLine({"HOME": str(settings.home), "LEDGER_URL": "postgresql://nobody@127.0.0.1:1/x"})
    assert found(command) == {"remote": "broken", "root": "broken"}
    for words in (("evidence", "list"), ("evidence", "verify"), ("serve", "--port", "0")):
        run = command(*words)
        assert (run.code, "start its server" in run.err, "nobody" in run.err) == (1, True, False)


def found(command: CommandLine) -> dict[str, str]:
    findings = json.loads(command("doctor", "--json").out)["findings"]
    checked = {one["check"]: one["status"] for one in findings}
    return {side: checked[f"{side} ledger"] for side in ("remote", "root")}
