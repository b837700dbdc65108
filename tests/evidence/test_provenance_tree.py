"""A provenance tree holds where every agent in it was asked by the one above, for the same asking, and signed."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evidence.dsse import InvalidProvenance, sign_envelope
from evidence.tree import verify_tree, walk
from tests.evidence.evidence_builders import SeedSigner
from tests.evidence.provenance_trees import (
    KEYS,
    ROOT,
    Node,
    agent_id,
    grown,
    opened,
    places,
    relayed,
    rewritten,
    signer_of,
    unverified,
    verified,
)

TWO = Node(0, (Node(1),))
DEEPEST = Node(0, (Node(1, (Node(2),)), Node(3)))


def trees(levels: int = 3) -> st.SearchStrategy[Node]:
    """Trees of up to ``levels`` agents below the root agent, each agent asking up to two others."""
    below = st.just(()) if levels == 1 else st.lists(trees(levels - 1), max_size=2).map(tuple)
    return st.builds(Node, st.integers(2 * levels, 2 * levels + 1), below)


def check_of(verify: Callable[[], object]) -> str | None:
    try:
        verify()
    except InvalidProvenance as problem:
        return problem.check
    return None


@given(trees(), st.booleans())
@settings(max_examples=60, deadline=None)
def test_an_honest_tree_of_any_shape_holds_and_every_branch_is_told(tree: Node, through_root: bool) -> None:
    envelope = grown(tree)
    whole = relayed(envelope) if through_root else envelope
    told = [branch.statement.predicate.agent.id for _, branch in walk(verified(whole))]
    assert len(told) == sum(1 for _ in places(whole)) - 1


def test_a_tree_is_told_from_the_top_with_the_task_and_the_level_of_each_branch() -> None:
    told = [
        (level, branch.statement.predicate.agent.id, branch.task_id)
        for level, branch in walk(verified(relayed(grown(DEEPEST))))
    ]
    assert told == [
        (1, agent_id(0), "task-0"),
        (2, agent_id(1), "task-0.0"),
        (3, agent_id(2), "task-0.0.0"),
        (2, agent_id(3), "task-0.1"),
    ]


@given(trees(), st.booleans(), st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_scalar_of_any_envelope_can_change_unnoticed(tree: Node, through_root: bool, data: st.DataObject) -> None:
    envelope = relayed(grown(tree)) if through_root else grown(tree)
    place = data.draw(st.sampled_from(list(places(envelope))))
    change = data.draw(st.sampled_from([change_signature, change_type, data.draw(scalar_changes(at(envelope, place)))]))
    assert check_of(lambda: verified(rewritten(envelope, place, change, resigned=False)))


@given(trees(), st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_an_agent_cannot_change_a_scalar_of_what_another_signed(tree: Node, data: st.DataObject) -> None:
    """Those above the changed envelope sign what they make of it, with their own keys."""
    envelope = relayed(grown(tree))
    place = data.draw(st.sampled_from([place for place in places(envelope) if place]))
    change = data.draw(st.sampled_from([change_signature, change_type, data.draw(scalar_changes(at(envelope, place)))]))
    assert check_of(lambda: verified(rewritten(envelope, place, change, resigned=True)))


@given(trees(), st.data())
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_branch_can_be_dropped_or_told_twice(tree: Node, data: st.DataObject) -> None:
    envelope = relayed(grown(tree))
    parents = [place for place in places(envelope) if opened(at(envelope, place))["predicate"]["upstream"]]
    place = data.draw(st.sampled_from(parents))
    statement = opened(at(envelope, place))
    upstream = statement["predicate"]["upstream"]
    changed = data.draw(st.sampled_from([[], [*upstream, upstream[0]]]))

    def again(parent: dict[str, Any]) -> None:
        statement["predicate"]["upstream"] = changed
        parent |= sign_envelope(statement, signer_of(statement["predicate"]["agent"]["id"]))

    assert check_of(lambda: verified(rewritten(envelope, place, again, resigned=True))) in ("upstream", "relay")


@pytest.mark.parametrize(
    ("member", "value", "check"),
    [
        ("root_jti", "jti-of-another-root-token", "root_jti"),
        ("txn", "txn-2", "txn"),
        ("issuer", "https://another-issuer.example", "issuer"),
        ("trace_id", "f" * 32, "trace_id"),
    ],
)
@pytest.mark.parametrize("depth", [1, 2])
def test_a_branch_of_another_asking_is_refused(member: str, value: str, check: str, depth: int) -> None:
    foreign = Node(2, thread=((member, value),))
    tree = Node(0, (foreign,)) if depth == 1 else Node(0, (Node(1, (foreign,)),))
    assert check_of(lambda: verified(relayed(grown(tree)))) == check


def test_a_branch_that_was_given_to_another_agent_is_refused() -> None:
    theirs = grown(Node(3), client=agent_id(2))
    assert check_of(lambda: verified(with_branch(theirs))) == "client"


def test_a_branch_that_was_given_to_the_root_agent_is_not_the_middle_agents() -> None:
    assert check_of(lambda: verified(with_branch(grown(Node(3), client=ROOT, path="9")))) == "client"


def test_a_branch_of_an_agent_without_a_pinned_key_is_refused() -> None:
    keys = {agent: known for agent, known in KEYS.items() if agent != agent_id(1)}
    assert check_of(lambda: verified(grown(TWO), keys)) == "upstream"


def test_a_branch_signed_by_another_key_is_refused() -> None:
    keys = KEYS | {agent_id(1): (SeedSigner(255).public_key,)}
    assert check_of(lambda: verified(grown(TWO), keys)) == "signature"


def test_a_branch_signed_by_a_retired_key_holds_where_that_is_among_the_keys() -> None:
    keys = KEYS | {agent_id(1): (SeedSigner(255).public_key, *KEYS[agent_id(1)])}
    (branch,) = verified(grown(TWO), keys)
    assert branch.key == KEYS[agent_id(1)][0]


def test_a_branch_that_is_called_another_agents_is_refused() -> None:
    def renamed(statement: dict[str, Any]) -> None:
        statement["predicate"]["upstream"][0]["agent_id"] = agent_id(2)

    keys = KEYS | {agent_id(2): KEYS[agent_id(1)]}
    assert check_of(lambda: verified(grown(TWO, change=renamed), keys)) == "agent_id"


def test_a_branch_whose_result_is_not_the_one_stated_is_refused() -> None:
    def other(statement: dict[str, Any]) -> None:
        statement["predicate"]["upstream"][0]["result_digest"] = "0" * 64

    assert check_of(lambda: verified(grown(TWO, change=other))) == "digest"


def test_a_branch_without_a_receipt_that_holds_is_refused() -> None:
    def unreceipted(statement: dict[str, Any]) -> None:
        statement["predicate"]["ledger"]["leaf_hash"] = "0" * 64

    envelope = grown(Node(1), client=agent_id(0), path="0.0", change=unreceipted)
    assert check_of(lambda: verified(with_branch(envelope))) == "ledger"


@pytest.mark.parametrize("origin", ["LOCAL", "MCP"])
def test_a_statement_that_calls_its_result_its_own_rests_on_nobodys(origin: str) -> None:
    def own(statement: dict[str, Any]) -> None:
        statement["predicate"]["execution"]["tool_origin"] = origin

    assert check_of(lambda: verified(grown(TWO, change=own))) == "upstream"


def test_a_statement_that_says_it_asked_another_agent_carries_what_that_answered() -> None:
    def alone(statement: dict[str, Any]) -> None:
        statement["predicate"]["execution"]["tool_origin"] = "A2A"

    assert check_of(lambda: verified(grown(Node(0), change=alone))) == "upstream"


def test_a_tree_is_at_most_four_agents_deep() -> None:
    chain = Node(0, (Node(1, (Node(2),)),))
    assert check_of(lambda: verified(relayed(grown(chain)))) is None
    assert check_of(lambda: verified(relayed(grown(Node(3, (chain,)))))) == "upstream"


def test_an_agent_that_asked_itself_is_refused() -> None:
    assert check_of(lambda: verified(grown(Node(0, (Node(0, (Node(1),)),))))) == "relay"


def test_one_leaf_names_one_result() -> None:
    first = grown(Node(1), client=agent_id(0), path="0.0")
    second = grown(Node(2), client=agent_id(0), path="0.0")
    assert check_of(lambda: verified(with_branch(first, second))) == "upstream"


@pytest.mark.parametrize("section", ["grant", "operation", "dataset", "authorization", "cache", "result", "execution"])
def test_a_relay_says_nothing_but_what_the_other_agent_answered(section: str) -> None:
    member, value = {
        "grant": ("jti", "jti-of-another-leaf"),
        "operation": ("capability", "search"),
        "dataset": ("revision", "r2"),
        "authorization": ("rows_returned", 7),
        "cache": ("key", "dsc:1:other"),
        "result": ("as_of", "2027-01-15T08:00:01.000000Z"),
        "execution": ("execution_id", "exe-2"),
    }[section]

    def embellished(statement: dict[str, Any]) -> None:
        statement["predicate"][section][member] = value

    assert check_of(lambda: verified(relayed(grown(TWO), change=embellished))) == "relay"


def test_a_relay_vouches_for_the_bytes_of_the_other_agent_and_no_others() -> None:
    def other_bytes(statement: dict[str, Any]) -> None:
        statement["subject"][0]["digest"]["sha256"] = "0" * 64

    statement = unverified(relayed(grown(TWO), change=other_bytes))
    assert check_of(lambda: verify_tree(statement, KEYS)) == "relay"


def test_a_root_agent_cannot_pass_bytes_of_its_own_off_as_the_other_agents() -> None:
    """Not even by stating a leaf of its own: what its client sent itself can only be a relay."""

    def other_leaf(statement: dict[str, Any]) -> None:
        statement["predicate"]["grant"] |= {"jti": "jti-own", "leaf_digest": "0" * 64}

    assert check_of(lambda: verified(relayed(grown(TWO), change=other_leaf))) == "relay"


def with_branch(*envelopes: dict[str, Any]) -> dict[str, Any]:
    """The first agent's own envelope over these, whoever signed them."""

    def put(statement: dict[str, Any]) -> None:
        statement["predicate"]["upstream"] = [
            {
                "agent_id": unverified(envelope).predicate.agent.id,
                "task_id": None,
                "result_digest": unverified(envelope).result_digest,
                "envelope": envelope,
            }
            for envelope in envelopes
        ]

    return grown(TWO, change=put)


