"""``provenance verify`` of an answer that other agents completed: nothing runs, only public keys are there."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evidence.artifact import Artifact, write_artifact
from evidence.dsse import sign_envelope
from tests.dataset_agent.command_line import CommandLine, Run
from tests.evidence.evidence_builders import BODY, SeedSigner
from tests.evidence.provenance_trees import (
    KEYS,
    ROOT,
    Node,
    agent_id,
    grown,
    opened,
    relayed,
    rewritten,
    signer_of,
)

TREE = Node(0, (Node(1, (Node(2),)),))
Change = Callable[[dict[str, Any]], None]


def pins(folder: Path, *, without: int | None = None, replaced: int | None = None) -> None:
    """A trust file with the public key of every agent; one left out, or with a key of today and this one retired."""
    lines = []
    for agent, (key,) in KEYS.items():
        if without is not None and agent == agent_id(without):
            continue
        changed = replaced is not None and agent == agent_id(replaced)
        today = SeedSigner(254).public_key if changed else key
        lines += ["[[agent]]", f'id = "{agent}"', 'url = "http://127.0.0.1:1"', f'key = "{today.jwk()["x"]}"']
        lines += [f'retired_keys = ["{key.jwk()["x"]}"]'] if changed else []
    (folder / "trust.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.fixture
def verify(tmp_path: Path) -> Callable[..., Run]:
    """Verify an envelope that was saved with its rows."""
    pins(tmp_path)
    command = CommandLine({"HOME": str(tmp_path), "URL": "http://127.0.0.1:1"})

    def run(envelope: dict[str, Any], *options: str, agent: str = agent_id(0)) -> Run:
        write_artifact(tmp_path / "answer.json", Artifact(envelope, BODY))
        return command("provenance", "verify", str(tmp_path / "answer.json"), "--agent", agent, *options)

    return run


def test_every_agent_is_shown_below_the_one_that_asked_it(verify: Callable[..., Run]) -> None:
    run = verify(grown(TREE))
    assert (run.code, run.err) == (0, "")
    assert max(len(line) for line in run.out.splitlines()) <= 80
    shown = re.findall(r"^( *)(urn:dataset-agent:\S+) +0 *$", run.out, re.M)
    assert shown == [("", agent_id(0)), ("  ", agent_id(1)), ("    ", agent_id(2))]
    assert re.search(rf"asked by {agent_id(1)}", run.out)


def test_a_program_reads_the_tree(verify: Callable[..., Run]) -> None:
    told = verify(grown(TREE), "--json").json
    tree, chain = told["tree"], []
    while tree:
        chain.append((tree["agent_id"], tree["asked_by"], tree["task_id"], tree["retired"]))
        tree = tree["upstream"][0] if tree["upstream"] else None
    assert told["verified"] is True
    assert chain == [
        (agent_id(0), ROOT, None, False),
        (agent_id(1), agent_id(0), "task-0.0", False),
        (agent_id(2), agent_id(1), "task-0.0.0", False),
    ]


def test_what_the_root_agent_relayed_verifies_from_its_own_signature_down(verify: Callable[..., Run]) -> None:
    run = verify(relayed(grown(TREE)), agent=ROOT)
    assert run.code == 0
    assert run.out.count("urn:dataset-agent:agent-2") == 1


def test_an_answer_that_rests_on_nobodys_has_no_tree_to_show(verify: Callable[..., Run]) -> None:
    assert "rests on" not in verify(grown(Node(0))).out
    assert verify(grown(Node(0)), "--json").json["tree"]["upstream"] == []


def dropped(statement: dict[str, Any]) -> None:
    statement["predicate"]["upstream"] = []


def misattributed(statement: dict[str, Any]) -> None:
    statement["predicate"]["upstream"][0]["agent_id"] = agent_id(3)


def of_another_agent(statement: dict[str, Any]) -> None:
    statement["predicate"]["upstream"][0]["envelope"] = grown(Node(1), client=agent_id(5), path="0.0")


def of_another_asking(statement: dict[str, Any]) -> None:
    other = Node(1, thread=(("root_jti", "jti-other"), ("txn", "txn-other")))
    statement["predicate"]["upstream"][0]["envelope"] = grown(other, client=agent_id(0), path="0.0")


@pytest.mark.parametrize(
    ("change", "check"),
    [
        (dropped, "upstream"),
        (misattributed, "signature"),
        (of_another_agent, "client"),
        (of_another_asking, "root_jti"),
    ],
)
def test_a_branch_that_is_missing_or_anothers_fails_although_the_agent_above_signed_for_it(
    verify: Callable[..., Run], change: Change, check: str
) -> None:
    run = verify(grown(TREE, change=change))
    assert (run.code, f"does NOT hold ({check})" in run.line) == (1, True)
    told = verify(grown(TREE, change=change), "--json")
    assert (told.code, told.json["verified"], told.json["check"]) == (1, False, check)


@pytest.mark.parametrize("place", [(0,), (0, 0)])
@pytest.mark.parametrize("resigned", [True, False])
def test_a_branch_that_was_tampered_with_fails(
    verify: Callable[..., Run], place: tuple[int, ...], resigned: bool
) -> None:
    def other_rows(envelope: dict[str, Any]) -> None:
        statement = opened(envelope)
        statement["predicate"]["authorization"]["rows_returned"] = 7
        envelope["payload"] = sign_envelope(statement, SeedSigner(9))["payload"]

    run = verify(rewritten(grown(TREE), place, other_rows, resigned=resigned))
    assert (run.code, "does NOT hold (signature)" in run.line) == (1, True)


def test_an_agent_whose_key_is_not_in_the_trust_file_is_named(verify: Callable[..., Run], tmp_path: Path) -> None:
    pins(tmp_path, without=2)
    run = verify(grown(TREE))
    assert (run.code, f"no key is trusted here for {agent_id(2)}" in run.line) == (1, True)


def test_a_branch_signed_before_its_agents_key_was_replaced_is_told_as_such(
    verify: Callable[..., Run], tmp_path: Path
) -> None:
    pins(tmp_path, replaced=1)
    run = verify(grown(TREE))
    assert (run.code, "a key in the tree is retired" in run.err) == (0, True)
    tree = verify(grown(TREE), "--json").json["tree"]
    assert (tree["retired"], tree["upstream"][0]["retired"]) == (False, True)


def test_a_statement_signed_by_an_upstream_agent_is_not_the_asked_agents(verify: Callable[..., Run]) -> None:
    statement = opened(grown(TREE))
    run = verify(sign_envelope(statement, signer_of(agent_id(1))))
    assert (run.code, "does NOT hold (signature)" in run.line) == (1, True)


def test_an_answer_of_another_agent_of_the_trust_file_says_how_to_verify_it(verify: Callable[..., Run]) -> None:
    run = verify(relayed(grown(TREE)))
    assert (run.code, run.line.endswith(f"; it says to be of {ROOT}: --agent {ROOT}")) == (1, True)


def test_the_saved_file_holds_the_whole_tree(tmp_path: Path) -> None:
    write_artifact(tmp_path / "answer.json", Artifact(relayed(grown(TREE)), BODY))
    saved = json.loads((tmp_path / "answer.json").read_text())
    inner = opened(saved["envelope"])["predicate"]["upstream"][0]["envelope"]
    assert opened(inner)["predicate"]["agent"]["id"] == agent_id(0)
