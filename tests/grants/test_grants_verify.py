"""The attack table: every case is refused with its own reason, and nothing is spent by trying."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from contract.call import Operation
from contract.canonical import b64url
from contract.verdict import NotGranted, Reason
from grants import chain as reader
from grants.derive import header_value
from grants.mint import mint_discovery
from tests.grants.grants_world import (
    CALL,
    CHILD_HEADER,
    ISSUER,
    NOW,
    OTHER_ISSUER,
    REMOTE,
    ROOT,
    SECOND,
    SIGNERS,
    STRANGER,
    THIRD,
    TRUST,
    Forge,
    accept,
    agent,
    claims_of,
    forge,
    make_chain,
    make_principal,
    make_root,
    make_scope,
    make_trust,
    par_hash,
    root_header,
    signer,
)

Edit = Callable[[dict[str, Any]], Any]


def refusal(chain: Any, **changes: Any) -> Reason:
    with pytest.raises(NotGranted) as stop:
        accept(chain, **changes)
    for text in ("u-eng-01", "basel", "recovery"):
        assert text not in stop.value.message
    return stop.value.reason


def set_to(**members: Any) -> Edit:
    return lambda claims: claims.update(members)


def without(member: str) -> Edit:
    return lambda claims: claims.pop(member)


def detail(**members: Any) -> Edit:
    return lambda claims: claims["authorization_details"][0].update(members)


def inside(member: str, **members: Any) -> Edit:
    return lambda claims: claims[member].update(members)


# what is accepted


def test_a_chain_of_two_is_accepted_and_says_who_asks_for_what() -> None:
    chain = make_chain()
    grant = accept(chain)
    root, leaf = claims_of(chain[0]), claims_of(chain[1])
    assert (grant.issuer, grant.subject, grant.tenant, grant.client) == (ISSUER, "u-eng-01", "acme", ROOT)
    assert (grant.root_jti, grant.leaf_jti, grant.txn) == (root["jti"], leaf["jti"], root["txn"])
    assert (grant.root_issued_at, grant.root_expires_at) == (NOW, NOW + 300)
    assert (grant.leaf_issued_at, grant.leaf_expires_at) == (NOW, NOW + 60)
    assert grant.issuer_kid == SIGNERS[ISSUER].public_key.thumbprint
    assert grant.holders == (SIGNERS[ROOT].public_key.thumbprint, SIGNERS[REMOTE].public_key.thumbprint)
    assert grant.scopes == (make_scope(),)
    assert grant.operation == CALL
    assert grant.holder_key == SIGNERS[REMOTE].public_key
    assert grant.tctx["policy_id"] == "BPD-DATA-014"
    assert grant.rctx == {"trace_id": "t" * 32, "session_id": "s-1", "invocation_id": "i-1"}


def test_the_forge_of_these_tests_makes_tokens_that_are_accepted() -> None:
    assert accept(Forge().chain()).scopes == (make_scope(),)


@pytest.mark.parametrize("hops", [(SECOND, REMOTE), (SECOND, THIRD, REMOTE)])
def test_a_longer_chain_is_accepted_link_by_link(hops: tuple[str, ...]) -> None:
    grant = accept(make_chain(None, *hops), client=hops[-2])
    assert grant.client == hops[-2]
    assert grant.holders == tuple(SIGNERS[name].public_key.thumbprint for name in (ROOT, *hops))


@pytest.mark.parametrize(
    "operation",
    [
        Operation("SendStreamingMessage", call_hash="a" * 64),
        Operation("SubscribeToTask", task="task-1"),
        Operation("GetResults", task="task-1"),
        Operation("SendMessage", negotiate=True),
        Operation("discover"),
    ],
)
def test_every_kind_of_operation_is_accepted_for_itself(operation: Operation) -> None:
    assert accept(make_chain(operation=operation), operation=operation).operation == operation


def discovery() -> str:
    return mint_discovery(
        SIGNERS[ISSUER],
        issuer_url=ISSUER,
        principal=make_principal(),
        holder=agent(ROOT),
        rctx={"trace_id": "t"},
        now=NOW,
    )


@pytest.mark.parametrize("operation", [Operation("discover"), Operation("SendMessage", negotiate=True)])
def test_a_discovery_grant_lets_its_principal_be_told_what_may_be_asked(operation: Operation) -> None:
    assert accept(make_chain(discovery(), operation=operation), operation=operation).scopes == ()


@pytest.mark.parametrize("operation", [CALL, Operation("GetResults", task="task-1")])
def test_a_discovery_grant_authorizes_no_call(operation: Operation) -> None:
    chain = make_chain(discovery(), operation=operation)
    assert refusal(chain, operation=operation) is Reason.NO_ACTIVE_GRANT


# size and shape


@pytest.mark.parametrize("header", [None, ""])
def test_no_grant_is_no_active_grant(header: str | None) -> None:
    assert refusal(header) is Reason.NO_ACTIVE_GRANT


def _segment(place: int, change: Callable[[str], str]) -> Callable[[tuple[str, ...]], str]:
    def broken(chain: tuple[str, ...]) -> str:
        segments = chain[1].split(".")
        segments[place] = change(segments[place])
        return f"{chain[0]},{'.'.join(segments)}"

    return broken


def _noncanonical(segment: str) -> str:
    """The same bytes with other unused bits in the last character."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    return segment[:-1] + alphabet[alphabet.index(segment[-1]) ^ 1]


