"""Compact JWS (RFC 7515) with ``Ed25519`` (RFC 8037, RFC 9864) and nothing else.

PyJWT signs and holds the registry of algorithms; its registry here is private and has one
entry. It is not used to verify: its parser takes padded base64, duplicate members and any
header. What a key claims to have signed is read by ``split``, which takes one spelling only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Never, cast

from jwt.algorithms import Algorithm
from jwt.api_jws import PyJWS

from contract.canonical import InvalidJson, parse_json, unb64url
from contract.signing import PublicKey, Signer
from grants.memory import Bounded

ALGORITHM: Final = "Ed25519"
MAX_TOKEN_BYTES: Final = 7_500
MAX_HEADER_BYTES: Final = 1_024
SIGNATURE_CHARS: Final = 86

_headers: Final = Bounded[str, Mapping[str, Any]](64)


class MalformedToken(ValueError):
    """Text that is not one strict compact JWS; the message never quotes it."""


class MalformedHeader(MalformedToken):
    """A JWS whose protected header is not one strict JSON object."""


class _Ed25519(Algorithm):
    """What PyJWT's registry calls: a ``Signer`` signs."""

    def prepare_key(self, key: Any) -> Any:
        return key

    def sign(self, msg: str | bytes, key: Signer) -> bytes:
        return key.sign(_bytes(msg))

    def verify(self, msg: str | bytes, key: Any, sig: str | bytes) -> Never:
        raise NotImplementedError("a token is verified by signature_holds")

    @staticmethod
    def to_jwk(key_obj: Any, as_dict: bool = False) -> Never:
        raise NotImplementedError("keys are written by contract.signing")

    @staticmethod
    def from_jwk(jwk: Any) -> Never:
        raise NotImplementedError("keys are read by contract.signing")


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


_JWS: Final = PyJWS(algorithms=[])
_JWS.register_algorithm(ALGORITHM, _Ed25519())


class Compact(NamedTuple):
    """A JWS taken apart; nothing in it is verified. ``signing_input`` is what was signed."""

    spelled: str
    header: Mapping[str, Any]
    payload: bytes
    signing_input: bytes
    signature: bytes

    @property
    def digest(self) -> bytes:
        """SHA-256 of the signing input: it names the token, whatever its signature's bytes."""
        return hashlib.sha256(self.signing_input).digest()


def split(token: str) -> Compact:
    """Take a compact JWS apart.

    Raises ``MalformedToken`` unless it is three segments of canonical base64url, at most
    ``MAX_TOKEN_BYTES``, with a 64-byte signature, and ``MalformedHeader`` unless the
    header is one strict JSON object. The header's members are not judged here.
    """
    if len(token) > MAX_TOKEN_BYTES:
        raise MalformedToken(f"a token is larger than {MAX_TOKEN_BYTES} bytes")
    segments = token.split(".")
    if len(segments) != 3 or not all(segments):
        raise MalformedToken("a token is not three segments")
    header, payload, signature = segments
    if len(signature) != SIGNATURE_CHARS:
        raise MalformedToken("a token's signature is not 64 bytes")
    try:
        return Compact(
            spelled=header,
            header=_headers.get(header) or _header(header),
            payload=unb64url(payload),
            signing_input=token[: len(header) + 1 + len(payload)].encode("ascii"),
            signature=unb64url(signature),
        )
    except MalformedHeader:
        raise
    except ValueError as error:
        raise MalformedToken("a token is not strict base64url") from error


def signature_holds(compact: Compact, key: PublicKey) -> bool:
    """Whether ``key`` signed exactly this token; then what its header reads as is remembered.

    A sender's headers are all alike. Only one that a key signed is kept, so a stranger can
    put none in the way of others; what it says is judged each time.
    """
    holds = key.verifies(compact.signature, compact.signing_input)
    if holds and compact.spelled not in _headers:
        _headers.keep(compact.spelled, compact.header)
    return holds


def sign(payload: bytes, signer: Signer, *, typ: str, kid: str | None = None) -> str:
    """The compact JWS of ``payload``, its header exactly ``alg``, ``typ`` and, where given, ``kid``."""
    headers = {"typ": typ} if kid is None else {"typ": typ, "kid": kid}
    return _JWS.encode(payload, cast(Any, signer), algorithm=ALGORITHM, headers=headers)


def _header(segment: str) -> Mapping[str, Any]:
    try:
        members = parse_json(unb64url(segment), limit=MAX_HEADER_BYTES)
    except InvalidJson as error:
        raise MalformedHeader(f"a token's header is not acceptable: {error}") from error
    if not isinstance(members, dict):
        raise MalformedHeader("a token's header is not a JSON object")
    return MappingProxyType(members)
