"""Project Wycheproof's vectors, run through our own code: signatures, the form of tokens, and keys.

None of its tokens is signed with Ed25519. So each is tried twice: as it stands, where its
algorithm refuses it; and signed again by a key that is trusted here, so that what it says of
*form* is judged and its signature is checked.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from contract.canonical import b64url
from contract.signing import InvalidKey, PublicKey
from contract.verdict import NotGranted, Reason
from grants import jose
from grants.jwks import read_jwks
from tests.grants.grants_world import (
    CHILD_HEADER,
    ISSUER,
    OTHER_ISSUER,
    ROOT,
    SIGNERS,
    TRUST,
    accept,
    claims_of,
    forge,
    make_chain,
    make_trust,
    root_header,
)

VECTORS = Path(__file__).with_name("vectors")
REFUSED_BY_FORM = {
    Reason.NO_ACTIVE_GRANT,
    Reason.GRANT_MALFORMED,
    Reason.GRANT_HEADER_INVALID,
    Reason.GRANT_ALGORITHM_NOT_ALLOWED,
    Reason.GRANT_TOO_DEEP,
}
EMPTY: Final = "labelled valid: an empty payload is a JWS, and no token of this profile is without claims"
QUESTION_MARK: Final = "labelled valid, and holds a '?', which base64url does not have: the label is wrong"
DUPLICATE: Final = "labelled invalid, and is character for character the valid vector 357: the label is wrong"
EXCLUDED: Final = {
    259: EMPTY,
    264: EMPTY,
    268: EMPTY,
    272: EMPTY,
    320: EMPTY,
    325: EMPTY,
    367: DUPLICATE,
    370: DUPLICATE,
    372: QUESTION_MARK,
    373: QUESTION_MARK,
}
"""Vectors whose label does not say whether our reader takes their form, each with the reason."""
FORM: Final = (
    "rejectsMissing",
    "rejectsEmptyString",
    "rejectsExtra",
    "rejectsNoneAlgorithmAndMissingSignature",
    "rejectsValidJsonSerialization",
    "algIsNone",
    "spacesIn",
    "invalidCharactersIn",
    "InvalidCharacterIn",
    "ModifiedUnusedBits",
    "MacOfIncorrectlyEncodedMessage",
)
"""How a comment begins that says a vector is invalid by its form; the others are by key or signature."""


def vectors(name: str) -> list[dict[str, Any]]:
    held = json.loads((VECTORS / f"{name}.json").read_text(encoding="utf-8"))["vectors"]
    assert isinstance(held, list)
    return held


ED25519 = vectors("ed25519_test")
JWS = vectors("json_web_signature_test")
JWK = vectors("json_web_key_test")
JUDGED = [vector for vector in JWS if vector["id"] not in EXCLUDED]
BY_FORM = [v for v in JUDGED if v["result"] == "invalid" and v["comment"].startswith(FORM)]
BY_KEY = [v for v in JUDGED if v["result"] == "invalid" and not v["comment"].startswith(FORM)]
VALID = [v for v in JUDGED if v["result"] == "valid"]


def number(vector: dict[str, Any]) -> str:
    return str(vector["id"])


def test_all_vectors_are_here_and_each_is_judged_or_excluded_for_a_reason() -> None:
    assert (len(ED25519), len(JWS), len(JWK)) == (151, 401, 26)
    assert Counter(vector["result"] for vector in ED25519) == {"valid": 88, "invalid": 63}
    assert Counter(vector["result"] for vector in JWS) == {"valid": 46, "invalid": 355}
    assert (len(VALID), len(BY_FORM), len(BY_KEY), len(EXCLUDED)) == (38, 42, 311, 10)
    assert len(VALID) + len(BY_FORM) + len(BY_KEY) + len(EXCLUDED) == len(JWS)


def test_the_reasons_for_what_is_excluded_hold() -> None:
    held = {vector["id"]: vector for vector in JWS}
    reasons = {EMPTY: set[int](), DUPLICATE: set[int](), QUESTION_MARK: set[int]()}
    for place, reason in EXCLUDED.items():
        reasons[reason].add(place)
    assert all(held[n]["result"] == "valid" and held[n]["jws"].split(".")[1] == "" for n in reasons[EMPTY])
    assert all(held[n]["result"] == "invalid" and held[n]["jws"] == held[357]["jws"] for n in reasons[DUPLICATE])
    assert held[357]["result"] == "valid"
    assert all(held[n]["result"] == "valid" and "?" in held[n]["jws"] for n in reasons[QUESTION_MARK])


# signatures


@pytest.mark.parametrize("vector", ED25519, ids=number)
def test_a_signature_holds_exactly_where_it_should(vector: dict[str, Any]) -> None:
    key = PublicKey(bytes.fromhex(vector["key"]))
    holds = key.verifies(bytes.fromhex(vector["sig"]), bytes.fromhex(vector["msg"]))
    assert holds == (vector["result"] == "valid")


@pytest.mark.parametrize("vector", ED25519, ids=number)
def test_a_signature_over_something_else_is_none_on_a_token(vector: dict[str, Any]) -> None:
    """The vector's key is the issuer's, and its signature stands under a good header and good claims."""
    key, signature = PublicKey(bytes.fromhex(vector["key"])), bytes.fromhex(vector["sig"])
    trust = make_trust(issuers={ISSUER: replace(TRUST.issuers[ISSUER], keys=(key,))})
    head = json.dumps({**root_header(), "kid": key.thumbprint}).encode()
    first, leaf = make_chain()
    token = f"{b64url(head)}.{first.split('.')[1]}.{b64url(signature)}"
    with pytest.raises(NotGranted) as stop:
        accept((token, leaf), trust=trust)
    assert stop.value.reason is (Reason.GRANT_SIGNATURE_INVALID if len(signature) == 64 else Reason.GRANT_MALFORMED)


# tokens as they stand


@pytest.mark.parametrize("vector", JWS, ids=number)
def test_a_token_of_another_algorithm_is_refused_before_any_key_is_sought(vector: dict[str, Any]) -> None:
    """Valid or not in their own profiles, excluded or not: none is Ed25519, as root token and as leaf."""
    root = make_chain()[0]
    for header in (vector["jws"], f"{root},{vector['jws']}"):
        with pytest.raises(NotGranted) as stop:
            accept(header)
        assert stop.value.reason in REFUSED_BY_FORM


# tokens signed again


def resigned(jws: str) -> str:
    """The same header and payload, letter by letter, signed by a key that is trusted here."""
    head, payload, _ = jws.split(".")
    return f"{head}.{payload}.{b64url(SIGNERS[ISSUER].sign(f'{head}.{payload}'.encode()))}"


def reheaded(jws: str) -> str:
    """The same payload under a header of this profile."""
    head = b64url(json.dumps(root_header()).encode())
    return resigned(f"{head}.{jws.split('.')[1]}.")


@pytest.mark.parametrize("vector", VALID, ids=number)
def test_a_valid_form_is_read_and_its_signature_is_checked(vector: dict[str, Any]) -> None:
    compact = jose.split(resigned(vector["jws"]))
    assert compact.signing_input == vector["jws"].rpartition(".")[0].encode()
    assert jose.signature_holds(compact, SIGNERS[ISSUER].public_key)
    assert not jose.signature_holds(compact, SIGNERS[OTHER_ISSUER].public_key)


@pytest.mark.parametrize("vector", VALID, ids=number)
def test_a_valid_form_under_our_header_passes_the_signature_and_fails_by_its_claims(vector: dict[str, Any]) -> None:
    with pytest.raises(NotGranted) as stop:
        accept((reheaded(vector["jws"]), make_chain()[1]))
    assert stop.value.reason is Reason.GRANT_CLAIMS_INVALID


@pytest.mark.parametrize("vector", BY_FORM, ids=number)
def test_an_invalid_form_is_not_read_whoever_signs_it(vector: dict[str, Any]) -> None:
    jws = vector["jws"]
    with pytest.raises(jose.MalformedToken):
        jose.split(resigned(jws) if jws.count(".") == 2 and not jws.endswith(".") else jws)


@pytest.mark.parametrize("vector", [v for v in BY_KEY if len(v["jws"].rpartition(".")[2]) == 86], ids=number)
def test_a_signature_of_64_bytes_by_another_algorithm_is_checked_and_does_not_hold(vector: dict[str, Any]) -> None:
    """ES256 signs 64 bytes too: under our header they reach the check."""
    head = b64url(json.dumps(root_header()).encode())
    payload, signature = vector["jws"].split(".")[1:]
    with pytest.raises(NotGranted) as stop:
        accept((f"{head}.{payload}.{signature}", make_chain()[1]))
    assert stop.value.reason is Reason.GRANT_SIGNATURE_INVALID


@pytest.mark.parametrize("place", [372, 373])
def test_a_question_mark_is_no_base64url_whatever_the_label_says(place: int) -> None:
    jws = next(vector["jws"] for vector in JWS if vector["id"] == place)
    with pytest.raises(jose.MalformedToken):
        jose.split(resigned(jws))


def test_a_duplicate_of_a_valid_form_is_read_whatever_the_label_says() -> None:
    for place in (367, 370):
        jws = next(vector["jws"] for vector in JWS if vector["id"] == place)
        assert jose.signature_holds(jose.split(resigned(jws)), SIGNERS[ISSUER].public_key)


# keys


@pytest.mark.parametrize("vector", JWK, ids=number)
def test_a_key_of_another_kind_is_no_key(vector: dict[str, Any]) -> None:
    """Valid or not in their own profiles: none is an Ed25519 key."""
    for key in vector["keys"]:
        with pytest.raises(InvalidKey):
            PublicKey.from_jwk(key)
    assert read_jwks(json.dumps({"keys": vector["keys"]}).encode()) == ()


@pytest.mark.parametrize("vector", JWK, ids=number)
def test_a_key_of_another_kind_confirms_no_holder(vector: dict[str, Any]) -> None:
    """The same keys as ``cnf`` of a leaf that its holder signed."""
    first, leaf = make_chain()
    for key in vector["keys"]:
        claims = claims_of(leaf) | {"cnf": {"jwk": key}}
        with pytest.raises(NotGranted) as stop:
            accept((first, forge(claims, SIGNERS[ROOT], CHILD_HEADER)))
        assert stop.value.reason in (Reason.GRANT_CLAIMS_INVALID, Reason.GRANT_MALFORMED)