MALFORMED: dict[str, Callable[[tuple[str, ...]], str]] = {
    "padding on a signature": _segment(2, lambda text: text + "="),
    "padding on claims": _segment(1, lambda text: text + "="),
    "non-canonical bits in a signature": _segment(2, _noncanonical),
    "a space inside": _segment(1, lambda text: text[:9] + " " + text[9:]),
    "a line break inside": _segment(1, lambda text: text[:9] + "\n" + text[9:]),
    "standard base64": _segment(2, lambda text: "+" + text[1:]),
    "an empty signature": _segment(2, lambda text: ""),
    "a short signature": _segment(2, lambda text: text[:-4]),
    "a space after the comma": lambda chain: ", ".join(chain),
    "white space only": lambda chain: "  ",
    "an empty token": lambda chain: f"{chain[0]},,{chain[1]}",
    "a comma at the end": lambda chain: ",".join(chain) + ",",
    "four segments": lambda chain: f"{chain[0]},{chain[1]}.AAAA",
    "five segments": lambda chain: f"{chain[0]},{chain[1]}.AAAA.AAAA",
    "two segments": lambda chain: f"{chain[0]},{chain[1].rpartition('.')[0]}",
    "64 KiB": lambda chain: ",".join(chain) + "A" * 65_536,
    "not ASCII": lambda chain: ",".join(chain)[:-1] + "é",
    "a NUL": lambda chain: ",".join(chain)[:-1] + "\x00",
}


@pytest.mark.parametrize("broken", MALFORMED.values(), ids=MALFORMED)
def test_a_grant_has_one_spelling(broken: Callable[[tuple[str, ...]], str]) -> None:
    assert refusal(broken(make_chain())) is Reason.GRANT_MALFORMED


def test_more_than_four_tokens_are_too_deep() -> None:
    chain = make_chain()
    assert refusal(",".join([chain[0], *[chain[1]] * 4])[:7_500]) is Reason.GRANT_TOO_DEEP


def test_a_header_is_bounded_though_every_token_is_good() -> None:
    wide = make_root(make_scope(columns=frozenset(f"batches.column_{n:02}" for n in range(30))))
    chain = make_chain(wide, SECOND, THIRD, REMOTE)
    assert max(len(token) for token in chain) < 7_500 < len(",".join(chain))
    assert refusal(",".join(chain), client=THIRD) is Reason.GRANT_MALFORMED


# the protected header


@pytest.mark.parametrize("place", ["root_head", "leaf_head"])
@pytest.mark.parametrize("alg", ["none", "NONE", "HS256", "EdDSA", "Ed448", "ES256", "ed25519", "", None, 1])
def test_only_ed25519_is_an_algorithm(place: str, alg: Any) -> None:
    world = Forge()
    getattr(world, place)["alg"] = alg
    assert refusal(world.chain()) is Reason.GRANT_ALGORITHM_NOT_ALLOWED


@pytest.mark.parametrize("place", ["root_head", "leaf_head"])
def test_an_absent_algorithm_is_not_allowed(place: str) -> None:
    world = Forge()
    del getattr(world, place)["alg"]
    assert refusal(world.chain()) is Reason.GRANT_ALGORITHM_NOT_ALLOWED


def test_an_hmac_keyed_with_the_public_key_is_not_allowed() -> None:
    import hashlib
    import hmac

    head = b64url(json.dumps({**root_header(), "alg": "HS256"}).encode())
    body = make_root().split(".")[1]
    mac = hmac.new(SIGNERS[ISSUER].public_key.raw, f"{head}.{body}".encode(), hashlib.sha512).digest()
    chain = (f"{head}.{body}.{b64url(mac)}", make_chain()[1])
    assert refusal(chain) is Reason.GRANT_ALGORITHM_NOT_ALLOWED


