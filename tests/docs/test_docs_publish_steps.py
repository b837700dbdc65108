"""Whoever follows "Within the hour" of docs/publish.md has a dataset that answers three questions, as the page says."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.dataset_agent.command_line import CommandLine, Run, served

pytestmark = pytest.mark.live

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "publish.md").read_text(encoding="utf-8")
STEPS = PAGE[PAGE.index("## Within the hour") : PAGE.index("\n## 1. ")]
COMMANDS = [shlex.split(line) for line in re.findall(r"^\$ dataset-agent (.*)$", STEPS, re.MULTILINE)]
BLOCK = re.compile(r"^```(csv|cedar|yaml)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
REPLACED = re.compile(r"Replace `([\w./]+)` by:\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HELD = re.compile(r"[0-9a-f]{32}")


class Newcomer:
    """Somebody in a folder of their own who types what the page says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.command = CommandLine({"HOME": str(folder / "home"), "DATASETS": str(folder / "world")})

    def types(self, *words: str, **settings: str) -> Run:
        """A file or folder is named from the folder that they are in."""
        here = [str(self.folder / word) if word in ("world", "flights.csv") else word for word in words]
        return self.command(*here, **settings)

    def typed(self, name: str) -> list[list[str]]:
        """The lines of the page that run a command."""
        return [words for words in COMMANDS if " ".join(words).startswith(name)]


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Newcomer, str]]:
    """After step 4: the agent is served, with what the page says to edit."""
    folder = tmp_path_factory.mktemp("newcomer")
    who = Newcomer(folder)
    sample = next(body for kind, body in BLOCK.findall(STEPS) if kind == "csv")
    (folder / "flights.csv").write_text(sample, encoding="utf-8")
    (init,) = who.typed("datasets init world --from flights.csv")
    for words in (init, who.typed("datasets validate")[0]):
        run = who.types(*words)
        assert (run.code, run.err) == (0, ""), run
    for name, body in REPLACED.findall(STEPS):
        assert (folder / name).exists()
        (folder / name).write_text(body, encoding="utf-8")
    for words in (who.typed("datasets validate")[1], *who.typed("keys init")):
        run = who.types(*words)
        assert run.code == 0, run
    assert "0 faults, 0 warnings" in " ".join(who.types(*who.typed("datasets validate")[1]).out.split())
    with served("serve", **who.command.settings) as agent:
        yield who, agent.url


def asked(newcomer: tuple[Newcomer, str], number: int) -> Run:
    who, url = newcomer
    questions = [words for words in COMMANDS if words[0] in ("ask", "call")]
    return who.types(*questions[number], "--json", URL=url)


def test_the_first_question_counts_the_flights_of_the_analysts_airports(newcomer: tuple[Newcomer, str]) -> None:
    rows = asked(newcomer, 0).json["result"]["rows"]
    said = re.search(r"of the\nten lines above (.*?), because", STEPS, re.DOTALL)
    assert said is not None
    assert [f"{carrier} {count}" for carrier, count, *_ in rows] == re.findall(r"`(\w\w \d)`", said[1])


def test_the_second_question_shows_one_flight_with_its_aircraft_hashed(newcomer: tuple[Newcomer, str]) -> None:
    result = asked(newcomer, 1).json["result"]
    (row,) = result["rows"]
    names = [column["name"] for column in result["schema"]]
    assert (row[names.index("carrier")], row[names.index("origin")]) == ("UA", "LGA")
    assert HELD.fullmatch(row[names.index("tailnum")])


def test_the_call_is_one_page_of_one_row(newcomer: tuple[Newcomer, str]) -> None:
    told = asked(newcomer, 2).json
    assert (told["arguments"]["carrier"], told["result"]["row_count"]) == ("B6", 1)


def test_a_flight_from_another_airport_is_not_shown(newcomer: tuple[Newcomer, str]) -> None:
    who, url = newcomer
    assert '"Show flights from JFK" would show none' in STEPS.replace("`", "")
    told = who.types("ask", "--as", "analyst", "Show flights from JFK", "--json", URL=url).json
    assert (told["verdict"], told["arguments"]["origin"], told["result"]["rows"]) == ("GRANTED", "JFK", [])


def test_the_guest_is_refused_and_nothing_runs(newcomer: tuple[Newcomer, str]) -> None:
    told = asked(newcomer, 3)
    assert told.code == 3
    assert (told.json["verdict"], told.json["result"], told.json["tool_calls"]) == ("REFUSED", None, [])


def test_an_edit_is_served_without_a_command(tmp_path: Path, newcomer: tuple[Newcomer, str]) -> None:
    """A second agent over the same folder, which looks for edits often."""
    who, _ = newcomer
    settings = dict(who.command.settings) | {"WATCH_INTERVAL": "0.2", "LOG_LEVEL": "INFO"}
    template = who.folder / "world" / "flights" / "templates" / "list_flights.sql"
    text = template.read_text(encoding="utf-8")
    try:
        with served("serve", **settings) as agent:
            template.write_text(text.replace("t.carrier AS carrier", "t.carier AS carrier"), encoding="utf-8")
            assert "list_flights.sql:3: " in agent.line_with("is served as it was before an edit")
            told = who.types("ask", "--as", "analyst", "Show flights with carrier UA from LGA", "--json", URL=agent.url)
            assert told.json["verdict"] == "GRANTED"
    finally:
        template.write_text(text, encoding="utf-8")


def test_a_second_dataset_changes_nothing_of_the_first(newcomer: tuple[Newcomer, str]) -> None:
    who, _ = newcomer
    assert "datasets init world --from weather.csv --into" in STEPS
    (who.folder / "weather.csv").write_text("origin,temp\nEWR,39.02\nJFK,\n", encoding="utf-8")
    first = (who.folder / "world" / "flights" / "descriptor.yaml").read_bytes()
    run = who.types("datasets", "init", "world", "--from", str(who.folder / "weather.csv"), "--into")
    assert run.code == 0
    assert (who.folder / "world" / "flights" / "descriptor.yaml").read_bytes() == first
    assert "can be served: flights, weather" in " ".join(who.types("datasets", "validate", "world").out.split())
