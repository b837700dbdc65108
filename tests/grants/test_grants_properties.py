"""No child is accepted that widens anything, and every one that only narrows is: over 20,000 signed chains."""

from __future__ import annotations

import ast
import random
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contract.grant import VerifiedGrant
from contract.scope import Constraint, ScopeError
from contract.verdict import NotGranted, Reason
from tests.grants import narrowing_oracle as oracle
from tests.grants.random_chains import Chain, chains, every_constraint, judged

CHAINS = 2_000
BATCHES = [0, 1, *(pytest.param(batch, marks=pytest.mark.live) for batch in range(2, 10))]
"""Together the 20,000 chains; the first two batches are tried at every commit."""
REFUSALS = {
    Reason.GRANT_WIDENED,
    Reason.GRANT_TOO_DEEP,
    Reason.GRANT_LIFETIME_EXCEEDED,
    Reason.GRANT_CONSTRAINT_UNKNOWN,
    Reason.GRANT_CHAIN_BROKEN,
    Reason.GRANT_CLAIMS_INVALID,
    Reason.GRANT_AUDIENCE_MISMATCH,
    Reason.NO_ACTIVE_GRANT,
}
WIDENED_BY = {
    "identifier",
    "dataset_version",
    "revision",
    "actions",
    "locations",
    "max_sensitivity",
    "columns",
    "constraints",
    "exp",
    "del_max_depth",
}


def outcome(chain: Chain) -> VerifiedGrant | Reason:
    try:
        return judged(chain)
    except NotGranted as stop:
        return stop.reason


def check(chain: Chain) -> bool:
    """Whether the chain is accepted, after comparing that with the oracle."""
    narrower, wider = chain.narrower(), chain.wider()
    assert not (narrower and wider), "the oracle's form is looser than its meaning"
    grant = outcome(chain)
    if isinstance(grant, Reason):
        assert not narrower, grant
        assert grant in REFUSALS
        return False
    assert not wider
    assert narrower
    assert [scope.dataset for scope in grant.scopes] == [
        detail["identifier"] for detail in chain.claims[-1]["authorization_details"]
    ]
    return True


@pytest.mark.parametrize("batch", BATCHES)
def test_a_chain_is_accepted_exactly_where_every_link_narrows(batch: int) -> None:
    seen: Counter[str] = Counter()
    for chain in chains(random.Random(f"narrowing {batch}"), CHAINS):
        seen["accepted" if check(chain) else "refused"] += 1
        seen[f"{len(chain.claims) - 1} children"] += 1
        seen[f"{len(chain.claims[0]['authorization_details'])} scopes"] += 1
        seen.update({f"wider in {member}" for member in chain.wider()})
    assert seen["accepted"] + seen["refused"] == CHAINS
    assert min(seen["accepted"], seen["refused"]) > CHAINS / 4
    assert min(seen[f"{hops} children"] for hops in (1, 2, 3)) > CHAINS / 20
    assert min(seen[f"{scopes} scopes"] for scopes in (1, 2, 3, 5, 8)) > CHAINS / 50
    assert min(seen[f"wider in {member}"] for member in WIDENED_BY) > 0


@settings(max_examples=100, deadline=None)
@given(st.randoms(use_true_random=False))
def test_a_chain_that_is_judged_otherwise_has_a_small_example(rng: random.Random) -> None:
    """The same law where a failure is made small."""
    for chain in chains(rng, 2):
        check(chain)


# constraints, pair by pair


def test_the_order_of_constraints_is_the_profiles_for_every_pair() -> None:
    held = [(raw, Constraint.parse(raw)) for raw in every_constraint()]
    for above, parent in held:
        for below, child in held:
            assert parent.covers(child) == oracle.tighter(above, below), (above, below)


