"""``ask`` and ``call`` against a served dataset agent: verdicts, JSON, tables, exit codes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.dataset_agent.command_line import HOUSE, CommandLine, Run, from_nothing
from tests.running_agent import RunningAgent

pytestmark = pytest.mark.live

# the members that programs may rely on; docs/command.md may add to them
PROMISED = {
    *("verdict", "decision", "remote", "dataset", "dataset_version", "revision", "capability", "arguments", "agent"),
    *("cache", "result", "provenance", "visited_nodes", "tool_calls", "mcp_calls", "a2a_calls", "attempts", "evidence"),
}


def compare(first: str, second: str) -> str:
    return f"Compare the recovery of batches {first} and {second}"


def call(command: CommandLine, capability: str, *pairs: str, dataset: str = "purification-batches", **more: str) -> Run:
    arguments = [word for pair in pairs for word in (("--arg", pair) if pair != "--json" else (pair,))]
    return command("call", capability, "--as", "analyst", "--dataset", dataset, *arguments, **more)


def documented() -> dict[str, list[str]]:
    """Members of the answer, and what docs/command.md names inside each."""
    page = (HOUSE / "docs" / "command.md").read_text(encoding="utf-8")
    table = page.partition("`ask --json` and `call --json` print:")[2].partition("\n###")[0]
    found: dict[str, list[str]] = {}
    for names, meaning in re.findall(r"^\| (`.+?`) \| (.+) \|$", table, re.M):
        for name in re.findall(r"`(\w+)`", names):
            found[name] = [word for word in re.findall(r"`([a-z_]+)`", meaning) if word != "null"]
    return found


def test_asking_twice_gives_miss_then_hit_with_the_same_rows_and_different_provenance(command: CommandLine) -> None:
    first, second = (command.ask(compare("B011", "B012")) for _ in range(2))
    assert (first.code, second.code) == (0, 0)
    one, two = first.json, second.json
    assert (one["cache"]["outcome"], two["cache"]["outcome"]) == ("MISS", "HIT")
    assert one["cache"]["key"] == two["cache"]["key"]
    assert one["result"] == two["result"]
    assert one["result"]["row_count"] == 2
    assert one["provenance"]["verified"] and two["provenance"]["verified"]
    assert one["provenance"]["envelope"] != two["provenance"]["envelope"]
    assert len(one["a2a_calls"]) == 1
    assert two["a2a_calls"] == []


def test_a_paraphrase_hits_and_another_class_of_principal_does_not(command: CommandLine) -> None:
    command.ask(compare("B013", "B014"))
    assert command.ask("How does the recovery of batch B013 compare with B014?").json["cache"]["outcome"] == "HIT"
    assert command.ask(compare("B013", "B014"), "analyst").json["cache"]["outcome"] == "MISS"


def test_the_json_of_an_answer_has_exactly_the_documented_members(command: CommandLine) -> None:
    answer = command.ask(compare("B015", "B016")).json
    told = documented()
    assert set(answer) >= PROMISED
    assert set(answer) == set(told)
    assert set(answer["remote"]) == set(told["remote"])
    for name in ("decision", "agent", "cache", "result", "provenance", "evidence"):
        assert set(answer[name]) == set(told[name]), name


def test_a_refusal_has_the_same_members_and_nothing_that_only_rows_have(command: CommandLine) -> None:
    run = command.ask(compare("B001", "B002"), "external_auditor")
    assert run.code == 3
    answer = run.json
    assert set(answer) == set(documented())
    assert answer["decision"]["reason"] == "INSUFFICIENT_PRIVILEGE"
    assert answer["decision"]["policy_id"] == "BPD-DATA-009"
    assert [answer[name] for name in ("remote", "result", "cache", "provenance")] == [None] * 4
    assert [answer[name] for name in ("tool_calls", "mcp_calls", "a2a_calls")] == [[], [], []]
    assert answer["attempts"] == 0
    assert "execute" not in answer["visited_nodes"]


def test_a_call_and_a_question_of_the_same_meaning_share_an_entry(command: CommandLine) -> None:
    asked = command.ask(compare("B017", "B018"), "analyst").json
    called = call(command, "compare_batches", "batch_a=B017", "batch_b=B018", "--json").json
    assert called["cache"]["outcome"] == "HIT"
    assert called["arguments"] == asked["arguments"]


def test_a_wide_answer_is_turned_to_fit_eighty_columns(command: CommandLine) -> None:
    run = command("ask", "--as", "process_engineer", compare("B019", "B020"))
    assert run.code == 0
    assert max(len(line) for line in run.out.splitlines()) <= 80
    assert re.search(r"^batch_id +B019 +B020 *$", run.out, re.M)
    assert re.search(r"^overall_recovery_pct +[\d.]+ +[\d.]+ *$", run.out, re.M)
    assert run.err.splitlines()[0] == (
        "GRANTED PRINCIPAL_AUTHORIZED by BPD-DATA-014: permits compare_batches on purification-batches"
    )
    assert run.err.splitlines()[1] == "read as: compare_batches batch_a=B019 batch_b=B020"
    assert run.err.splitlines()[2].startswith("cache MISS, as of 2026-08-31T22:00:00")


def test_who_asks_in_words_is_shown_the_call_they_were_read_as_and_who_calls_is_not(command: CommandLine) -> None:
    none = command("ask", "--as", "analyst", "Find batches with 'no such thing'")
    assert (none.code, "no rows" in none.out) == (0, True)
    assert none.err.splitlines()[1] == "read as: search query='no such thing'"
    refused = command("ask", "--as", "external_auditor", compare("B001", "B002"))
    assert refused.err.splitlines()[1:] == ["read as: compare_batches batch_a=B001 batch_b=B002"]
    called = call(command, "compare_batches", "batch_a=B001", "batch_b=B002")
    assert "read as" not in called.err


@pytest.mark.parametrize(
    ("question", "said"),
    [
        (
            "Find batches without resin fouling",
            "“without”; search of purification-batches is nearest, and cannot leave out or restrict by it: "
            "without the word it would be answered about everything",
        ),
        ("Compare the recovry of batches B001 and B002", "“recovry”; without it, compare_batches of"),
    ],
)
def test_a_word_that_limits_is_not_to_be_left_out_and_an_idle_one_is(
    command: CommandLine, question: str, said: str
) -> None:
    verdict, told = command("ask", "--as", "analyst", question).err.splitlines()
    assert ("leave it out" in verdict) == ("without the word" not in said)
    assert f"not understood: {said}" in told


def test_a_question_that_names_no_capability_is_told_what_can_be_asked(command: CommandLine) -> None:
    run = command("ask", "--as", "analyst", "Which batches have a titre above 5 g/L")
    assert run.code == 4
    assert "can be asked of purification-batches: search, compare_batches" in run.err
    assert "clinical-private" not in run.err


def test_a_period_that_is_not_read_is_quoted_whole_and_told_once(command: CommandLine) -> None:
    def missing(question: str) -> str:
        return command("ask", "--as", "process_engineer", question).err.splitlines()[1]

    half = missing("total pool mass per day in the first half of 2024")
    assert "“first half of 2024” is no period that is read" in half
    assert "The first day of harvest" not in half
    assert "as in February 2024 to April 2024" in missing("Total pool masses between February and April 2024 per site")


def test_many_rows_are_cut_for_people_and_whole_for_programs(command: CommandLine) -> None:
    shown = command("ask", "--as", "process_engineer", "Find batches with resin fouling", "--rows", "1")
    rows = command.ask("Find batches with resin fouling").json["result"]["rows"]
    assert len(rows) > 1
    assert rows[0][0] in shown.out
    assert rows[1][0] not in shown.out
    assert f"{len(rows) - 1} more rows: --rows {len(rows)} shows them" in shown.err


def test_a_fresh_interpreter_says_nothing_but_the_answer(agent: RunningAgent) -> None:
    settings = {"HOME": str(agent.settings.home), "URL": agent.url}
    run = from_nothing("ask", "--as", "analyst", compare("B021", "B022"), "--json", **settings)
    assert run.code == 0
    assert run.err == ""
    assert run.json["verdict"] == "GRANTED"


@pytest.mark.parametrize(
    ("capability", "dataset", "pairs", "code", "said"),
    [
        ("search", "no-such-dataset", ["query=x"], 4, "INDETERMINATE MISSING_DESCRIPTOR"),
        ("no_such_thing", "purification-batches", [], 3, "REFUSED UNREGISTERED_CAPABILITY by AD-POL-003"),
        ("compare_batches", "purification-batches", ["batch_a=B1"], 3, "REFUSED ARGUMENTS_INVALID"),
        ("compare_batches", "purification-batches", ["batch_a=B001", "batch_b:=7"], 3, "batch_b must be text"),
        (
            "search",
            "purification-batches",
            ["query=x", "colour=red"],
            3,
            "the capability does not take argument colour",
        ),
        ("search", "Not A Name", ["query=x"], 2, "must be names of"),
        ("search", "purification-batches", ["query"], 2, "--arg takes name=value"),
        ("search", "purification-batches", ["query:={"], 2, "--arg query:"),
        ("search", "purification-batches", ["query=a", "query=b"], 2, "--arg query is given twice"),
    ],
)
def test_a_call_that_cannot_be_made_is_one_line(
    command: CommandLine, capability: str, dataset: str, pairs: list[str], code: int, said: str
) -> None:
    run = call(command, capability, *pairs, dataset=dataset)
    assert run.code == code
    assert said in run.line


def test_a_refused_call_is_an_object_for_programs_all_the_same(command: CommandLine) -> None:
    run = call(command, "compare_batches", "batch_a=B001", "batch_b=wrong", "--json")
    assert run.code == 3
    assert run.json["remote"]["decision"]["reason"] == "ARGUMENTS_INVALID"
    assert run.json["result"] is None


def test_what_a_question_does_not_say_is_named_with_the_call_that_would_do(command: CommandLine) -> None:
    run = command("ask", "--as", "analyst", "Compare the recovery of batches B001")
    assert run.code == 4
    verdict, missing, following = run.err.splitlines()
    assert verdict.startswith("INDETERMINATE ARGUMENTS_MISSING")
    assert missing.startswith("  missing: batch_b (STRING)")
    assert following.strip() == (
        "next: dataset-agent call compare_batches --as analyst --dataset purification-batches "
        "--arg batch_a=B001 --arg batch_b=…"
    )


def test_what_was_refused_is_not_proposed_again(command: CommandLine) -> None:
    run = command("ask", "--as", "external_auditor", "Compare the recovery of batches B001")
    assert run.code == 3
    assert run.err.splitlines() == [
        "REFUSED INSUFFICIENT_PRIVILEGE by BPD-DATA-009: "
        "forbids compare_batches on purification-batches to this principal",
        "read as: compare_batches batch_a=B001",
    ]


def test_a_question_about_nothing_that_is_offered_says_where_to_look(command: CommandLine) -> None:
    run = command("ask", "--as", "analyst", "what is love")
    assert run.code == 4
    assert run.line.endswith("next: dataset-agent card lists what may be asked")


@pytest.mark.parametrize(
    ("question", "stdin", "said"),
    [
        ("", b"", "the question is empty"),
        (" \n ", b"", "the question is empty"),
        ("a" * 100_000, b"", "a question has at most 4000 characters"),
        ("-", b"a" * 2**20, "a question has at most 4000 characters"),
        ("-", b"\xff\xfe", "the question is not valid Unicode text"),
        ("-", b"", "the question is empty"),
    ],
    ids=["empty", "blank", "long", "1 MB", "bytes", "nothing on standard input"],
)
def test_a_question_that_is_none_is_one_line(command: CommandLine, question: str, stdin: bytes, said: str) -> None:
    run = command("ask", "--as", "analyst", question, stdin=stdin)
    assert run.code == 2
    assert said in run.line


def test_a_question_that_is_none_is_refused_before_anything_is_loaded_for_it() -> None:
    program = "import sys; from dataset_agent.cli import run; code = run(sys.argv[1:]); print(code, *sys.modules)"
    code, *loaded = from_nothing("ask", "--as", "analyst", "", program=program).out.split()
    assert code == "2"
    assert not {"google.adk", "a2a", "fastapi", "httpx"} & set(loaded)


def test_a_question_is_read_from_standard_input(command: CommandLine) -> None:
    run = command("ask", "--as", "analyst", "-", "--json", stdin=compare("B023", "B024") + "\n")
    assert run.json["arguments"] == {"batch_a": "B023", "batch_b": "B024"}


def test_an_unknown_principal_is_told_the_known_ones(command: CommandLine) -> None:
    run = command("ask", "--as", "nobody\x1b[31m", "anything")
    assert run.code == 2
    assert "known: analyst, clinical_reviewer, external_auditor, process_engineer" in run.line
    assert "\x1b[31m" not in run.err


def test_a_dataset_agent_that_is_not_there_is_indeterminate(command: CommandLine) -> None:
    run = command("ask", "--as", "analyst", compare("B001", "B002"), URL="http://127.0.0.1:1")
    assert run.code == 4
    assert run.line.startswith("INDETERMINATE REMOTE_UNREACHABLE")
    assert "dataset-agent serve" in run.line
    called = call(command, "compare_batches", "batch_a=B001", "batch_b=B002", "--json", URL="http://127.0.0.1:1")
    assert called.code == 4
    assert set(called.json) == set(documented())


def test_rows_that_cannot_be_saved_are_not_asked_for(command: CommandLine, agent: RunningAgent, tmp_path: Path) -> None:
    before = len(agent.rows())
    run = command("ask", "--as", "analyst", compare("B001", "B002"), "--save", str(tmp_path / "none" / "file"))
    assert run.code == 2
    assert "name a file in a folder that exists" in run.line
    assert len(agent.rows()) == before


def test_who_names_mcp_for_what_is_no_tool_is_told_so_and_who_names_what_is_not_there_that(
    command: CommandLine,
) -> None:
    over_mcp = ("--as", "process_engineer", "--dataset", "chromatography-results", "--via", "mcp")
    run = command("call", "aggregate", *over_mcp, "--arg", "metric=resolution")
    assert run.code == 3
    assert run.line == (
        "REFUSED UNREGISTERED_CAPABILITY: chromatography-results offers aggregate as no MCP tool: ask it via a2a; "
        "next: dataset-agent card names the tools that there are"
    )
    assert command("call", "nonsense", *over_mcp).line.endswith("next: dataset-agent card lists the capabilities")
