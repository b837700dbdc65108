"""Review as people meet it: one asks, another decides, the call is sent again; at the home and over the admin door alike."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contract.settings import Settings
from dataset_agent.login import identity_token
from tests.dataset_agent.command_line import CommandLine, Run, command_for, served
from tests.remote_agent.review_world import reviewed_datasets
from tests.running_agent import RunningAgent, agent_home, running_agent

pytestmark = pytest.mark.live

TOKEN = "operator-" + "t" * 32
WHERE = ("at the home", "over HTTP")
CALL = ("call", "compare_batches", "--as", "process_engineer", "--dataset", "purification-batches")


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAgent]:
    folder = tmp_path_factory.mktemp("approvals")
    home = agent_home(folder / "home", datasets=reviewed_datasets(folder), admin_token=TOKEN, watch_interval=0)
    with running_agent(home) as running:
        yield running


@pytest.fixture(scope="module")
def command(agent: RunningAgent) -> CommandLine:
    return command_for(agent.settings, URL=agent.url, DATASETS=str(agent.settings.datasets), ADMIN_TOKEN=TOKEN)


@pytest.fixture(params=WHERE)
def at(request: pytest.FixtureRequest, agent: RunningAgent) -> tuple[str, ...]:
    return () if request.param == WHERE[0] else ("--url", agent.url)


def call(command: CommandLine, a: str, b: str, *more: str) -> Run:
    return command(*CALL, "--arg", f"batch_a={a}", "--arg", f"batch_b={b}", "--json", *more)


def waiting(command: CommandLine, a: str = "B001", b: str = "B002") -> dict[str, Any]:
    """What an asker is told of a call that waits."""
    run = call(command, a, b)
    assert run.code == 5, run.err
    told: dict[str, Any] = run.json["approval"]
    return told


def approvals(command: CommandLine, *words: str, who: str | None = "clinical_reviewer") -> Run:
    return command("approvals", *words, *(() if who is None else ("--as", who)), "--json")


def test_one_asks_another_approves_and_the_call_runs_once(command: CommandLine, at: tuple[str, ...]) -> None:
    told = waiting(command)
    listed = approvals(command, "list", *at, who=None).json
    assert {"created_at", "expires_at"} <= listed[-1].keys()
    assert " ago  in 24h" in command("approvals", "list", *at).out
    assert told["approval_id"] in [one["id"] for one in listed]
    shown = approvals(command, "show", told["approval_id"], *at).json["approval"]
    assert (shown["arguments"], shown["requester"]) == ({"batch_a": "B001", "batch_b": "B002"}, "process_engineer")
    approved = approvals(command, "approve", told["approval_id"], "--why", "checked", *at)
    assert (approved.code, approved.json["approval"]["state"]) == (0, "approved")
    done = call(command, "B001", "B002", "--task", told["task_id"])
    assert (done.code, [row[0] for row in done.json["result"]["rows"]]) == (0, ["B001", "B002"])
    assert call(command, "B001", "B002", "--task", told["task_id"]).code != 0
    assert told["approval_id"] not in [one["id"] for one in approvals(command, "list", *at, who=None).json]
    after = {one["id"]: one["state"] for one in approvals(command, "list", "--all", *at, who=None).json}
    assert after[told["approval_id"]] == "used"


def test_who_asked_is_told_what_to_do_and_who_may_do_it(command: CommandLine) -> None:
    run = command(*CALL, "--arg", "batch_a=B001", "--arg", "batch_b=B002")
    assert (run.code, run.out) == (5, "")
    assert "REFUSED REVIEW_REQUIRED by AD-POL-010 at the dataset agent" in run.err
    assert "dataset-agent approvals approve apr-" in run.err
    resumed = next(line for line in run.err.splitlines() if line.strip().startswith("then: "))
    assert "--task task-" in resumed
    assert "--arg batch_a=B001" in resumed


def test_another_call_in_the_task_is_told_which_one_is_meant_and_not_to_be_sent_again(command: CommandLine) -> None:
    told = waiting(command)
    approvals(command, "approve", told["approval_id"])
    other = (*CALL, "--arg", "batch_a=B001", "--arg", "batch_b=B003", "--task", told["task_id"])
    run = command(*other)
    assert (run.code, run.out) == (3, "")
    assert f"approval {told['approval_id']} is approved until" in run.err
    assert f"the call that was asked for: send that with --task {told['task_id']}" in run.err
    assert "B003" not in run.err
    assert call(command, "B001", "B002", "--task", told["task_id"]).code == 0


def test_a_question_waits_like_a_call_and_the_call_it_was_read_as_is_sent_again(command: CommandLine) -> None:
    asked = command.ask("Compare the recovery of batches B004 and B005")
    assert (asked.code, asked.json["visited_nodes"][-1]) == (5, "await_approval")
    told = asked.json["approval"]
    approvals(command, "approve", told["approval_id"])
    assert call(command, "B004", "B005", "--task", told["task_id"]).code == 0


def test_the_requester_and_who_may_not_are_refused(command: CommandLine, at: tuple[str, ...]) -> None:
    told = waiting(command)
    for who, policy in (("process_engineer", "AD-POL-011"), ("analyst", "AD-POL-005")):
        for what in ("show", "approve", "deny"):
            run = approvals(command, what, told["approval_id"], *at, who=who)
            assert (run.code, run.json["approval"], run.json["decision"]["policy_id"]) == (3, None, policy)
    assert call(command, "B001", "B002", "--task", told["task_id"]).code == 5


def test_denied_it_is_refused(command: CommandLine, at: tuple[str, ...]) -> None:
    told = waiting(command)
    assert approvals(command, "deny", told["approval_id"], *at).code == 0
    run = call(command, "B001", "B002", "--task", told["task_id"])
    assert (run.code, run.json["reason"]) == (3, "APPROVAL_DENIED")
    again = approvals(command, "approve", told["approval_id"], *at)
    assert (again.code, again.json["decision"]["reason"]) == (3, "APPROVAL_ALREADY_DECIDED")


def test_an_edit_is_typed_and_the_edited_call_is_told_and_runs(command: CommandLine, at: tuple[str, ...]) -> None:
    told = waiting(command)
    edited = approvals(command, "approve", told["approval_id"], "--edit", "batch_b=B003", *at)
    assert edited.json["approval"]["approved_arguments"] == {"batch_a": "B001", "batch_b": "B003"}
    asked = call(command, "B001", "B002", "--task", told["task_id"])
    assert (asked.code, asked.json["approval"]["call"]["arguments"]["batch_b"]) == (5, "B003")
    done = call(command, "B001", "B003", "--task", told["task_id"])
    assert [row[0] for row in done.json["result"]["rows"]] == ["B001", "B003"]


def test_who_edits_sees_what_was_approved_in_place_of_what(command: CommandLine) -> None:
    told = waiting(command)
    line = ("approvals", "approve", told["approval_id"][-8:], "--as", "clinical_reviewer")
    assert '  with {"batch_a": "B001", "batch_b": "B003"} in place of {"batch_a": "B001", "batch_b": "B002"}\n' in (
        command(*line, "--edit", "batch_b=B003").out
    )


def test_a_task_that_is_over_or_not_there_is_told_with_what_to_do(command: CommandLine) -> None:
    told = waiting(command)
    approvals(command, "deny", told["approval_id"])
    call(command, "B001", "B002", "--task", told["task_id"])
    for task, why in ((told["task_id"], "the task has ended"), ("task-" + "0" * 32, "it has no such task")):
        run = call(command, "B001", "B002", "--task", task)
        assert (run.code, run.json["reason"]) == (4, "REMOTE_FAULT")
        assert why in run.json["rationale"]
        assert "send the call without it" in run.json["rationale"]


def test_a_token_of_ones_own_is_enough_and_one_for_the_root_agent_is_not(
    command: CommandLine, agent: RunningAgent, at: tuple[str, ...], tmp_path: Path
) -> None:
    told = waiting(command)
    file = tmp_path / "token"
    file.write_text(identity_token(agent.settings, "clinical_reviewer", 60), encoding="ascii")
    refused = command("approvals", "approve", told["approval_id"], "--token-file", str(file), *at)
    assert (refused.code, "another audience" in refused.err) == (1, True)
    own = identity_token(agent.settings, "clinical_reviewer", 60, audience=agent.settings.agent_id)
    done = command("approvals", "approve", told["approval_id"], "--token-file", "-", *at, stdin=own)
    assert (done.code, "approved: compare_batches" in done.out) == (0, True)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("show", "apr-unknown", "--as", "clinical_reviewer"), 2),
        (("show", "apr-unknown"), 2),
        (("approve", "apr-unknown", "--as", "a", "--token-file", "x"), 2),
        (("approve", "apr-unknown", "--token-file", "/nowhere"), 2),
        (("approve", "apr-unknown", "--as", "nobody"), 2),
        (("deny", "apr-unknown", "--token-file", "-"), 2),
    ],
)
def test_what_is_no_decision_is_one_line(command: CommandLine, words: tuple[str, ...], code: int) -> None:
    run = command("approvals", *words)
    assert (run.code, run.out) == (code, "")


def test_people_read_what_waits_as_a_table(command: CommandLine, at: tuple[str, ...]) -> None:
    told = waiting(command)
    listed = command("approvals", "list", *at)
    assert (listed.code, told["approval_id"] in listed.out, "B001" in listed.out) == (0, True, False)
    shown = command("approvals", "show", told["approval_id"][-12:], "--as", "clinical_reviewer", *at)
    assert "B001" in shown.out


def test_where_nothing_is_served_there_is_no_desk(command: CommandLine, tmp_path: Path) -> None:
    assert command("approvals", "list", HOME=str(tmp_path / "nowhere")).code == 2
    away = command("approvals", "list", "--url", "http://127.0.0.1:9")
    assert (away.code, "does not answer" in away.line) == (1, True)
    assert command("approvals", "list", "--url", "http://127.0.0.1:9", ADMIN_TOKEN="").code != 0


def test_the_ledger_holds_every_decision_and_verifies(command: CommandLine, agent: RunningAgent) -> None:
    told = waiting(command)
    approvals(command, "approve", told["approval_id"])
    assert command("evidence", "verify").code == 0
    row = dict(agent.rows()[-1].cells)
    assert (row["kind"], row["request_id"]) == ("human_approval_granted", told["approval_id"])


def test_two_serving_processes_of_one_home_and_two_resumes_at_once_run_it_once(tmp_path: Path) -> None:
    """Two real processes, each with a memory of its own; each is sent the same call in the same task at once."""
    home: Settings = agent_home(tmp_path / "home", datasets=reviewed_datasets(tmp_path), watch_interval=0)
    settings = {"HOME": str(home.home), "DATASETS": str(home.datasets)}
    with served("serve", **settings) as one, served("serve", **settings) as other:
        commands = [CommandLine(settings | {"URL": server.url}) for server in (one, other)]
        for _ in range(3):
            told = waiting(commands[0])
            assert approvals(commands[1], "approve", told["approval_id"]).code == 0
            resumed = ("--arg", "batch_a=B001", "--arg", "batch_b=B002", "--task", told["task_id"], "--json")
            runs = [started.end() for started in [command.start(*CALL, *resumed) for command in commands]]
            assert sorted(run.code for run in runs) == [0, 3]
            lost = next(run for run in runs if run.code == 3)
            assert json.loads(lost.out)["reason"] == "APPROVAL_ALREADY_DECIDED"


def test_who_is_forgotten_is_in_no_approval_any_more(command: CommandLine) -> None:
    told, subject = waiting(command), ("--subject", "u-eng-01", "--side", "remote", "--json")
    approvals(command, "approve", told["approval_id"])
    dry = command("evidence", "forget", *subject, "--dry-run").json["approvals"]
    assert dry >= 1
    assert told["approval_id"] in [one["id"] for one in approvals(command, "list", "--all", who=None).json]
    done = command("evidence", "forget", *subject, "--yes").json
    assert (done["approvals"], done["ledgers"][0]["forgotten"]) == (dry, True)
    left = approvals(command, "list", "--all", who=None).json
    assert "process_engineer" not in [one["requester"] for one in left]
    assert call(command, "B001", "B002", "--task", told["task_id"]).code == 5  # asked for anew
    assert "1 approval of theirs would be gone" in command("evidence", "forget", *subject[:4], "--dry-run").out
