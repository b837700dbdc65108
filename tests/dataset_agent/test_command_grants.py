"""``grant inspect|verify|revoke|revocations`` beside a served dataset agent."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contract.call import Operation
from contract.canonical import sha256_hex
from contract.errors import Category, DatasetAgentError
from dataset_agent.revoke_commands import _instant
from grants.jose import split
from tests.dataset_agent.command_line import CommandLine, command_for
from tests.running_agent import COMPARE, Asker, RunningAgent, agent_home, decision_of, running_agent, task_of

pytestmark = pytest.mark.live

DATASET, CAPABILITY = "purification-batches", "compare_batches"


@pytest.fixture
def asker(agent: RunningAgent) -> Asker:
    return Asker(agent.settings, agent.url)


@pytest.fixture
def call(asker: Asker, tmp_path: Path) -> Path:
    path = tmp_path / "call.json"
    path.write_bytes(asker.call(DATASET, CAPABILITY, COMPARE))
    return path


def grant_for(asker: Asker, call: Path, **changes: Any) -> str:
    operation = Operation("SendMessage", call_hash=sha256_hex(call.read_bytes()))
    return asker.grant(asker.scope(DATASET, CAPABILITY), operation, **changes)


def spent(asker: Asker, call: Path, grant: str) -> dict[str, Any]:
    return decision_of(task_of(asker.send(call.read_bytes(), asker.headers(grant))))


# inspect


def test_inspect_explains_each_claim_and_says_what_each_link_narrowed(
    command: CommandLine, asker: Asker, call: Path
) -> None:
    grant = grant_for(asker, call)
    run = command("grant", "inspect", "-", stdin=grant)
    assert run.code == 0
    assert max(len(line) for line in run.out.splitlines()) <= 80
    assert f"op.call_hash: {sha256_hex(call.read_bytes())}\n    SHA-256 of the call, exactly as it is sent" in run.out
    assert re.search(r"^  exp: \d+\n    valid until, in \d+ s$", run.out, re.M)
    assert "link 1: urn:dataset-agent:root -> urn:dataset-agent:remote\n  the token  lives 240 s shorter\n" in run.out
    assert "  purification-batches  unchanged\n" in run.out
    assert "signatures: verified\nnow it would be accepted" in run.out
    told = command("grant", "inspect", grant, "--json").json
    assert (told["signatures"], told["refusal"]) == ("verified", None)
    assert told["steps"][0]["datasets"] == {DATASET: []}
    assert {claim["claim"] for claim in told["tokens"][1]["explained"]} >= {"op.call_hash", "cnf.jwk", "txn"}


def test_inspect_says_why_an_edited_grant_would_be_refused(command: CommandLine, asker: Asker, call: Path) -> None:
    grant = grant_for(asker, call, now=1_700_000_000)
    assert "now it would be REFUSED GRANT_EXPIRED" in command("grant", "inspect", grant).out
    unreadable = command("grant", "inspect", "no.such.token")
    assert "now it would be REFUSED GRANT_MALFORMED" in unreadable.out
    assert (unreadable.code, command("grant", "inspect", "no.such.token", "--json").code) == (2, 2)
    assert command("grant", "inspect", grant).code == 0
    empty = command("grant", "inspect", "-")
    assert (empty.code, "there is no grant" in empty.line) == (2, True)


def test_looking_at_a_grant_spends_nothing_and_a_spent_one_is_told(
    command: CommandLine, asker: Asker, call: Path
) -> None:
    grant = grant_for(asker, call)
    for _ in range(2):
        assert command("grant", "inspect", "-", stdin=grant).code == 0
        assert command("grant", "verify", "-", "--call", str(call), stdin=grant).code == 0
    assert spent(asker, call, grant)["verdict"] == "GRANTED"
    assert "now it would be REFUSED GRANT_REPLAYED" in command("grant", "inspect", "-", stdin=grant).out
    told = command("grant", "inspect", grant, "--json").json
    assert (told["signatures"], told["refusal"]["reason"]) == ("verified", "GRANT_REPLAYED")


def test_without_a_trust_file_nobody_is_called_an_issuer(
    command: CommandLine, asker: Asker, call: Path, tmp_path: Path
) -> None:
    run = command("grant", "inspect", "-", stdin=grant_for(asker, call), HOME=str(tmp_path / "none"))
    assert run.code == 0
    assert "signatures: not verified\nthere is no trust file" in run.out
    assert not (tmp_path / "none").exists()


# verify


def test_verify_ends_with_the_verdict_on_the_grant_for_exactly_this_request(
    command: CommandLine, asker: Asker, call: Path, tmp_path: Path
) -> None:
    grant, other = grant_for(asker, call), tmp_path / "other.json"
    other.write_bytes(call.read_bytes() + b" ")

    def verified(*options: str) -> tuple[int, str | None]:
        run = command("grant", "verify", "-", *options, "--json", stdin=grant)
        return run.code, run.json["refusal"] and run.json["refusal"]["reason"]

    assert verified("--call", str(call)) == (0, None)
    assert verified("--call", str(other)) == (3, "GRANT_OPERATION_MISMATCH")
    assert verified("--negotiate") == (3, "GRANT_OPERATION_MISMATCH")
    assert verified("--task", "task-1") == (3, "GRANT_OPERATION_MISMATCH")
    assert verified("--method", "discover") == (3, "GRANT_OPERATION_MISMATCH")
    assert verified("--call", str(call), "--method", "SendStreamingMessage") == (3, "GRANT_OPERATION_MISMATCH")
    assert verified("--call", str(call), "--audience", "urn:x:other") == (3, "GRANT_AUDIENCE_MISMATCH")
    assert verified("--call", str(call), "--client", "urn:x:other") == (3, "GRANT_CLIENT_MISMATCH")


def test_verify_says_for_people_what_it_found(command: CommandLine, asker: Asker, call: Path) -> None:
    good = command("grant", "verify", "-", "--call", str(call), stdin=grant_for(asker, call))
    assert (good.code, "The grant would be accepted" in good.out, "u-eng-01" in good.out) == (0, True, True)
    assert "this is no decision" in good.err
    assert max(len(line) for line in good.out.splitlines()) <= 80
    assert re.search(r"^expires_at +\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ, in \d+ s$", good.out, re.M)
    told = " ".join(good.out.split())
    assert re.search(rf" dataset {DATASET} \S+, revision \S+: {CAPABILITY} at urn:dataset-agent:remote$", told)
    assert not re.search(r"[\[\]{}]", good.out)
    bad = command("grant", "verify", "-", "--negotiate", stdin=grant_for(asker, call))
    assert (bad.code, bad.line.split(":")[0]) == (3, "REFUSED GRANT_OPERATION_MISMATCH")


@pytest.mark.parametrize(
    "options",
    [(), ("--task", "t", "--negotiate"), ("--method", "discover", "--negotiate"), ("--call", "/no/such/file")],
)
def test_verify_must_be_told_what_was_received(command: CommandLine, options: tuple[str, ...]) -> None:
    run = command("grant", "verify", "x.y.z", *options)
    assert (run.code, run.out) == (2, "")
    assert run.line.startswith("error: ")


def test_verify_needs_a_trust_file(command: CommandLine, tmp_path: Path) -> None:
    run = command("grant", "verify", "x.y.z", "--negotiate", HOME=str(tmp_path / "none"))
    assert (run.code, "no trust file" in run.line) == (1, True)


def test_keys_that_cannot_be_read_are_indeterminate(
    command: CommandLine, agent: RunningAgent, asker: Asker, call: Path, tmp_path: Path
) -> None:
    lines = agent.settings.trust_path.read_text().splitlines()
    without = [
        'keys = []\njwks_url = "http://127.0.0.1:1/jwks.json"' if line.startswith("keys = ") else line for line in lines
    ]
    (tmp_path / "trust.toml").write_text("\n".join(without))
    trust = {"TRUST_FILE": str(tmp_path / "trust.toml")}
    run = command("grant", "verify", "-", "--call", str(call), stdin=grant_for(asker, call), **trust)
    assert (run.code, run.err.splitlines()[-1].split(":")[0]) == (4, "INDETERMINATE KEYS_UNAVAILABLE")


# revoke


@pytest.fixture
def own(tmp_path: Path) -> Iterator[RunningAgent]:
    """An agent of one test: what it revokes is nobody else's."""
    with running_agent(agent_home(tmp_path / "own")) as running:
        yield running