@pytest.mark.parametrize("place", ["root_head", "leaf_head"])
@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("jwk", SIGNERS[ISSUER].public_key.jwk()),
        ("jku", "https://evil.example/jwks.json"),
        ("x5u", "https://evil.example/cert"),
        ("x5c", ["AAAA"]),
        ("x5t", "AAAA"),
        ("zip", "DEF"),
        ("cty", "JWT"),
        ("crit", ["exp"]),
        ("b64", False),
        ("unknown", 1),
    ],
)
def test_a_header_has_no_other_member(place: str, member: str, value: Any) -> None:
    world = Forge()
    getattr(world, place)[member] = value
    assert refusal(world.chain()) is Reason.GRANT_HEADER_INVALID


@pytest.mark.parametrize("place", ["root_head", "leaf_head"])
@pytest.mark.parametrize("typ", ["JWT", "at+jwt", "txntoken+jwt", "dpop+jwt", "EXECUTION-GRANT+JWT", "", None, []])
def test_a_token_of_another_type_is_refused(place: str, typ: Any) -> None:
    world = Forge()
    getattr(world, place)["typ"] = typ
    assert refusal(world.chain()) is Reason.GRANT_HEADER_INVALID


def test_a_child_names_no_key() -> None:
    world = Forge(leaf_head={**CHILD_HEADER, "kid": SIGNERS[ROOT].public_key.thumbprint})
    assert refusal(world.chain()) is Reason.GRANT_HEADER_INVALID


@pytest.mark.parametrize("kid", [[], {}, None, 7, ["a"]])
def test_a_kid_is_text(kid: Any) -> None:
    world = Forge()
    world.root_head["kid"] = kid
    assert refusal(world.chain()) is Reason.GRANT_HEADER_INVALID


def test_a_root_token_without_kid_is_refused() -> None:
    world = Forge()
    del world.root_head["kid"]
    assert refusal(world.chain()) is Reason.GRANT_HEADER_INVALID


@pytest.mark.parametrize(
    "kid", ["../../etc/passwd", "' OR 1=1 --", "\x00", "", "k" * 900, STRANGER.public_key.thumbprint, ISSUER]
)
def test_an_unknown_key_is_untrusted(kid: str) -> None:
    world = Forge()
    world.root_head["kid"] = kid
    assert refusal(world.chain()) is Reason.GRANT_KEY_UNTRUSTED


@pytest.mark.parametrize(
    "head",
    [
        b'{"alg":"none","alg":"Ed25519","typ":"execution-grant+jwt"}',
        b'{"alg":"Ed25519","typ":"execution-grant+jwt"} ',
        b"[]",
        b'"Ed25519"',
        b"{",
        b"\xff",
        b'{"alg":"Ed25519","typ":"' + b"x" * 1_100 + b'"}',
        b"[" * 40 + b"]" * 40,
    ],
)
def test_a_header_is_one_strict_json_object(head: bytes) -> None:
    first = make_root()
    leaf = forge({**claims_of(make_chain(first)[1])}, SIGNERS[ROOT], head)
    if head.endswith(b" "):  # white space around is JSON, and a token's bytes are what is signed
        assert accept((first, leaf))
    else:
        assert refusal((first, leaf)) is Reason.GRANT_HEADER_INVALID


# signatures


def test_a_key_of_another_issuer_does_not_vouch() -> None:
    world = Forge(root_signer=SIGNERS[OTHER_ISSUER], root_head=root_header(SIGNERS[OTHER_ISSUER]))
    assert refusal(world.chain()) is Reason.GRANT_ISSUER_UNTRUSTED


def test_another_issuers_kid_on_this_issuers_token_does_not_verify() -> None:
    world = Forge(root_head=root_header(SIGNERS[OTHER_ISSUER]))
    assert refusal(world.chain()) is Reason.GRANT_SIGNATURE_INVALID


def test_a_root_token_signed_by_a_stranger_under_a_trusted_kid_does_not_verify() -> None:
    assert refusal(Forge(root_signer=STRANGER).chain()) is Reason.GRANT_SIGNATURE_INVALID


@pytest.mark.parametrize("by", [STRANGER, SIGNERS[REMOTE], SIGNERS[ISSUER]])
def test_a_leaf_is_signed_by_the_holder_its_parent_names(by: Any) -> None:
    assert refusal(Forge(leaf_signer=by).chain()) is Reason.GRANT_SIGNATURE_INVALID


@pytest.mark.parametrize("place", [0, 1])
def test_an_edited_claim_breaks_the_signature(place: int) -> None:
    chain = list(make_chain())
    head, body, signature = chain[place].split(".")
    edited = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    edited["exp"] += 1
    chain[place] = f"{head}.{b64url(json.dumps(edited, separators=(',', ':')).encode())}.{signature}"
    assert refusal(chain) is Reason.GRANT_SIGNATURE_INVALID


