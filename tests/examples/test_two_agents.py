"""The example of two dataset agents, run as a person runs it: everything it claims holds, offline too."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from contract.settings import Settings
from dataset_agent.doctor_trust import check_trust
from examples.two_agents.__main__ import Story
from examples.two_agents.homes import CHROMATOGRAPHY, PURIFICATION, ROOT, build_homes
from examples.two_agents.middle import TRIES
from grants.trust import load_trust
from tests.dataset_agent.command_line import CommandLine

pytestmark = pytest.mark.live

HOUSE = Path(__file__).resolve().parents[2]


def run(*options: str) -> subprocess.CompletedProcess[str]:
    foreign = {"DATASET_AGENT_HOME": "/no/such/home", "DATASET_AGENT_URL": "http://127.0.0.1:1", "COLUMNS": "80"}
    command = [sys.executable, "-m", "examples.two_agents", *options]
    return subprocess.run(
        command, cwd=HOUSE, env=os.environ | foreign, capture_output=True, text=True, timeout=120, check=False
    )


def verified_again(said: str) -> None:
    """What an auditor does afterwards, as the example says it."""
    first, *lines = said.splitlines()
    kept = Path(first.rpartition(": ")[2])
    try:
        assert [line.split()[2:4] for line in lines] == [["provenance", "verify"], *2 * [["evidence", "verify"]]]
        for line in lines:
            setting, _, *arguments = line.split()
            name, _, value = setting.partition("=")
            away = CommandLine({"HOME": str(kept / "none"), name.removeprefix("DATASET_AGENT_"): value})
            run = away(*arguments)
            assert run.code == 0, run.err
    finally:
        shutil.rmtree(kept)


def test_the_example_holds_and_says_so_to_programs() -> None:
    done = run("--json", "--keep")
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    verified_again(done.stderr)
    assert told["ok"] is True
    assert [entry["agent"] for entry in told["provenance"]] == [ROOT, PURIFICATION, CHROMATOGRAPHY]
    assert [step["to"] for step in told["chain"]] == [ROOT, PURIFICATION, CHROMATOGRAPHY]
    assert [entry["reason"] for entry in told["refused"][:-1]] == [each.reason for each in TRIES]
    assert told["result"]["row_count"] == 2
    by_name = [
        dict(zip([c["name"] for c in told["result"]["schema"]], row, strict=True)) for row in told["result"]["rows"]
    ]
    assert {row["step_name"]: (row["runs"], row["pool_monomer_pct"]) for row in by_name} == {
        "cex_polishing": (18, 97.88),
        "aex_polishing": (3, 98.15),
    }


def test_the_example_fits_eighty_columns_and_holds_for_people() -> None:
    done = run()
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert max(len(line) for line in lines) <= 80
    assert lines[-1] == "Everything held."
    assert "NOT OK" not in done.stdout


def test_one_step_that_does_not_hold_is_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    story = Story(as_json=True)
    story.step("a", "as it should be", ok=True)
    story.step("b", "not as it should be", ok=False)
    story.step("c", "as it should be", ok=True)
    assert story.end() == 1
    assert json.loads(capsys.readouterr().out)["ok"] is False


def test_the_three_share_nothing_but_public_keys(tmp_path: Path) -> None:
    homes = build_homes(tmp_path, purification_url="http://127.0.0.1:1", chromatography_url="http://127.0.0.1:2")
    known = {
        name: set(load_trust(settings.trust_path).agents)
        for name, settings in (
            (ROOT, homes.root),
            (PURIFICATION, homes.purification),
            (CHROMATOGRAPHY, homes.chromatography),
        )
    }
    assert known == {
        ROOT: {ROOT, PURIFICATION, CHROMATOGRAPHY},
        PURIFICATION: {ROOT, PURIFICATION, CHROMATOGRAPHY},
        CHROMATOGRAPHY: {PURIFICATION, CHROMATOGRAPHY},
    }
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.jwk")) == [
        "chromatography/keys/remote/agent.jwk",
        "purification/keys/remote/agent.jwk",
        "root/keys/issuer/grant.jwk",
        "root/keys/issuer/identity.jwk",
        "root/keys/root/holder.jwk",
    ]


def test_each_says_for_itself_whose_data_is_where_and_who_only_answers(tmp_path: Path) -> None:
    homes = build_homes(tmp_path, purification_url="http://127.0.0.1:1", chromatography_url="http://127.0.0.1:2")
    batches, runs = frozenset({"purification-batches"}), frozenset({"chromatography-results"})

    def told(settings: Settings) -> dict[str, tuple[frozenset[str] | None, bool]]:
        agents = load_trust(settings.trust_path).agents
        return {name: (agent.datasets, agent.asks) for name, agent in agents.items() if agent.datasets is not None}

    assert told(homes.root) == {PURIFICATION: (batches, True), CHROMATOGRAPHY: (runs, True)}
    assert told(homes.purification) == {ROOT: (frozenset(), True), CHROMATOGRAPHY: (runs, False)}
    assert told(homes.chromatography) == {PURIFICATION: (frozenset(), True)}
    findings = [finding for settings in (homes.root, homes.purification) for finding in check_trust(settings)]
    assert [(finding.check, finding.status, finding.advice) for finding in findings] == [
        ("delegation of purification-batches assess_polishing", "ok", "")
    ]
