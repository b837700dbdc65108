"""A dataset agent that asks another one: what is passed on, what comes back, and what is proven of it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import pytest

from contract.canonical import sha256_hex
from contract.extension import CACHE_KEY
from contract.scope import Sensitivity, parse_rows
from evidence.dsse import payload_of
from evidence.provenance import verify_provenance
from evidence.tree import verify_tree
from grants.trust import load_trust
from tests.grants.grants_world import claims_of
from tests.remote_agent.chain_world import (
    OTHER,
    TOTAL,
    ChainWorld,
    Tap,
    agent_id,
    amounts,
    chain_world,
    dataset,
    decoded,
)
from tests.running_agent import decision_of, message, task_of


@pytest.fixture(scope="module")
def tap() -> Tap:
    return Tap()


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory, tap: Tap) -> Iterator[ChainWorld]:
    with chain_world(tmp_path_factory.mktemp("two"), 2, wrap=tap) as world:
        yield world


def test_an_answer_is_completed_from_the_rows_of_another_agent(two: ChainWorld) -> None:
    before = two.counts()
    task = two.ask()
    assert decision_of(task)["verdict"] == "GRANTED"
    assert amounts(task) == [110]
    assert two.counts() == [count + 1 for count in before]


def test_both_agents_record_the_same_asking_each_under_its_own_leaf(two: ChainWorld) -> None:
    two.ask()
    first, second = two.last(1), two.last(2)
    for name in ("root_jti", "txn", "trace_id", "issuer", "tenant"):
        assert first[name] == second[name]
    assert first["leaf_jti"] != second["leaf_jti"]
    assert (first["client"], second["client"]) == (two.root.root_id, agent_id(1))
    assert (first["tool_origin"], second["tool_origin"]) == ("A2A", "LOCAL")
    assert second["upstream_digest"] is None


def test_the_proof_holds_the_other_agents_proof_and_the_ledger_names_it(two: ChainWorld) -> None:
    task = two.ask()
    keys = {name: (agent.key,) for name, agent in load_trust(two.settings(1).trust_path).agents.items()}
    envelope = json.loads(decoded(task, "provenance"))
    statement = verify_provenance(envelope, keys[agent_id(1)][0], body=decoded(task, "result"))
    (branch,) = verify_tree(statement, keys)
    assert (branch.statement.predicate.agent.id, branch.statement.predicate.grant.client) == (agent_id(2), agent_id(1))
    assert branch.statement.predicate.dataset.dataset_id == dataset(2)
    assert statement.predicate.execution.tool_origin == "A2A"
    stated = statement.predicate.upstream[0]
    assert two.last(1)["upstream_digest"] == sha256_hex(payload_of(stated.envelope))
    assert stated.task_id


def test_the_answer_is_as_old_as_the_older_of_both(two: ChainWorld) -> None:
    assert json.loads(decoded(two.ask(), "result"))["as_of"] == "2026-08-30T00:00:00.000000Z"


def test_what_is_passed_on_covers_the_one_call_and_nothing_else(two: ChainWorld, tap: Tap) -> None:
    wide = two.scope(
        2,
        TOTAL,
        OTHER,
        locations=frozenset({agent_id(1), agent_id(2)}),
        max_sensitivity=Sensitivity.CONFIDENTIAL,
        columns=frozenset({"item.key", "item.site", "item.amount"}),
        constraints=parse_rows({"item.site": {"one_of": ["Basel"]}}),
    )
    token = two.root_token(two.scope(1, TOTAL, OTHER), wide, max_depth=3, trace_id="ab" * 16)
    assert decision_of(two.ask(token))["verdict"] == "GRANTED"
    root, leaf, child = (claims_of(token) for token in tap.chains[-1])
    (detail,) = child["authorization_details"]
    assert detail == next(d for d in leaf["authorization_details"] if d["identifier"] == dataset(2)) | {
        "actions": [TOTAL],
        "locations": [agent_id(2)],
        "max_sensitivity": "internal",
    }
    assert (child["aud"], child["act"]["sub"], child["del_depth"]) == (agent_id(2), agent_id(1), 2)
    assert (root["del_max_depth"], leaf["del_max_depth"], child["del_max_depth"]) == (3, 3, 2)
    assert child["exp"] <= leaf["exp"]
    assert child["op"] == {"method": "SendMessage", "call_hash": sha256_hex(two.call(2))}
    assert tap.traces[-1].split("-")[1] == "ab" * 16


def test_only_the_agent_that_answers_keeps_rows_of_it(two: ChainWorld) -> None:
    call = two.call(key="K2")
    outcomes = []
    for _ in range(2):
        task = task_of(two.post(1, call, two.leaf(two.root_token(), call)))
        outcomes.append((task["metadata"][CACHE_KEY]["outcome"], two.last(2)["cache"]))
    assert outcomes == [("OFF", "MISS"), ("OFF", "HIT")]


def test_what_the_other_agent_may_not_show_is_missing_from_the_answer(two: ChainWorld) -> None:
    elsewhere = two.scope(2, constraints=parse_rows({"item.site": {"one_of": ["Visp"]}}))
    assert amounts(two.ask(two.root_token(two.scope(1), elsewhere))) == []


def test_a_streamed_call_is_completed_in_the_same_way(two: ChainWorld) -> None:
    call, method = two.call(), "SendStreamingMessage"
    chain = two.leaf(two.root_token(), call, method=method)
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": message(call)}}
    with httpx.stream("POST", two.agents[0].url + "/", json=body, headers=two.headers(1, chain), timeout=30) as reply:
        events = [json.loads(line[6:]) for line in reply.iter_lines() if line.startswith("data: ")]
    assert events[-1]["result"]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"


def test_a_capability_that_asks_nobody_is_answered_without_the_other_agent(two: ChainWorld) -> None:
    before, call = two.counts(), two.call(1, OTHER)
    task = task_of(two.post(1, call, two.leaf(two.root_token(two.scope(1, OTHER), max_depth=1), call)))
    assert amounts(task) == [10]
    assert two.counts() == [before[0] + 1, before[1]]
