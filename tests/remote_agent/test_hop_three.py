"""Three dataset agents behind one another: four tokens, each narrower, and a fifth that nobody takes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from contract.call import Operation
from contract.canonical import sha256_hex
from evidence import statement as statements
from evidence.provenance import verify_provenance
from evidence.tree import verify_tree, walk
from grants.claims import jwk_of
from grants.trust import TrustedAgent
from remote_agent import accounting
from remote_agent.hop import _Hop
from tests.grants.grants_world import CHILD_HEADER, claims_of, forge, par_hash
from tests.remote_agent.chain_world import (
    TOTAL,
    ChainWorld,
    Tap,
    agent_id,
    amounts,
    chain_world,
    dataset,
    decoded,
    passed_on,
)
from tests.running_agent import decision_of, task_of


@pytest.fixture(scope="module")
def tap() -> Tap:
    return Tap()


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory, tap: Tap) -> Iterator[ChainWorld]:
    with chain_world(tmp_path_factory.mktemp("three"), 3, wrap=tap) as world:
        yield world


def keys(world: ChainWorld) -> dict[str, Any]:
    return {agent_id(place): (world.trusted(place).key,) for place in (1, 2, 3)}


def test_an_answer_may_rest_on_one_that_rests_on_another(three: ChainWorld, tap: Tap) -> None:
    before = three.counts()
    task = three.ask()
    assert amounts(task) == [1110]
    assert three.counts() == [count + 1 for count in before]
    assert len(tap.chains[-1]) == 4


def test_the_whole_tree_is_verified_from_the_first_answer_alone(three: ChainWorld) -> None:
    task = three.ask()
    envelope, body = json.loads(decoded(task, "provenance")), decoded(task, "result")
    statement = verify_provenance(envelope, three.trusted(1).key, body=body)
    told = [branch.statement.predicate for _, branch in walk(verify_tree(statement, keys(three)))]
    assert [(item.agent.id, item.grant.client) for item in told] == [
        (agent_id(2), agent_id(1)),
        (agent_id(3), agent_id(2)),
    ]
    assert {item.grant.root_jti for item in told} == {statement.predicate.grant.root_jti}


def test_each_agent_passes_on_what_the_next_needs_and_no_more(three: ChainWorld, tap: Tap) -> None:
    three.ask()
    claims = [claims_of(token) for token in tap.chains[-1]]
    held = [[detail["identifier"] for detail in each["authorization_details"]] for each in claims]
    everything = [dataset(1), dataset(2), dataset(3)]
    assert held == [everything, everything, [dataset(2), dataset(3)], [dataset(3)]]
    assert [each["del_depth"] for each in claims] == [0, 1, 2, 3]
    assert [each["del_max_depth"] for each in claims] == [3, 3, 3, 3]
    assert [each["aud"] for each in claims[1:]] == [agent_id(1), agent_id(2), agent_id(3)]


def test_a_grant_that_reaches_two_agents_is_not_passed_on_to_a_third(three: ChainWorld) -> None:
    before = three.counts()
    short = three.root_token(max_depth=2)
    assert decision_of(three.ask(short))["reason"] == "GRANT_TOO_DEEP"
    assert three.counts() == [before[0] + 1, before[1], before[2]]


def test_what_the_last_agent_was_not_granted_stops_at_the_one_before(three: ChainWorld) -> None:
    before = three.counts()
    task = three.ask(three.root_token(three.scope(1), three.scope(2)))
    assert decision_of(task)["reason"] == "GRANT_WIDENED"
    assert three.counts() == [before[0] + 1, before[1] + 1, before[2]]


def third(three: ChainWorld) -> tuple[str, ...]:
    """The four tokens that the third agent gets, derived as the agents before it do."""
    leaf = three.leaf(three.root_token(), three.call())
    child = passed_on(three, leaf, narrow=(three.scope(2), three.scope(3)), max_depth=3)
    return passed_on(three, child, by=2)


def test_four_tokens_are_accepted(three: ChainWorld) -> None:
    assert amounts(task_of(three.post(3, three.call(3), third(three), by=2))) == [1000]


def test_a_fifth_token_is_one_too_many(three: ChainWorld) -> None:
    """Round again to the second agent, for its own dataset, under a root token for nothing else."""
    only = (three.scope(2, TOTAL, locations=frozenset({agent_id(2), agent_id(3)})),)
    leaf = three.leaf(three.root_token(*only), three.call())
    chain = passed_on(three, passed_on(three, leaf, narrow=only, max_depth=3), by=2, narrow=only)
    fifth = claims_of(chain[-1]) | {
        "iss": three.key(3).public_key.thumbprint_uri,
        "aud": agent_id(2),
        "act": {"sub": agent_id(3)},
        "cnf": {"jwk": jwk_of(three.key(2).public_key)},
        "par_hash": par_hash(chain[-1]),
        "op": Operation("SendMessage", call_hash=sha256_hex(three.call(2))).to_json(),
    }
    before, spent = three.counts(), three.spent(2)
    for depth in (3, 4):
        token = forge(fifth | {"del_depth": depth, "del_max_depth": depth}, three.key(3), CHILD_HEADER)
        task = task_of(three.post(2, three.call(2), (*chain, token), by=3))
        assert decision_of(task)["reason"] == "GRANT_TOO_DEEP"
    assert three.counts() == [before[0], before[1] + 2, before[2]]
    assert three.spent(2) == spent


def test_the_second_agent_may_not_answer_without_the_third(three: ChainWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lie by omission: it forgets to say what its rows rest on."""

    def forgetful(authority: Any, **members: Any) -> Any:
        if members["agent_id"] == agent_id(2):
            members["upstream"] = ()
        return statements.draft(authority, **members)

    monkeypatch.setattr(accounting, "draft", forgetful)
    task = three.ask()
    assert (decision_of(task)["reason"], "artifacts" in task) == ("REMOTE_PROVENANCE_INVALID", False)


