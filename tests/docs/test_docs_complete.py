"""The documents say everything there is, and nothing that is not."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import typer
from pydantic_core import PydanticUndefined

from contract import extension
from contract.settings import Settings
from contract.verdict import VERDICTS, Reason, Verdict
from dataset_agent.cli import app
from remote_agent.refusals import OUTWARD

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([ROOT / "README.md", *DOCS.rglob("*.md")])
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
_STATES = {"TASK_STATE_REJECTED": "rejected", "TASK_STATE_CANCELED": "canceled"}


def _page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def _commands() -> Iterator[tuple[str, click.Command]]:
    """Every command by its full name, groups left out."""
    waiting: list[tuple[str, click.Command]] = [("", typer.main.get_command(app))]
    while waiting:
        name, command = waiting.pop()
        members = getattr(command, "commands", None)
        if members is None:
            yield name, command
        else:
            waiting.extend((f"{name} {child}".strip(), held) for child, held in members.items())


COMMANDS = dict(sorted(_commands()))


def _section(name: str) -> str | None:
    """The text under the heading of a command; its arguments may follow the name."""
    found = re.search(rf"^### `{re.escape(name)}(?: [^`a-z]+)?`\n(.*?)(?=^##|\Z)", _page("command.md"), re.M | re.S)
    return None if found is None else found[1]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_its_section_with_every_option(name: str) -> None:
    section = _section(name)
    assert section is not None
    options = {o for p in COMMANDS[name].params if p.param_type_name == "option" for o in p.opts}
    assert set(re.findall(r"^\| `(--[\w-]+)` \|", section, re.M)) == options - {"--help"}


def test_no_command_is_documented_that_is_not_there() -> None:
    told = re.findall(r"^### `([a-z ]+?)(?: [^`a-z]+)?`$", _page("command.md"), re.M)
    assert sorted(told) == sorted(COMMANDS)


@pytest.mark.parametrize("code", ["0", "1", "2", "3", "4", "5", "130"])
def test_an_exit_code_is_documented(code: str) -> None:
    assert re.search(rf"^\| {code} \|", _page("command.md"), re.M)


def _settings_rows() -> dict[str, str]:
    return dict(re.findall(r"^\| `(DATASET_AGENT_\w+)` \| ([^|]+) \|", _page("settings.md"), re.M))


def test_every_setting_is_documented_and_no_other() -> None:
    assert sorted(_settings_rows()) == sorted(f"DATASET_AGENT_{name.upper()}" for name in Settings.model_fields)


@pytest.mark.parametrize(
    "name",
    [n for n, f in Settings.model_fields.items() if f.default is not None and f.default is not PydanticUndefined],
)
def test_a_default_is_the_one_in_force(name: str) -> None:
    default = Settings.model_fields[name].default
    shown = str(default).lower() if isinstance(default, bool) else str(default)
    assert _settings_rows()[f"DATASET_AGENT_{name.upper()}"] == f"`{shown}`"


def _reason_rows() -> dict[str, tuple[str, str]]:
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (\w+)(?:, (\w+))? \|", _page("reasons.md"), re.M)
    return {reason: (verdict, f"{state} {again}".strip()) for reason, verdict, state, again in rows}


def test_every_reason_is_documented_once_and_no_other() -> None:
    told = re.findall(r"^\| `([A-Z_]+)` \| (?:GRANTED|REFUSED|INDETERMINATE) \|", _page("reasons.md"), re.M)
    assert sorted(told) == sorted(reason.value for reason in Reason)


@pytest.mark.parametrize("reason", list(Reason))
def test_a_reason_has_its_verdict_and_outward_form(reason: Reason) -> None:
    verdict = VERDICTS[reason]
    outward = "completed"
    if verdict is not Verdict.GRANTED:
        held = OUTWARD[reason]
        outward = f"{_STATES[held.state]} {'retryable' if held.retryable else 'final'}"
    assert _reason_rows()[reason.value] == (verdict.value, outward)


@pytest.mark.parametrize("name", [n for n in vars(extension) if n.isupper()])
def test_a_name_of_the_wire_is_in_the_extension(name: str) -> None:
    value = getattr(extension, name)
    shown = f"{value:,}" if isinstance(value, int) else value
    assert shown in _page("extension.md")


def test_no_metadata_key_is_documented_that_is_not_sent() -> None:
    told = set(re.findall(rf"`({extension.EXTENSION_URI}/[a-z]+)`", _page("extension.md")))
    assert told == {value for name, value in vars(extension).items() if name.endswith("_KEY")}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_link_leads_somewhere(page: Path) -> None:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for target in LINK.findall(text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        place = (page.parent / name).resolve() if name else page
        assert place.exists(), target
        if anchor:
            assert anchor in _anchors(place), target


def _anchors(page: Path) -> set[str]:
    """As they are made of headings: lower case, punctuation dropped, blanks to hyphens."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text(encoding="utf-8")), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, waiting = {ROOT / "README.md"}, [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        for target in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
            place = (page.parent / target.partition("#")[0]).resolve()
            if place.suffix == ".md" and place.exists() and place not in reached:
                reached.add(place)
                waiting.append(place)
    assert [str(page.relative_to(ROOT)) for page in PAGES if page not in reached] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_command_line_names_a_command_and_its_options(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    blocks = "".join(body for kind, body in FENCE.findall(text) if kind == "console").replace("\\\n", "")
    for line in re.findall(r"\bdataset-agent ((?!:)[^\n)#]*)", blocks):
        words = line.split()
        name = next((" ".join(words[:n]) for n in (2, 1) if " ".join(words[:n]) in COMMANDS), None)
        assert name is not None, line
        known = {option for parameter in COMMANDS[name].params for option in parameter.opts}
        assert set(re.findall(r"(?<=\s)--[\w-]+", line)) <= known, line


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_file_that_is_named_exists(page: Path) -> None:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    tops = "agents|root_agent|remote_agent|control_plane|grants|queries|cache|evidence|contract|dataset_agent|tests"
    for name in re.findall(rf"`((?:{tops})/[\w/]+\.(?:py|md|json))`", text):
        assert (ROOT / name).exists(), name


def test_the_two_commands_of_the_readme_are_targets_of_make() -> None:
    readme, makefile = (ROOT / name for name in ("README.md", "Makefile"))
    block = next(body for _, body in FENCE.findall(readme.read_text(encoding="utf-8")) if "$ make" in body)
    told = re.findall(r"^\$ make (\w+)", block, re.M)
    assert told == ["demo", "test"]
    targets = re.findall(r"^(\w+):", makefile.read_text(encoding="utf-8"), re.M)
    assert set(told) <= set(targets)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_python_block_compiles(page: Path) -> None:
    for kind, body in FENCE.findall(page.read_text(encoding="utf-8")):
        if kind == "python":
            compile(body, str(page), "exec")


def test_the_tree_of_the_architecture_is_the_one_that_is_there() -> None:
    block = next(body for _, body in FENCE.findall(_page("architecture.md")) if "dataset_agent/" in body)
    told = set(re.findall(r"^([\w.]+/?)\s", block, re.M))
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    folders = {name.split("/")[0] + "/" for name in listed if "/" in name and not name.startswith(".")}
    assert told == folders | {"agent_card.json"}


def test_the_chain_is_told_alike_where_it_is_told() -> None:
    chain = re.search(r"^verify -> .*? -> release$", _page("architecture.md"), re.M)
    assert chain is not None
    assert chain[0] in " ".join((ROOT / "remote_agent" / "answer.py").read_text(encoding="utf-8").split())


def test_every_word_of_the_glossary_is_used_somewhere() -> None:
    words = re.findall(r"^\| ([a-z][^|]+?) \|", _page("glossary.md"), re.M)
    pages = " ".join(page.read_text(encoding="utf-8").lower() for page in PAGES if page.name != "glossary.md")
    unused = [word for row in words if row != "word" for word in re.split(r",\s", row) if word[:-1] not in pages]
    assert unused == []