def at(envelope: dict[str, Any], place: tuple[int, ...]) -> dict[str, Any]:
    for number in place:
        envelope = opened(envelope)["predicate"]["upstream"][number]["envelope"]
    return envelope


def change_signature(envelope: dict[str, Any]) -> None:
    signature = envelope["signatures"][0]
    raw = base64.b64decode(signature["sig"])
    signature["sig"] = base64.b64encode(bytes([raw[0] ^ 1]) + raw[1:]).decode()


def change_type(envelope: dict[str, Any]) -> None:
    envelope["payloadType"] += "x"


def scalar_changes(envelope: dict[str, Any]) -> st.SearchStrategy[Callable[[dict[str, Any]], None]]:
    """A change of one scalar of the statement in an envelope, whose signature stays as it is."""

    def change_at(path: tuple[str | int, ...]) -> Callable[[dict[str, Any]], None]:
        def change(changed: dict[str, Any]) -> None:
            statement = opened(changed)
            inner: Any = statement
            for step in path[:-1]:
                inner = inner[step]
            inner[path[-1]] = other_than(inner[path[-1]])
            changed["payload"] = base64.b64encode(json.dumps(statement).encode()).decode()

        return change

    return st.sampled_from(list(scalars(opened(envelope)))).map(change_at)


def scalars(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if isinstance(value, dict):
        for name, member in value.items():
            yield from scalars(member, (*path, name))
    elif isinstance(value, list):
        for number, member in enumerate(value):
            yield from scalars(member, (*path, number))
    else:
        yield path


def other_than(value: Any) -> Any:
    if isinstance(value, bool) or value is None:
        return not value
    return value + 1 if isinstance(value, int) else str(value) + "0"