def test_a_constraint_that_is_covered_lets_nothing_more_pass_whatever_the_columns_type() -> None:
    """The check where ``covers`` could be loose: numbers as text, days and moments, prefixes and sets."""
    held = [(raw, Constraint.parse(raw)) for raw in every_constraint()]
    passing = {kind: [oracle.passing(kind, raw) for raw, _ in held] for kind in oracle.UNIVERSE}
    for place, (above, parent) in enumerate(held):
        for other, (below, child) in enumerate(held):
            if parent.covers(child):
                for kind, rows in passing.items():
                    assert rows[other] <= rows[place], (kind, above, below)


STRICTER = {
    "a set that a prefix holds already": ("text", {"prefix": "a"}, {"one_of": ["a", "ab"]}),
    "a prefix whose texts are all listed": ("text", {"one_of": ["a", "ab", "abc"]}, {"prefix": "ab"}),
    "an exclusion of what is not listed": ("text", {"not_one_of": ["b"]}, {"one_of": ["a"]}),
    "an exclusion of what a prefix leaves out": ("text", {"not_one_of": ["b"]}, {"prefix": "a"}),
    "an exclusion of nothing": ("integer", {"not_one_of": []}, {"min": 9}),
    "a bound that a set keeps": ("integer", {"max": 10}, {"one_of": [9, 10]}),
    "a bound that an equal set keeps": ("decimal", {"min": "9"}, {"one_of": ["9.5", "10"]}),
    "a number spelled otherwise in a set": ("decimal", {"one_of": ["10"]}, {"one_of": ["10.0"]}),
    "a number as text in a set": ("decimal", {"one_of": [10]}, {"one_of": ["10"]}),
    "an excluded number spelled otherwise": ("decimal", {"not_one_of": ["10"]}, {"not_one_of": ["10.0"]}),
    "a moment spelled otherwise": (
        "moment",
        {"one_of": ["2024-01-01T00:00:00.000000Z"]},
        {"one_of": ["2024-01-01T00:00:00Z"]},
    ),
    "nothing at all, said in another kind": ("text", {"prefix": "a"}, {"one_of": []}),
    "nothing at all, by a bound that misfits": (
        "moment",
        {"max": "2024-01-01T00:00:00.000000Z"},
        {"max": "2024-01-01"},
    ),
    "all values listed": ("boolean", {"not_one_of": ["true"]}, {"one_of": ["false"]}),
}


@pytest.mark.parametrize(("kind", "above", "below"), STRICTER.values(), ids=STRICTER)
def test_a_narrowing_that_needs_thought_is_refused(kind: str, above: object, below: object) -> None:
    """Where form is stricter than meaning: the child lets nothing more pass, and must still say it in its parent's kinds."""
    parent, child = Constraint.parse(above), Constraint.parse(below)
    assert oracle.passing(kind, below) <= oracle.passing(kind, above)  # type: ignore[arg-type]
    assert not parent.covers(child)


@pytest.mark.parametrize(
    "raw",
    [
        {},
        {"regex": "a"},
        {"max": "b"},
        {"min": ""},
        {"max": "1e3"},
        {"max": "+1"},
        {"max": " 1"},
        {"max": "1."},
        {"max": "\u0661"},
        {"max": "2024-1-1"},
        {"max": "2024-02-31"},
        {"min": "2024-13-01"},
        {"max": "2024-01-01T24:00:00.000000Z"},
        {"max": "2024-01-01T23:59:60.000000Z"},
        {"max": "2024-02-31T00:00:00.000000Z"},
        {"max": "2024-01-01T00:00:00Z"},
        {"max": "2024-01-01T00:00:00.000000+00:00"},
        {"prefix": ""},
        {"one_of": [1.5]},
        {"one_of": [True]},
        {"one_of": "a"},
        {"one_of": None},
        {"max": 2**53},
    ],
)
def test_what_has_no_agreed_meaning_is_no_constraint(raw: object) -> None:
    with pytest.raises(ScopeError):
        Constraint.parse(raw)


def test_the_oracle_stands_on_the_standard_library_alone() -> None:
    tree = ast.parse(Path(oracle.__file__).read_text(encoding="utf-8"))
    named = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    named |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert {name.split(".")[0] for name in named} <= set(sys.stdlib_module_names) | {"__future__"}