def test_a_malleated_signature_does_not_verify() -> None:
    order = 2**252 + 27742317777372353535851937790883648493
    first, leaf = make_chain()
    head, body, signature = leaf.split(".")
    raw = base64.urlsafe_b64decode(signature + "==")
    grown = (int.from_bytes(raw[32:], "little") + order).to_bytes(32, "little")
    assert refusal((first, f"{head}.{body}.{b64url(raw[:32] + grown)}")) is Reason.GRANT_SIGNATURE_INVALID


# strict JSON and claims


@pytest.mark.parametrize(
    "spoil",
    [
        lambda body: body.replace(b'"sub"', b'"sub": "u-other", "sub"', 1),
        lambda body: body.replace(b'"tenant"', b'"tenant": "other", "tenant"', 1),
        lambda body: body.replace(b'"nbf"', b'"deep": ' + b"[" * 40 + b"]" * 40 + b', "nbf"', 1),
        lambda body: body.replace(str(NOW + 60).encode(), b"1" + b"0" * 40, 1),
        lambda body: body.replace(str(NOW + 60).encode(), b"1" * 1_500, 1),
        lambda body: body.replace(str(NOW + 60).encode(), b"NaN", 1),
        lambda body: body.replace(b"u-eng-01", b"u-eng\\ud800", 1),
        lambda body: body.replace(b"u-eng-01", b"u-eng-\xff", 1),
        lambda body: body[:-1],
        lambda body: b"[]",
        lambda body: b"null",
    ],
    ids=[
        "duplicate",
        "duplicate nested",
        "deep",
        "10^40",
        "1,500 digits",
        "NaN",
        "surrogate",
        "not UTF-8",
        "cut",
        "list",
        "null",
    ],
)
def test_claims_are_one_strict_json_object(spoil: Callable[[bytes], bytes]) -> None:
    first, leaf = Forge().chain()
    body = spoil(json.dumps(claims_of(leaf)).encode())
    assert refusal((first, forge(body, SIGNERS[ROOT], CHILD_HEADER))) is Reason.GRANT_CLAIMS_INVALID


TIMES = [None, "1800000000", 1_800_000_000.0, 1.5, True, [], {}, -1, 10**40, (NOW + 10) * 1_000, "", "now"]


@pytest.mark.parametrize("member", ["iat", "nbf", "exp"])
@pytest.mark.parametrize("value", TIMES, ids=repr)
@pytest.mark.parametrize("place", ["edit_root", "edit_leaf"])
def test_an_instant_is_whole_seconds(place: str, member: str, value: Any) -> None:
    assert refusal(Forge().chain(**{place: set_to(**{member: value})})) is Reason.GRANT_CLAIMS_INVALID


ROOT_CLAIMS = sorted(claims_of(make_root()))
LEAF_CLAIMS = sorted(set(claims_of(make_chain()[1])))


@pytest.mark.parametrize("member", ROOT_CLAIMS)
def test_a_root_token_without_a_claim_is_refused(member: str) -> None:
    assert refusal(Forge().chain(edit_root=without(member))) is Reason.GRANT_CLAIMS_INVALID


@pytest.mark.parametrize("member", LEAF_CLAIMS)
def test_a_leaf_without_a_claim_is_refused(member: str) -> None:
    assert refusal(Forge().chain(edit_leaf=without(member))) is Reason.GRANT_CLAIMS_INVALID


