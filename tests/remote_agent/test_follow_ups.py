"""A call that misses arguments is asked back for them, and completed in its task under a fresh leaf, once."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from contract.call import Call, Operation, completed
from contract.canonical import sha256_hex
from evidence.provenance import verify_provenance
from tests.remote_agent.long_world import (
    BINDINGS,
    CAPABILITY,
    DATASET,
    Client,
    Held,
    completion,
    held,
    proposal_of,
    state_of,
)
from tests.running_agent import RunningAgent, decision_of, result_of

INPUT, DONE, REJECTED = "TASK_STATE_INPUT_REQUIRED", "TASK_STATE_COMPLETED", "TASK_STATE_REJECTED"


@pytest.fixture
def counted(agent: RunningAgent) -> Iterator[Held]:
    """Executions that are counted and not held."""
    with held(agent) as executions:
        executions.release()
        yield executions


def half(client: Client, **arguments: str) -> dict[str, Any]:
    return client.send(client.call(arguments))


def new_rows(agent: RunningAgent, before: int) -> list[dict[str, Any]]:
    return [dict(row.cells) for row in agent.rows()[before:]]


def test_a_call_that_misses_arguments_is_told_their_names_and_types_and_nothing_runs(
    client: Client, counted: Held
) -> None:
    task = half(client, batch_a="B001")
    asked = proposal_of(task)
    assert state_of(task) == INPUT
    assert asked["call"] == {"dataset": DATASET, "capability": CAPABILITY, "arguments": {"batch_a": "B001"}}
    assert [(item["name"], item["type"]) for item in asked["missing"]] == [("batch_b", "STRING")]
    assert decision_of(task)["reason"] == "ARGUMENTS_MISSING"
    assert "artifacts" not in task
    assert counted.began == 0


def test_allowed_values_are_told(agent: RunningAgent) -> None:
    client = Client(agent)
    part = client.call({}, "detect_outliers")
    task = client.send(part, client.leaf_for(part, capability="detect_outliers"))
    (missing,) = proposal_of(task)["missing"]
    assert (missing["name"], "recovery" in missing["values"]) == ("metric", True)


def test_the_missing_arguments_alone_complete_the_call_in_its_task(client: Client, counted: Held) -> None:
    before = len(client.agent.rows())
    task = half(client, batch_a="B111")
    done = client.send(completion(task, batch_b="B112"), task=task)
    assert (done["id"], done["contextId"], state_of(done)) == (task["id"], task["contextId"], DONE)
    assert [row[0] for row in result_of(done)["rows"]] == ["B111", "B112"]
    rows = new_rows(client.agent, before)
    assert [row["reason"] for row in rows] == ["ARGUMENTS_MISSING", "PRINCIPAL_AUTHORIZED"]
    assert {row["task_id"] for row in rows} == {task["id"]}
    assert len({row["leaf_digest"] for row in rows}) == 2


def test_the_proof_is_about_the_whole_call_in_its_one_form(agent: RunningAgent) -> None:
    client = Client(agent)
    sent = client.call({"batch_b": "B113"})
    task = client.send(sent)
    done = client.send(completion(task, batch_a="B114"), task=task)
    whole = completed(Call.parse(sent), {"batch_a": "B114"})
    artifacts = {item["name"]: base64.b64decode(item["parts"][0]["raw"]) for item in done["artifacts"]}
    verify_provenance(
        json.loads(artifacts["provenance"]),
        agent.lifecycle.service.signer.public_key,
        body=artifacts["result"],
        call_hash=whole.call_hash,
    )


def test_a_whole_call_completes_the_task_too_and_its_bytes_are_what_is_proven(rpc: Client) -> None:
    task = half(rpc, batch_a="B115")
    whole = rpc.call({"batch_a": "B115", "batch_b": "B116"})
    assert state_of(rpc.send(whole, task=task)) == DONE


def test_what_is_still_missing_is_asked_for_again(rpc: Client) -> None:
    task = half(rpc)
    again = rpc.send(completion(task, batch_b="B117"), task=task)
    assert (state_of(again), [item["name"] for item in proposal_of(again)["missing"]]) == (INPUT, ["batch_a"])
    done = rpc.send(completion(task, batch_a="B118"), task=task)
    assert [row[0] for row in result_of(done)["rows"]] == ["B117", "B118"]


def test_words_fill_what_is_missing_and_rows_need_a_leaf_for_the_call(rpc: Client, counted: Held) -> None:
    task = half(rpc, batch_a="B119")
    told = rpc.say("the other one is B120", task)
    assert proposal_of(told) == {
        "call": {"dataset": DATASET, "capability": CAPABILITY, "arguments": {"batch_a": "B119", "batch_b": "B120"}},
        "missing": [],
    }
    assert (state_of(told), counted.began) == (INPUT, 0)
    done = rpc.send(completion(task), task=task)
    assert [row[0] for row in result_of(done)["rows"]] == ["B119", "B120"]


def test_a_negotiated_call_is_completed_in_its_task(client: Client) -> None:
    task = client.say("Compare the recovery of batch B121")
    done = client.send(completion(task, batch_b="B122"), task=task)
    assert [row[0] for row in result_of(done)["rows"]] == ["B121", "B122"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"batch_b": 7}, "parameter batch_b must be text"),
        ({"batch_b": "X"}, "parameter batch_b"),
        ({"colour": "red"}, "does not take argument colour"),
        ({"batch_a": "B001", "batch_b": "B002"}, "has already"),
    ],
)
def test_arguments_that_do_not_hold_are_invalid_and_end_the_task(
    agent: RunningAgent, arguments: dict[str, Any], said: str
) -> None:
    client = Client(agent)
    task = half(client, batch_a="B001")
    refused = client.send(completion(task, **arguments), task=task)
    assert (state_of(refused), decision_of(refused)["reason"]) == (REJECTED, "ARGUMENTS_INVALID")
    assert said in decision_of(refused)["rationale"]
    assert client.send(completion(task, batch_b="B002"), task=task)["code"] == -32004


def test_a_first_call_with_an_invalid_argument_is_invalid_whatever_else_is_missing(rpc: Client) -> None:
    assert decision_of(half(rpc, batch_a="wrong"))["reason"] == "ARGUMENTS_INVALID"


def test_the_leaf_of_the_first_message_is_spent_and_completes_nothing(rpc: Client) -> None:
    part = rpc.call({"batch_a": "B001"})
    grant = rpc.leaf_for(part)
    task = rpc.send(part, grant)
    again = rpc.send(part, grant)
    assert decision_of(again)["reason"] == "GRANT_REPLAYED"
    assert decision_of(rpc.send(completion(task, batch_b="B002"), grant, task=task))["reason"] == (
        "GRANT_OPERATION_MISMATCH"
    )


def test_a_leaf_for_one_task_completes_no_other(rpc: Client) -> None:
    one, other = half(rpc, batch_a="B001"), half(rpc, batch_a="B002")
    part = completion(one, batch_b="B003")
    refused = rpc.send(part, rpc.leaf_for(part), task=other)
    assert decision_of(refused)["reason"] == "CALL_MALFORMED"


def test_another_persons_message_finds_no_task_and_changes_nothing(client: Client) -> None:
    task = half(client, batch_a="B123")
    stranger = Client(client.agent, client.binding, "analyst")
    part = completion(task, batch_b="B124")
    assert stranger.send(part, stranger.leaf_for(part), task=task)["code"] == -32001
    nobody = client.asker.headers(client.leaf_for(part))  # the agent, without the person
    assert client.post("SendMessage", client.params(part, task), nobody)["code"] == -32001
    assert state_of(client.send(part, task=task)) == DONE


def test_the_persons_task_is_not_completed_under_somebody_elses_grant(rpc: Client) -> None:
    task = half(rpc, batch_a="B123")
    stranger = Client(rpc.agent, rpc.binding, "analyst")
    part = completion(task, batch_b="B124")
    refused = rpc.post("SendMessage", rpc.params(part, task), rpc.headers(stranger.leaf_for(part)))
    assert decision_of(refused)["reason"] == "GRANT_CLIENT_MISMATCH"


def test_who_may_not_make_the_call_is_not_told_what_it_takes(agent: RunningAgent) -> None:
    auditor = Client(agent, person="analyst")
    part = auditor.call({}, "detect_outliers")
    refused = auditor.send(part, auditor.leaf_for(part, capability="detect_outliers"))
    assert decision_of(refused)["reason"] == "INSUFFICIENT_PRIVILEGE"
    assert "metric" not in json.dumps(refused)


def test_of_a_task_that_waits_no_argument_is_remembered_where_it_can_be_read(rpc: Client) -> None:
    task = half(rpc, batch_a="B125")
    found = rpc.get(task["id"])
    assert state_of(found) == INPUT
    assert "B125" not in json.dumps(found)
    assert "QjEyNQ" not in json.dumps(found)


def test_a_task_that_waits_can_be_cancelled_and_then_not_completed(client: Client) -> None:
    task = half(client, batch_a="B001")
    assert state_of(client.cancel(task["id"])) == "TASK_STATE_CANCELED"
    assert client.send(completion(task, batch_b="B002"), task=task)["code"] == -32004


def test_where_no_call_is_remembered_only_a_whole_one_goes_on(rpc: Client) -> None:
    task = rpc.say("what is love")
    assert "capabilities" in proposal_of(task)
    other = rpc.say("what is love")
    refused = rpc.send(completion(task, batch_a="B126", batch_b="B127"), task=task)
    assert decision_of(refused)["reason"] == "CALL_MALFORMED"
    assert state_of(rpc.send(rpc.call({"batch_a": "B126", "batch_b": "B127"}), task=other)) == DONE


def test_of_two_messages_that_complete_a_task_at_once_one_does(agent: RunningAgent, counted: Held) -> None:
    before = len(agent.rows())
    tries = 6
    for number in range(2):
        client = Client(agent, BINDINGS[number % 2])
        task = half(client, batch_a=f"B{130 + number}")
        part = completion(task, batch_b="B140")
        grants = [client.leaf_for(part) for _ in range(tries)]
        with ThreadPoolExecutor(tries) as pool:
            ended = list(pool.map(lambda grant, p=part, t=task, c=client: c.send(p, grant, task=t), grants))
        assert sorted(item.get("code", 0) for item in ended) == [-32004] * (tries - 1) + [0]
        assert sum(state_of(item) == DONE for item in ended if "status" in item) == 1
    assert counted.began == 2
    assert [row["reason"] for row in new_rows(agent, before)] == ["ARGUMENTS_MISSING", "PRINCIPAL_AUTHORIZED"] * 2


def test_a_hash_of_the_message_is_what_the_leaf_of_a_follow_up_is_bound_to(rpc: Client) -> None:
    task = half(rpc, batch_a="B001")
    part = completion(task, batch_b="B002")
    other = rpc.leaf(Operation("SendMessage", call_hash=sha256_hex(completion(task, batch_b="B003"))))
    assert decision_of(rpc.send(part, other, task=task))["reason"] == "GRANT_OPERATION_MISMATCH"
