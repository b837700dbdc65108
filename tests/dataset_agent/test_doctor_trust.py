"""``doctor`` on whom this side believes: which datasets the agents serve that it asks."""

from __future__ import annotations

from pathlib import Path

import pytest

from contract.settings import Settings
from dataset_agent.doctor_trust import check_trust
from dataset_agent.finding import Finding
from examples.two_agents.homes import BATCHES, CHROMATOGRAPHY, PURIFICATION, Homes, build_homes
from grants.keys import init_keys
from grants.trust_editor import edit_trust
from tests.grants.grants_world import signer

DELEGATION = f"delegation of {BATCHES} assess_polishing"


@pytest.fixture
def homes(tmp_path: Path) -> Homes:
    return build_homes(tmp_path, purification_url="http://127.0.0.1:1", chromatography_url="http://127.0.0.1:2")


def change(settings: Settings, before: str, after: str) -> None:
    text = settings.trust_path.read_text()
    assert before in text
    settings.trust_path.write_text(text.replace(before, after))


def found(settings: Settings) -> list[Finding]:
    return list(check_trust(settings))


def test_of_several_agents_one_without_a_list_is_told(homes: Homes) -> None:
    assert found(homes.root) == []
    change(homes.root, f'datasets = ["{BATCHES}"]\n', "")
    (finding,) = found(homes.root)
    assert (finding.check, finding.status) == (f"datasets of {PURIFICATION}", "broken")
    assert "name them in trust.toml" in finding.advice


@pytest.mark.parametrize("datasets", [None, []])
def test_a_lone_agent_needs_no_list_and_a_client_is_no_second_one(tmp_path: Path, datasets: list[str] | None) -> None:
    settings = Settings(home=tmp_path)
    init_keys(settings)
    with edit_trust(settings.trust_path) as trust:
        trust.enter_agent("urn:client", "https://c.example", signer(51).public_key, withdraw=False, datasets=datasets)
    told = [finding.check for finding in found(settings)]
    assert told == ([] if datasets == [] else [f"datasets of {settings.agent_id}", "datasets of urn:client"])


@pytest.mark.parametrize(
    ("before", "after", "status", "says"),
    [
        ('datasets = ["chromatography-results"]\n', "", "ok", "believed any"),
        ('["chromatography-results"]', '["elsewhere"]', "broken", "does not list chromatography-results"),
        (f'id = "{CHROMATOGRAPHY}"', 'id = "urn:other"', "broken", f"pins no key for {CHROMATOGRAPHY}"),
    ],
)
def test_a_served_capability_that_asks_whom_the_trust_file_does_not_say_is_told(
    homes: Homes, before: str, after: str, status: str, says: str
) -> None:
    change(homes.purification, before, after)
    (finding,) = found(homes.purification)
    assert (finding.check, finding.status, says in finding.advice) == (DELEGATION, status, True)


def test_what_other_checks_tell_is_not_told_twice(tmp_path: Path, homes: Homes) -> None:
    assert found(Settings(home=tmp_path / "none")) == []
    assert found(homes.purification.model_copy(update={"datasets": tmp_path / "none"})) == []
    homes.root.trust_path.write_text("x")
    assert found(homes.root) == []
