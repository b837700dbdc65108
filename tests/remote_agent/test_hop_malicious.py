"""A middle agent that wants more than it was given: the second agent refuses by name, whatever the first one signs.

The first agent's real key signs everything here, and its real assertion sends it. Nothing is
spent, nothing is run, and every try is one row of the second agent's ledger.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from contract.canonical import unb64url
from contract.scope import Sensitivity, parse_rows
from grants.claims import ChildClaims
from tests.grants.grants_world import CHILD_HEADER, claims_of, forge, par_hash, root_header
from tests.remote_agent.chain_world import (
    OTHER,
    TOTAL,
    ChainWorld,
    agent_id,
    amounts,
    chain_world,
    dataset,
    passed_on,
)
from tests.running_agent import decision_of, task_of

Edit = Callable[[dict[str, Any]], Any]


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChainWorld]:
    with chain_world(tmp_path_factory.mktemp("malicious"), 2) as world:
        yield world


def received(two: ChainWorld, **mint: Any) -> tuple[str, ...]:
    """What an honest root agent sends the first agent: narrow in every member there is."""
    reached = two.scope(
        2,
        max_sensitivity=Sensitivity.INTERNAL,
        columns=frozenset({"item.key", "item.site", "item.amount"}),
        constraints=parse_rows({"item.site": {"one_of": ["Basel"]}, "item.amount": {"max": 500}}),
    )
    token = two.root_token(two.scope(1), reached, **({"max_depth": 2} | mint))
    return two.leaf(token, two.call())


def honest(two: ChainWorld, leaf: tuple[str, ...]) -> tuple[str, ...]:
    """What the first agent would derive of it."""
    held = ChildClaims.model_validate(claims_of(leaf[-1])).scopes
    return passed_on(two, leaf, narrow=[scope for scope in held if scope.dataset == dataset(2)])


def forged(two: ChainWorld, leaf: tuple[str, ...], edit: Edit) -> tuple[str, ...]:
    """An honest child, edited and signed by the first agent's own key."""
    claims = copy.deepcopy(claims_of(honest(two, leaf)[-1]))
    edit(claims)
    return (*leaf, forge(claims, two.key(1), CHILD_HEADER))


def detail(**members: Any) -> Edit:
    """Changes members of the one entry; ``None`` takes a member away."""

    def edit(claims: dict[str, Any]) -> None:
        entry = claims["authorization_details"][0]
        entry |= members
        for name in [name for name, value in members.items() if value is None]:
            del entry[name]

    return edit


def claim(**members: Any) -> Edit:
    return lambda claims: claims.update(members)


def within(name: str, **members: Any) -> Edit:
    return lambda claims: claims[name].update(members)


