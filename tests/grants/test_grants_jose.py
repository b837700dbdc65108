"""One spelling of a compact JWS is read, and no other."""

from __future__ import annotations

import pytest

from contract.canonical import b64url
from grants.jose import MalformedHeader, MalformedToken, sign, split
from tests.grants.grants_world import ISSUER, SIGNERS

TOKEN = sign(b"{}", SIGNERS[ISSUER], typ="some+jwt")
HEADER, PAYLOAD, SIGNATURE = TOKEN.split(".")


def test_a_token_is_read_as_it_was_written() -> None:
    read = split(TOKEN)
    assert (dict(read.header), read.payload, len(read.signature)) == ({"alg": "Ed25519", "typ": "some+jwt"}, b"{}", 64)


@pytest.mark.parametrize(
    ("token", "said"),
    [
        (f"{HEADER}.{PAYLOAD}", "three segments"),
        (f"{TOKEN}.{SIGNATURE}", "three segments"),
        (f"{HEADER}.{PAYLOAD}.", "three segments"),
        (f"{HEADER}..{SIGNATURE}", "three segments"),
        (f".{PAYLOAD}.{SIGNATURE}", "three segments"),
        (f"{HEADER}.{PAYLOAD}.{b64url(bytes(63))}", "not 64 bytes"),
        (f"{HEADER}.{PAYLOAD}.{b64url(bytes(65))}", "not 64 bytes"),
        (f"{HEADER}.{PAYLOAD}=.{SIGNATURE}", "base64url"),
        (f"{HEADER}.ü.{SIGNATURE}", "base64url"),
        ("A" * 7_501, "larger than"),
    ],
    ids=["two", "four", "no signature", "no payload", "no header", "63 bytes", "65 bytes", "padding", "ü", "too long"],
)
def test_another_spelling_is_no_token(token: str, said: str) -> None:
    with pytest.raises(MalformedToken, match=said):
        split(token)


@pytest.mark.parametrize("header", [b"{", b"[]", b'"a"', b'{"a":1,"a":1}', b"\xff"])
def test_a_header_is_one_strict_object(header: bytes) -> None:
    with pytest.raises(MalformedHeader):
        split(f"{b64url(header)}.{PAYLOAD}.{SIGNATURE}")