def names_of(grant: str) -> dict[str, str]:
    claims = [json.loads(split(token).payload) for token in grant.split(",")]
    return {
        "jti": claims[0]["jti"],
        "leaf": claims[1]["jti"],
        "txn": claims[0]["txn"],
        "kid": str(split(grant.split(",")[0]).header["kid"]),
        "holder": claims[1]["iss"],
        "iat": str(claims[0]["iat"]),
    }


@pytest.mark.parametrize(
    "what",
    [
        ("--grant", "{jti}"),
        ("--grant", "{leaf}"),
        ("--txn", "{txn}"),
        ("--holder", "{holder}"),
        ("--key", "{kid}"),
        ("--subject", "u-eng-01"),
        ("--policy", "BPD-DATA-014@2026.09.01"),
        ("--dataset", "purification-batches@2026.08.31"),
    ],
    ids=lambda what: f"{what[0][2:]}-{what[1].strip('{}')}",
)
def test_what_is_revoked_is_refused_from_the_next_call_on_and_later_grants_are_not(
    own: RunningAgent, call: Path, what: tuple[str, str]
) -> None:
    command, asker = command_for(own.settings, URL=own.url), Asker(own.settings, own.url)
    grant = grant_for(asker, call)
    assert command("grant", "verify", "-", "--call", str(call), stdin=grant).code == 0
    names = names_of(grant)
    run = command("grant", "revoke", what[0], what[1].format(**names), "--before", names["iat"])
    assert (run.code, run.out.startswith("Revoked: grants ")) == (0, True), run.err
    refused = command("grant", "verify", "-", "--call", str(call), stdin=grant)
    assert (refused.code, refused.line.split(":")[0]) == (3, "REFUSED GRANT_REVOKED")
    assert spent(asker, call, grant)["reason"] == "GRANT_REVOKED"
    later = grant_for(asker, call, now=int(names["iat"]) + 1)
    assert spent(asker, call, later)["verdict"] == "GRANTED"


