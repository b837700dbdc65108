"""An identity provider: keys of every kind, key sets, tokens that are right until a test says otherwise.

It signs with cryptography alone, so that it shares no code with what verifies.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from contract.canonical import b64url

ISSUER = "https://idp.example/realms/acme"
AUDIENCE = "dataset-agent-root"
SUBJECT = "8f3c2d10-5a41"
NOW = 1_800_000_000.0

Private = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | Ed25519PrivateKey


@cache
def key(name: str) -> Private:
    """A private key by name, the same throughout a run: ``rsa*``, ``rsa1024``, ``ec*``, ``p384``, ``ed*``."""
    if name == "p384":
        return ec.generate_private_key(ec.SECP384R1())
    if name.startswith("rsa"):
        return rsa.generate_private_key(65_537, 1_024 if name == "rsa1024" else 2_048)
    return ec.generate_private_key(ec.SECP256R1()) if name.startswith("ec") else Ed25519PrivateKey.generate()


def number(value: int, size: int | None = None) -> str:
    return b64url(value.to_bytes(size or (value.bit_length() + 7) // 8))


def jwk(name: str, **changes: Any) -> dict[str, Any]:
    """The public half as it is published, under its name; a change to ``None`` leaves a member out."""
    public = key(name).public_key()
    if isinstance(public, rsa.RSAPublicKey):
        numbers = public.public_numbers()
        members: dict[str, Any] = {"kty": "RSA", "n": number(numbers.n), "e": number(numbers.e)}
    elif isinstance(public, ec.EllipticCurvePublicKey):
        point, size = public.public_numbers(), (public.key_size + 7) // 8
        curve = f"P-{public.key_size}"
        members = {"kty": "EC", "crv": curve, "x": number(point.x, size), "y": number(point.y, size)}
    else:
        members = {"kty": "OKP", "crv": "Ed25519", "x": b64url(public.public_bytes_raw())}
    members |= {"kid": name, "use": "sig"} | changes
    return {member: value for member, value in members.items() if value is not None}


def jwks(*entries: str | Mapping[str, Any]) -> bytes:
    return json.dumps({"keys": [jwk(entry) if isinstance(entry, str) else entry for entry in entries]}).encode()


def signature(algorithm: str, name: str, message: bytes) -> bytes:
    private = key(name)
    if algorithm.startswith("HS"):
        secret = json.dumps(jwk(name)).encode()
        return hmac.new(secret, message, hashlib.sha256).digest()
    if isinstance(private, rsa.RSAPrivateKey):
        if algorithm == "PS256":
            pss = padding.PSS(padding.MGF1(hashes.SHA256()), hashes.SHA256.digest_size)
            return private.sign(message, pss, hashes.SHA256())
        return private.sign(message, padding.PKCS1v15(), hashes.SHA256())
    if isinstance(private, ec.EllipticCurvePrivateKey):
        size = (private.curve.key_size + 7) // 8
        r, s = decode_dss_signature(private.sign(message, ec.ECDSA(hashes.SHA256())))
        return r.to_bytes(size) + s.to_bytes(size)
    return private.sign(message)


def claims(now: float = NOW, **changes: Any) -> dict[str, Any]:
    """An ID token's claims, as a provider writes them; a change to ``...`` leaves one out."""
    written = {
        "iss": ISSUER,
        "sub": SUBJECT,
        "aud": AUDIENCE,
        "iat": int(now),
        "exp": int(now) + 300,
        "auth_time": int(now) - 60,
        "nonce": "n-0S6_WzA2Mj",
        "at_hash": "77QmUPtjPfzWtF2AnpK9RQ",
        "azp": "portal",
        "email": "someone@example",
    } | changes
    return {name: value for name, value in written.items() if value is not ...}


def token(
    *,
    algorithm: str = "RS256",
    signed_by: str | None = None,
    header: Any = None,
    payload: Any = None,
    now: float = NOW,
    **changes: Any,
) -> str:
    """A signed token. ``header`` adds members (``...`` leaves one out) or replaces it, as bytes; so does ``payload``."""
    name = signed_by or {"R": "rsa", "P": "rsa", "E": "ec", "H": "rsa"}.get(algorithm[:1], "ed")
    name = "ed" if algorithm in ("EdDSA", "Ed25519") and signed_by is None else name
    members = {"alg": algorithm, "typ": "JWT", "kid": name}
    if header is None or isinstance(header, Mapping):
        members |= header or {}
        header = json.dumps({member: value for member, value in members.items() if value is not ...}).encode()
    if payload is None:
        payload = json.dumps(claims(now, **changes)).encode()
    signed = f"{b64url(header)}.{b64url(payload)}"
    return f"{signed}.{b64url(signature(algorithm, name, signed.encode()))}"