def test_the_first_agent_verifies_the_third_ones_proof_where_it_knows_its_key(three: ChainWorld) -> None:
    service = three.agents[0].lifecycle.service
    before = service.trust
    real = three.trusted(3)
    try:
        for key, reason in ((real.key, "PRINCIPAL_AUTHORIZED"), (three.key(2).public_key, "REMOTE_PROVENANCE_INVALID")):
            pinned = TrustedAgent(real.id, real.url, key)
            service.trust = replace(before, agents={**before.agents, real.id: pinned})
            assert decision_of(three.ask())["reason"] == reason
    finally:
        service.trust = before


def test_an_answer_rests_on_the_agent_that_the_card_names(three: ChainWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """The card says another agent than the one that the second agent's proof carries."""
    described, plan, said = _Hop._described, _Hop._plan, {}

    async def of_another(hop: Any) -> Any:
        descriptor, said["theirs"] = await described(hop)
        delegates = said["theirs"].delegates.model_copy(update={"agent": "urn:dataset-agent:another"})
        return descriptor, said["theirs"].model_copy(update={"delegates": delegates})

    monkeypatch.setattr(
        _Hop, "_described", lambda hop: of_another(hop) if hop.asked.agent == agent_id(2) else described(hop)
    )
    monkeypatch.setattr(
        _Hop, "_plan", lambda hop, theirs: plan(hop, said["theirs"] if hop.asked.agent == agent_id(2) else theirs)
    )
    decision = decision_of(three.ask())
    assert decision["reason"] == "REMOTE_PROVENANCE_INVALID"
    assert "does not rest on what its card says" in decision["rationale"]


def test_no_agent_asks_for_more_than_its_card_says(three: ChainWorld) -> None:
    """The third one asks nobody, so its leaf may not be delegated at all."""
    assert three.scope(3).actions == {TOTAL}
    chain = third(three)
    assert claims_of(chain[-1])["del_max_depth"] == claims_of(chain[-1])["del_depth"] == 3
