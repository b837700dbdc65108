"""What docs/operate.md says about a second dataset agent and about revoking a person is what happens."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from contract.settings import SHIPPED_DATASETS, Settings
from control_plane.principals import load_directory
from grants.keys import init_keys
from grants.trust import Trust, load_trust
from tests.dataset_agent.command_line import HOUSE, CommandLine
from tests.running_agent import running_agent

pytestmark = pytest.mark.live

PAGE = (HOUSE / "docs" / "operate.md").read_text(encoding="utf-8")
REMOTE, SECOND = "urn:dataset-agent:remote", "urn:dataset-agent:chromatography"


def section(title: str) -> str:
    found = re.search(rf"^## {title}\n(.*?)(?=^## )", PAGE, re.M | re.S)
    assert found is not None
    return found[1]


def trust_files() -> list[str]:
    """The second agent's, and the root agent's."""
    return re.findall(r"^```toml\n(.*?)^```$", section("Adding a second dataset agent"), re.M | re.S)


def datasets(folder: Path, *names: str) -> Path:
    for name in (*names, "policies"):
        shutil.copytree(SHIPPED_DATASETS / name, folder / name)
    shutil.copy(SHIPPED_DATASETS / "principals.yaml", folder)
    return folder


def filled(text: str, pinned: Mapping[str, Trust], urls: Mapping[str, str]) -> str:
    """The page's file with the keys and addresses that are here; all else as it stands there."""
    issuer = next(issuer for trust in pinned.values() for issuer in trust.issuers.values())
    text = re.sub(r'^(keys) = \["[^"]+"\]', rf'\1 = ["{issuer.keys[0].jwk()["x"]}"]', text, flags=re.M)
    text = re.sub(
        r'^(identity_keys) = \["[^"]+"\]', rf'\1 = ["{issuer.identity_keys[0].jwk()["x"]}"]', text, flags=re.M
    )
    entries = re.split(r"(?m)^(?=\[\[agent\]\])", text)
    for agent_id, trust in pinned.items():
        key = trust.agents[agent_id].key.jwk()["x"]
        for number, entry in enumerate(entries):
            if f'id = "{agent_id}"' in entry:
                entry = re.sub(r'^key = ".*"', f'key = "{key}"', entry, flags=re.M)
                entries[number] = re.sub(r'^url = ".*"', f'url = "{urls[agent_id]}"', entry, flags=re.M)
    return "".join(entries)


@dataclass(frozen=True)
class Two:
    root: Settings
    second: Settings
    command: CommandLine


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    folder = tmp_path_factory.mktemp("two")
    first = Settings(home=folder / "first", datasets=datasets(folder / "one", "purification-batches"))
    second = Settings(
        home=folder / "second", datasets=datasets(folder / "other", "chromatography-results"), agent_id=SECOND
    )
    init_keys(first)
    init_keys(second, roles=("remote",))
    own = load_trust(first.trust_path)
    pinned = {first.root_id: own, REMOTE: own, SECOND: load_trust(second.trust_path)}
    away = dict.fromkeys(pinned, "http://127.0.0.1:9")
    of_second, of_root = trust_files()
    second.trust_path.write_text(filled(of_second, pinned, away))
    with running_agent(first) as one, running_agent(second) as other:
        urls = away | {REMOTE: one.url, SECOND: other.url}
        first.trust_path.write_text(filled(of_root, pinned, urls))
        yield Two(
            first, second, CommandLine({"HOME": str(first.home), "DATASETS": str(first.datasets), "URL": one.url})
        )


def test_each_file_of_the_page_is_one_that_loads() -> None:
    for text, agents in zip(trust_files(), (2, 3), strict=True):
        assert text.count("[[agent]]") == agents


def test_each_agent_is_asked_for_what_the_file_has_it_for(two: Two) -> None:
    for dataset, arguments in (
        ("chromatography-results", ("search", "query=B017")),
        ("purification-batches", ("calculate_yield", "batch_id=B003")),
    ):
        capability, argument = arguments
        run = two.command(
            "call", capability, "--as", "process_engineer", "--dataset", dataset, "--arg", argument, "--json"
        )
        assert run.code == 0, run.err
        assert run.json["dataset"] == dataset
    assert two.command("card", "--agent", SECOND).code == 0


def test_the_second_agent_answers_nobody_but_the_root_agent(two: Two) -> None:
    trust = load_trust(two.second.trust_path)
    assert {name for name, agent in trust.agents.items() if agent.asks} == {two.root.root_id}


def test_a_ledger_of_the_second_agent_is_verified_from_the_root_agents_file(two: Two) -> None:
    ledger = str(two.second.home / "remote" / "ledger.sqlite")
    assert two.command("evidence", "verify", "--ledger", ledger, "--agent", SECOND).code == 0


def test_the_subject_of_a_person_is_where_the_page_looks_for_it() -> None:
    shown = re.search(r"^\$ grep .*\n(.*?)^```$", section("Revoking a person"), re.M | re.S)
    assert shown is not None
    assert shown[1] in (SHIPPED_DATASETS / "principals.yaml").read_text(encoding="utf-8")
    found = load_directory(SHIPPED_DATASETS / "principals.yaml").named("process_engineer")
    assert found is not None
    assert f"--subject {found.subject}" in section("Revoking a person")


def test_who_is_revoked_by_subject_is_refused_and_by_a_label_is_not(two: Two) -> None:
    person = ["call", "calculate_yield", "--as", "process_engineer", "--dataset", "purification-batches"]
    person += ["--arg", "batch_id=B003"]
    assert two.command("grant", "revoke", "--subject", "process_engineer").code == 0
    assert two.command(*person).code == 0
    assert two.command("grant", "revoke", "--subject", "u-eng-01").code == 0
    refused = two.command(*person)  # within the 5 s after now that are revoked too
    assert (refused.code, "GRANT_REVOKED" in refused.err) == (3, True)
