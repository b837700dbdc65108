"""Minting rests on a GRANTED decision; deriving only narrows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jwt
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from contract.call import Operation
from contract.errors import DatasetAgentError
from contract.extension import MAX_GRANT_HEADER_BYTES
from contract.scope import Constraint, Obligations, Scope, Sensitivity, parse_rows
from contract.verdict import VERDICTS, NotGranted, Reason, Verdict
from grants.derive import derive, header_value, leaf_digest, leaf_jti
from grants.details import details_of
from grants.mint import mint_discovery
from tests.grants.grants_world import (
    CALL,
    ISSUER,
    NOW,
    REMOTE,
    ROOT,
    SECOND,
    SIGNERS,
    STRANGER,
    THIRD,
    accept,
    agent,
    claims_of,
    make_chain,
    make_decision,
    make_principal,
    make_root,
    make_scope,
)


def code_of(stop: pytest.ExceptionInfo[DatasetAgentError]) -> str:
    return stop.value.code


# minting


@pytest.mark.parametrize("reason", [reason for reason in Reason if VERDICTS[reason] is not Verdict.GRANTED])
def test_no_other_decision_mints_a_grant(reason: Reason) -> None:
    policy = None if VERDICTS[reason] is Verdict.INDETERMINATE else "BPD-DATA-014"
    decision = make_decision(reason, policy_id=policy)
    with pytest.raises(NotGranted) as stop:
        make_root(decision=decision)
    assert (stop.value.reason, stop.value.policy_id) == (reason, policy)


def test_a_scope_above_the_principals_clearance_mints_nothing() -> None:
    with pytest.raises(NotGranted) as stop:
        make_root(make_scope(max_sensitivity=Sensitivity.RESTRICTED))
    assert stop.value.reason is Reason.CLASSIFICATION_EXCEEDS_CLEARANCE


def test_a_root_token_is_never_wider_than_its_decision() -> None:
    obligations = Obligations(
        rows=parse_rows({"batches.site": {"one_of": ["basel"]}}), columns=frozenset({"batches.batch_id", "batches.x"})
    )
    scope = accept(make_chain(make_root(decision=make_decision(obligations=obligations)))).scopes[0]
    assert scope.columns == {"batches.batch_id"}
    assert scope.constraints["batches.site"].one_of == {"basel"}


def test_constraints_that_cannot_hold_together_mint_nothing() -> None:
    obligations = Obligations(rows=parse_rows({"batches.lot": {"prefix": "B"}}))
    with pytest.raises(NotGranted) as stop:
        make_root(
            make_scope(constraints=parse_rows({"batches.lot": {"prefix": "A"}})),
            decision=make_decision(obligations=obligations),
        )
    assert stop.value.reason is Reason.GRANT_WIDENED


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"ttl": 301}, "grants.mint.ttl"),
        ({"ttl": 0}, "grants.mint.ttl"),
        ({"principal": make_principal(issuer="https://other.example")}, "grants.mint.issuer"),
        ({"rctx": {}}, "grants.mint.claims"),
        ({"rctx": {"trace_id": "t", "token": "x"}}, "grants.mint.claims"),
        ({"intent": "x" * 257}, "grants.mint.claims"),
        ({"max_depth": 4}, "grants.mint.claims"),
        ({"principal": make_principal(subject="u-e\u0301")}, "grants.mint.claims"),
        ({"scope": make_scope(actions=frozenset())}, "grants.mint.claims"),
    ],
)
def test_what_no_receiver_would_accept_is_not_minted(changes: dict[str, Any], code: str) -> None:
    with pytest.raises(DatasetAgentError) as stop:
        make_root(**changes)
    assert code_of(stop) == code


def test_a_root_token_is_a_jwt_that_other_libraries_read() -> None:
    token = make_root()
    header = jwt.get_unverified_header(token)
    assert header == {
        "alg": "Ed25519",
        "typ": "execution-grant+jwt",
        "kid": SIGNERS[ISSUER].public_key.thumbprint,
    }
    assert jwt.decode(token, options={"verify_signature": False})["sub"] == "u-eng-01"


def test_grants_of_one_person_share_no_id() -> None:
    first, second = claims_of(make_root()), claims_of(make_root())
    assert first["jti"] != second["jti"]
    assert first["txn"] != second["txn"]


# deriving


def test_a_leaf_lives_a_minute_and_no_longer_than_its_parent() -> None:
    root = make_root()
    assert claims_of(make_chain(root)[1])["exp"] == NOW + 60
    assert claims_of(make_chain(root, now=NOW + 270)[1])["exp"] == NOW + 300
    assert claims_of(make_chain(root, ttl=10)[1])["exp"] == NOW + 10


def test_an_expired_grant_derives_nothing() -> None:
    root = make_root()
    with pytest.raises(NotGranted) as stop:
        make_chain(root, now=NOW + 300)
    assert stop.value.reason is Reason.GRANT_EXPIRED


def test_a_grant_derives_no_deeper_than_it_allows() -> None:
    with pytest.raises(NotGranted) as stop:
        make_chain(make_root(max_depth=1), SECOND, REMOTE)
    assert stop.value.reason is Reason.GRANT_TOO_DEEP


@pytest.mark.parametrize(
    ("chain", "signer", "ttl", "code"),
    [
        ((), SIGNERS[ROOT], 60, "grants.derive.chain"),
        (("nonsense",), SIGNERS[ROOT], 60, "grants.derive.chain"),
        ((make_root(),), STRANGER, 60, "grants.derive.key"),
        ((make_root(),), SIGNERS[ROOT], 61, "grants.derive.ttl"),
        ((make_root(),), SIGNERS[ROOT], 0, "grants.derive.ttl"),
    ],
)
def test_only_the_holder_derives_and_only_for_a_minute(chain: Any, signer: Any, ttl: int, code: str) -> None:
    with pytest.raises(DatasetAgentError) as stop:
        derive(chain, signer, audience=agent(REMOTE), operation=CALL, now=NOW, ttl=ttl)
    assert code_of(stop) == code


def test_an_operation_that_names_nothing_is_not_signed() -> None:
    with pytest.raises(DatasetAgentError) as stop:
        make_chain(operation=Operation("SendMessage"))
    assert code_of(stop) == "grants.derive.claims"


def test_a_holder_whose_clock_is_behind_still_derives_after_its_parent() -> None:
    root = make_root()
    assert claims_of(make_chain(root, now=NOW - 3)[1])["iat"] == NOW


def test_a_chain_that_no_header_carries_is_not_sent() -> None:
    scope = make_scope(columns=frozenset(f"batches.column_{n:04}" for n in range(40)))
    with pytest.raises(NotGranted) as stop:
        header_value(make_chain(make_root(scope), SECOND, REMOTE))
    assert stop.value.reason is Reason.GRANT_MALFORMED


def test_a_chain_of_four_with_long_ids_fits_the_header() -> None:
    rctx = {"trace_id": "a" * 32, "session_id": "b" * 36, "invocation_id": "e-" + "c" * 36}
    assert len(header_value(make_chain(make_root(rctx=rctx), SECOND, THIRD, REMOTE))) <= 7_500


def test_provenance_names_the_leaf_that_was_derived() -> None:
    chain = make_chain()
    grant = accept(chain)
    assert leaf_digest(chain) == grant.leaf_digest
    assert leaf_jti(chain) == grant.leaf_jti


def test_a_discovery_grant_is_not_widened_to_a_dataset() -> None:
    root = mint_discovery(
        SIGNERS[ISSUER],
        issuer_url=ISSUER,
        principal=make_principal(),
        holder=agent(ROOT),
        rctx={"trace_id": "t"},
        now=NOW,
    )
    with pytest.raises(NotGranted) as stop:
        make_chain(root, narrow=(make_scope(),))
    assert stop.value.reason is Reason.GRANT_WIDENED


# properties

ACTIONS = ("a", "b", "c", "d")
COLUMNS = ("t.a", "t.b", "t.c")
VALUES = st.frozensets(st.sampled_from(["x", "y", "z", 1, 2]), max_size=4)
BOUNDS = st.none() | st.integers(-3, 3) | st.sampled_from(["1.5", "-2", "2024-01-01", "2025-06-30"])


@st.composite
def constraints(draw: st.DrawFn) -> Constraint:
    members: dict[str, Any] = {
        "one_of": draw(st.none() | VALUES),
        "not_one_of": draw(st.none() | VALUES),
        "max": draw(BOUNDS),
        "min": draw(BOUNDS),
        "prefix": draw(st.none() | st.sampled_from(["p", "pq", "pqr", "r"])),
    }
    if all(value is None for value in members.values()):
        members["one_of"] = frozenset({"x"})
    return Constraint(**members)


@st.composite
def scopes(draw: st.DrawFn) -> Scope:
    return Scope(
        dataset=draw(st.sampled_from(["one", "two"])),
        dataset_version=draw(st.sampled_from(["1", "2"])),
        revision=draw(st.sampled_from(["r1", "r2"])),
        actions=draw(st.frozensets(st.sampled_from(ACTIONS), min_size=1)),
        locations=draw(st.frozensets(st.sampled_from([REMOTE, SECOND, THIRD]), min_size=1)),
        max_sensitivity=draw(st.sampled_from(tuple(Sensitivity))),
        columns=draw(st.none() | st.frozensets(st.sampled_from(COLUMNS))),
        constraints=draw(st.dictionaries(st.sampled_from(COLUMNS), constraints(), max_size=2)),
    )


@st.composite
def narrowed(draw: st.DrawFn, scope: Scope) -> Scope:
    """A scope that is narrower by construction: subsets, more constraints, less sensitivity."""
    ceiling = [value for value in Sensitivity if value.within(scope.max_sensitivity)]
    kept = scope.columns if scope.columns is not None else frozenset(COLUMNS)
    extra = {
        column: constraint
        for column, constraint in draw(st.dictionaries(st.sampled_from(COLUMNS), constraints(), max_size=2)).items()
        if column not in scope.constraints
    }
    return replace(
        scope,
        actions=draw(st.frozensets(st.sampled_from(sorted(scope.actions)), min_size=1)),
        locations=scope.locations,
        max_sensitivity=draw(st.sampled_from(ceiling)),
        columns=draw(st.sampled_from([scope.columns, kept, frozenset(sorted(kept)[:1])])),
        constraints={**scope.constraints, **extra},
    )


def root_of(scope: Scope) -> str:
    return make_root(scope, principal=make_principal(clearance=Sensitivity.RESTRICTED))


@given(scope=scopes())
def test_a_scope_survives_the_token_unchanged(scope: Scope) -> None:
    scope = replace(scope, locations=scope.locations | {REMOTE})
    assert accept(make_chain(root_of(scope))).scopes == (scope,)
    assert details_of(accept(make_chain(root_of(scope))).scopes) == details_of((scope,))


@given(data=st.data(), scope=scopes())
def test_a_narrower_scope_derives_at_every_hop_and_is_accepted(data: st.DataObject, scope: Scope) -> None:
    scope = replace(scope, locations=scope.locations | {REMOTE})
    chain: tuple[str, ...] = (root_of(scope),)
    holder = ROOT
    for hop in (SECOND, THIRD, REMOTE):
        scope = data.draw(narrowed(scope))
        chain = derive(chain, SIGNERS[holder], audience=agent(hop), operation=CALL, now=NOW, narrow=(scope,))
        holder = hop
    assume(len(",".join(chain)) <= MAX_GRANT_HEADER_BYTES)
    assert accept(chain, client=THIRD).scopes == (scope,)


@given(parent=scopes(), child=scopes())
def test_what_derives_never_widens_and_what_widens_never_derives(parent: Scope, child: Scope) -> None:
    parent = replace(parent, locations=parent.locations | {REMOTE})
    child = replace(child, locations=child.locations | {REMOTE})
    if parent.widening(child) is None:
        granted = accept(make_chain(root_of(parent), narrow=(child,))).scopes[0]
        assert granted == child
        assert granted.actions <= parent.actions
        assert granted.max_sensitivity.within(parent.max_sensitivity)
        assert parent.columns is None or (granted.columns is not None and granted.columns <= parent.columns)
        assert set(parent.constraints) <= set(granted.constraints)
    else:
        with pytest.raises(NotGranted) as stop:
            make_chain(root_of(parent), narrow=(child,))
        assert stop.value.reason is Reason.GRANT_WIDENED


@given(parent=scopes(), child=scopes())
def test_a_holder_that_signs_a_wider_scope_by_hand_is_refused(parent: Scope, child: Scope) -> None:
    from tests.grants.grants_world import Forge

    parent = replace(parent, locations=parent.locations | {REMOTE})
    child = replace(child, locations=child.locations | {REMOTE})
    chain = Forge(root=claims_of(root_of(parent))).chain(
        edit_leaf=lambda claims: claims.update(authorization_details=details_of((child,)))
    )
    if parent.widening(child) is None:
        assert accept(chain).scopes == (child,)
    else:
        with pytest.raises(NotGranted) as stop:
            accept(chain)
        assert stop.value.reason is Reason.GRANT_WIDENED


def test_a_holder_may_end_the_delegation_with_its_leaf() -> None:
    chain = make_chain(make_root(), REMOTE, max_depth=1)
    assert claims_of(chain[-1])["del_max_depth"] == 1
    with pytest.raises(NotGranted) as stop:
        derive(chain, SIGNERS[REMOTE], audience=agent(SECOND), operation=CALL, now=NOW)
    assert stop.value.reason is Reason.GRANT_TOO_DEEP


def test_a_holder_never_says_that_a_leaf_may_go_deeper_than_it_was_told() -> None:
    with pytest.raises(NotGranted) as stop:
        derive((make_root(max_depth=1),), SIGNERS[ROOT], audience=agent(REMOTE), operation=CALL, now=NOW, max_depth=2)
    assert stop.value.reason is Reason.GRANT_TOO_DEEP


def test_a_leaf_is_never_shallower_than_itself() -> None:
    chain = make_chain(make_root(), REMOTE, max_depth=0)
    assert claims_of(chain[-1])["del_max_depth"] == 1
    assert accept(chain).subject == "u-eng-01"