@pytest.mark.parametrize("place", ["edit_root", "edit_leaf"])
@pytest.mark.parametrize(
    "edit",
    [
        set_to(extra=1),
        set_to(aud=[REMOTE]),
        set_to(aud=[REMOTE, ROOT]),
        set_to(aud=""),
        set_to(sub=""),
        set_to(sub=None),
        set_to(sub=["u-eng-01"]),
        set_to(sub="u-e\u0301"),
        set_to(sub="u-eng\u200b01"),
        set_to(sub="u-eng\n01"),
        set_to(sub="u" * 600),
        set_to(jti=""),
        set_to(jti=7),
        set_to(txn=None),
        set_to(act=ROOT),
        set_to(act={"sub": ROOT, "act": {"sub": "x"}}),
        set_to(cnf={}),
        set_to(cnf={"jwk": {"kty": "OKP", "crv": "Ed25519"}}),
        set_to(cnf={"jwk": {**SIGNERS[REMOTE].public_key.jwk()}}),
        set_to(cnf={"jwk": {"kty": "OKP", "crv": "Ed448", "x": "A" * 43}}),
        set_to(cnf={"jwk": {"kty": "OKP", "crv": "Ed25519", "x": "A" * 42}}),
        set_to(cnf={"jwk": {"kty": "OKP", "crv": "Ed25519", "x": "A" * 43, "d": "A" * 43}}),
        set_to(cnf={"jkt": "A" * 43}),
        set_to(del_depth="1"),
        set_to(del_depth=True),
        set_to(del_depth=9),
        set_to(del_max_depth=-1),
        set_to(del_max_depth=4),
        set_to(op=None),
        set_to(op={"method": "SendMessage"}),
        set_to(op={"method": "SendMessage", "call_hash": "C" * 64}),
        set_to(op={"method": "SendMessage", "call_hash": "c" * 64, "task": "t"}),
        set_to(op={"method": "SendMessage", "negotiate": False}),
        set_to(op={"method": "discover", "call_hash": "c" * 64}),
        set_to(authorization_details=None),
        set_to(authorization_details={}),
        lambda claims: claims["authorization_details"].append(claims["authorization_details"][0]),
        detail(extra=1),
        detail(actions=[]),
        detail(actions=["batch_yield", "batch_yield"]),
        detail(actions="batch_yield"),
        detail(actions=["Batch Yield"]),
        detail(identifier="../x"),
        detail(max_sensitivity="secret"),
        detail(locations=[]),
        detail(columns=["recovery"]),
        detail(constraints=[]),
        set_to(tctx={}),
        inside("tctx", tenant=""),
        inside("tctx", extra="x"),
        inside("tctx", policy_id=5),
        inside("rctx", extra="x"),
        inside("rctx", trace_id=5),
    ],
)
def test_claims_are_exactly_of_their_kind(place: str, edit: Edit) -> None:
    assert refusal(Forge().chain(**{place: edit})) is Reason.GRANT_CLAIMS_INVALID


@pytest.mark.parametrize("place", ["edit_root", "edit_leaf"])
def test_instants_are_in_order(place: str) -> None:
    assert refusal(Forge().chain(**{place: set_to(nbf=NOW - 1)})) is Reason.GRANT_CLAIMS_INVALID


def test_a_root_token_is_sent_by_its_issuer() -> None:
    assert refusal(Forge().chain(edit_root=set_to(act={"sub": ROOT}))) is Reason.GRANT_CLAIMS_INVALID


def test_a_root_token_pins_no_call_of_its_own() -> None:
    edit = set_to(op={"method": "SendMessage", "call_hash": "c" * 64})
    assert refusal(Forge().chain(edit_root=edit)) is Reason.GRANT_CLAIMS_INVALID


def test_a_root_token_has_no_parent() -> None:
    assert refusal(Forge().chain(edit_root=set_to(par_hash="A" * 43))) is Reason.GRANT_CLAIMS_INVALID


@pytest.mark.parametrize("place", ["edit_root", "edit_leaf"])
@pytest.mark.parametrize(
    "edit",
    [
        detail(type="another"),
        detail(constraints={"batches.site": {"regex": ".*"}}),
        detail(constraints={"batches.site": {}}),
        detail(constraints={"batches.site": {"one_of": ["basel"], "sql": "1=1"}}),
        detail(constraints={"site": {"one_of": ["basel"]}}),
        detail(constraints={"batches.site": {"max": "zurich"}}),
        detail(constraints={"batches.site": {"one_of": [1.5]}}),
    ],
)
def test_an_authorization_that_is_not_understood_is_not_permitted(place: str, edit: Edit) -> None:
    assert refusal(Forge().chain(**{place: edit})) is Reason.GRANT_CONSTRAINT_UNKNOWN


# time


@pytest.mark.parametrize(
    ("later", "reason"),
    [
        (-6, Reason.GRANT_NOT_YET_VALID),
        (-5, None),
        (64.9, None),
        (65, Reason.GRANT_EXPIRED),
        (4_000, Reason.GRANT_EXPIRED),
    ],
)
def test_clocks_may_differ_by_five_seconds(later: float, reason: Reason | None) -> None:
    if reason is None:
        assert accept(make_chain(), now=NOW + later)
    else:
        assert refusal(make_chain(), now=NOW + later) is reason


@pytest.mark.parametrize("place", ["edit_root", "edit_leaf"])
def test_a_token_that_is_not_valid_yet_is_refused(place: str) -> None:
    assert refusal(Forge().chain(**{place: set_to(nbf=NOW + 6)})) is Reason.GRANT_NOT_YET_VALID


def test_an_expired_root_token_ends_the_chain_under_it() -> None:
    root = make_root(now=NOW - 280)
    chain = make_chain(root, now=NOW - 1)
    assert claims_of(chain[1])["exp"] == NOW + 20
    assert accept(chain, now=NOW + 24)
    assert refusal(chain, now=NOW + 25) is Reason.GRANT_EXPIRED


