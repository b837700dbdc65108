"""What ``datasets list`` and ``datasets schema`` say is what a serving agent serves, and an edit is served by itself."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from contract.settings import SHIPPED_DATASETS
from tests.dataset_agent.command_line import PATIENCE_S, CommandLine, Served, served
from tests.dataset_agent.dataset_makers import FLIGHTS, csv_file, made_of, words

pytestmark = pytest.mark.live

COUNT = ("call", "summarise_flights", "--as", "analyst", "--dataset", "flights", "--json")


class Publisher:
    """Somebody with a datasets folder, and an agent that serves it and looks for edits often."""

    def __init__(self, world: Path, agent: Served, settings: dict[str, str]) -> None:
        self.world, self.agent = world, agent
        self.command = CommandLine(settings | {"URL": agent.url})

    def file(self, name: str) -> Path:
        return self.world / "flights" / name

    def edit(self, name: str, old: str, new: str) -> None:
        text = self.file(name).read_text(encoding="utf-8")
        assert old in text
        self.file(name).write_text(text.replace(old, new, 1), encoding="utf-8")

    def listed(self) -> dict[str, Any]:
        (line,) = self.command("datasets", "list", "--json").json["datasets"]
        return dict(line)

    def on_card(self) -> dict[str, Any]:
        (line,) = self.command("card", "--json").json["datasets"]
        return dict(line)

    def rows(self) -> int:
        """How many rows the agent counts now."""
        return sum(row[1] for row in self.command(*COUNT).json["result"]["rows"])

    def until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < deadline, "it was not taken over"
            time.sleep(0.2)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    return made_of(folder, csv_file(folder, FLIGHTS)).folder


@pytest.fixture
def publisher(made: Path, tmp_path: Path) -> Iterator[Publisher]:
    world = Path(shutil.copytree(made, tmp_path / "world"))
    settings = {"HOME": str(tmp_path / "home"), "DATASETS": str(world), "WATCH_INTERVAL": "0.2"}
    assert CommandLine(settings)("keys", "init").code == 0
    with served("serve", **settings) as agent:
        yield Publisher(world, agent, settings)


def test_the_list_has_the_revision_and_the_capabilities_that_are_served_also_after_new_data(
    publisher: Publisher,
) -> None:
    listed, card = publisher.listed(), publisher.on_card()
    assert (listed["dataset"], listed["version"], listed["revision"]) == ("flights", card["version"], card["revision"])
    assert listed["capabilities"] == [capability["name"] for capability in card["capabilities"]]
    assert publisher.rows() == 6
    new = publisher.file("data/flights.csv.new")
    new.write_text(FLIGHTS + "UA,EWR,1,1.0,10,2013-01-03T10:00:00Z\n", encoding="utf-8")
    new.rename(publisher.file("data/flights.csv"))
    assert publisher.listed()["revision"] != listed["revision"]
    publisher.until(lambda: publisher.on_card()["revision"] == publisher.listed()["revision"])
    assert publisher.rows() == 7


def test_the_list_reads_what_is_there_while_the_agent_goes_on_with_what_was(publisher: Publisher) -> None:
    before = publisher.on_card()
    text = publisher.file("descriptor.yaml").read_text(encoding="utf-8")
    publisher.file("descriptor.yaml").write_text("dataset: [", encoding="utf-8")
    publisher.agent.line_with("dataset flights is served as it was before an edit")
    assert (publisher.listed()["status"], publisher.listed()["revision"]) == ("broken", None)
    assert publisher.on_card() == before
    publisher.file("descriptor.yaml").write_text(text, encoding="utf-8")
    publisher.agent.line_with("dataset flights is put right, and served as it is now")
    assert publisher.listed()["status"] == "readable"


def test_whoever_asks_with_another_folder_than_the_served_one_is_told(publisher: Publisher) -> None:
    question = ("ask", "--as", "analyst", "List flights")
    refused = publisher.command(*question, DATASETS=str(SHIPPED_DATASETS))
    assert refused.code == 3
    assert f"nobody in {SHIPPED_DATASETS} is entitled to flights: if another folder is served" in words(refused)
    guest = publisher.command("ask", "--as", "guest", "List flights")
    assert (guest.code, "another folder" in words(guest)) == (3, False)


def test_an_edit_of_each_kind_of_file_is_served_without_a_command(publisher: Publisher) -> None:
    publisher.edit("templates/summarise_flights.sql", "COUNT(*) AS row_count", "2 * COUNT(*) AS row_count")
    publisher.until(lambda: publisher.rows() == 12)
    publisher.edit("descriptor.yaml", 'version: "1"', 'version: "2"')
    publisher.until(lambda: publisher.on_card()["version"] == "2")
    people = publisher.world / "principals.yaml"
    people.write_text(people.read_text(encoding="utf-8").replace("summarise_flights]", "]"), encoding="utf-8")
    publisher.until(lambda: publisher.command(*COUNT).code == 3)


def test_broken_policies_are_not_taken_over_and_their_mending_is_told(publisher: Publisher) -> None:
    policies = publisher.world / "policies" / "flights.cedar"
    text, before = policies.read_text(encoding="utf-8"), publisher.on_card()
    policies.write_text(text.replace("context.entitled", "context.entitld"), encoding="utf-8")
    publisher.agent.line_with("reload refused, the old version stays in force: policies/flights.cedar:")
    assert publisher.on_card() == before
    policies.write_text(text, encoding="utf-8")
    publisher.agent.line_with("reload accepted: what was refused before is put right")
    assert publisher.rows() == 6


def test_what_the_schema_names_is_what_a_served_descriptor_may_have(publisher: Publisher) -> None:
    schema = json.loads(publisher.command("datasets", "schema").out)
    assert schema == json.loads((publisher.world / "descriptor.schema.json").read_text(encoding="utf-8"))
    assert "freshness" in schema["properties"]
    assert schema["additionalProperties"] is False
    publisher.edit("descriptor.yaml", "freshness:", "freshnes:")
    assert "write freshness" in publisher.agent.line_with("dataset flights is served as it was before an edit")
    publisher.edit("descriptor.yaml", "freshnes:", "freshness:")
    publisher.agent.line_with("dataset flights is put right")
