"""Which datasets the trust file believes of an agent, and whether an agent may ask at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from contract.errors import DatasetAgentError
from contract.settings import Settings
from grants.key_store import KeyName
from grants.keys import init_keys
from grants.rotation import stage, switch
from grants.trust import Trust, TrustedAgent, load_trust
from grants.trust_editor import edit_trust
from tests.grants.grants_world import NOW, signer

KEYS = [signer(seed).public_key for seed in (41, 42, 43)]


def entry(name: str, key: int, *lines: str) -> str:
    x = KEYS[key].jwk()["x"]
    return "\n".join(["[[agent]]", f'id = "urn:{name}"', f'url = "https://{name}.example"', f'key = "{x}"', *lines, ""])


def load(tmp_path: Path, *entries: str) -> Trust:
    path = tmp_path / "trust.toml"
    path.write_text("".join(entries))
    return load_trust(path)


def test_what_the_file_does_not_say_is_not_taken_for_nothing(tmp_path: Path) -> None:
    trust = load(
        tmp_path,
        entry("a", 0),
        entry("b", 1, "datasets = []"),
        entry("c", 2, 'datasets = ["runs", "batches"]', "asks = false"),
    )
    told = {name: (agent.datasets, agent.asks) for name, agent in trust.agents.items()}
    assert told == {
        "urn:a": (None, True),
        "urn:b": (frozenset(), True),
        "urn:c": (frozenset({"runs", "batches"}), False),
    }


@pytest.mark.parametrize(
    ("entries", "says"),
    [
        ([entry("a", 0, 'datasets = ["runs"]'), entry("b", 1, 'datasets = ["batches", "runs"]')], "runs stands.*twice"),
        ([entry("a", 0, 'datasets = ["runs", "runs"]')], "runs stands.*twice"),
        ([entry("a", 0, 'datasets = ["Runs"]')], "datasets"),
        ([entry("a", 0, 'datasets = "runs"')], "datasets"),
        ([entry("a", 0, "datasets = [1]")], "datasets"),
        ([entry("a", 0, 'asks = "false"')], "asks"),
        ([entry("a", 0, "asks = 0")], "asks"),
    ],
)
def test_no_dataset_is_listed_for_two_agents_and_nothing_is_guessed(
    tmp_path: Path, entries: list[str], says: str
) -> None:
    with pytest.raises(DatasetAgentError, match=says) as stop:
        load(tmp_path, *entries)
    assert stop.value.code == "grants.trust.invalid"


def test_an_edit_keeps_what_the_file_says_of_every_agent(tmp_path: Path) -> None:
    before = load(tmp_path, entry("a", 0, 'datasets = ["runs"]', "asks = false"), entry("b", 1, "datasets = []"))
    with edit_trust(tmp_path / "trust.toml") as trust:
        trust.enter_agent("urn:c", "https://c.example", KEYS[2], withdraw=False)
    after = load_trust(tmp_path / "trust.toml")
    assert {name: after.agents[name] for name in before.agents} == before.agents
    assert after.agents["urn:c"] == TrustedAgent("urn:c", "https://c.example", KEYS[2])


def test_no_change_of_keys_changes_what_an_agent_serves(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    init_keys(settings)
    text = settings.trust_path.read_text()
    agent = f'id = "{settings.agent_id}"'
    settings.trust_path.write_text(text.replace(agent, agent + '\ndatasets = ["runs"]\nasks = false'))

    def told() -> tuple[frozenset[str] | None, bool]:
        held = load_trust(settings.trust_path).agents[settings.agent_id]
        return held.datasets, held.asks

    for change in (
        lambda: stage(settings, KeyName.REMOTE, now=NOW),
        lambda: switch(settings, KeyName.REMOTE, now=NOW, at_once=True),
        lambda: init_keys(settings, force=True),
        lambda: init_keys(settings),
    ):
        change()
        assert told() == (frozenset({"runs"}), False)
    assert load_trust(settings.trust_path).agents[settings.agent_id].retired_keys


def test_a_new_agent_is_entered_with_the_datasets_it_serves(tmp_path: Path) -> None:
    load(tmp_path, entry("a", 0, 'datasets = ["runs"]'))
    with edit_trust(tmp_path / "trust.toml") as trust:
        trust.enter_agent("urn:b", "https://b.example", KEYS[1], withdraw=False, datasets=["batches"], asks=False)
        trust.enter_agent("urn:c", "https://c.example", KEYS[2], withdraw=False, datasets=[])
    agents = load_trust(tmp_path / "trust.toml").agents
    assert [(agent.datasets, agent.asks) for agent in agents.values()] == [
        (frozenset({"runs"}), True),
        (frozenset({"batches"}), False),
        (frozenset(), True),
    ]


def test_no_edit_gives_a_dataset_to_two_agents(tmp_path: Path) -> None:
    load(tmp_path, entry("a", 0, 'datasets = ["runs"]'))
    with (
        pytest.raises(DatasetAgentError, match="runs for urn:a already") as stop,
        edit_trust(tmp_path / "trust.toml") as trust,
    ):
        trust.enter_agent("urn:b", "https://b.example", KEYS[1], withdraw=False, datasets=["runs"])
    assert stop.value.code == "grants.trust.conflict"
    assert set(load_trust(tmp_path / "trust.toml").agents) == {"urn:a"}
