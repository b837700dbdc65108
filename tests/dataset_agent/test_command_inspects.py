"""``cache``, ``evidence``, ``card``, ``doctor``, ``login`` beside a served dataset agent."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.dataset_agent.command_line import CommandLine
from tests.running_agent import RunningAgent

pytestmark = pytest.mark.live

QUESTION = "Compare the recovery of batches B001 and B002"


@pytest.fixture(scope="module", autouse=True)
def asked(command: CommandLine) -> None:
    """Two partitions of one call, a hit and a refusal."""
    for principal, code in (("process_engineer", 0), ("process_engineer", 0), ("analyst", 0), ("external_auditor", 3)):
        assert command.ask(QUESTION, principal).code == code


def test_cache_keys_lists_entries_with_their_plain_dimensions(command: CommandLine) -> None:
    run = command("cache", "keys", "--json")
    assert run.code == 0
    assert [entry["dimensions"]["principal_class"] for entry in run.json["entries"]] in (
        ["analyst", "process-engineer"],
        ["process-engineer", "analyst"],
    )
    assert (run.json["matched"], run.json["restricted"]) == (2, [])
    for entry in run.json["entries"]:
        assert entry["dimensions"]["dataset"] == "purification-batches"
        assert entry["dimensions"]["capability"] == "compare_batches"
        assert entry["dimensions"]["policy_version"]


@pytest.mark.parametrize("options", [(), ("--json",), ("--full",)])
def test_no_argument_row_or_person_can_be_read_from_the_cache(command: CommandLine, options: tuple[str, ...]) -> None:
    shown = command("cache", "keys", *options).out
    for hidden in ("B001", "B002", "PMB-101", "u-eng-01", "u-ana-01", "acme"):
        assert hidden not in shown


def test_the_key_of_the_table_is_what_cache_show_takes(command: CommandLine) -> None:
    run = command("cache", "keys")
    assert max(len(line) for line in run.out.splitlines()) <= 80
    short = re.findall(r"^([0-9a-f]{8})\b", run.out, re.M)
    whole = command("cache", "keys", "--full").out.split()
    assert len(short) == len(whole) == 2
    for end in short:
        shown = command("cache", "show", end, "--json").json
        assert shown["key"] in whole
        assert shown["key"].endswith(end)
    assert "    dataset purification-batches, version 2026.08.31, " in run.out
    entry = command("cache", "show", short[0]).out
    assert re.search(r"^capability +compare_batches", entry, re.M)
    assert re.search(r"^age +\d+[sm] *$", entry, re.M)
    assert re.search(r"^expires_in +\d+[smh] *$", entry, re.M)


def test_a_key_that_names_no_entry_or_several_is_one_line(command: CommandLine) -> None:
    missing, several = command("cache", "show", "no-such-key"), command("cache", "show", "")
    assert (missing.code, several.code) == (2, 2)
    assert missing.line == "error: there is no such entry; dataset-agent cache keys lists them"
    assert "key is text" in several.line


def test_cache_stats_counts_lookups(command: CommandLine, agent: RunningAgent) -> None:
    agent.run(agent.lifecycle.service.cache.flush())  # counters are written a little after the lookups
    found = command("cache", "stats", "--json").json
    assert (found["entries"], found["hits"], found["misses"]) == (2, 1, found["miss_reasons"]["absent"])
    assert re.search(r"^hits +1 *$", command("cache", "stats").out, re.M)


def test_evidence_list_says_who_decided_what_under_which_policy(command: CommandLine) -> None:
    rows = command("evidence", "list", "--json").json
    assert [(row["verdict"], row["cache"]) for row in rows] == [("GRANTED", c) for c in ("MISS", "HIT", "MISS")]
    assert [row["index"] for row in rows] == [0, 1, 2]
    refused = command("evidence", "list", "--side", "root", "--json").json[-1]
    assert (refused["reason"], refused["policy_id"]) == ("INSUFFICIENT_PRIVILEGE", "BPD-DATA-009")
    run = command("evidence", "list", "--limit", "2")
    # the first line names the file, which is as long as it is
    assert max(len(line) for line in run.out.splitlines()[1:]) <= 80
    assert re.search(r"^2 +\d{4}-\d\d-\d\d \S+ +GRANTED +MISS +2$", run.out, re.M)
    assert "    reason PRINCIPAL_AUTHORIZED, policy BPD-DATA-014\n" in run.out
    assert not re.search(r"^0 ", run.out, re.M)
    assert "u-eng-01" not in run.out + json.dumps(rows)


def test_card_shows_what_may_be_asked_and_with_which_key_it_was_verified(command: CommandLine) -> None:
    run = command("card")
    assert run.code == 0
    assert max(len(line) for line in run.out.splitlines()[2:]) <= 80
    assert "clinical-private" not in run.out
    told = command("card", "--json").json
    assert told["card_verified"] is True
    assert f"Card signature verified with key {told['kid']}" in run.out
    assert run.out.count('    ask "') == sum(len(dataset["capabilities"]) for dataset in told["datasets"])
    assert '    ask "Compare the recovery of batches B001 and B002"\n' in run.out
    assert (
        "    takes batch_a STRING, that matches B[0-9]{3}\n          batch_b STRING, that matches B[0-9]{3}\n"
        in run.out
    )
    assert "    takes query STRING\n" in run.out
    assert {d["dataset"] for d in told["datasets"]} == {"chromatography-results", "purification-batches"}


def test_a_card_that_cannot_be_had_or_believed_is_one_line(command: CommandLine, tmp_path: Path) -> None:
    gone = command("card", "http://127.0.0.1:1")
    assert (gone.code, gone.line.split(":")[0]) == (4, "INDETERMINATE REMOTE_UNREACHABLE")
    unsafe = command("card", "http://192.0.2.1:8801")
    assert unsafe.code == 4
    assert "use https" in unsafe.line
    unknown = command("card", AGENT_ID="urn:somebody:else")
    assert unknown.code == 2
    assert "pins no agent urn:somebody:else" in unknown.line
    assert command("keys", "init", HOME=str(tmp_path / "other")).code == 0
    foreign = command("card", HOME=str(tmp_path / "other"))
    assert foreign.code == 4
    assert "REMOTE_CARD_INVALID" in foreign.line


def test_doctor_finds_everything_in_order(command: CommandLine) -> None:
    run = command("doctor", "--json")
    assert run.code == 0
    assert {finding["status"] for finding in run.json["findings"]} == {"ok"}
    assert max(len(line) for line in command("doctor").out.splitlines()[1:]) <= 80


def test_doctor_names_a_setting_that_is_none(command: CommandLine) -> None:
    run = command("doctor", CASHE_URL="redis://localhost")
    assert run.code == 1
    assert re.search(r"^DATASET_AGENT_CASHE_URL +broken\n    is no setting", run.out, re.M)


def test_login_prints_a_token_that_lives_as_long_as_asked(command: CommandLine) -> None:
    assert command("login", "--as", "analyst").out.count(".") == 2
    assert command("login", "--as", "analyst", "--ttl", "60", "--json").json["expires_in"] == 60
    assert command("login", "--as", "analyst", "--ttl", "86401").code == 2
    off = command("login", "--as", "analyst", DEV_ISSUER="false")
    assert off.code == 1
    assert "use your identity provider's token" in off.line
