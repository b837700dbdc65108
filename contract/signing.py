"""Ed25519 keys as every package sees them: a public value that verifies, a Protocol that signs.

RFC 8032 (Ed25519), RFC 8037 (OKP JWK), RFC 7638 (thumbprint), RFC 9278 (thumbprint URI).
libsodium verifies, behind ``PublicKey`` alone; what it takes and what it refuses is in
``docs/decisions/0008-libsodium-verifies.md``.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Protocol

from nacl.bindings import crypto_core_ed25519_is_valid_point, crypto_sign_open
from nacl.exceptions import BadSignatureError

from contract.canonical import b64url, canonical_json, unb64url

THUMBPRINT_URI = "urn:ietf:params:oauth:jwk-thumbprint:sha-256:"
# 32 bytes in base64url: the last character holds four bits of them.
_THUMBPRINT: Final = re.compile(r"[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]")


def is_thumbprint(text: str) -> bool:
    """Whether a key could have this ``kid`` (RFC 7638, SHA-256)."""
    return _THUMBPRINT.fullmatch(text) is not None


class InvalidKey(ValueError):
    """A JWK that is not exactly one public Ed25519 key."""


@dataclass(frozen=True)
class PublicKey:
    """A public Ed25519 key; equal when the 32 raw bytes are equal.

    The bytes are the one encoding of a point of the prime-order group other than zero.
    Under a point of small order one signature holds for many messages, and under one of
    mixed order verifiers disagree. Raises ``InvalidKey`` for anything else.
    """

    raw: bytes

    def __post_init__(self) -> None:
        if len(self.raw) != 32:
            raise InvalidKey("an Ed25519 public key has 32 bytes")
        if not crypto_core_ed25519_is_valid_point(self.raw):
            raise InvalidKey("the 32 bytes are no Ed25519 public key that anybody can hold")

    @classmethod
    def from_jwk(cls, jwk: Any) -> PublicKey:
        """From a JWK with ``kty`` OKP and ``crv`` Ed25519.

        A private member, another curve, a ``use`` or ``alg`` for something else, or a
        ``kid`` that is not the thumbprint raises ``InvalidKey``.
        """
        if not isinstance(jwk, dict) or jwk.get("kty") != "OKP" or jwk.get("crv") != "Ed25519":
            raise InvalidKey("the key is not an Ed25519 JWK")
        if "d" in jwk:
            raise InvalidKey("the JWK holds a private key")
        if jwk.get("use", "sig") != "sig" or jwk.get("alg", "Ed25519") not in ("Ed25519", "EdDSA"):
            raise InvalidKey("the JWK is not for Ed25519 signatures")
        x = jwk.get("x")
        if not isinstance(x, str):
            raise InvalidKey("the JWK has no 32-byte x")
        try:
            raw = unb64url(x)
        except ValueError as error:
            raise InvalidKey("the JWK has no 32-byte x") from error
        key = cls(raw)
        if "kid" in jwk and jwk["kid"] != key.thumbprint:
            raise InvalidKey("the JWK's kid is not its thumbprint")
        return key

    @cached_property
    def thumbprint(self) -> str:
        """Base64url SHA-256 of the required members (RFC 7638); it is also the ``kid``."""
        members = {"crv": "Ed25519", "kty": "OKP", "x": b64url(self.raw)}
        return b64url(hashlib.sha256(canonical_json(members)).digest())

    @cached_property
    def thumbprint_uri(self) -> str:
        return THUMBPRINT_URI + self.thumbprint

    def jwk(self) -> dict[str, str]:
        """The JWK that is published: with ``alg``, ``use`` and ``kid``."""
        return {
            "kty": "OKP",
            "crv": "Ed25519",
            "x": b64url(self.raw),
            "alg": "Ed25519",
            "use": "sig",
            "kid": self.thumbprint,
        }

    def verifies(self, signature: bytes, message: bytes) -> bool:
        """Whether ``signature`` (64 bytes) is this key's over ``message`` (RFC 8032, without the cofactor)."""
        if len(signature) != 64:
            return False
        try:
            crypto_sign_open(signature + message, self.raw)
        except BadSignatureError:
            return False
        return True


class Signer(Protocol):
    """Whoever holds a private key: a file, an environment secret, a KMS."""

    @property
    def public_key(self) -> PublicKey: ...

    def sign(self, message: bytes) -> bytes:
        """The 64-byte Ed25519 signature over ``message``."""
        ...
