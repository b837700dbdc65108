"""A token of an identity provider says who a person is, or nothing, and says which rule it broke."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contract.canonical import b64url, unb64url
from contract.errors import Category, DatasetAgentError
from contract.provider import IdentityProvider
from contract.published import Unreadable
from control_plane.oidc import OidcVerifier
from control_plane.oidc_keys import read_keys
from control_plane.oidc_token import MAX_HEADER_BYTES, MAX_TOKEN_BYTES, VerifiedPerson, judge, read_token
from tests.control_plane.oidc_world import (
    AUDIENCE,
    ISSUER,
    NOW,
    SUBJECT,
    claims,
    jwk,
    jwks,
    signature,
    token,
)

ALL = frozenset({"RS256", "PS256", "ES256", "EdDSA", "Ed25519"})
PROVIDER = IdentityProvider(ISSUER, AUDIENCE, jwks_url="https://idp.example/keys", algorithms=ALL)
KEYS = jwks("rsa", "ec", "ed")


def verifier(provider: IdentityProvider = PROVIDER, keys: bytes = KEYS) -> OidcVerifier:
    async def fetch(url: str) -> bytes:
        assert url == provider.jwks_url
        return keys

    return OidcVerifier(provider, fetch)


async def verified(sent: str, now: float = NOW, **changes: Any) -> VerifiedPerson:
    keys = changes.pop("keys", KEYS)
    return await verifier(replace(PROVIDER, **changes), keys).verify(sent, now)


async def code_of(sent: str, now: float = NOW, **changes: Any) -> str:
    with pytest.raises(DatasetAgentError) as fault:
        await verified(sent, now, **changes)
    assert fault.value.category is Category.UNAUTHENTICATED
    return fault.value.code.removeprefix("control_plane.oidc.")


@pytest.mark.parametrize("algorithm", sorted(ALL))
async def test_a_token_of_each_algorithm_names_its_person(algorithm: str) -> None:
    person = await verified(token(algorithm=algorithm))
    assert (person.issuer, person.subject, dict(person.attributes)) == (ISSUER, SUBJECT, {})


ACCEPTED = [
    ({"aud": [AUDIENCE]}, {}),
    ({"aud": [AUDIENCE, "other"]}, {"required": {"azp": ("portal",)}}),
    ({"nonce": ..., "at_hash": ..., "azp": ..., "jti": "again"}, {}),
    ({"nbf": int(NOW)}, {}),
    ({"iat": int(NOW) + 5}, {}),
    ({"nbf": int(NOW) + 5}, {}),
    ({"exp": int(NOW) - 4, "iat": int(NOW) - 100}, {}),
    ({"iat": int(NOW) - 7_200}, {}),
    ({"exp": int(NOW) + 10**9}, {}),
    ({"role": "admin", "name": "admin_alice", "preferred_username": "process_engineer"}, {}),
    ({"sub": "a b"}, {}),
    ({"sub": "ü" * 256}, {}),
    ({"oid": "o-1"}, {"subject_claim": "oid"}),
    ({"tid": "b"}, {"required": {"tid": ("a", "b")}}),
    ({"groups": ["x", "y"]}, {"required": {"groups": ("y",)}}),
    ({"email_verified": True, "level": 3}, {"required": {"email_verified": (True,), "level": (3,)}}),
    ({"realm_access": {"roles": ["data"]}}, {"required": {"/realm_access/roles": ("data",)}}),
    ({"a/b": {"~": "x"}}, {"required": {"/a~1b/~0": ("x",)}}),
    ({"https://acme.example/org": "acme"}, {"required": {"https://acme.example/org": ("acme",)}}),
]


@pytest.mark.parametrize(("said", "settings"), ACCEPTED)
async def test_what_a_provider_may_write_is_accepted(said: dict[str, Any], settings: dict[str, Any]) -> None:
    person = await verified(token(**said), **settings)
    assert person.subject == said.get(settings.get("subject_claim", "sub"), SUBJECT)


@pytest.mark.parametrize(
    ("kind", "types"),
    [
        ("JWT", "jwt"),
        ("jwt", "jwt"),
        ("application/JWT", "jwt"),
        ("at+jwt", "at+jwt"),
        ("application/at+jwt", "at+jwt"),
        (..., "absent"),
    ],
)
async def test_a_typ_is_a_media_type(kind: Any, types: str) -> None:
    assert await verified(token(header={"typ": kind}), types=frozenset({types}))


@pytest.mark.parametrize("member", ["x5t", "x5t#S256", "pi.atm", "org.example.note"])
async def test_a_header_member_that_changes_nothing_is_ignored(member: str) -> None:
    assert await verified(token(header={member: "text"}))


DEEP = b'{"a":' * 9 + b"1" + b"}" * 9
JWE = ".".join(b64url(b"{}") for _ in range(5))
ELSEWHERE = {"iss": "https://idp.example/realms/other"}

REFUSED: list[tuple[str, str, dict[str, Any]]] = [
    # shape and encoding
    ("malformed", "", {}),
    ("malformed", "a", {}),
    ("malformed", "a.b", {}),
    ("malformed", "a.b.c.d", {}),
    ("malformed", "..", {}),
    ("encrypted", JWE, {}),
    ("encrypted", "....", {}),
    ("malformed", token() + "=", {}),
    ("malformed", token() + "\n", {}),
    ("malformed", " " + token(), {}),
    ("malformed", token().replace(".", " .", 1), {}),
    ("malformed", token().replace(".", ".é", 1), {}),
    ("malformed", token()[:-1] + "+", {}),
    ("malformed", "a" * (MAX_TOKEN_BYTES + 1), {}),
    ("malformed", token(pad="x" * MAX_TOKEN_BYTES), {}),
    ("malformed", token(pad="x" * 13_000), {}),
    ("malformed", token().rpartition(".")[0], {}),
    ("malformed", token().rpartition(".")[0] + ".", {}),
    ("malformed", token() + ".", {}),
    ("malformed", token() + ".x", {}),
    ("malformed", token() + ".x.y.z", {}),
    ("malformed", token(header={"pad": "x" * MAX_HEADER_BYTES}), {}),
    ("malformed", token(header=b'{"alg":"RS256","alg":"RS256","typ":"JWT","kid":"rsa"}'), {}),
    ("malformed", token(header=b"[]"), {}),
    ("malformed", token(header=b"null"), {}),
    ("malformed", token(header=b'{"alg":"RS256","typ":"JWT","kid":NaN}'), {}),
    ("malformed", token(header=b"\xff"), {}),
    ("malformed", token(header=DEEP), {}),
    ("malformed", token(payload=b"[]"), {}),
    ("malformed", token(payload=b'"eyJ"'), {}),
    ("malformed", token(payload=json.dumps(claims()).encode()[:-1] + b',"sub":"u-clin-01"}'), {}),
    ("malformed", token(payload=json.dumps(claims(a={"b": 1})).encode().replace(b'"b": 1', b'"b":1,"b":2')), {}),
    ("malformed", token(payload=json.dumps(claims(a=...)).encode()[:-1] + b',"a":1e999}'), {}),
    ("malformed", token(payload=json.dumps(claims()).encode()[:-1] + b',"a":' + b"9" * 5_000 + b"}"), {}),
    ("malformed", token(payload=json.dumps(claims()).encode()[:-1] + b',"a":' + DEEP + b"}"), {}),
    ("malformed", token(payload=json.dumps(claims()).encode()[:-1] + b',"a":"\\ud800"}'), {}),
    ("malformed", token(payload=token().encode()), {}),  # nested, without saying so
    # algorithm
    *[("algorithm", token(header={"alg": alg}), {}) for alg in ("none", "None", "NONE", "nOnE", "", "rs256", "RS512")],
    *[("algorithm", token(header={"alg": alg}), {}) for alg in ("ES384", "ES256K", "Ed448", "HS384", ["RS256"], None)],
    ("algorithm", token(header={"alg": ...}), {}),
    ("algorithm", token(algorithm="HS256"), {}),
    ("algorithm", token(), {"algorithms": frozenset({"ES256"})}),
    ("algorithm", token(algorithm="PS256"), {"algorithms": frozenset({"RS256"})}),
    ("algorithm", token(algorithm="EdDSA"), {"algorithms": frozenset({"Ed25519"})}),
    # header
    *[("header", token(header={name: "x"}), {}) for name in ("jku", "x5u", "zip", "cty", "enc", "epk")],
    ("header", token(header={"jwk": jwk("rsa2")}, signed_by="rsa2"), {}),
    ("header", token(header={"x5c": ["MIIB"]}), {}),
    ("header", token(header={"crit": ["exp"], "exp": 1}), {}),
    ("header", token(header={"crit": []}), {}),
    ("header", token(header={"b64": False}), {}),
    ("header", token(header={"cty": "JWT"}, payload=token().encode()), {}),
    *[("header", token(header={"kid": kid}), {}) for kid in (["rsa"], 7, None, "", "k" * 513, {"a": "b"})],
    *[("type", token(header={"typ": typ}), {}) for typ in ("at+jwt", "execution-grant+jwt", "logout+jwt", "absent")],
    *[("type", token(header={"typ": typ}), {}) for typ in ("client-authentication+jwt", "dpop+jwt", "", "JWT ", 1, None)],
    ("type", token(header={"typ": ...}), {}),
    ("type", token(header={"typ": "absent"}), {"types": frozenset({"absent"})}),
    ("type", token(header={"typ": "JWT"}), {"types": frozenset({"at+jwt"})}),
    # key
    *[("key", token(header={"kid": kid}), {}) for kid in ("../../etc/passwd", "' OR 1=1 --", "RSA", "rsa ", "rsa\x00")],
    ("key", token(signed_by="rsa2"), {}),
    ("key", token(header={"kid": "ec"}), {}),  # the key is for another algorithm
    ("key", token(algorithm="ES256", header={"kid": "rsa"}), {}),
    ("key", token(algorithm="ES256", header={"kid": "ed"}), {}),
    ("key", token(algorithm="EdDSA", header={"kid": "ec"}), {}),
    ("key", token(header={"kid": ...}), {"keys": jwks("rsa", "rsa2")}),
    ("key", token(header={"kid": ...}), {"keys": jwks("ec", "ed")}),
    ("key", token(), {"keys": jwks("rsa", jwk("rsa2", kid="rsa"))}),  # which of the two is not said
    ("key", token(), {"keys": jwks(jwk("rsa", use="enc"))}),
    ("key", token(), {"keys": jwks(jwk("rsa", alg="PS256"))}),
    ("key", token(), {"keys": jwks(jwk("rsa", alg="RS512"))}),
    ("key", token(), {"keys": jwks(jwk("rsa", key_ops=["sign"]))}),
    ("key", token(signed_by="rsa1024"), {"keys": jwks("rsa1024")}),
    ("key", token(), {"keys": jwks()}),
    # signature
    ("signature", token(signed_by="rsa2", header={"kid": "rsa"}), {}),
    ("signature", token(algorithm="ES256", signed_by="ec2", header={"kid": "ec"}), {}),
    ("signature", token(algorithm="EdDSA", signed_by="ed2", header={"kid": "ed"}), {}),
    ("signature", token()[:-86], {}),
    ("signature", token(algorithm="ES256").rpartition(".")[0] + "." + b64url(bytes(64)), {}),
    ("signature", token(algorithm="ES256").rpartition(".")[0] + "." + b64url(b"\xff" * 64), {}),
    ("signature", token(algorithm="EdDSA").rpartition(".")[0] + "." + b64url(bytes(64)), {}),
    ("signature", token(algorithm="EdDSA").rpartition(".")[0] + "." + b64url(b"x"), {}),
    ("signature", token().rpartition(".")[0] + "." + b64url(bytes(256)), {}),
    # claims
    *[("issuer", token(iss=iss), {}) for iss in (ISSUER + "/", ISSUER.upper(), [ISSUER], "", None, 7, ...)],
    ("issuer", token(**ELSEWHERE), {}),
    *[("audience", token(aud=aud), {}) for aud in ("other", AUDIENCE.upper(), AUDIENCE + "/", "", [], None, 7, ...)],
    *[("audience", token(aud=aud), {}) for aud in ([7], [AUDIENCE, 7], [[AUDIENCE]], {"a": AUDIENCE}, ["other"])],
    ("audience", token(aud=[AUDIENCE, "other"]), {}),
    ("audience", token(aud=[AUDIENCE, 7]), {"required": {"azp": ("portal",)}}),
    ("audience", token(aud=[AUDIENCE, AUDIENCE]), {}),
    ("audience", token(aud=[AUDIENCE, *"abcdefghijklmnop"]), {"required": {"azp": ("portal",)}}),
    *[("claims", token(**{name: ...}), {}) for name in ("exp", "iat")],
    *[("claims", token(exp=exp), {}) for exp in (str(int(NOW) + 60), NOW + 60.5, 1e40, 10**40, True, None, [1], -1)],
    *[("claims", token(iat=iat), {}) for iat in (str(int(NOW)), NOW - 0.5, True, None, [], -1)],
    *[("claims", token(nbf=nbf), {}) for nbf in (str(int(NOW)), NOW - 0.5, False, None, {})],
    ("claims", token(exp=int(NOW), iat=int(NOW)), {}),
    ("not_yet_valid", token(iat=int(NOW) + 6), {}),
    ("not_yet_valid", token(nbf=int(NOW) + 6), {}),
    ("not_yet_valid", token(iat=int(NOW) * 1_000, exp=int(NOW) * 2_000), {}),
    ("expired", token(exp=int(NOW) - 5, iat=int(NOW) - 100), {}),
    ("too_old", token(iat=int(NOW) - 7_205, exp=int(NOW) + 60), {}),
    ("too_old", token(iat=int(NOW) - 70, exp=int(NOW) + 60), {"max_age_s": 60}),
    ("too_old", token(iat=0, exp=int(NOW) + 60), {}),
    ("bound", token(cnf={"jkt": "x"}), {}),
    ("bound", token(cnf=None), {}),
    ("type", token(events={"http://schemas.openid.net/event/backchannel-logout": {}}), {}),
    *[("subject", token(sub=sub), {}) for sub in ("", "a\x00", "e\u0301", "x" * 513, 7, None, ["u"], ...)],
    ("subject", token(), {"subject_claim": "oid"}),
    ("subject", token(oid=7), {"subject_claim": "oid"}),
    ("subject", token(oid="o-1", sub=...), {"subject_claim": "oid"}),
    *[("required", token(azp=azp), {"required": {"azp": ("portal",)}}) for azp in ("Portal", "", None, ["p"], [], ...)],
    ("required", token(n=1), {"required": {"n": (True,)}}),
    ("required", token(n=True), {"required": {"n": (1,)}}),
    ("required", token(n="1"), {"required": {"n": (1,)}}),
    ("required", token(a={"b": "x"}), {"required": {"/a/c": ("x",)}}),
    ("required", token(a=["x"]), {"required": {"/a/0": ("x",)}}),
    ("required", token(tid="a"), {"required": {"tid": ("a",), "azp": ("other",)}}),
    *[("attribute", token(site=site), {"attributes": {"site": "site"}}) for site in (1.5, {"a": 1}, [1], [["a"]], 2**53)],
    *[("attribute", token(site=site), {"attributes": {"site": "site"}}) for site in ("x" * 513, "e\u0301", "\x00")],
    ("attribute", token(site=["x"] * 257), {"attributes": {"site": "site"}}),
]  # fmt: skip


@pytest.mark.parametrize(("code", "sent", "changes"), REFUSED)
async def test_a_token_that_is_not_right_is_refused_by_name(code: str, sent: str, changes: dict[str, Any]) -> None:
    assert await code_of(sent, **changes) == code


def _plain(length: int) -> str:
    return token(pad="x" * length)


async def test_the_largest_token_is_read_and_one_byte_more_is_not() -> None:
    fitting = max(
        (_plain(length) for length in range(11_300, 12_000)), key=lambda t: (len(t) <= MAX_TOKEN_BYTES, len(t))
    )
    assert len(fitting) <= MAX_TOKEN_BYTES < len(fitting) + 4
    assert await verified(fitting)


@pytest.mark.parametrize(("later", "valid"), [(300, True), (304, True), (305, False)])
async def test_a_token_ends_at_exp_and_the_leeway(later: int, valid: bool) -> None:
    if valid:
        assert await verified(token(), NOW + later)
    else:
        assert await code_of(token(), NOW + later) == "expired"


async def test_the_leeway_is_the_one_that_is_set() -> None:
    assert await verified(token(), NOW + 359, leeway_s=60)
    assert await code_of(token(), NOW + 300, leeway_s=0) == "expired"


async def test_without_a_kid_the_only_key_for_the_algorithm_is_meant() -> None:
    assert await verified(token(header={"kid": ...}), keys=jwks("rsa", "ec"))
    assert await verified(token(header={"kid": ...}), keys=jwks(jwk("rsa", kid=None)))


async def test_a_token_that_names_a_kid_is_not_verified_by_a_key_without_one() -> None:
    assert await code_of(token(), keys=jwks(jwk("rsa", kid=None))) == "key"


async def test_one_kid_may_name_keys_of_different_kinds() -> None:
    keys = jwks(jwk("rsa", kid="k"), jwk("ec", kid="k"))
    assert await verified(token(header={"kid": "k"}), keys=keys)
    assert await verified(token(algorithm="ES256", header={"kid": "k"}), keys=keys)


async def test_a_key_that_is_pinned_to_one_algorithm_is_for_no_other() -> None:
    keys = jwks(jwk("rsa", alg="PS256"), jwk("ed", alg="EdDSA"))
    assert await verified(token(algorithm="PS256"), keys=keys)
    assert await code_of(token(algorithm="RS256"), keys=keys) == "key"
    assert await verified(token(algorithm="Ed25519"), keys=keys)


async def test_a_mac_by_the_public_key_is_no_signature() -> None:
    provider = replace(PROVIDER, algorithms=ALL | {"HS256"})  # no setting can say this
    with pytest.raises(DatasetAgentError) as fault:
        await verifier(provider).verify(token(algorithm="HS256"), NOW)
    assert fault.value.code == "control_plane.oidc.key"


async def test_an_edited_claim_breaks_the_signature() -> None:
    head, _, signed = token().split(".")
    forged = b64url(json.dumps(claims(sub="another")).encode())
    assert await code_of(f"{head}.{forged}.{signed}") == "signature"


MAPPED = {"site": "https://acme.example/site", "roles": "/realm_access/roles", "level": "level", "vip": "vip"}


async def test_mapped_claims_become_attributes_and_absent_ones_nothing() -> None:
    sent = token(
        **{"https://acme.example/site": "north"}, realm_access={"roles": ["b", "a", "b"]}, level=3, vip=None, other="x"
    )
    person = await verified(sent, attributes=MAPPED)
    assert person.attributes == {"site": "north", "roles": ("a", "b"), "level": 3}


async def test_true_stays_true_and_an_empty_list_an_empty_list() -> None:
    person = await verified(token(vip=True, realm_access={"roles": []}), attributes=MAPPED)
    assert person.attributes == {"vip": True, "roles": ()}


async def test_what_is_not_mapped_is_not_there() -> None:
    assert (await verified(token(tenant="acme", clearance="restricted"))).attributes == {}


@pytest.mark.parametrize(("code", "sent", "changes"), REFUSED)
async def test_no_message_repeats_anything_of_a_token(code: str, sent: str, changes: dict[str, Any]) -> None:
    with pytest.raises(DatasetAgentError) as fault:
        await verified(sent, **changes)
    assert fault.value.message.isascii() and not set(fault.value.message) & set('"\\')
    for word in (SUBJECT, "someone@example", "../../", "MIIB", "x" * 20):
        assert word not in fault.value.message


# rubbish


async def outcome(sent: str) -> VerifiedPerson | Category:
    """The person, or the category of the fault; anything else that is raised fails the test."""
    try:
        return await verifier().verify(sent, NOW)
    except DatasetAgentError as fault:
        return fault.category


@given(st.text() | st.binary().map(lambda data: data.decode("latin-1")))
@settings(max_examples=300, deadline=None)
async def test_text_of_any_kind_is_at_most_refused(sent: str) -> None:
    assert await outcome(sent) is Category.UNAUTHENTICATED


@given(st.lists(st.binary(max_size=200), min_size=3, max_size=3))
@settings(max_examples=300, deadline=None)
async def test_bytes_in_the_shape_of_a_token_are_at_most_refused(parts: list[bytes]) -> None:
    assert await outcome(".".join(b64url(part) for part in parts)) is Category.UNAUTHENTICATED


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
NAMES = st.sampled_from(["alg", "typ", "kid", "iss", "sub", "aud", "exp", "iat", "nbf", "azp", "cnf", "crit", "x"])


@given(st.dictionaries(NAMES, JSON, max_size=4), st.dictionaries(NAMES, JSON, max_size=4))
@settings(max_examples=300, deadline=None)
async def test_a_signed_token_with_any_members_is_at_most_refused(head: dict[str, Any], said: dict[str, Any]) -> None:
    header = json.dumps({"alg": "EdDSA", "typ": "JWT", "kid": "ed"} | head).encode()
    payload = json.dumps(claims() | said).encode()
    signed = f"{b64url(header)}.{b64url(payload)}"
    sent = f"{signed}.{b64url(signature('EdDSA', 'ed', signed.encode()))}"
    expected = VerifiedPerson(ISSUER, said.get("sub", SUBJECT), MappingProxyType({}))
    assert await outcome(sent) in (Category.UNAUTHENTICATED, expected)


@given(st.integers(0, 10**6), st.integers(0, 255))
@settings(max_examples=200, deadline=None)
async def test_no_changed_byte_leaves_a_token_valid(place: int, byte: int) -> None:
    good = token(algorithm="EdDSA")
    at = place % len(good)
    changed = good[:at] + chr(byte) + good[at + 1 :]
    if changed != good:
        with pytest.raises(DatasetAgentError):
            await verifier().verify(changed, NOW)


@given(st.binary(max_size=2_000))
@settings(max_examples=200, deadline=None)
def test_rubbish_in_a_key_set_is_at_most_unreadable(data: bytes) -> None:
    with suppress(Unreadable):
        read_keys(data)


def test_the_two_halves_agree_on_a_good_token() -> None:
    read = read_token(token(), PROVIDER)
    assert (read.algorithm, read.kid) == ("RS256", "rsa")
    assert judge(read.payload, PROVIDER, NOW).subject == SUBJECT
    assert unb64url(token().split(".")[1]) == read.payload
    assert SUBJECT not in repr(read)


def test_test_keys_are_what_they_say() -> None:
    assert [len(jwk(name)["n"]) for name in ("rsa1024", "rsa")] == [171, 342]
