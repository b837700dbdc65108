"""``cache`` against a served agent: what it explains is what happens, from beside the store and over HTTP alike."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contract.settings import SHIPPED_DATASETS, Settings
from tests.dataset_agent.command_line import CommandLine, Run, command_for
from tests.running_agent import RunningAgent, agent_home, running_agent

pytestmark = pytest.mark.live

QUESTION = "Compare the recovery of batches B001 and B002"
TOKEN = "operator-" + "t" * 32
WHERE = ("beside the store", "over HTTP")


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[RunningAgent]:
    """Over a copy of the datasets that the test may change."""
    shutil.copytree(SHIPPED_DATASETS, tmp_path / "datasets")
    settings = agent_home(tmp_path / "home", datasets=tmp_path / "datasets", admin_token=TOKEN)
    with running_agent(settings) as running:
        yield running


@pytest.fixture
def command(agent: RunningAgent) -> CommandLine:
    return command_for(agent.settings, URL=agent.url, DATASETS=str(agent.settings.datasets), ADMIN_TOKEN=TOKEN)


@pytest.fixture(params=WHERE)
def at(request: pytest.FixtureRequest, agent: RunningAgent) -> tuple[str, ...]:
    return () if request.param == WHERE[0] else ("--url", agent.url)


def explain(command: CommandLine, at: tuple[str, ...], principal: str = "process_engineer", b: str = "B002") -> Any:
    arguments = ("--arg", "batch_a=B001", "--arg", f"batch_b={b}")
    run = command(
        "cache",
        "explain",
        "compare_batches",
        "--as",
        principal,
        "--dataset",
        "purification-batches",
        *arguments,
        *at,
        "--json",
    )
    assert run.code == 0, run.err
    return run.json


def differing(told: Any) -> set[str]:
    return {one["name"] for one in told["components"] if one["differs"]}


def ledger(agent: RunningAgent) -> int:
    return len(agent.rows())


def test_the_key_that_is_explained_is_the_one_that_serves(
    command: CommandLine, agent: RunningAgent, at: tuple[str, ...]
) -> None:
    before = explain(command, at)
    assert (before["outcome"], before["reason"], before["nearest"]) == ("MISS", "absent", [])
    missed = command.ask(QUESTION).json["cache"]
    assert (missed["outcome"], missed["key"]) == ("MISS", before["key"])
    rows = ledger(agent)
    told = explain(command, at)
    assert (told["outcome"], told["key"], differing(told)) == ("HIT", missed["key"], set())
    assert ledger(agent) == rows
    agent.run(agent.lifecycle.service.cache.flush())
    assert command("cache", "stats", *at, "--json").json["hits"] == 0
    assert command.ask(QUESTION).json["cache"] == missed | {"outcome": "HIT"}


def test_a_call_that_would_miss_says_by_what_it_differs(command: CommandLine, at: tuple[str, ...]) -> None:
    command.ask(QUESTION)
    assert differing(explain(command, at, b="B003")) == {"arguments"}
    other = explain(command, at, principal="analyst")
    assert differing(other) == {"principal_class"}
    assert "differs in principal_class" in other["because"]
    assert "B003" not in json.dumps(other)
    refused = explain(command, at, principal="external_auditor")
    assert (refused["outcome"], refused["verdict"]) == ("NONE", "REFUSED")


def test_another_revision_is_told_as_what_differs(
    command: CommandLine, agent: RunningAgent, at: tuple[str, ...]
) -> None:
    command.ask(QUESTION)
    descriptor = agent.settings.datasets / "purification-batches" / "descriptor.yaml"
    descriptor.write_text(descriptor.read_text().replace("s3-etag-4c1f9a", "s3-etag-new"))
    agent.run(agent.lifecycle.reload())
    assert agent.lifecycle.fault is None
    assert "revision" in differing(explain(command, at))


def test_a_changed_secret_is_taken_at_a_reload_and_nothing_is_deleted(
    command: CommandLine, agent: RunningAgent, at: tuple[str, ...]
) -> None:
    old = command.ask(QUESTION).json["cache"]["key"]
    assert command("keys", "rotate", "cache").code == 0
    assert command.ask(QUESTION).json["cache"]["outcome"] == "HIT"  # it was not taken over yet
    agent.run(agent.lifecycle.reload())
    told = explain(command, at)
    assert told["because"] == "an equal call is stored under another secret, which is looked up no more"
    assert command.ask(QUESTION).json["cache"]["outcome"] == "MISS"
    assert command.ask(QUESTION).json["cache"] == {
        **command.ask(QUESTION).json["cache"],
        "outcome": "HIT",
        "key": told["key"],
    }
    report = command("cache", "verify", *at, "--json").json
    assert (report["checked"], sorted(report["opened"].values()), report["damaged"]) == (2, [1, 1], 0)
    assert command("cache", "show", old, *at, "--json").json["kid"] != told["kid"]


def test_what_is_damaged_is_named_and_purged(command: CommandLine, agent: RunningAgent, at: tuple[str, ...]) -> None:
    key = command.ask(QUESTION).json["cache"]["key"]
    command.ask(QUESTION, "analyst")
    store = agent.lifecycle.service.cache.store
    assert store is not None

    async def spoil() -> None:
        entry = await store.get(key, now=0)
        assert entry is not None
        await store.put(key, entry[:-1] + bytes([entry[-1] ^ 1]), exp=9e9, now=0)

    agent.run(spoil())
    assert explain(command, at)["reason"] == "integrity"
    run = command("cache", "verify", *at, "--json")
    assert (run.code, run.json["damaged_keys"]) == (1, [key])
    assert command("cache", "purge", "--damaged", "--yes", *at, "--json").json["removed"] == 1
    assert command("cache", "verify", *at).code == 0
    assert command("cache", "keys", *at, "--json").json["matched"] == 1


def test_a_purge_asks_first_counts_exactly_and_makes_the_next_call_run(
    command: CommandLine, at: tuple[str, ...]
) -> None:
    for principal in ("process_engineer", "analyst"):
        command.ask(QUESTION, principal)
    assert command("cache", "purge", *at).code == 2
    both = command("cache", "purge", "--all", "--class", "analyst", "--dry-run", *at)
    assert both.code == 2 and "--all is everything, and more is given" in both.line
    unsure = command("cache", "purge", "--all", *at)
    assert (unsure.code, "2 entries would be removed: add --yes" in unsure.line) == (2, True)
    dry = command("cache", "purge", "--class", "analyst", "--dry-run", *at)
    assert (dry.code, dry.out) == (0, "1 entry would be removed\n")
    done = command("cache", "purge", "--class", "analyst", "--older-than", "0s", "--yes", *at)
    assert (done.code, done.out) == (0, "1 entry removed\n")
    assert command.ask(QUESTION).json["cache"]["outcome"] == "HIT"
    assert command.ask(QUESTION, "analyst").json["cache"]["outcome"] == "MISS"


def test_of_restricted_capabilities_there_are_only_numbers(command: CommandLine, at: tuple[str, ...]) -> None:
    asked = command.ask("What is the mean CRP per treatment arm", "clinical_reviewer")
    assert asked.code == 0, asked.out
    found = command("cache", "keys", *at, "--json").json
    assert (found["entries"], found["matched"]) == ([], 0)
    assert found["restricted"] == [{"dataset": "clinical-private", "capability": "aggregate", "entries": 1}]
    shown = command("cache", "keys", *at).out
    assert "dsc:1" not in shown
    call = ("aggregate", "--as", "clinical_reviewer", "--dataset", "clinical-private", "--arg", "metric=crp")
    told = command("cache", "explain", *call, *at, "--json").json
    assert told == {
        "dataset": "clinical-private",
        "capability": "aggregate",
        "restricted": True,
        "verdict": "GRANTED",
        "outcome": "WITHHELD",
        "because": told["because"],
        "entries": 1,
    }


def test_entries_are_shown_and_compared(command: CommandLine, at: tuple[str, ...]) -> None:
    keys = [command.ask(QUESTION, principal).json["cache"]["key"] for principal in ("process_engineer", "analyst")]
    shown = command("cache", "diff", *keys, *at)
    heads, _, row = shown.out.splitlines()[1:4]
    assert (shown.code, heads.split()) == (0, ["dimension", *(key[-8:] for key in keys)])
    assert row.split() == ["principal_class", "process-engineer", "analyst"]
    assert command("cache", "show", keys[0], *at).code == 0
    assert "restricted" not in command("cache", "keys", "--sort", "age", *at).out
    assert command("cache", "keys", "--dataset", "nothing", *at).out == "No entry is of this kind.\n"


def test_a_digest_that_would_turn_the_comparison_is_shown_by_its_beginning(
    command: CommandLine, at: tuple[str, ...]
) -> None:
    keys = [command.ask(question).json["cache"]["key"] for question in (QUESTION, "Calculate the yield for batch B003")]
    shown = command("cache", "diff", *keys, *at)
    rows = {row.split()[0]: row.split()[1:] for row in shown.out.splitlines()[1:] if row.strip("─")}
    assert rows["dimension"] == [key[-8:] for key in keys]
    assert rows["capability"] == ["compare_batches", "calculate_yield"]
    told = command("cache", "diff", *keys, *at, "--json").json["differences"]
    whole = next(one for one in told if one["dimension"] == "template")
    assert rows["template"] == [f"{whole[side][:12]}…" for side in ("left", "right")]


@pytest.mark.parametrize(
    ("call", "near"),
    [
        (("compare_batch", "--dataset", "purification-batches"), "did you mean compare_batches?"),
        (("compare_batches", "--dataset", "purification-batche"), "did you mean purification-batches?"),
        (("compare_batches", "--dataset", "zzz"), "known: chromatography-results, clinical-private, purification-b"),
    ],
)
def test_a_name_that_is_not_there_is_usage_and_says_what_is_near(
    command: CommandLine, at: tuple[str, ...], call: tuple[str, ...], near: str
) -> None:
    run = command("cache", "explain", *call, "--as", "analyst", *at)
    assert run.code == 2
    assert near in run.line


def test_who_is_misspelt_is_told_who_is_near_where_the_files_are(command: CommandLine, agent: RunningAgent) -> None:
    call = ("cache", "explain", "search", "--dataset", "purification-batches", "--as", "analist")
    code, line = refused(command(*call))
    assert (code, line) == (2, "there is no principal of this name: did you mean analyst?")
    code, line = refused(command(*call, "--url", agent.url))
    assert (code, "analyst" in line) == (2, False)


def test_a_call_that_misses_arguments_has_a_verdict_and_says_what_to_add(
    command: CommandLine, at: tuple[str, ...]
) -> None:
    call = ("cache", "explain", "compare_batches", "--dataset", "purification-batches", "--as", "analyst")
    run = command(*call, "--arg", "batch_a=B001", *at)
    assert (run.code, run.out.startswith("NONE ")) == (0, True)
    assert "INDETERMINATE ARGUMENTS_MISSING" in " ".join(run.out.split())
    assert run.err == "add --arg batch_b=…\n"
    told = command(*call, *at, "--json").json
    assert (told["verdict"], told["missing"]) == ("INDETERMINATE", ["batch_a", "batch_b"])


def test_a_secret_that_none_is_called_is_refused_before_anything_is_chosen_by_it(
    command: CommandLine, at: tuple[str, ...]
) -> None:
    for verb in (("keys",), ("purge", "--yes")):
        code, line = refused(command("cache", *verb, "--secret", "curent", *at))
        assert (code, "current, earlier, other" in line) == (2, True)


def refused(run: Run) -> tuple[int, str]:
    return run.code, run.line.removeprefix("error: ")


def test_a_file_holds_the_call_that_is_explained(command: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "request.json"
    call = {"dataset": "purification-batches", "capability": "compare_batches"}
    file.write_text(json.dumps(call | {"arguments": {"batch_a": "B001", "batch_b": "B002"}}))
    run = command("cache", "explain", "--as", "process_engineer", "--file", str(file))
    assert run.code == 0
    assert run.out.startswith("MISS ")
    file.write_text("[]")
    assert command("cache", "explain", "--as", "process_engineer", "--file", str(file)).code == 2
    assert (
        command("cache", "explain", "--as", "nobody", "compare_batches", "--dataset", "purification-batches").code == 2
    )
    assert command("cache", "explain", "--as", "nobody").code == 2


def test_an_agent_that_has_no_admin_endpoint_or_another_token_is_one_line(
    command: CommandLine, agent: RunningAgent, tmp_path: Path
) -> None:
    wrong = refused(command("cache", "stats", "--url", agent.url, ADMIN_TOKEN="w" * 40))
    assert wrong == (1, f"this is not the admin token of {agent.url}")
    assert refused(command("cache", "stats", "--url", agent.url, ADMIN_TOKEN="short"))[0] == 2
    assert "does not answer" in command("cache", "stats", "--url", "http://127.0.0.1:1").line
    assert "https" in command("cache", "stats", "--url", "http://192.0.2.1").line
    bare = CommandLine({name: value for name, value in command.settings.items() if name != "ADMIN_TOKEN"})
    assert "DATASET_AGENT_ADMIN_TOKEN" in bare("cache", "stats", "--url", agent.url).line
    with running_agent(agent_home(tmp_path / "other")) as other:
        assert "has no admin endpoint" in command("cache", "stats", "--url", other.url).line


def test_the_token_of_a_file_is_read_again_at_a_reload(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("a" * 40)
    file.chmod(0o600)
    settings: Settings = agent_home(tmp_path / "home", admin_token_file=file)
    with running_agent(settings) as agent:
        command = command_for(settings, URL=agent.url)
        assert command("cache", "stats", "--url", agent.url, ADMIN_TOKEN="a" * 40).code == 0
        file.write_text("b" * 40)
        agent.run(agent.lifecycle.reload())
        assert command("cache", "stats", "--url", agent.url, ADMIN_TOKEN="a" * 40).code == 1
        assert command("cache", "stats", "--url", agent.url, ADMIN_TOKEN_FILE=str(file)).code == 0
        file.chmod(0o644)
        agent.run(agent.lifecycle.reload())
        assert "chmod 600" in (agent.lifecycle.fault or "")
        assert command("cache", "stats", "--url", agent.url, ADMIN_TOKEN="b" * 40).code == 0


def test_an_answer_that_would_be_computed_from_a_stored_one_is_explained_as_such(
    command: CommandLine, at: tuple[str, ...]
) -> None:
    capability = ("step_totals", "--as", "process_engineer", "--dataset", "purification-batches", "--arg", "per=day")

    def told(period: str, *more: str) -> Any:
        return command("cache", "explain", *capability, "--arg", f"period={period}", *more, *at, "--json").json

    assert told("2024")["reason"] == "absent"
    stored = command("call", *capability, "--arg", "period=2024", "--json").json["cache"]
    assert (told("2024")["reason"], told("2024")["key"]) == ("hit", stored["key"])
    narrower = told("2024-03")
    assert (narrower["outcome"], narrower["reason"], narrower["derived_from"]) == ("HIT", "derived", stored["key"])
    assert told("2024-03")["reason"] == "derived"  # to explain keeps nothing
    shown = command("cache", "explain", *capability, "--arg", "period=2024-03", *at).out
    assert stored["key"] in "".join(shown.split())
    answered = command("call", *capability, "--arg", "period=2024-03", "--json").json["cache"]
    assert (answered["outcome"], answered["derived"], answered["key"]) == ("HIT", True, narrower["key"])
    assert told("2024-03")["reason"] == "hit"
    assert told("2023..2024")["derived_from"] is None
    unread = told("sometime")
    assert (unread["outcome"], unread["reason"]) == ("NONE", "ARGUMENTS_MISSING")
    assert command("cache", "explain", *capability, "--zone", "Nowhere", *at).code == 2