BASEL = {"one_of": ["Basel"]}
WIDENED: dict[str, tuple[Edit, str]] = {
    "another dataset": (detail(identifier="data-9"), "GRANT_WIDENED"),
    "a dataset more": (
        lambda claims: claims["authorization_details"].append(
            claims["authorization_details"][0] | {"identifier": "data-9"}
        ),
        "GRANT_WIDENED",
    ),
    "another version": (detail(dataset_version="2"), "GRANT_WIDENED"),
    "another revision": (detail(revision="r9"), "GRANT_WIDENED"),
    "a capability more": (detail(actions=[OTHER, TOTAL]), "GRANT_WIDENED"),
    "another capability": (detail(actions=[OTHER]), "GRANT_WIDENED"),
    "an agent more": (detail(locations=[agent_id(2), agent_id(3)]), "GRANT_WIDENED"),
    "a column more": (detail(columns=["item.key", "item.site", "item.amount", "item.secret"]), "GRANT_WIDENED"),
    "every column": (detail(columns=None), "GRANT_WIDENED"),
    "a higher sensitivity": (detail(max_sensitivity="restricted"), "GRANT_WIDENED"),
    "every constraint dropped": (detail(constraints=None), "GRANT_WIDENED"),
    "one constraint dropped": (detail(constraints={"item.site": BASEL}), "GRANT_WIDENED"),
    "a constraint loosened by a value": (
        detail(constraints={"item.site": {"one_of": ["Basel", "Visp"]}, "item.amount": {"max": 500}}),
        "GRANT_WIDENED",
    ),
    "a constraint loosened by a bound": (
        detail(constraints={"item.site": BASEL, "item.amount": {"max": 501}}),
        "GRANT_WIDENED",
    ),
    "a constraint of another kind": (
        detail(constraints={"item.site": {"prefix": "B"}, "item.amount": {"max": 500}}),
        "GRANT_WIDENED",
    ),
    "a bound that cannot be compared": (
        detail(constraints={"item.site": BASEL, "item.amount": {"max": "2026-01-01"}}),
        "GRANT_WIDENED",
    ),
    "a constraint nobody knows": (
        detail(constraints={"item.site": {"any": True}, "item.amount": {"max": 500}}),
        "GRANT_CONSTRAINT_UNKNOWN",
    ),
    "a type nobody knows": (detail(type="everything:v1"), "GRANT_CONSTRAINT_UNKNOWN"),
    "a longer life than its parent": (
        lambda claims: claims.update(exp=claims["exp"] + 1, iat=claims["iat"] + 1, nbf=claims["nbf"] + 1),
        "GRANT_LIFETIME_EXCEEDED",
    ),
    "a longer life than a leaf may have": (
        lambda claims: claims.update(exp=claims["iat"] + 61),
        "GRANT_LIFETIME_EXCEEDED",
    ),
    "a deeper delegation": (claim(del_max_depth=3), "GRANT_WIDENED"),
    "a depth it does not have": (claim(del_depth=1), "GRANT_CHAIN_BROKEN"),
    "another subject": (claim(sub="u-ana-01"), "GRANT_CHAIN_BROKEN"),
    "another transaction": (claim(txn="txn-mine"), "GRANT_CHAIN_BROKEN"),
    "another tenant": (within("tctx", tenant="other"), "GRANT_CHAIN_BROKEN"),
    "another class of principal": (within("tctx", principal_class="clinical-reviewer"), "GRANT_CHAIN_BROKEN"),
    "another decision": (within("tctx", decision_id="dec-mine"), "GRANT_CHAIN_BROKEN"),
    "another trace": (within("rctx", trace_id="ab" * 16), "GRANT_CHAIN_BROKEN"),
    "the root agent as its sender": (within("act", sub="urn:dataset-agent:root"), "GRANT_CHAIN_BROKEN"),
    "another agent as its sender": (within("act", sub=agent_id(9)), "GRANT_CHAIN_BROKEN"),
    "another parent": (claim(par_hash="A" * 43), "GRANT_CHAIN_BROKEN"),
    "another audience": (claim(aud=agent_id(9)), "GRANT_AUDIENCE_MISMATCH"),
    "another operation": (claim(op={"method": "SendMessage", "call_hash": "a" * 64}), "GRANT_OPERATION_MISMATCH"),
    "any operation": (claim(op={"method": "delegate"}), "GRANT_OPERATION_MISMATCH"),
}


def refused(two: ChainWorld, chain: tuple[str, ...], reason: str, **post: Any) -> None:
    """Refused by that name, nothing spent, nothing run, one row."""
    before, spent = two.counts(), two.spent(2)
    task = task_of(two.post(2, post.pop("call", None) or two.call(2), chain, by=1, **post))
    decision = decision_of(task)
    assert (decision["verdict"], decision["reason"]) == ("REFUSED", reason)
    assert "artifacts" not in task
    assert two.counts() == [before[0], before[1] + 1]
    row = two.last(2)
    assert (row["reason"], row["execution_id"], row["rows_returned"], row["cache"]) == (reason, None, None, None)
    assert two.spent(2) == spent


@pytest.mark.parametrize("name", WIDENED)
def test_a_child_that_is_wider_is_refused_by_the_second_agent(two: ChainWorld, name: str) -> None:
    edit, reason = WIDENED[name]
    refused(two, forged(two, received(two), edit), reason)


def test_an_honest_child_is_accepted_once(two: ChainWorld) -> None:
    chain = honest(two, received(two))
    assert amounts(task_of(two.post(2, two.call(2), chain, by=1))) == [100]
    refused(two, chain, "GRANT_REPLAYED")


def test_another_call_than_the_child_was_derived_for_is_refused(two: ChainWorld) -> None:
    chain = honest(two, received(two))
    refused(two, chain, "GRANT_OPERATION_MISMATCH", call=two.call(2, key="K2"))


def test_a_capability_beside_the_granted_one_is_refused_though_its_hash_is_signed(two: ChainWorld) -> None:
    call = two.call(2, OTHER)
    refused(two, passed_on(two, received(two), call=call, narrow=None), "GRANT_WIDENED", call=call)


def test_the_received_leaf_itself_is_for_another_agent(two: ChainWorld) -> None:
    refused(two, received(two), "GRANT_AUDIENCE_MISMATCH")


def test_a_token_left_out_between_is_a_broken_chain(two: ChainWorld) -> None:
    leaf = received(two)
    chain = honest(two, leaf)
    refused(two, (chain[0], chain[2]), "GRANT_SIGNATURE_INVALID")


