"""Whatever policy version a grant states: the receiver decides under the one that is in force there, or not at all."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contract.settings import SHIPPED_DATASETS, Settings
from tests.running_agent import Asker, RunningAgent, agent_home, decision_of, running_agent

pytestmark = pytest.mark.live

CALL = ("clinical-private", "search", {"query": "dizziness"})
STATED = "2026.09.01"  # by every grant of ``Asker``


def _folder(folder: Path) -> Path:
    """One dataset; the shipped policies as the old version, and a new one that forbids everything."""
    shutil.copytree(SHIPPED_DATASETS / "clinical-private", folder / "clinical-private")
    shutil.copy(SHIPPED_DATASETS / "principals.yaml", folder)
    for version in (STATED, "2026.10.01"):
        held = folder / "policies" / version
        held.mkdir(parents=True)
        for path in (*SHIPPED_DATASETS.glob("policies/*.cedar"), *SHIPPED_DATASETS.glob("policies/*.cedarschema")):
            shutil.copy(path, held)
    newer = folder / "policies" / "2026.10.01" / "clinical.cedar"
    newer.write_text(newer.read_text() + '@id("NEW-1") forbid (principal, action, resource);\n', encoding="utf-8")
    _put_in_force(folder, STATED)
    return folder


def _put_in_force(folder: Path, version: str) -> None:
    (folder / "policies" / "current.new").write_text(version, encoding="utf-8")
    (folder / "policies" / "current.new").replace(folder / "policies" / "current")


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[RunningAgent]:
    settings = agent_home(tmp_path / "home", datasets=_folder(tmp_path / "datasets"), watch_interval=0)
    with running_agent(settings) as served:
        yield served


def _ask(agent: RunningAgent) -> dict[str, Any]:
    return decision_of(Asker(agent.settings, agent.url, "clinical_reviewer").ask(*CALL))


def _reload(agent: RunningAgent) -> None:
    agent.run(agent.lifecycle.reload())
    assert agent.lifecycle.fault is None


def _accept(settings: Settings, *versions: str) -> None:
    text = settings.trust_path.read_text(encoding="utf-8")
    kept = text.partition("policy_versions = ")
    rest = kept[2].partition("\n")[2] if kept[1] else text
    listed = ", ".join(f'"{version}"' for version in versions)
    settings.trust_path.write_text(
        f"policy_versions = [{listed}]\n{kept[0] if kept[1] else ''}{rest}", encoding="utf-8"
    )


def test_a_grant_of_an_older_version_that_is_known_is_decided_under_the_one_in_force(agent: RunningAgent) -> None:
    assert (_ask(agent)["verdict"], _ask(agent)["policy_version"]) == ("GRANTED", STATED)
    _put_in_force(agent.settings.datasets, "2026.10.01")
    _accept(agent.settings, STATED, "2026.10.01")
    _reload(agent)
    decision = _ask(agent)
    told = (decision["verdict"], decision["policy_id"], decision["policy_version"])
    assert told == ("REFUSED", "NEW-1", "2026.10.01")
    _put_in_force(agent.settings.datasets, STATED)
    _reload(agent)
    assert _ask(agent)["verdict"] == "GRANTED"


def test_a_grant_of_a_version_that_is_not_accepted_is_decided_by_nobody(agent: RunningAgent) -> None:
    _accept(agent.settings, "2026.10.01")
    _reload(agent)
    decision = _ask(agent)
    told = (decision["verdict"], decision["reason"], decision["policy_id"])
    assert told == ("INDETERMINATE", "UNKNOWN_POLICY_VERSION", None)


def test_a_version_that_cannot_be_used_leaves_the_old_one_in_force(agent: RunningAgent) -> None:
    broken = agent.settings.datasets / "policies" / "2026.10.01" / "clinical.cedar"
    broken.write_text("permit", encoding="utf-8")
    _reload(agent)
    _put_in_force(agent.settings.datasets, "2026.10.01")
    agent.run(agent.lifecycle.reload())
    assert "policies/2026.10.01/clinical.cedar:1" in str(agent.lifecycle.fault)
    assert (_ask(agent)["verdict"], _ask(agent)["policy_version"]) == ("GRANTED", STATED)


def test_an_edit_without_another_version_is_in_force_and_told(
    agent: RunningAgent, caplog: pytest.LogCaptureFixture
) -> None:
    policy = agent.settings.datasets / "policies" / STATED / "clinical.cedar"
    policy.write_text(policy.read_text() + '@id("NEW-1") forbid (principal, action, resource);\n', encoding="utf-8")
    _reload(agent)
    assert _ask(agent)["policy_id"] == "NEW-1"
    assert any(f"edited and are still version {STATED}" in record.message for record in caplog.records)
