"""A public key is one that somebody can hold, and a signature holds in one way."""

from __future__ import annotations

from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from hypothesis import given, settings
from hypothesis import strategies as st

from contract.canonical import b64url
from contract.signing import InvalidKey, PublicKey
from tests.contract.edwards import (
    BASE,
    NOT_CANONICAL,
    ORDER,
    SMALL,
    TORSION,
    Point,
    add,
    at,
    encode,
    sign,
    times,
)

SECRET, NONCE = 1_234_567_890_123_456_789, 98_765_432_198_765
HONEST: Point = times(SECRET, BASE)
KEY = PublicKey(encode(HONEST))
MESSAGE = b"what was signed"


def openssl_accepts(raw: bytes, signature: bytes, message: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(raw).verify(signature, message)
    except InvalidSignature:
        return False
    return True


def test_the_arithmetic_of_these_tests_is_that_of_a_real_signer() -> None:
    assert times(ORDER, BASE) == times(8, TORSION) == SMALL[0]
    assert len({encode(point) for point in SMALL}) == 8
    assert len(NOT_CANONICAL) == 26
    signature = sign(SECRET, NONCE, MESSAGE, key=HONEST)
    assert KEY.verifies(signature, MESSAGE)
    assert openssl_accepts(KEY.raw, signature, MESSAGE)


@pytest.mark.parametrize("order", range(8))
def test_a_point_of_small_order_is_no_key(order: int) -> None:
    with pytest.raises(InvalidKey):
        PublicKey(encode(SMALL[order]))


@pytest.mark.parametrize("torsion", range(1, 8))
def test_a_point_of_mixed_order_is_no_key(torsion: int) -> None:
    with pytest.raises(InvalidKey):
        PublicKey(encode(add(HONEST, SMALL[torsion])))


@pytest.mark.parametrize("raw", NOT_CANONICAL, ids=bytes.hex)
def test_a_second_spelling_of_a_point_is_no_key(raw: bytes) -> None:
    with pytest.raises(InvalidKey):
        PublicKey(raw)


def test_bytes_that_are_no_point_are_no_key() -> None:
    y = next(y for y in range(2, 100) if at(y) is None)
    for raw in (y.to_bytes(32, "little"), b"\xff" * 32, bytes(31), bytes(33), b"", KEY.raw + b"\x00"):
        with pytest.raises(InvalidKey):
            PublicKey(raw)


def test_a_jwk_of_such_a_point_is_no_key_and_the_refusal_says_why() -> None:
    jwk = {"kty": "OKP", "crv": "Ed25519", "x": b64url(encode(SMALL[0]))}
    with pytest.raises(InvalidKey, match="no Ed25519 public key that anybody can hold"):
        PublicKey.from_jwk(jwk)


@pytest.mark.parametrize(
    "change",
    [
        {"kty": "EC"},
        {"kty": None},
        {"crv": "Ed448"},
        {"use": "enc"},
        {"alg": "ES256"},
        {"kid": "another"},
        {"x": None},
        {"x": 7},
        {"x": "A"},
        {"x": KEY.jwk()["x"] + "A"},
        {"x": KEY.jwk()["x"][:-1] + "="},
        {"d": KEY.jwk()["x"]},
    ],
    ids=str,
)
def test_a_jwk_is_one_public_key_for_this_use_only(change: dict[str, Any]) -> None:
    assert PublicKey.from_jwk(KEY.jwk()) == KEY
    with pytest.raises(InvalidKey):
        PublicKey.from_jwk(KEY.jwk() | change)


@pytest.mark.parametrize("jwk", [None, "text", 1, [], [("kty", "OKP")]], ids=str)
def test_what_is_no_object_is_no_jwk(jwk: Any) -> None:
    with pytest.raises(InvalidKey):
        PublicKey.from_jwk(jwk)


@pytest.mark.parametrize("order", range(8))
def test_a_signature_with_an_r_of_small_order_does_not_hold(order: int) -> None:
    """For R zero the equation holds and OpenSSL accepts; no honest signer draws that nonce."""
    signature = sign(SECRET, 0, MESSAGE, key=HONEST, shift=SMALL[order])
    assert not KEY.verifies(signature, MESSAGE)
    assert openssl_accepts(KEY.raw, signature, MESSAGE) == (order == 0)


def test_the_equation_is_checked_without_the_cofactor() -> None:
    """A signature that holds only after multiplying by eight divides verifiers; here it is refused, as by OpenSSL."""
    for torsion in SMALL[1:]:
        signature = sign(SECRET, NONCE, MESSAGE, key=HONEST, shift=torsion)
        assert not KEY.verifies(signature, MESSAGE)
        assert not openssl_accepts(KEY.raw, signature, MESSAGE)


def test_an_s_that_is_not_reduced_does_not_hold() -> None:
    signature = sign(SECRET, NONCE, MESSAGE, key=HONEST)
    scalar = int.from_bytes(signature[32:], "little")
    for more in range(1, 8):
        assert not KEY.verifies(signature[:32] + (scalar + more * ORDER).to_bytes(32, "little"), MESSAGE)


@pytest.mark.parametrize("raw", NOT_CANONICAL, ids=bytes.hex)
def test_an_r_spelled_in_a_second_way_does_not_hold(raw: bytes) -> None:
    assert not KEY.verifies(raw + sign(SECRET, NONCE, MESSAGE, key=HONEST)[32:], MESSAGE)


def test_a_signature_of_another_length_does_not_hold() -> None:
    signature = sign(SECRET, NONCE, MESSAGE, key=HONEST)
    # A shorter signature with the bytes it lacks at the head of the message is the same string of bytes.
    assert not KEY.verifies(signature[:63], signature[63:] + MESSAGE)
    assert not KEY.verifies(signature + MESSAGE[:1], MESSAGE[1:])
    assert not KEY.verifies(b"", signature + MESSAGE)


@settings(max_examples=300, deadline=None)
@given(seed=st.binary(min_size=32, max_size=32), message=st.binary(max_size=300), data=st.data())
def test_what_holds_here_holds_for_openssl_and_a_changed_bit_breaks_it(
    seed: bytes, message: bytes, data: st.DataObject
) -> None:
    private = Ed25519PrivateKey.from_private_bytes(seed)
    key = PublicKey(private.public_key().public_bytes_raw())
    signature = private.sign(message)
    assert key.verifies(signature, message)
    bit = data.draw(st.integers(0, 511))
    changed = (int.from_bytes(signature, "little") ^ (1 << bit)).to_bytes(64, "little")
    assert not key.verifies(changed, message)
    assert not openssl_accepts(key.raw, changed, message)
    assert not key.verifies(signature, message + b"\x00")
