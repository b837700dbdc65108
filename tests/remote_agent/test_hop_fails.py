"""When the other agent is not reached, is slow, refuses or goes wrong: distinct outcomes, no rows, one row each."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from contract.verdict import Reason
from grants.state import names_of
from grants.trust_editor import edit_trust
from tests.authority_builder import make_grant
from tests.remote_agent.chain_world import OTHER, ChainWorld, agent_id, amounts, chain_world, dataset
from tests.running_agent import decision_of, message

pytestmark = pytest.mark.live


@pytest.fixture
def two(tmp_path: Path) -> Iterator[ChainWorld]:
    with chain_world(tmp_path, 2, call_timeout=20.0) as world:
        yield world


def stopped(world: ChainWorld, task: dict[str, Any], reason: Reason) -> dict[str, Any]:
    """The decision of a task that ended without rows and is the newest row of the first agent's ledger."""
    decision = decision_of(task)
    assert decision["reason"] == reason.value
    assert "artifacts" not in task
    row = world.last(1)
    assert (row["reason"], row["rows_returned"], row["execution_id"]) == (reason.value, None, None)
    return decision


def test_a_grant_that_does_not_reach_the_other_agent_is_refused_before_it_is_spent(two: ChainWorld) -> None:
    before, spent = two.counts(), two.spent(1)
    for scopes in (
        [two.scope(1)],
        [two.scope(1), two.scope(2, OTHER)],
        [two.scope(1), two.scope(2, locations=frozenset({agent_id(1)}))],
    ):
        decision = stopped(two, two.ask(two.root_token(*scopes)), Reason.GRANT_WIDENED)
        assert agent_id(2) in decision["rationale"]
    assert two.counts() == [before[0] + 3, before[1]]
    assert two.spent(1) == spent


def test_a_grant_that_may_not_be_passed_on_stays_here(two: ChainWorld) -> None:
    before = two.counts()
    stopped(two, two.ask(two.root_token(max_depth=1)), Reason.GRANT_TOO_DEEP)
    assert two.counts() == [before[0] + 1, before[1]]


def test_a_leaf_in_its_last_moment_is_too_old_to_be_passed_on(two: ChainWorld) -> None:
    """Two clocks may differ, so it is still accepted here; but nothing may outlive it."""
    before = two.counts()
    two.agents[0].lifecycle.service.clock = lambda: time.time() + 3
    stopped(two, two.ask(ttl=1), Reason.GRANT_EXPIRED)
    assert two.counts() == [before[0] + 1, before[1]]


def test_the_other_agents_own_refusal_ends_the_call_with_its_reason_and_its_policy(two: ChainWorld) -> None:
    take_away(two, 2)
    before = two.counts()
    decision = stopped(two, two.ask(), Reason.INSUFFICIENT_PRIVILEGE)
    assert decision["policy_id"] == two.last(2)["policy_id"] == "AD-POL-005"
    assert decision["rationale"] == f"{agent_id(2)}: it answered INSUFFICIENT_PRIVILEGE"
    assert two.counts() == [count + 1 for count in before]


def take_away(world: ChainWorld, place: int) -> None:
    """The agent's own directory lists the capability no longer."""
    path = world.settings(place).datasets / "principals.yaml"
    raw = yaml.safe_load(path.read_text())
    raw["principals"][0]["entitlements"][dataset(place)] = []
    path.write_text(yaml.safe_dump(raw))
    agent = world.agents[place - 1]
    agent.run(agent.lifecycle.reload())


def test_what_was_revoked_at_the_other_agent_is_refused_by_it(two: ChainWorld) -> None:
    state = two.agents[1].lifecycle.service.state
    token = two.root_token()
    two.agents[1].run(state.revoke(*subject(), not_before=time.time() + 60))
    stopped(two, two.ask(token), Reason.GRANT_REVOKED)


def test_what_is_revoked_here_while_the_other_agent_is_asked_is_not_released(two: ChainWorld) -> None:
    first = two.agents[0]

    async def revoked_meanwhile() -> None:
        await asyncio.to_thread(
            first.run, first.lifecycle.service.state.revoke(*subject(), not_before=time.time() + 60)
        )

    two.slow(2, revoked_meanwhile)
    task = two.ask()
    assert (decision_of(task)["reason"], "artifacts" in task) == ("GRANT_REVOKED", False)
    assert (two.last(1)["reason"], two.last(2)["reason"]) == ("GRANT_REVOKED", "PRINCIPAL_AUTHORIZED")
    assert two.last(1)["upstream_digest"]


