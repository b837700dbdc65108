"""An identity token says who a person is, or nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from contract.canonical import b64url, unb64url
from contract.errors import Category, DatasetAgentError
from contract.signing import PublicKey
from control_plane.identity import issue_identity, verify_person
from tests.control_plane.control_plane_world import ISSUER, NOW

AUDIENCE = "urn:dataset-agent:root"


class MemorySigner:
    """A key that lives as long as the test."""

    def __init__(self) -> None:
        self._private = Ed25519PrivateKey.generate()
        self.public_key = PublicKey(self._private.public_key().public_bytes_raw())

    def sign(self, message: bytes) -> bytes:
        return self._private.sign(message)


SIGNER = MemorySigner()
HEADER = {"alg": "Ed25519", "typ": "JWT", "kid": SIGNER.public_key.thumbprint}
CLAIMS: dict[str, Any] = {
    "iss": ISSUER,
    "sub": "u-eng-01",
    "aud": AUDIENCE,
    "iat": int(NOW),
    "exp": int(NOW) + 60,
    "jti": "j",
}


def _token(header: Any = HEADER, claims: Any = CLAIMS, signer: MemorySigner = SIGNER) -> str:
    encoded = [item if isinstance(item, bytes) else json.dumps(item).encode() for item in (header, claims)]
    signed = ".".join(b64url(item) for item in encoded)
    return f"{signed}.{b64url(signer.sign(signed.encode()))}"


def _verify(token: str, now: float = NOW) -> tuple[str, str]:
    return verify_person(token, keys=[SIGNER.public_key], issuer_url=ISSUER, audience=AUDIENCE, now=now)


def _without(claims: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in claims.items() if key != name}


def test_an_issued_token_names_its_issuer_and_subject() -> None:
    token = issue_identity(SIGNER, issuer_url=ISSUER, subject="u-eng-01", audience=AUDIENCE, now=NOW)
    assert _verify(token) == (ISSUER, "u-eng-01")


def test_a_rotated_key_is_found_by_its_id() -> None:
    keys = [MemorySigner().public_key, SIGNER.public_key]
    assert verify_person(_token(), keys=keys, issuer_url=ISSUER, audience=AUDIENCE, now=NOW)[1] == "u-eng-01"


@pytest.mark.parametrize(
    ("token", "code"),
    [
        ("", "malformed"),
        ("a.b", "malformed"),
        ("a.b.c.d", "malformed"),
        ("..", "malformed"),
        (_token() + "=", "malformed"),
        (_token().replace(".", ". ", 1), "signature"),
        (_token().replace(".", ".é", 1), "malformed"),
        ("é.b.c", "malformed"),
        ("a" * 9_000, "malformed"),
        (_token(claims=CLAIMS | {"pad": "x" * 7_000}), "malformed"),
        (_token().rpartition(".")[0], "malformed"),
        (_token().rpartition(".")[0] + ".", "malformed"),
        (_token() + ".x", "malformed"),
        (_token(claims=CLAIMS | {"exp": 2**53}), "claims"),
        (_token(claims=CLAIMS | {"iat": -1}), "claims"),
        (_token(header=b'{"alg":"Ed25519","alg":"none","typ":"JWT","kid":"x"}'), "malformed"),
        (_token(header=[]), "malformed"),
        (_token(header=HEADER | {"alg": "none"}), "header"),
        (_token(header=HEADER | {"alg": "HS256"}), "header"),
        (_token(header=HEADER | {"alg": "EdDSA"}), "header"),
        (_token(header=HEADER | {"typ": "execution-grant+jwt"}), "header"),
        (_token(header=HEADER | {"typ": "client-authentication+jwt"}), "header"),
        (_token(header=HEADER | {"jwk": SIGNER.public_key.jwk()}), "header"),
        (_token(header=HEADER | {"jku": "https://evil.example"}), "header"),
        (_token(header=_without(HEADER, "kid")), "header"),
        (_token(header=HEADER | {"kid": "../../etc/passwd"}), "key"),
        (_token(header=HEADER | {"kid": ["x"]}), "key"),
        (_token(header=HEADER | {"kid": MemorySigner().public_key.thumbprint}), "key"),
        (_token(signer=MemorySigner()), "signature"),
        (_token(claims=CLAIMS | {"iss": "https://evil.example"}), "issuer"),
        (_token(claims=CLAIMS | {"aud": "urn:dataset-agent:remote"}), "audience"),
        (_token(claims=CLAIMS | {"aud": [AUDIENCE]}), "audience"),
        (_token(claims=CLAIMS | {"sub": ""}), "claims"),
        (_token(claims=CLAIMS | {"sub": 7}), "claims"),
        (_token(claims=CLAIMS | {"sub": "e\u0301"}), "claims"),
        (_token(claims=CLAIMS | {"sub": "a\x00"}), "claims"),
        (_token(claims=_without(CLAIMS, "exp")), "claims"),
        (_token(claims=_without(CLAIMS, "iat")), "claims"),
        (_token(claims=CLAIMS | {"exp": str(CLAIMS["exp"])}), "claims"),
        (_token(claims=CLAIMS | {"exp": 1e40}), "claims"),
        (_token(claims=CLAIMS | {"exp": True}), "claims"),
        (_token(claims=CLAIMS | {"exp": CLAIMS["exp"] * 1000}), "lifetime"),
        (_token(claims=CLAIMS | {"exp": CLAIMS["iat"]}), "lifetime"),
        (_token(claims=CLAIMS | {"iat": int(NOW) + 30}), "not_yet_valid"),
        (_token(claims=CLAIMS | {"nbf": int(NOW) + 30}), "not_yet_valid"),
    ],
)
def test_a_token_that_is_not_right_is_refused_by_name(token: str, code: str) -> None:
    with pytest.raises(DatasetAgentError) as caught:
        _verify(token)
    assert (caught.value.category, caught.value.code) == (Category.UNAUTHENTICATED, f"control_plane.identity.{code}")


def test_an_edited_claim_breaks_the_signature() -> None:
    header, _, signature = _token().split(".")
    forged = b64url(json.dumps(CLAIMS | {"sub": "u-clin-01"}).encode())
    with pytest.raises(DatasetAgentError, match="signature"):
        _verify(f"{header}.{forged}.{signature}")


@pytest.mark.parametrize(("later", "valid"), [(60, True), (64, True), (65, False), (3_600, False)])
def test_a_token_ends_at_exp_with_five_seconds_of_skew(later: int, valid: bool) -> None:
    if valid:
        assert _verify(_token(), NOW + later)
    else:
        with pytest.raises(DatasetAgentError, match="expired"):
            _verify(_token(), NOW + later)


@pytest.mark.parametrize(("subject", "ttl"), [("", 60), ("x" * 513, 60), ("e\u0301", 60), ("u", 0), ("u", 86_401)])
def test_the_issuer_makes_no_token_it_would_refuse(subject: str, ttl: int) -> None:
    with pytest.raises(DatasetAgentError) as caught:
        issue_identity(SIGNER, issuer_url=ISSUER, subject=subject, audience=AUDIENCE, now=NOW, ttl=ttl)
    assert caught.value.category is Category.INVALID_INPUT


def test_a_claim_of_another_role_in_the_token_is_not_identity() -> None:
    claims = CLAIMS | {"name": "admin", "role": "admin", "preferred_username": "process_engineer"}
    assert _verify(_token(claims=claims)) == (ISSUER, "u-eng-01")


def test_a_message_never_repeats_the_token() -> None:
    token = _token(claims=CLAIMS | {"sub": "marker-7731", "exp": int(NOW) - 100, "iat": int(NOW) - 200})
    with pytest.raises(DatasetAgentError) as caught:
        _verify(token)
    assert "marker-7731" not in caught.value.message
    assert unb64url(token.split(".")[1]).decode() not in caught.value.message