def test_revocations_are_listed(command: CommandLine) -> None:
    made = command("grant", "revoke", "--subject", "u-x-99", "--before", "2026-01-02T03:04:05Z", "--json").json
    assert made["not_before"] == 1767323045.0
    assert made["stops"] == "for the person u-x-99, at whatever dataset"
    run = command("grant", "revocations")
    assert re.search(r"^subject +u-x-99 +2026-01-02 03:04:05Z *$", run.out, re.M)
    assert {"kind": "subject", "value": "u-x-99", "not_before": 1767323045.0} in command(
        "grant", "revocations", "--json"
    ).json


def test_an_instant_is_never_lowered(command: CommandLine) -> None:
    base = 1_700_000_000
    for before, held in ((f"{base}", base), (f"{base - 500}", base), (f"{base + 1}.5", base + 1.5)):
        made = command("grant", "revoke", "--subject", "u-x-98", "--before", before, "--json").json
        assert made["not_before"] == held


def test_a_key_is_revoked_for_good_by_a_year_that_is_written_out(command: CommandLine) -> None:
    made = command("grant", "revoke", "--holder", "A" * 43, "--before", "2100-01-01T00:00:00Z", "--json").json
    assert made["not_before"] == 4_102_444_800
    assert command("grant", "revoke", "--holder", "A" * 43, "--before", "4102444800").code == 2


def test_one_in_the_future_is_said_to_be(command: CommandLine) -> None:
    run = command("grant", "revoke", "--subject", "u-x-97", "--before", str(int(time.time()) + 3_600))
    assert "in the future" in run.out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "exactly one of"),
        (("--subject", "a", "--txn", "b"), "exactly one of"),
        (("--key", "short"), "thumbprint"),
        (("--policy", "without-version"), "id@version"),
        (("--subject", ""), "printable"),
        (("--subject", "a", "--before", "yesterday"), "is no instant"),
        (("--subject", "a", "--before", "2026-01-02T03:04:05"), "no time zone"),
        *[
            (("--subject", "a", "--before", text), "POSIX seconds")
            for text in ("-5", "nan", "inf", "20261130", "2026", "0", "1_796_004_000", "1e9", "1796004000000")
        ],
        *[
            (("--subject", "a", "--before", text), "POSIX seconds")
            for text in ("2026-11-30", "20261130T000000Z", "2026-W01-1T00:00:00Z", "\u0663", "2019-12-31T23:59:59Z")
        ],
        *[
            (("--subject", "a", "--before", text), "POSIX seconds")
            for text in ("2026-13-01T00:00:00Z", "2200-01-01T00:00:00Z", "2026-01-02T03:04:05+99:00", " 1700000000")
        ],
        (("--dataset", "Purification-Batches@1.0.0"), "id@version"),
        (("--dataset", "purification-batches@1.0.0 "), "id@version"),
    ],
)
def test_what_names_nothing_revokes_nothing(command: CommandLine, arguments: tuple[str, ...], says: str) -> None:
    before = command("grant", "revocations", "--json").json
    run = command("grant", "revoke", *arguments)
    assert run.code == 2
    assert says in run.line
    assert command("grant", "revocations", "--json").json == before


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ("--subject", "U-ENG-01"),
            "principals.yaml here is named so: it is revoked as it is spelt; did you mean u-eng-01?",
        ),
        (("--subject", "u-eng-01 "), "begins or ends with a blank"),
        (("--txn", " x"), "begins or ends with a blank"),
        (("--policy", "bpd-data-014@2026.09.01"), "did you mean BPD-DATA-014@2026.09.01?"),
        (("--dataset", "purification-batch@2026.08.31"), "did you mean purification-batches@2026.08.31?"),
        (("--holder", "A" * 43), "trust.toml here is named so"),
        (("--key", "A" * 43), "trust.toml here is named so"),
    ],
)
def test_what_names_nothing_known_here_is_revoked_and_doubted(
    command: CommandLine, arguments: tuple[str, str], says: str
) -> None:
    run = command("grant", "revoke", *arguments, "--json")
    assert (run.code, run.json["value"]) == (0, arguments[1])
    assert says in run.err