def test_rows_of_an_agent_that_is_trusted_no_more_complete_no_answer(two: ChainWorld) -> None:
    service = two.agents[0].lifecycle.service

    async def distrusted() -> None:
        others = {name: agent for name, agent in service.trust.agents.items() if name != agent_id(2)}
        service.trust = replace(service.trust, agents=others)

    two.slow(1, distrusted)  # its own query runs when the rows are there
    task = two.ask()
    assert (decision_of(task)["reason"], "artifacts" in task) == ("REMOTE_PROVENANCE_INVALID", False)
    assert (two.last(1)["reason"], two.last(2)["reason"]) == ("REMOTE_PROVENANCE_INVALID", "PRINCIPAL_AUTHORIZED")


def subject() -> tuple[Any, str]:
    """How a revocation names the person of every grant here."""
    return next(pair for pair in names_of(make_grant(None), None) if pair[0].value == "subject")


def test_an_agent_that_is_down_is_unreachable(tmp_path: Path) -> None:
    with chain_world(tmp_path, 2) as two:
        moved(two, "http://127.0.0.1:9")
        decision = stopped(two, two.ask(), Reason.REMOTE_UNREACHABLE)
        assert decision["verdict"] == "INDETERMINATE"


def moved(world: ChainWorld, url: str) -> None:
    """The first agent's trust file names another address of the second one."""
    path = world.settings(1).trust_path
    path.write_text(path.read_text().replace(world.agents[1].url, url))
    agent = world.agents[0]
    agent.run(agent.lifecycle.reload())


def test_an_agent_that_fails_says_so_and_its_word_is_passed_on_without_its_text(two: ChainWorld) -> None:
    async def broken() -> None:
        raise RuntimeError("cell zebra-9000")

    two.slow(2, broken)
    decision = stopped(two, two.ask(), Reason.EXECUTION_FAILED)
    assert decision["rationale"] == f"{agent_id(2)}: it answered EXECUTION_FAILED"


def forever() -> Callable[[], Any]:
    return lambda: asyncio.sleep(60)


def test_a_slow_agent_is_waited_for_no_longer_than_the_setting_says(tmp_path: Path) -> None:
    with chain_world(tmp_path, 2, call_timeout=1.0) as two:
        two.slow(2, forever())
        stopped(two, two.ask(), Reason.REMOTE_TIMEOUT)
        settled(two, 2, "CANCELLED")


def test_a_slow_agent_is_waited_for_no_longer_than_the_leaf_lives(two: ChainWorld) -> None:
    two.slow(2, forever())
    stopped(two, two.ask(ttl=2), Reason.REMOTE_TIMEOUT)
    settled(two, 2, "CANCELLED")


def settled(world: ChainWorld, place: int, reason: str) -> None:
    """The agent's newest row gets this reason, which takes it a moment."""
    deadline = time.monotonic() + 10
    agent = world.agents[place - 1]
    while time.monotonic() < deadline and not (agent.rows() and agent.rows()[-1].cells["reason"] == reason):
        time.sleep(0.02)
    assert world.last(place)["reason"] == reason


def test_who_leaves_withdraws_both_calls(two: ChainWorld) -> None:
    started = threading.Event()

    async def slowly() -> None:
        started.set()
        await asyncio.sleep(60)

    two.slow(2, slowly)
    before, call = two.counts(), two.call()
    with pytest.raises(httpx.ReadTimeout):
        two.post(1, call, two.leaf(two.root_token(), call), timeout=1.5)
    assert started.is_set()
    settled(two, 1, "CANCELLED")
    settled(two, 2, "CANCELLED")
    assert two.counts() == [count + 1 for count in before]


def test_cancelling_the_first_call_cancels_the_second(two: ChainWorld) -> None:
    started = threading.Event()

    async def slowly() -> None:
        started.set()
        await asyncio.sleep(60)

    two.slow(2, slowly)
    before, call, method = two.counts(), two.call(), "SendStreamingMessage"
    headers = two.headers(1, two.leaf(two.root_token(), call, method=method))
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": message(call)}}
    with httpx.stream("POST", two.agents[0].url + "/", json=body, headers=headers, timeout=30) as reply:
        lines = (line for line in reply.iter_lines() if line.startswith("data: "))
        task_id = httpx.Response(200, text=next(lines)[6:]).json()["result"]["task"]["id"]
        started.wait(20)
        cancel = {"jsonrpc": "2.0", "id": 2, "method": "CancelTask", "params": {"id": task_id}}
        answered = httpx.post(two.agents[0].url + "/", json=cancel, headers=headers, timeout=30).json()
        assert answered["result"]["status"]["state"] == "TASK_STATE_CANCELED"
    settled(two, 1, "CANCELLED")
    settled(two, 2, "CANCELLED")
    assert two.counts() == [count + 1 for count in before]


def test_an_agent_nobody_pinned_is_not_asked(two: ChainWorld) -> None:
    with edit_trust(two.settings(1).trust_path) as trust:
        trust.trust = type(trust.trust)(
            issuers=trust.trust.issuers,
            agents={name: agent for name, agent in trust.trust.agents.items() if name != agent_id(2)},
        )
    agent = two.agents[0]
    agent.run(agent.lifecycle.reload())
    decision = stopped(two, two.ask(), Reason.REMOTE_CARD_INVALID)
    assert "no key is pinned" in decision["rationale"]


