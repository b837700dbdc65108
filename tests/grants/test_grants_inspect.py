"""Reading a chain for people: everything decoded, nothing believed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from contract.verdict import Reason
from grants.derive import derive, header_value
from grants.inspect import explain
from grants.state import replayed
from tests.grants.grants_world import (
    CALL,
    ISSUER,
    NOW,
    REMOTE,
    ROOT,
    SECOND,
    SIGNERS,
    STRANGER,
    TRUST,
    Forge,
    agent,
    claims_of,
    make_chain,
    make_decision,
    make_root,
    make_scope,
)


def test_every_claim_of_every_token_is_decoded_without_a_key() -> None:
    chain = make_chain(None, SECOND, REMOTE)
    shown = explain(header_value(chain), now=NOW)
    assert [token.claims for token in shown.tokens] == [claims_of(token) for token in chain]
    assert [token.kind for token in shown.tokens] == ["root", "derived", "derived"]
    assert all(token.fault is None for token in shown.tokens)
    assert shown.refusal is None


def test_what_was_not_verified_is_never_called_valid() -> None:
    for chain in (make_chain(), Forge(root_signer=STRANGER).chain()):
        shown = explain(header_value(chain), now=NOW)
        assert shown.signatures == "not verified"
        assert shown.judged_as is None


def test_no_signature_is_shown() -> None:
    chain = make_chain()
    text = json.dumps(explain(header_value(chain), now=NOW, trust=TRUST).to_json())
    for token in chain:
        assert token.rpartition(".")[2] not in text


def test_an_accepted_chain_is_verified() -> None:
    shown = explain(header_value(make_chain()), now=NOW, trust=TRUST)
    assert (shown.signatures, shown.refusal) == ("verified", None)
    assert shown.judged_as == {"audience": REMOTE, "client": ROOT, "operation": CALL.to_json(), "now": NOW}
    assert "replay" in shown.to_json()["not_checked"]


@pytest.mark.parametrize(
    ("chain", "changes", "reason"),
    [
        (make_chain(), {"now": NOW + 65}, Reason.GRANT_EXPIRED),
        (make_chain(), {"audience": SECOND}, Reason.GRANT_AUDIENCE_MISMATCH),
        (make_chain(), {"client": SECOND}, Reason.GRANT_CLIENT_MISMATCH),
        (Forge(root_signer=STRANGER).chain(), {}, Reason.GRANT_SIGNATURE_INVALID),
        ((make_root(),), {}, Reason.GRANT_CHAIN_BROKEN),
    ],
)
def test_a_chain_that_would_be_refused_says_why(chain: Any, changes: dict[str, Any], reason: Reason) -> None:
    shown = explain(header_value(chain), **({"now": NOW, "trust": TRUST} | changes))
    assert shown.signatures == "not verified"
    assert shown.refusal is not None
    assert (shown.refusal.verdict, shown.refusal.reason) == ("REFUSED", reason.value)


def test_each_link_says_what_it_took_away() -> None:
    root = make_root()
    narrow = make_scope(actions=frozenset({"batch_yield"}), columns=frozenset({"batches.batch_id"}))
    chain = derive((root,), SIGNERS[ROOT], audience=agent(REMOTE), operation=CALL, now=NOW, narrow=(narrow,))
    (step,) = explain(header_value(chain), now=NOW).steps
    assert (step.sender, step.receiver) == (ROOT, REMOTE)
    assert step.narrowed == (
        "lives 240 s shorter",
        "actions without compare_recovery",
        "columns without batches.recovery",
    )
    assert step.widened == ()


def test_a_link_that_widens_is_named() -> None:
    def wider(claims: dict[str, Any]) -> None:
        claims["authorization_details"][0]["max_sensitivity"] = "restricted"
        claims["exp"] = NOW + 400

    (step,) = explain(header_value(Forge().chain(edit_leaf=wider)), now=NOW).steps
    assert step.widened == ("lives 100 s longer", "max_sensitivity")


@pytest.mark.parametrize(
    "text", ["", " ", ",", "x", "a.b.c", "a.b.c,d.e.f", ISSUER, "\x00", "é", "A" * 200_000, make_root()[:-3]]
)
def test_any_text_can_be_inspected(text: str) -> None:
    for trust in (None, TRUST):
        shown = explain(text, now=NOW, trust=trust)
        json.dumps(shown.to_json())
        assert shown.signatures == "not verified"
        assert (shown.refusal is not None) == (trust is not None)
        assert all(token.fault for token in shown.tokens)


def test_a_token_that_is_not_of_its_kind_is_shown_with_its_fault() -> None:
    shown = explain(make_chain()[1], now=NOW)
    assert shown.tokens[0].fault is not None
    assert shown.tokens[0].claims["aud"] == REMOTE


def test_every_claim_of_a_real_chain_is_explained() -> None:
    for token in explain(header_value(make_chain(None, SECOND, REMOTE)), now=NOW + 1).tokens:
        assert {claim.claim.partition(".")[0] for claim in token.explained} == set(token.claims)
        assert not [claim for claim in token.explained if "unknown" in claim.meaning]
    meanings = {
        claim.claim: claim.meaning for claim in explain(header_value(make_chain()), now=NOW + 1).tokens[1].explained
    }
    assert meanings["exp"] == "valid until, in 59 s"
    assert meanings["iat"] == "issued, 1 s ago"
    assert SIGNERS[REMOTE].public_key.thumbprint in meanings["cnf.jwk"]
    assert "grant revoke --txn" in meanings["txn"]


def test_a_claim_that_is_none_of_ours_is_called_unknown() -> None:
    def foreign(claims: dict[str, Any]) -> None:
        claims["scope"] = "everything"
        claims["op"]["also"] = {"this": 1}
        claims["cnf"]["jwk"]["x"] = "no key"

    token = explain(header_value(Forge().chain(edit_leaf=foreign)), now=NOW).tokens[1]
    told = {claim.claim: claim.meaning for claim in token.explained}
    assert "refuses what it does not know" in told["scope"]
    assert "refuses what it does not know" in told["op.also.this"]
    assert "none that this profile takes" in told["cnf.jwk"]
    assert token.fault is not None


def test_what_was_taken_away_is_told_for_each_dataset() -> None:
    further = make_scope(dataset="chromatography-runs", columns=None)
    root = make_root(further=[(further, make_decision())])
    kept = make_scope(actions=frozenset({"batch_yield"}))
    chain = derive((root,), SIGNERS[ROOT], audience=agent(REMOTE), operation=CALL, now=NOW, narrow=(kept,))
    (step,) = explain(header_value(chain), now=NOW).steps
    assert step.datasets == {
        "purification-batches": ("actions without compare_recovery",),
        "chromatography-runs": ("left out",),
    }
    assert step.narrowed == ("lives 240 s shorter", "chromatography-runs left out", "actions without compare_recovery")


def test_what_a_memory_says_is_told_where_the_chain_itself_holds() -> None:
    accepted = explain(header_value(make_chain()), now=NOW, trust=TRUST)
    assert accepted.grant is not None
    told = accepted.remembered(replayed(), not_checked=None)
    assert (told.signatures, told.not_checked) == ("verified", None)
    assert told.refusal is not None
    assert told.refusal.reason == Reason.GRANT_REPLAYED
    expired = explain(header_value(make_chain()), now=NOW + 65, trust=TRUST)
    assert expired.grant is None
    assert expired.remembered(replayed(), not_checked=None).refusal == expired.refusal
    assert "VerifiedGrant" not in repr(accepted)