@pytest.mark.parametrize(("place", "life"), [("edit_root", 301), ("edit_leaf", 61), ("edit_root", 86_400)])
def test_no_token_lives_longer_than_its_kind_may(place: str, life: int) -> None:
    assert refusal(Forge().chain(**{place: set_to(exp=NOW + life)})) is Reason.GRANT_LIFETIME_EXCEEDED


def test_a_child_does_not_outlive_its_parent() -> None:
    chain = Forge().chain(edit_root=set_to(exp=NOW + 30), edit_leaf=set_to(exp=NOW + 31))
    assert refusal(chain) is Reason.GRANT_LIFETIME_EXCEEDED


def test_a_child_is_not_older_than_its_parent() -> None:
    chain = Forge().chain(edit_leaf=set_to(iat=NOW - 6, nbf=NOW - 6, exp=NOW + 30))
    assert refusal(chain) is Reason.GRANT_CHAIN_BROKEN


# issuer, tenant, subject


def test_an_issuer_speaks_only_for_its_subjects() -> None:
    edit = set_to(sub="x-1")
    assert refusal(Forge().chain(edit_root=edit, edit_leaf=edit)) is Reason.GRANT_ISSUER_UNTRUSTED


def test_an_issuer_speaks_only_for_its_tenants() -> None:
    edit = inside("tctx", tenant="other")
    assert refusal(Forge().chain(edit_root=edit, edit_leaf=edit)) is Reason.GRANT_TENANT_UNKNOWN


def test_an_issuer_that_claims_another_url_is_untrusted() -> None:
    edit = set_to(iss="https://evil.example", act={"sub": "https://evil.example"})
    assert refusal(Forge().chain(edit_root=edit)) is Reason.GRANT_ISSUER_UNTRUSTED


def test_a_retired_key_is_untrusted_though_its_token_is_remembered() -> None:
    chain = make_chain()
    assert accept(chain)
    issuers = {ISSUER: replace(TRUST.issuers[ISSUER], keys=(signer(50).public_key,))}
    assert refusal(chain, trust=make_trust(issuers=issuers)) is Reason.GRANT_KEY_UNTRUSTED


def test_an_unknown_key_is_indeterminate_while_an_issuers_keys_cannot_be_read() -> None:
    trust = make_trust(unreachable=frozenset({OTHER_ISSUER}))
    assert accept(make_chain(), trust=trust)
    world = Forge(root_signer=STRANGER, root_head=root_header(STRANGER))
    assert refusal(world.chain(), trust=trust) is Reason.KEYS_UNAVAILABLE


def test_two_keys_of_an_issuer_overlap_while_one_is_rotated() -> None:
    new = signer(51)
    keys = (SIGNERS[ISSUER].public_key, new.public_key)
    trust = make_trust(issuers={ISSUER: replace(TRUST.issuers[ISSUER], keys=keys)})
    assert accept(make_chain(), trust=trust)
    assert accept(Forge(root_signer=new, root_head=root_header(new)).chain(), trust=trust)


def test_a_policy_version_is_questioned_only_where_versions_are_listed() -> None:
    assert accept(make_chain(), trust=make_trust(policy_versions=frozenset({"2026.1"})))
    trust = make_trust(policy_versions=frozenset({"2025.9"}))
    assert refusal(make_chain(), trust=trust) is Reason.UNKNOWN_POLICY_VERSION


# the chain


def test_a_root_token_alone_proves_no_possession() -> None:
    assert refusal((make_root(),), audience=ROOT, client=ISSUER) is Reason.GRANT_CHAIN_BROKEN


def test_an_orphan_leaf_is_not_a_root_token() -> None:
    assert refusal(make_chain()[1]) is Reason.GRANT_HEADER_INVALID


def test_a_prefix_of_a_chain_is_for_another_agent() -> None:
    chain = make_chain(None, SECOND, REMOTE)
    assert accept(chain, client=SECOND)
    assert refusal(chain[:2], client=ROOT) is Reason.GRANT_AUDIENCE_MISMATCH


def test_a_leaf_spliced_under_another_root_token_is_broken() -> None:
    assert refusal((make_root(), make_chain()[1])) is Reason.GRANT_CHAIN_BROKEN


def test_a_chain_with_a_token_left_out_is_refused() -> None:
    first, _, last = make_chain(None, SECOND, REMOTE)
    assert refusal((first, last), client=SECOND) is Reason.GRANT_SIGNATURE_INVALID


def test_a_reordered_chain_is_refused() -> None:
    first, second, last = make_chain(None, SECOND, REMOTE)
    assert refusal((first, last, second), client=SECOND) is Reason.GRANT_SIGNATURE_INVALID
    assert refusal((second, first, last), client=SECOND) is Reason.GRANT_HEADER_INVALID


