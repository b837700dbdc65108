"""``policy explain`` and ``policy test`` as a data owner meets them, in a terminal and in CI."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from contract.settings import SHIPPED_DATASETS
from dataset_agent.cli import run
from tests.dataset_agent.slow_policies import SlowPolicies

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """The shipped datasets folder, to edit; no rows are read, so there are none."""
    folder = tmp_path / "datasets"
    shutil.copytree(SHIPPED_DATASETS, folder, ignore=shutil.ignore_patterns("*.py", "__pycache__", "data"))
    return folder


@pytest.fixture
def command(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    monkeypatch.setenv("DATASET_AGENT_DATASETS", str(world))
    monkeypatch.setenv("DATASET_AGENT_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DATASET_AGENT_POLICY_URL", raising=False)

    def called(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = run(["policy", *arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return called


def _explained(command: Command, *arguments: str) -> tuple[int, Any]:
    code, out, _ = command("explain", *arguments, "--json")
    return code, json.loads(out)["explanations"]


CALL = ("--dataset", "purification-batches")


@pytest.mark.parametrize(
    ("person", "capability", "code", "policy_id"),
    [
        ("process_engineer", "compare_batches", 0, "BPD-DATA-014"),
        ("analyst", "detect_outliers", 3, "AD-POL-005"),
        ("external_auditor", "compare_batches", 3, "BPD-DATA-009"),
        ("external_auditor", "search", 3, "AD-POL-006"),
        ("nobody", "search", 4, None),
    ],
)
def test_explain_ends_as_the_call_would(
    command: Command, person: str, capability: str, code: int, policy_id: str | None
) -> None:
    ended, (one,) = _explained(command, capability, "--as", person, *CALL)
    assert (ended, one["decision"]["policy_id"]) == (code, policy_id)


def test_explain_names_the_policy_with_its_place_and_what_does_not_hold(command: Command) -> None:
    code, out, _ = command("explain", "detect_outliers", "--as", "analyst", *CALL)
    assert code == 3
    shown = " ".join(out.split())
    assert "REFUSED INSUFFICIENT_PRIVILEGE by AD-POL-005, policy version 2026.09.01" in shown
    assert "BPD-DATA-021 (permit, policies/bioprocess.cedar:19): a condition does not hold" in shown
    assert "does not hold: context.entitled" in shown
    assert "entitled to the capability and cleared for confidential: GRANTED" in shown
    assert "decisions were tried, one fact at a time, then several together" in shown


def test_explain_shows_what_must_be_obeyed(command: Command) -> None:
    code, out, _ = command("explain", "search", "--as", "clinical_reviewer", "--dataset", "clinical-private")
    assert code == 0
    assert "mask: subject_observation.subject_id hash" in out
    assert "not entitled to the capability: REFUSED" in out


def test_a_misspelt_name_is_asked_about(command: Command) -> None:
    _, _, err = command("explain", "serch", "--as", "analist", *CALL)
    assert "there is no principal analist; did you mean analyst?" in err
    assert "there is no capability serch; did you mean search?" in err
    _, _, err = command("explain", "search", "--as", "zzz", *CALL)
    assert "there is no principal zzz; known: analyst, clinical_reviewer, external_auditor, process_engineer" in err


def test_the_time_that_a_rule_read_is_shown_as_the_time_of_the_data_beside_it(command: Command) -> None:
    _, out, _ = command("explain", "search", "--as", "process_engineer", *CALL)
    read = " ".join(out.split()).partition("descriptor.as_of ")[2]
    assert re.match(r"2\d{3}-\S+\+00:00, now 2\d{3}-\d\d-\d\dT[0-9:.]+\+00:00", read)


def test_arguments_are_checked_and_never_shown(command: Command) -> None:
    good = ("compare_batches", "--as", "process_engineer", *CALL)
    code, (one,) = _explained(command, *good, "--arg", "batch_a=B001", "--arg", "batch_b=B002")
    assert (code, [step["reason"] for step in one["after_admission"]]) == (0, [None])
    code, out, _ = command("explain", *good, "--arg", "batch_a:=7", "--arg", "secret=hush")
    assert code == 3
    assert "After admission, arguments: REFUSED ARGUMENTS_INVALID" in " ".join(out.split())
    assert "hush" not in out
    code, (one,) = _explained(command, *good, "--arg", "secret=hush")
    assert (code, one["verdict"], one["decision"]["verdict"]) == (3, "REFUSED", "GRANTED")
    assert "hush" not in json.dumps(one)


def test_what_policies_demand_of_what_a_template_does_not_read_is_told(command: Command, world: Path) -> None:
    policy = world / "policies" / "bioprocess.cedar"
    rows = '@rows("{\\"chromatography_run.site\\": {\\"one_of\\": [\\"x\\"]}}")\n'
    policy.write_text(policy.read_text().replace('@id("BPD-DATA-014")\n', f'@id("BPD-DATA-014")\n{rows}'))
    code, (one,) = _explained(command, "compare_batches", "--as", "analyst", *CALL)
    assert (code, one["after_admission"][0]["reason"]) == (3, "GRANT_CONSTRAINT_UNKNOWN")


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        (("--max-age", "1"), "FRESHNESS_UNSATISFIABLE"),
        (("--revision", "r0"), "UNKNOWN_DATASET_REVISION"),
        (("--schema-version", "99"), "SCHEMA_VERSION_MISMATCH"),
        (("--stated-version", "1"), "PRINCIPAL_AUTHORIZED"),
    ],
)
def test_what_the_caller_relies_on_is_judged(command: Command, option: tuple[str, str], reason: str) -> None:
    _, (one,) = _explained(command, "search", "--as", "analyst", *CALL, *option)
    assert one["decision"]["reason"] == reason


def test_a_stated_version_is_judged_by_the_trust_file(command: Command, tmp_path: Path) -> None:
    assert run(["keys", "init"]) == 0
    trust = tmp_path / "home" / "trust.toml"
    trust.write_text('policy_versions = ["2026.09.01"]\n' + trust.read_text(encoding="utf-8"), encoding="utf-8")
    call = ("search", "--as", "analyst", *CALL, "--stated-version")
    assert [_explained(command, *call, version)[0] for version in ("2026.09.01", "2026.08.01")] == [0, 4]


def _in_versions(world: Path) -> None:
    """The shipped set as 2026.09.01, in force, and 2026.10.01, in which auditors may not search either."""
    policies = world / "policies"
    held = list(policies.iterdir())
    for version in ("2026.09.01", "2026.10.01"):
        folder = policies / version
        folder.mkdir()
        for path in held:
            if path.name != "version":
                shutil.copy(path, folder)
    for path in held:
        path.unlink()
    (policies / "current").write_text("2026.09.01\n", encoding="utf-8")
    newer = policies / "2026.10.01" / "bioprocess.cedar"
    newer.write_text(newer.read_text().replace('unless { action == Action::"search" };', ";"), encoding="utf-8")


def test_several_versions_are_explained_beside_one_another(command: Command, world: Path) -> None:
    _in_versions(world)
    call = ("search", "--as", "external_auditor", *CALL)
    code, explained = _explained(command, *call, "--policy-version", "all")
    told = [(one["decision"]["policy_version"], one["decision"]["policy_id"], one["in_force"]) for one in explained]
    assert (code, told) == (3, [("2026.09.01", "AD-POL-006", True), ("2026.10.01", "BPD-DATA-009", False)])
    _, _, err = command("explain", *call, "--policy-version", "all")
    assert "the versions decide differently" in err


@pytest.mark.parametrize("words", [("explain", "search", "--as", "analyst", *CALL), ("test",)])
def test_a_version_or_a_policy_server_that_cannot_be_asked_is_wrong_usage(
    command: Command, world: Path, words: tuple[str, ...]
) -> None:
    _in_versions(world)
    told = command(*words, "--policy-version", "7")
    assert told == (2, "", "error: there is no policy version 7; known: 2026.09.01, 2026.10.01\n")
    code, out, err = command(*words, "--evaluator", "http://policy.example")
    assert (code, out) == (2, "")
    assert err == "error: --evaluator cannot be asked: it must start with https://; http:// is for loopback only\n"


def test_a_policy_server_is_asked_where_it_is_named(command: Command) -> None:
    with SlowPolicies() as server:
        server.answer.set()
        code, (one,) = _explained(command, "search", "--as", "analyst", *CALL, "--evaluator", server.url)
        assert (code, one["evaluator"], one["decision"]["policy_id"]) == (0, "policy server", "BPD-DATA-014")
        assert [policy["policy_id"] for policy in one["policies"]][:1] == ["BPD-DATA-009"]
        assert command("test", "--evaluator", server.url)[0] == 0
    code, (one,) = _explained(command, "search", "--as", "analyst", *CALL, "--evaluator", server.url)
    assert (code, one["decision"]["reason"], one["policies"]) == (4, "EVALUATOR_UNAVAILABLE", [])
    assert command("test", "--evaluator", server.url)[0] == 1


def test_the_policy_server_of_the_settings_is_asked(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATASET_AGENT_POLICY_URL", "http://127.0.0.1:9")
    code, (one,) = _explained(command, "search", "--as", "analyst", *CALL)
    assert (code, one["answer"]) == (4, {"failed": "EVALUATOR_UNAVAILABLE"})
    assert _explained(command, "search", "--as", "analyst", *CALL, "--policy-version", "2026.09.01")[0] == 0


@pytest.mark.parametrize("which", ["explain", "test"])
def test_a_server_and_a_version_are_not_both_named(command: Command, which: str) -> None:
    call = ("search", "--as", "analyst", *CALL) if which == "explain" else ()
    code, _, err = command(which, *call, "--evaluator", "http://127.0.0.1:9", "--policy-version", "all")
    assert code == 2
    assert "leave --policy-version out" in err


def test_the_shipped_table_holds_and_every_shipped_policy_is_in_it(command: Command) -> None:
    code, out, err = command("test", str(SHIPPED_DATASETS / "policies" / "expected.yaml"), "--coverage")
    assert (code, err) == (0, "")
    assert out.endswith("cases, 0 differ\n")


def test_a_policy_that_is_edited_differs_by_line_and_in_junit(command: Command, world: Path, tmp_path: Path) -> None:
    policy = world / "policies" / "bioprocess.cedar"
    policy.write_text(policy.read_text().replace('["read", "compute"]', '["read"]'), encoding="utf-8")
    code, out, _ = command("test", "--junit", str(tmp_path / "junit.xml"))
    assert code == 1
    assert "expected.yaml:9: process_engineer purification-batches calculate_yield: verdict: expected GRANTED" in out
    suite = ElementTree.parse(tmp_path / "junit.xml").getroot()[0]
    failed = [case.get("name") for case in suite if case.find("failure") is not None]
    assert str(len(failed)) == suite.get("failures")
    assert "process_engineer calculate_yield" in failed
    code, out, _ = command("test", "--json")
    (version,) = json.loads(out)["versions"]
    assert (code, len(version["failed"])) == (1, len(failed))


def test_a_policy_that_no_case_needs_is_told_and_fails_where_that_is_wished(command: Command, tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("principal,dataset,capability,verdict\nanalyst,purification-batches,search,GRANTED\n")
    code, _, err = command("test", str(table))
    assert code == 0
    assert "BPD-CLIN-002 matched no case" in err
    assert "combinations of people and capabilities are in no case" in err
    assert command("test", str(table), "--coverage")[0] == 1


def test_a_new_version_is_tested_before_it_is_in_force(command: Command, world: Path) -> None:
    _in_versions(world)
    assert command("test")[0] == 0
    code, out, _ = command("test", "--policy-version", "2026.10.01")
    assert code == 1
    assert "policy_id: expected AD-POL-006, found BPD-DATA-009" in out
    code, out, _ = command("test", "--policy-version", "all")
    assert [line for line in out.splitlines() if line.startswith("policy version")] == [
        "policy version 2026.09.01: 48 cases, 0 differ",
        "policy version 2026.10.01: 48 cases, 3 differ",
    ]


def test_a_table_that_is_not_there_is_told(command: Command, world: Path) -> None:
    (world / "policies" / "expected.yaml").unlink()
    code, _, err = command("test")
    assert code == 2
    assert "expected.yaml is not there: name the table to test" in err


@pytest.fixture
def one_dataset(world: Path) -> Path:
    """The folder with one small dataset, which is quick to open."""
    for name in ("purification-batches", "chromatography-results"):
        shutil.rmtree(world / name)
    shutil.copytree(SHIPPED_DATASETS / "clinical-private" / "data", world / "clinical-private" / "data")
    return world


def test_validate_holds_policies_to_the_table_beside_them(
    command: Command, one_dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = one_dataset / "policies" / "expected.yaml"
    case = "{principal: clinical_reviewer, dataset: clinical-private, capability: search, verdict: "
    table.write_text(f"cases:\n  - {case}REFUSED}}\n", encoding="utf-8")
    assert run(["datasets", "validate"]) == 1
    out = capsys.readouterr().out
    assert (
        "policies/expected.yaml:2: fault: clinical_reviewer clinical-private search: verdict: expected REFUSED" in out
    )
    assert "can be served: clinical-private" in out
    table.write_text("cases: []", encoding="utf-8")
    assert run(["datasets", "validate"]) == 1
    assert "policies/expected.yaml: fault: it holds no case" in capsys.readouterr().out


def test_validate_looks_at_every_version(
    command: Command, one_dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _in_versions(one_dataset)
    (one_dataset / "policies" / "2026.10.01" / "clinical.cedar").write_text("permit", encoding="utf-8")
    assert run(["datasets", "validate"]) == 1
    assert "policies/2026.10.01/clinical.cedar:1: fault: " in capsys.readouterr().out


def test_doctor_tells_policies_that_were_edited_without_another_version(
    command: Command, world: Path, tmp_path: Path
) -> None:
    from control_plane.policy import load_policies
    from control_plane.policy_seen import told_apart
    from dataset_agent.configuration import load_settings
    from dataset_agent.doctor import _policies

    policies = world / "policies"
    told_apart(load_policies(policies), world, tmp_path / "home", remember=True)
    assert _policies(load_settings()).advice == ""
    (policies / "clinical.cedar").write_text((policies / "clinical.cedar").read_text() + "\n// more", encoding="utf-8")
    found = _policies(load_settings())
    assert (found.status, "still version 2026.09.01" in found.advice) == ("ok", True)


def test_one_decision_that_was_tried_is_one(command: Command) -> None:
    _, shown, _ = command("explain", "compare_batches", "--as", "nobody", *CALL)
    assert "\n1 decision was tried, one fact at a time." in shown
