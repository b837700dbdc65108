"""Ed25519 keys as every package sees them: a public value that verifies, a Protocol that signs.

RFC 8032 (Ed25519), RFC 8037 (OKP JWK), RFC 7638 (thumbprint), RFC 9278 (thumbprint URI).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from contract.canonical import b64url, canonical_json, unb64url

THUMBPRINT_URI = "urn:ietf:params:oauth:jwk-thumbprint:sha-256:"


class InvalidKey(ValueError):
    """A JWK that is not exactly one public Ed25519 key."""


@dataclass(frozen=True)
class PublicKey:
    """A public Ed25519 key; equal when the 32 raw bytes are equal."""

    raw: bytes

    def __post_init__(self) -> None:
        if len(self.raw) != 32:
            raise InvalidKey("an Ed25519 public key has 32 bytes")

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
        if not isinstance(x, str) or len(x) != 43:
            raise InvalidKey("the JWK has no 32-byte x")
        try:
            key = cls(unb64url(x))
        except ValueError as error:
            raise InvalidKey("the JWK has no 32-byte x") from error
        if "kid" in jwk and jwk["kid"] != key.thumbprint:
            raise InvalidKey("the JWK's kid is not its thumbprint")
        return key

    @cached_property
    def thumbprint(self) -> str:
        """Base64url SHA-256 of the required members (RFC 7638); it is also the ``kid``."""
        members = {"crv": "Ed25519", "kty": "OKP", "x": b64url(self.raw)}
        return b64url(hashlib.sha256(canonical_json(members)).digest())

    @property
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

    @cached_property
    def _verifier(self) -> Ed25519PublicKey:
        return Ed25519PublicKey.from_public_bytes(self.raw)

    def verifies(self, signature: bytes, message: bytes) -> bool:
        """Whether ``signature`` (64 bytes) is this key's over ``message``."""
        if len(signature) != 64:
            return False
        try:
            self._verifier.verify(signature, message)
        except InvalidSignature:
            return False
        return True


class Signer(Protocol):
    """Whoever holds a private key: a file, an environment secret, a KMS."""

    @property
    def public_key(self) -> PublicKey: ...

    def sign(self, message: bytes) -> bytes:
        """The 64-byte Ed25519 signature over ``message``."""
        ...