@pytest.mark.parametrize(
    "edit",
    [
        set_to(par_hash=par_hash(make_root())),
        set_to(iss=SIGNERS[REMOTE].public_key.thumbprint_uri),
        set_to(iss=ISSUER),
        set_to(act={"sub": SECOND}),
        set_to(act={"sub": ROOT.upper()}),
        set_to(sub="u-ext-01"),
        set_to(sub="U-ENG-01"),
        set_to(sub="u-eng-01 "),
        set_to(txn="txn-other"),
        inside("tctx", tenant="other"),
        inside("tctx", policy_id="BPD-DATA-999"),
        inside("tctx", policy_version="2027"),
        inside("tctx", principal_class="clinical_reviewer"),
        lambda claims: claims["tctx"].pop("decision_id"),
        inside("rctx", trace_id="u" * 32),
        set_to(del_depth=2),
    ],
)
def test_a_leaf_follows_from_its_parent_in_every_claim(edit: Edit) -> None:
    assert refusal(Forge().chain(edit_leaf=edit)) is Reason.GRANT_CHAIN_BROKEN


def test_every_link_of_a_long_chain_is_checked() -> None:
    """The same splice at each depth: a child that names another parent than the one above it."""
    for depth in (1, 2, 3):
        chain = list(make_chain(None, SECOND, THIRD, REMOTE))
        holder = (ROOT, SECOND, THIRD)[depth - 1]
        edited = claims_of(chain[depth])
        edited["txn"] = "txn-other"
        chain[depth] = forge(edited, SIGNERS[holder], CHILD_HEADER)
        for below in range(depth + 1, 4):
            tail = claims_of(chain[below])
            tail["par_hash"] = par_hash(chain[below - 1])
            tail["txn"] = "txn-other"
            chain[below] = forge(tail, SIGNERS[(ROOT, SECOND, THIRD)[below - 1]], CHILD_HEADER)
        assert refusal(chain, client=THIRD) is Reason.GRANT_CHAIN_BROKEN


def test_a_chain_deeper_than_it_allows_is_refused() -> None:
    chain = Forge().chain(edit_root=set_to(del_max_depth=0), edit_leaf=set_to(del_max_depth=0))
    assert refusal(chain) is Reason.GRANT_TOO_DEEP


def test_depth_is_not_widened() -> None:
    assert refusal(Forge().chain(edit_root=set_to(del_max_depth=1))) is Reason.GRANT_WIDENED


# narrowing


@pytest.mark.parametrize(
    "edit",
    [
        detail(identifier="clinical-private"),
        detail(dataset_version="2.0.0"),
        detail(revision="rev-2"),
        detail(actions=["batch_yield", "compare_recovery", "export_all"]),
        detail(actions=["export_all"]),
        detail(locations=[REMOTE, ROOT]),
        detail(max_sensitivity="restricted"),
        detail(columns=["batches.batch_id", "batches.operator"]),
        lambda claims: claims["authorization_details"][0].pop("columns"),
        lambda claims: claims["authorization_details"][0].pop("constraints"),
        detail(constraints={}),
        detail(constraints={"batches.site": {"one_of": ["basel", "visp", "kaiseraugst"]}}),
        detail(constraints={"batches.site": {"prefix": "b"}}),
        detail(constraints={"batches.year": {"min": 2024}}),
    ],
)
def test_a_leaf_does_not_widen(edit: Edit) -> None:
    assert refusal(Forge().chain(edit_leaf=edit)) is Reason.GRANT_WIDENED


def test_nothing_does_not_widen_to_something() -> None:
    def cleared(claims: dict[str, Any]) -> None:
        claims["authorization_details"] = []

    assert refusal(Forge().chain(edit_root=cleared)) is Reason.GRANT_WIDENED


@pytest.mark.parametrize(
    "edit",
    [
        detail(actions=["batch_yield"]),
        detail(max_sensitivity="public"),
        detail(columns=[]),
        detail(locations=[REMOTE]),
        detail(constraints={"batches.site": {"one_of": ["basel"]}, "batches.year": {"min": 2024}}),
    ],
)
def test_a_leaf_may_narrow(edit: Edit) -> None:
    scope = accept(Forge().chain(edit_leaf=edit)).scopes[0]
    assert make_scope().widening(scope) is None
    assert scope != make_scope()


# receiver, client, operation


@pytest.mark.parametrize("audience", [SECOND, REMOTE.upper(), REMOTE + "x", REMOTE[:-1]])
def test_a_grant_for_one_agent_is_not_presented_at_another(audience: str) -> None:
    assert refusal(make_chain(), audience=audience) is Reason.GRANT_AUDIENCE_MISMATCH


