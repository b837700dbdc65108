"""``card`` of any pinned agent: by its address or by its id, each verified with that agent's own key."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from grants.trust import load_trust
from grants.trust_editor import edit_trust
from tests.dataset_agent.command_line import CommandLine
from tests.evidence.evidence_builders import SeedSigner
from tests.running_agent import RunningAgent, agent_home, running_agent

pytestmark = pytest.mark.live

OTHER = "urn:dataset-agent:other"


@pytest.fixture(scope="module")
def other(agent: RunningAgent, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAgent]:
    """A second dataset agent, which the trust file of the first has at its address."""
    home = agent_home(tmp_path_factory.mktemp("other"), agent_id=OTHER)
    with running_agent(home) as running:
        with edit_trust(agent.settings.trust_path) as trust:
            trust.enter_agent(OTHER, running.url, load_trust(home.trust_path).agents[OTHER].key, withdraw=False)
        yield running


def test_an_address_alone_is_verified_as_the_agent_that_is_pinned_there(
    command: CommandLine, other: RunningAgent
) -> None:
    told = command("card", other.url + "/", "--json")
    assert told.code == 0, told.err
    assert told.json["agent_id"] == OTHER
    assert told.json["kid"] == other.lifecycle.service.signer.public_key.thumbprint


def test_the_address_of_the_card_itself_is_that_of_its_agent(command: CommandLine, other: RunningAgent) -> None:
    told = command("card", other.url + "/.well-known/agent-card.json", "--json")
    assert told.code == 0, told.err
    assert told.json["agent_id"] == OTHER


def test_an_id_alone_is_fetched_from_its_address(command: CommandLine, other: RunningAgent) -> None:
    told = command("card", "--agent", OTHER, "--json").json
    assert (told["agent_id"], told["url"]) == (OTHER, other.url)
    assert command("card", "--json").json["agent_id"] == "urn:dataset-agent:remote"


def test_a_tool_is_shown_where_its_dataset_has_the_door(command: CommandLine) -> None:
    told, shown = command("card", "--json").json, command("card").out
    tools = [
        capability["mcp_tool_name"]
        for dataset in told["datasets"]
        for capability in dataset["capabilities"]
        if (dataset.get("endpoints") or {}).get("mcp") and capability.get("mcp_tool_name")
    ]
    assert "search_batches" in tools
    assert [line.split()[-1] for line in shown.splitlines() if "over MCP the tool" in line] == tools


def test_who_is_at_an_address_that_is_not_pinned_is_said_to_be_a_guess(
    command: CommandLine, other: RunningAgent
) -> None:
    elsewhere = other.url.replace("127.0.0.1", "localhost")
    run = command("card", elsewhere)
    assert run.code == 4
    pinned = load_trust(Path(command.settings["HOME"]) / "trust.toml").agents["urn:dataset-agent:remote"]
    told = f"so it was taken for {pinned.id}, which is at {pinned.url} there: --agent names another"
    assert f"has no agent at {elsewhere}, {told}" in run.line
    assert "so it was taken for" not in command("card", elsewhere, "--agent", OTHER).err


def test_an_address_of_two_agents_wants_the_one_that_is_meant(command: CommandLine, other: RunningAgent) -> None:
    with edit_trust(Path(command.settings["HOME"]) / "trust.toml") as trust:
        trust.enter_agent("urn:dataset-agent:twin", other.url, SeedSigner(77).public_key, withdraw=False)
    run = command("card", other.url)
    assert run.code == 2
    assert run.line.endswith(f"has {OTHER}, urn:dataset-agent:twin at {other.url}: say which with --agent")
    assert command("card", other.url, "--agent", OTHER).code == 0


def test_what_a_parameter_may_be_and_is_without_is_shown(command: CommandLine) -> None:
    shown = command("card").out
    metrics = "resolution, asymmetry, area_pct, retention, peak_width, signal_to_noise, hetp, pressure_drop"
    assert f"takes metric STRING, one of {metrics}" in " ".join(shown.split())
    assert (
        "    takes from_day DATE; else 0001-01-01\n"
        "          to_day DATE; else 9999-12-31\n"
        "          sites STRING, any of Basel, Dublin, Durham, Singapore; else none\n"
        "          per STRING, one of day, site_and_step, site, step, all; else step\n"
        "          period, a period that says from_day and to_day at once\n"
    ) in shown
