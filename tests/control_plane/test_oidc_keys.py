"""A provider's key set: which keys are used, and for what."""

from __future__ import annotations

from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from contract.canonical import b64url, unb64url
from control_plane.oidc_keys import fitting, holds, read_keys
from tests.control_plane.oidc_world import jwk, jwks, key, number, signature

RSA, EC, ED = {"RS256", "PS256"}, {"ES256"}, {"EdDSA", "Ed25519"}


@pytest.mark.parametrize(
    ("entry", "algorithms"),
    [
        (jwk("rsa"), RSA),
        (jwk("ec"), EC),
        (jwk("ed"), ED),
        (jwk("rsa", use=None), RSA),
        (jwk("rsa", kid=None), RSA),
        (jwk("rsa", key_ops=["verify"]), RSA),
        (jwk("rsa", alg="RS256"), {"RS256"}),
        (jwk("rsa", alg="PS256"), {"PS256"}),
        (jwk("ec", alg="ES256"), EC),
        (jwk("ed", alg="Ed25519"), ED),
        (jwk("ed", alg="EdDSA"), ED),
        (jwk("rsa", x5c=["MIIB"], x5t="x", note="kept out"), RSA),
    ],
)
def test_a_key_is_for_what_it_says(entry: dict[str, Any], algorithms: set[str]) -> None:
    (found,) = read_keys(jwks(entry))
    assert (found.kid, found.algorithms) == (entry.get("kid"), algorithms)


SMALL_ORDER = bytes(32)
HUGE = number(2**8_200 + 1)


@pytest.mark.parametrize(
    "entry",
    [
        {},
        {"kty": "oct", "k": "AAAA", "kid": "rsa"},
        {"kty": "oct", "kid": "rsa"},
        jwk("rsa", kty=None),
        jwk("rsa", kty="rsa"),
        jwk("rsa", kty=["RSA"]),
        jwk("rsa", kty="EC"),
        jwk("rsa", crv="P-256"),
        jwk("rsa1024"),
        jwk("rsa", n=HUGE),
        jwk("rsa", n=number(2**2_048)),
        jwk("rsa", n=7),
        jwk("rsa", n=""),
        jwk("rsa", n=jwk("rsa")["n"] + "=="),
        jwk("rsa", n=None),
        jwk("rsa", e=None),
        jwk("rsa", e=b64url(b"\x01")),
        jwk("rsa", e=b64url(b"\x02")),
        jwk("rsa", e=b64url(b"\x04")),
        jwk("rsa", e=number(2**32 + 1)),
        jwk("rsa", use="enc"),
        jwk("rsa", use=["sig"]),
        jwk("rsa", key_ops=["encrypt"]),
        jwk("rsa", key_ops="verify"),
        jwk("rsa", alg="RS384"),
        jwk("rsa", alg="HS256"),
        jwk("rsa", alg="none"),
        jwk("rsa", alg="ES256"),
        jwk("rsa", alg=["RS256"]),
        jwk("rsa", d="AAAA"),
        jwk("rsa", p="AAAA"),
        jwk("rsa", kid=7),
        jwk("rsa", kid=""),
        jwk("rsa", kid="k" * 513),
        jwk("p384"),
        jwk("ec", crv="P-384"),
        jwk("ec", crv="secp256k1"),
        jwk("ec", x=number(1, 32)),
        jwk("ec", x=number(1)),
        jwk("ec", y=None),
        jwk("ec", x=b64url(b"\0" + unb64url(jwk("ec")["x"]))),
        jwk("ec", x="A" + jwk("ec")["x"]),
        jwk("ec", alg="RS256"),
        jwk("ec", d="AAAA"),
        jwk("ed", crv="Ed448"),
        jwk("ed", crv="X25519"),
        jwk("ed", x=b64url(SMALL_ORDER)),
        jwk("ed", x=b64url(b"x" * 31)),
        jwk("ed", d="AAAA"),
        jwk("ed", alg="ES256"),
    ],
)
def test_a_key_that_is_not_right_is_passed_over_and_takes_no_other_with_it(entry: dict[str, Any]) -> None:
    assert [found.kid for found in read_keys(jwks(entry, "ec3"))] == ["ec3"]


@pytest.mark.parametrize("entry", [b"7", b"null", b'"x"', b"[]"])
def test_an_entry_that_is_no_key_is_passed_over(entry: bytes) -> None:
    assert read_keys(b'{"keys": [' + entry + b"]}") == ()


def test_a_leading_zero_changes_no_number() -> None:
    numbers = key("rsa").public_key()
    assert isinstance(numbers, rsa.RSAPublicKey)
    modulus = b64url(b"\0" + numbers.public_numbers().n.to_bytes(256))
    (found,) = read_keys(jwks(jwk("rsa", n=modulus)))
    assert found.verifies("RS256", signature("RS256", "rsa", b"m"), b"m")


@pytest.mark.parametrize(("algorithm", "name"), [("RS256", "rsa"), ("PS256", "rsa"), ("ES256", "ec"), ("EdDSA", "ed")])
def test_a_key_verifies_its_own_signatures_by_its_own_algorithms(algorithm: str, name: str) -> None:
    (found,) = read_keys(jwks(name))
    signed = signature(algorithm, name, b"message")
    assert found.verifies(algorithm, signed, b"message")
    assert not found.verifies(algorithm, signed, b"other")
    assert not found.verifies(algorithm, signed[:-1], b"message")
    assert not found.verifies(algorithm, signed + b"\0", b"message")
    for other in ("none", "HS256", "RS512", *(RSA | EC | ED) - found.algorithms):
        assert not found.verifies(other, signed, b"message")


def test_the_two_kinds_of_rsa_signature_are_not_one_another() -> None:
    (found,) = read_keys(jwks("rsa"))
    assert not found.verifies("PS256", signature("RS256", "rsa", b"m"), b"m")
    assert not found.verifies("RS256", signature("PS256", "rsa", b"m"), b"m")


def test_a_key_is_found_by_its_kid_and_its_algorithm_or_as_the_only_one() -> None:
    keys = read_keys(jwks("rsa", "rsa2", "ec"))
    found = fitting(keys, kid="rsa2", algorithm="RS256")
    assert found is not None and found.kid == "rsa2"
    only = fitting(keys, kid=None, algorithm="ES256")
    assert only is not None and only.kid == "ec"
    assert fitting(keys, kid=None, algorithm="RS256") is None
    assert fitting(keys, kid="rsa", algorithm="ES256") is None
    assert (holds(keys, "ec"), holds(keys, "ed")) == (True, False)