def test_an_agent_that_asks_no_other_completes_no_answer(two: ChainWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(two.agents[0].lifecycle.service, "upstreams", None)
    assert "no key is pinned" in stopped(two, two.ask(), Reason.REMOTE_CARD_INVALID)["rationale"]


def test_an_agent_whose_card_lacks_what_is_to_be_asked_is_not_asked(
    two: ChainWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(*_: Any, **__: Any) -> None:
        return None

    monkeypatch.setattr(type(two.agents[0].lifecycle.service.upstreams), "descriptor", nothing)
    assert "does not offer" in stopped(two, two.ask(), Reason.REMOTE_CARD_INVALID)["rationale"]


def test_rows_that_are_too_many_to_be_sent_inline_complete_no_answer(
    two: ChainWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(two.agents[1].lifecycle.service, "max_result_bytes", 10)
    assert "too many" in stopped(two, two.ask(), Reason.RESULT_TOO_LARGE)["rationale"]


@pytest.mark.parametrize("listed", [("elsewhere",), ()])
def test_an_agent_is_not_asked_for_a_dataset_that_it_is_not_believed_to_serve(
    two: ChainWorld, listed: tuple[str, ...]
) -> None:
    before = two.counts()
    trusting(two, agent_id(2), datasets=frozenset(listed))
    decision = stopped(two, two.ask(), Reason.REMOTE_CARD_INVALID)
    assert decision["rationale"] == f"trust.toml does not list {dataset(2)} for {agent_id(2)}"
    assert two.counts() == [before[0] + 1, before[1]]


def test_an_agent_that_is_only_asked_completes_answers_and_is_no_client(two: ChainWorld) -> None:
    trusting(two, agent_id(2), datasets=frozenset({dataset(2)}), asks=False)
    assert amounts(two.ask()) == [110]
    call = two.call(1)
    assert two.post(1, call, two.leaf(two.root_token(), call), by=2).status_code == 401


def trusting(world: ChainWorld, name: str, **changes: Any) -> None:
    """Change what the first agent's trust file says of another, and have it read."""
    with edit_trust(world.settings(1).trust_path) as trust:
        agents = {**trust.trust.agents, name: replace(trust.trust.agents[name], **changes)}
        trust.trust = replace(trust.trust, agents=agents)
    agent = world.agents[0]
    agent.run(agent.lifecycle.reload())


def test_another_revision_there_than_the_grant_names_is_stale(two: ChainWorld) -> None:
    before = two.counts()
    stale = two.scope(2, revision="r0")
    stopped(two, two.ask(two.root_token(two.scope(1), stale)), Reason.UNKNOWN_DATASET_REVISION)
    assert two.counts() == [before[0] + 1, before[1]]


def test_a_new_revision_there_is_found_without_a_restart_here(two: ChainWorld) -> None:
    assert amounts(two.ask()) == [110]
    republish(two, lambda raw: raw.update(revision="r2-new", schema_version="2"))
    assert amounts(two.ask()) == [110]


def test_other_columns_there_than_this_agent_is_written_for_are_not_asked_for(two: ChainWorld) -> None:
    def renamed(raw: dict[str, Any]) -> None:
        for capability in raw["capabilities"]:
            capability["results"][2]["type"] = "FLOAT64"
        raw["revision"] = "r2-new"

    path = two.settings(2).datasets / dataset(2) / "own.sql"
    path.write_text(path.read_text().replace("i.amount AS", "CAST(i.amount AS FLOAT64) AS"))
    republish(two, renamed)
    decision = stopped(two, two.ask(), Reason.REMOTE_CARD_INVALID)
    assert "other columns" in decision["rationale"]


def test_rows_more_sensitive_than_the_capability_says_are_not_asked_for(two: ChainWorld) -> None:
    def governed(raw: dict[str, Any]) -> None:
        raw["policies"] = ["T-1"]
        raw["capabilities"][0] |= {"sensitivity": "confidential", "policy_id": "T-1"}
        raw["revision"] = "r2-new"

    before = two.counts()
    republish(two, governed)
    decision = stopped(two, two.ask(), Reason.DESCRIPTOR_INVALID)
    assert "more sensitive" in decision["rationale"]
    assert two.counts() == [before[0] + 1, before[1]]


def republish(world: ChainWorld, change: Callable[[dict[str, Any]], None]) -> None:
    """The second agent takes over a changed descriptor."""
    path = world.settings(2).datasets / dataset(2) / "descriptor.json"
    raw = json.loads(path.read_text())
    change(raw)
    path.write_text(json.dumps(raw))
    agent = world.agents[1]
    agent.run(agent.lifecycle.reload())
    assert agent.lifecycle.status()["invalid"] == {}