def test_a_grant_is_not_served_where_its_dataset_may_not_be() -> None:
    root = make_root(make_scope(locations=frozenset({SECOND})))
    assert refusal(make_chain(root)) is Reason.GRANT_AUDIENCE_MISMATCH


@pytest.mark.parametrize("client", [SECOND, "", ISSUER, ROOT.upper()])
def test_the_agent_that_asks_is_the_one_the_leaf_names(client: str) -> None:
    assert refusal(make_chain(), client=client) is Reason.GRANT_CLIENT_MISMATCH


def test_the_leaf_names_this_agents_own_key() -> None:
    edit = set_to(cnf={"jwk": {"kty": "OKP", "crv": "Ed25519", "x": b64url(STRANGER.public_key.raw)}})
    assert refusal(Forge().chain(edit_leaf=edit)) is Reason.GRANT_KEY_UNTRUSTED


def test_a_root_token_for_a_known_agent_names_its_pinned_key() -> None:
    world = Forge(leaf_signer=STRANGER)
    edit = set_to(cnf={"jwk": {"kty": "OKP", "crv": "Ed25519", "x": b64url(STRANGER.public_key.raw)}})
    chain = world.chain(edit_root=edit, edit_leaf=set_to(iss=STRANGER.public_key.thumbprint_uri))
    assert refusal(chain) is Reason.GRANT_KEY_UNTRUSTED


def test_an_agent_that_is_not_pinned_itself_accepts_nothing() -> None:
    trust = make_trust(agents={ROOT: agent(ROOT)})
    assert refusal(make_chain(), trust=trust) is Reason.GRANT_KEY_UNTRUSTED


def test_an_intermediate_agent_need_not_be_known_here() -> None:
    trust = make_trust(agents={name: agent(name) for name in (REMOTE, SECOND)})
    assert accept(make_chain(None, SECOND, REMOTE), client=SECOND, trust=trust)


@pytest.mark.parametrize(
    "received",
    [
        Operation("SendMessage", call_hash="d" * 64),
        Operation("SendStreamingMessage", call_hash="c" * 64),
        Operation("GetResults", task="c" * 64),
        Operation("SendMessage", negotiate=True),
        Operation("discover"),
    ],
)
def test_a_leaf_is_good_for_the_operation_it_names(received: Operation) -> None:
    assert refusal(make_chain(), operation=received) is Reason.GRANT_OPERATION_MISMATCH


def test_text_that_is_not_ascii_is_no_grant_and_is_not_counted_as_tokens() -> None:
    assert refusal(",".join(["\u00e9"] * 5)) is Reason.GRANT_MALFORMED


# memory of root tokens


def test_a_root_token_is_verified_once(monkeypatch: pytest.MonkeyPatch) -> None:
    root = make_root()
    first, second = make_chain(root), make_chain(root)
    seen: list[object] = []
    real = reader.jose.signature_holds
    monkeypatch.setattr(reader.jose, "signature_holds", lambda *args: seen.append(args) or real(*args))
    accept(first)
    accept(second)
    assert len(seen) == 3  # a root token and two leaves


def test_a_remembered_root_token_does_not_lend_its_verification_to_another_text() -> None:
    chain = make_chain()
    assert accept(chain)
    head, body, signature = chain[0].split(".")
    other = ("B" if signature[0] == "A" else "A") + signature[1:]
    assert refusal((f"{head}.{body}.{other}", chain[1])) is Reason.GRANT_SIGNATURE_INVALID


def test_the_memory_of_root_tokens_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = reader.Remembered[reader.Root](4)
    monkeypatch.setattr(reader, "_roots", memory)
    for _ in range(10):
        assert accept(make_chain())
    assert len(memory) == 4


def test_verification_spends_nothing() -> None:
    chain = make_chain()
    assert refusal(chain, client=SECOND)
    assert accept(chain) == accept(header_value(chain))


def test_what_is_wrong_with_claims_is_told_by_the_name_of_a_claim_and_never_by_its_value() -> None:
    told = {}
    for name, edit in {
        "contradict": lambda claims: claims.update(exp=claims["nbf"]),
        "unknown": lambda claims: claims.update(privileges="all"),
        "named": lambda claims: claims.update(sub=""),
    }.items():
        with pytest.raises(NotGranted) as stop:
            accept(Forge().chain(edit_leaf=edit))
        told[name] = stop.value.message
    assert told == {
        "contradict": "the claims contradict one another",
        "unknown": "there is an unknown claim",
        "named": "the claim sub is missing or not acceptable",
    }
