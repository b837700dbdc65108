"""What is for development refuses where people are real: one line that says what to unset, before anything is served."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.dataset_agent.command_line import CommandLine, served
from tests.running_agent import agent_home

pytestmark = pytest.mark.live

PROVIDER = {"OIDC_ISSUER": "https://idp.example", "OIDC_AUDIENCE": "root"}
PUBLIC = {"ROOT_URL": "https://root.example"}
SERVING = (("root", "--port", "0"), ("serve", "--port", "0"))
ASKING = (("login", "--as", "analyst"), ("ask", "--as", "analyst", "How many batches are there?"))


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    return CommandLine({"HOME": str(agent_home(tmp_path_factory.mktemp("home")).home)})


@pytest.mark.parametrize("production", [PROVIDER, PUBLIC], ids=["provider", "https"])
@pytest.mark.parametrize(
    ("development", "named"),
    [
        ({"DEV_ISSUER": "true"}, "DATASET_AGENT_DEV_ISSUER=true"),
        ({"AS_PRINCIPAL": "analyst"}, "DATASET_AGENT_AS_PRINCIPAL"),
    ],
)
@pytest.mark.parametrize("arguments", [*SERVING, *ASKING], ids=lambda words: words[0])
def test_beside_production_settings_nothing_for_development_starts(
    command: CommandLine,
    arguments: tuple[str, ...],
    development: dict[str, str],
    named: str,
    production: dict[str, str],
) -> None:
    run = command(*arguments, **production, **development)
    assert run.code == 2
    assert run.line.startswith(f"error: unset {named}: DATASET_AGENT_")


@pytest.mark.parametrize("production", [PROVIDER, PUBLIC], ids=["provider", "https"])
@pytest.mark.parametrize("arguments", ASKING, ids=lambda words: words[0])
def test_in_production_the_development_issuer_is_off_without_being_told(
    command: CommandLine, arguments: tuple[str, ...], production: dict[str, str]
) -> None:
    run = command(*arguments, **production)
    assert run.code == 1
    assert run.line.startswith("error: the development issuer is off (DATASET_AGENT_")


@pytest.mark.parametrize("given", [{"DEV_ISSUER": "false"}, PUBLIC])
def test_a_root_agent_that_could_admit_nobody_does_not_start(command: CommandLine, given: dict[str, str]) -> None:
    run = command("root", "--port", "0", **given)
    assert run.code == 2
    assert "DATASET_AGENT_OIDC_ISSUER" in run.line


def test_a_setting_that_does_not_parse_is_one_line_with_its_name_and_not_its_value(command: CommandLine) -> None:
    run = command("root", "--port", "0", **PROVIDER, OIDC_REQUIRED='{"azp": 1.5, "marker": "x"}')
    assert run.code == 2
    assert "DATASET_AGENT_OIDC_REQUIRED" in run.line and "marker" not in run.line


def test_a_file_of_authorities_that_is_none_stops_the_start(command: CommandLine, tmp_path: Path) -> None:
    run = command("root", "--port", "0", **PROVIDER, OIDC_CA_FILE=str(tmp_path / "none.pem"))
    assert run.code == 1
    assert "DATASET_AGENT_OIDC_CA_FILE" in run.line


def test_doctor_finds_a_provider_that_does_not_answer_and_what_excludes_another(command: CommandLine) -> None:
    settings = {"OIDC_ISSUER": "http://127.0.0.1:1", "OIDC_AUDIENCE": "root", "AS_PRINCIPAL": "analyst"}
    run = command("doctor", "--json", **settings)
    broken = {finding["check"]: finding["advice"] for finding in run.json["findings"] if finding["status"] == "broken"}
    assert run.code == 1
    assert "cannot be read" in broken["identity provider http://127.0.0.1:1"]
    assert "DATASET_AGENT_AS_PRINCIPAL" in broken["production settings"]


def test_a_root_agent_off_loopback_says_what_the_development_issuer_means(command: CommandLine) -> None:
    with served("root", "--host", "0.0.0.0", **command.settings) as root:
        assert any("the development issuer is on" in line for line in root.said)