def test_what_is_known_here_is_not_doubted(own: RunningAgent) -> None:
    command = command_for(own.settings)
    for arguments in (
        ("--subject", "u-eng-01"),
        ("--txn", "x"),
        ("--policy", "BPD-DATA-014@2026.09.01"),
        ("--dataset", "purification-batches@2026.08.31"),
    ):
        assert command("grant", "revoke", *arguments, "--before", "1700000000").err == ""


def test_looking_at_a_home_and_revoking_in_it_begins_no_memory(tmp_path: Path) -> None:
    home = agent_home(tmp_path / "home").home
    command = CommandLine({"HOME": str(home), "URL": "http://127.0.0.1:1"})
    before = files_of(home)
    assert command("grant", "revocations", "--json").json == []
    assert command("cache", "stats").code == 0
    found = {finding["check"]: finding for finding in command("doctor", "--json").json["findings"]}
    assert [found[name]["status"] for name in ("state store", "cache store")] == ["absent", "absent"]
    assert files_of(home) == before
    assert command("grant", "revoke", "--subject", "u-eng-01").code == 0
    assert {name for name in files_of(home) - before if not name.endswith("-lock")} == {"state.sqlite3"}
    found = {finding["check"]: finding for finding in command("doctor", "--json").json["findings"]}
    assert "nothing is remembered yet" in found["state store"]["advice"]
    assert [revoked["value"] for revoked in command("grant", "revocations", "--json").json] == ["u-eng-01"]


def files_of(home: Path) -> set[str]:
    return {str(path.relative_to(home)) for path in home.rglob("*")}


@pytest.mark.parametrize("kind", ["device", "pipe", "endless"])
@pytest.mark.parametrize("arguments", [("grant", "verify", "x", "--call"), ("provenance", "verify")])
def test_a_file_that_has_no_end_or_never_answers_is_one_line(
    command: CommandLine, tmp_path: Path, kind: str, arguments: tuple[str, ...]
) -> None:
    path = tmp_path / "file"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        with path.open("wb") as file:
            file.truncate(2**40)  # sparse
    run = command(*arguments, str(path))
    assert run.code in (1, 2)
    assert "no regular file" in run.line or "larger than" in run.line


def test_nothing_is_revoked_in_a_home_that_is_not_there(tmp_path: Path) -> None:
    command = CommandLine({"HOME": str(tmp_path / "none")})
    assert command("grant", "revoke", "--subject", "a").code == 2
    assert command("grant", "revocations").code == 2
    assert list(tmp_path.iterdir()) == []


def test_now_means_what_an_issuer_with_a_clock_ahead_issued_too() -> None:
    assert _instant(None, 1_000.0) == 1_005.0
    with pytest.raises(DatasetAgentError) as stop:
        _instant("x" * 500, 0.0)
    assert stop.value.category is Category.INVALID_INPUT
    assert len(stop.value.message) < 200


def test_the_runbook_for_a_key_that_somebody_else_has_leaves_no_gap(own: RunningAgent, call: Path) -> None:
    """As docs/operate.md tells it, for the root agent's key: revoke, rotate --now, retire --force, reload."""
    command, thief = command_for(own.settings, URL=own.url), Asker(own.settings, own.url)
    (old,) = (key["kid"] for key in command("keys", "list", "--json").json if key["role"] == "root")
    stolen = grant_for(thief, call)
    assert command("grant", "revoke", "--holder", old).code == 0
    assert spent(thief, call, stolen)["reason"] == "GRANT_REVOKED"
    assert command("keys", "rotate", "--role", "root", "--now").code == 0
    assert command("keys", "retire", "--role", "root", "--force", old).code == 0
    own.run(own.lifecycle.reload())
    response = thief.send(call.read_bytes(), thief.headers(grant_for(thief, call)))
    assert (response.status_code, response.json()["code"]) == (401, "grants.client.key")
    owner = Asker(own.settings, own.url)
    assert spent(owner, call, grant_for(owner, call))["verdict"] == "GRANTED"