def test_a_child_of_another_chain_is_a_broken_chain(two: ChainWorld) -> None:
    leaf, other = received(two), received(two)
    refused(two, (*leaf, honest(two, other)[-1]), "GRANT_CHAIN_BROKEN")


def test_a_root_token_of_another_asking_is_a_broken_chain(two: ChainWorld) -> None:
    leaf, other = received(two), received(two)
    refused(two, (other[0], *honest(two, leaf)[1:]), "GRANT_CHAIN_BROKEN")


def test_a_grant_that_ends_with_the_first_agent_goes_no_further(two: ChainWorld) -> None:
    leaf = received(two, max_depth=1)
    claims = claims_of(honest(two, received(two))[-1])
    claims |= {name: claims_of(leaf[-1])[name] for name in ("sub", "txn", "exp", "rctx", "tctx")}
    claims |= {"par_hash": par_hash(leaf[-1]), "del_max_depth": 1}
    refused(two, (*leaf, forge(claims, two.key(1), CHILD_HEADER)), "GRANT_TOO_DEEP")
    refused(two, (*leaf, forge(claims | {"del_max_depth": 2}, two.key(1), CHILD_HEADER)), "GRANT_WIDENED")


def test_a_root_token_of_its_own_making_is_trusted_by_nobody(two: ChainWorld) -> None:
    leaf = received(two)
    root = forge(claims_of(leaf[0]), two.key(1), root_header(two.key(1)))
    own = claims_of(honest(two, leaf)[-1])
    own |= {"par_hash": par_hash(root), "del_depth": 1, "act": {"sub": two.root.root_id}}
    refused(two, (root, forge(own, two.key(1), CHILD_HEADER)), "GRANT_KEY_UNTRUSTED")
    for kid in ({}, {"kid": "unknown"}):
        head = root_header(two.key(1)) | kid
        refused(two, (forge(claims_of(leaf[0]), two.key(1), head), *leaf[1:]), "GRANT_KEY_UNTRUSTED")


def test_a_root_token_under_the_issuers_kid_is_not_the_issuers(two: ChainWorld) -> None:
    leaf = received(two)
    head = root_header(two.key(1)) | {"kid": issuer_kid(leaf[0])}
    root = forge(claims_of(leaf[0]) | {"sub": "u-ana-01"}, two.key(1), head)
    refused(two, (root, *honest(two, leaf)[1:]), "GRANT_SIGNATURE_INVALID")


def issuer_kid(token: str) -> Any:
    return json.loads(unb64url(token.split(".")[0]))["kid"]


def test_a_child_signed_by_a_key_that_was_never_given_anything_is_refused(two: ChainWorld) -> None:
    leaf = received(two)
    refused(two, (*leaf, forge(claims_of(honest(two, leaf)[-1]), two.key(2), CHILD_HEADER)), "GRANT_SIGNATURE_INVALID")


def test_a_first_agent_that_was_given_nothing_for_the_second_gets_nothing(two: ChainWorld) -> None:
    token = two.root_token(two.scope(1), max_depth=2)
    leaf = two.leaf(token, two.call())
    child = claims_of(honest(two, received(two))[-1])
    same = {name: claims_of(leaf[-1])[name] for name in ("sub", "txn", "exp", "rctx", "tctx")}
    child |= same | {"par_hash": par_hash(leaf[-1])}
    refused(two, (*leaf, forge(child, two.key(1), CHILD_HEADER)), "GRANT_WIDENED")


def test_somebody_elses_chain_is_not_sent_by_the_second_agent_itself(two: ChainWorld) -> None:
    before = two.counts()
    task = task_of(two.post(2, two.call(2), honest(two, received(two)), by=2))
    assert decision_of(task)["reason"] == "GRANT_CLIENT_MISMATCH"
    assert two.counts() == [before[0], before[1] + 1]


def test_the_root_agent_is_nobody_to_the_second_agent(two: ChainWorld) -> None:
    before = two.counts()
    assert two.post(2, two.call(2), honest(two, received(two))).status_code == 401
    assert two.counts() == before


def test_a_reach_into_the_whole_grant_is_bounded_by_what_the_second_agent_decides_itself(two: ChainWorld) -> None:
    """The widest the first agent may sign is all that it was given; the second one's own policy still narrows it."""
    token = two.root_token(two.scope(1), two.scope(2))
    leaf = two.leaf(token, two.call())
    task = task_of(two.post(2, two.call(2), passed_on(two, leaf, narrow=None), by=1))
    assert amounts(task) == [100]  # of the sites Basel and Visp, not of Stein
