"""Identity tokens: who a person is, said by an issuer whose key is pinned; and the issuer for development.

A compact JWS (RFC 7515) of ``alg`` Ed25519 (RFC 9864) and ``typ`` JWT with the claims
``iss sub aud iat exp jti`` (RFC 7519). Grants and client assertions carry other ``typ``
values, so neither can be used as the other. Identity comes from here, never from text,
session state or the shape of a name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from contract.canonical import InvalidJson, b64url, canonical_json, parse_json, unb64url
from contract.errors import Category, Component, DatasetAgentError, WrongSetting
from contract.ids import InvalidId, UserId, is_nfc, new_id
from contract.settings import Settings
from contract.signing import PublicKey, Signer

ALGORITHM: Final = "Ed25519"
TOKEN_TYPE: Final = "JWT"  # noqa: S105
MAX_TOKEN_BYTES: Final = 8_192
MAX_LIFETIME_S: Final = 86_400
SKEW_S: Final = 5
_MAX_INSTANT: Final = 2**53 - 1


def issue_identity(
    signer: Signer, *, issuer_url: str, subject: str, audience: str, now: float, ttl: int = 3_600
) -> str:
    """A development identity token for ``subject``, valid ``ttl`` seconds from ``now``.

    Raises an INVALID_INPUT fault for a subject that is not an identifier and for a ``ttl``
    that is not within 1 to ``MAX_LIFETIME_S``.
    """
    if not 1 <= ttl <= MAX_LIFETIME_S:
        raise _fault("ttl", f"ttl must be 1 to {MAX_LIFETIME_S} seconds", Category.INVALID_INPUT)
    if not _is_subject(subject):
        raise _fault("subject", "the subject must be 1 to 512 bytes of NFC text", Category.INVALID_INPUT)
    header = {"alg": ALGORITHM, "typ": TOKEN_TYPE, "kid": signer.public_key.thumbprint}
    issued = int(now)
    claims = {
        "iss": issuer_url,
        "sub": subject,
        "aud": audience,
        "iat": issued,
        "exp": issued + ttl,
        "jti": new_id("idt"),
    }
    signed = f"{b64url(canonical_json(header))}.{b64url(canonical_json(claims))}"
    return f"{signed}.{b64url(signer.sign(signed.encode('ascii')))}"


def refuse_in_production(settings: Settings) -> None:
    """Raise a CONFIGURATION fault where what is for development is switched on beside production settings."""
    on = ["DATASET_AGENT_DEV_ISSUER=true"] if settings.dev_issuer else []
    on += ["DATASET_AGENT_AS_PRINCIPAL"] if settings.as_principal is not None else []
    if on and settings.production:
        told = f"unset {' and '.join(on)}: {' and '.join(settings.production)} says that people here are real"
        fault = _fault("production", f"{told}, and that is for development", Category.CONFIGURATION)
        raise WrongSetting.of(fault)


def verify_person(
    token: str, *, keys: Sequence[PublicKey], issuer_url: str, audience: str, now: float
) -> tuple[str, str]:
    """The (issuer, subject) of a valid identity token; ``now`` is POSIX seconds.

    Raises an UNAUTHENTICATED fault with its own code per failure. Whether the directory
    knows the person is not checked here.
    """
    segments = token.split(".")
    if len(token) > MAX_TOKEN_BYTES or not token.isascii() or len(segments) != 3 or not all(segments):
        raise _refused("malformed", "the bearer token is not a compact JWT")
    header = _object(segments[0])
    if set(header) != {"alg", "typ", "kid"} or header["alg"] != ALGORITHM or header["typ"] != TOKEN_TYPE:
        raise _refused("header", "the identity token's header must be exactly alg Ed25519, typ JWT and kid")
    key = next((key for key in keys if key.thumbprint == header["kid"]), None)
    if key is None:
        raise _refused("key", "the identity token is signed with a key that is not trusted here")
    if not key.verifies(_decoded(segments[2]), f"{segments[0]}.{segments[1]}".encode("ascii")):
        raise _refused("signature", "the identity token's signature is not valid")
    return _claims(_object(segments[1]), issuer_url, audience, now)


def issued_at(token: str) -> int:
    """When an identity token was issued, POSIX seconds; of one that was verified, of whatever issuer. Raises UNAUTHENTICATED."""
    return _instant(_object((token.split(".") + [""])[1]), "iat")


def accepted_until(token: str) -> int:
    """Until when it is accepted here, POSIX seconds; of one that ``verify_person`` accepted. Raises UNAUTHENTICATED."""
    return _instant(_object((token.split(".") + [""])[1]), "exp") + SKEW_S


def _claims(claims: Mapping[str, Any], issuer_url: str, audience: str, now: float) -> tuple[str, str]:
    if claims.get("iss") != issuer_url:
        raise _refused("issuer", "the identity token is from another issuer")
    if claims.get("aud") != audience:
        raise _refused("audience", "the identity token is for another audience")
    subject = claims.get("sub")
    if not _is_subject(subject):
        raise _refused("claims", "the identity token names no subject")
    issued, expires = _instant(claims, "iat"), _instant(claims, "exp")
    not_before = _instant(claims, "nbf") if "nbf" in claims else issued
    if not issued < expires <= issued + MAX_LIFETIME_S:
        raise _refused("lifetime", f"the identity token must live at most {MAX_LIFETIME_S} seconds")
    if max(issued, not_before) > now + SKEW_S:
        raise _refused("not_yet_valid", "the identity token is not valid yet; check the clocks")
    if expires <= now - SKEW_S:
        raise _refused("expired", "the identity token has expired; log in again")
    return issuer_url, str(subject)


def _instant(claims: Mapping[str, Any], name: str) -> int:
    value = claims.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MAX_INSTANT:
        raise _refused("claims", f"the identity token's {name} is not a time in seconds")
    return value


def _object(segment: str) -> Mapping[str, Any]:
    try:
        value = parse_json(_decoded(segment), limit=MAX_TOKEN_BYTES, max_depth=4)
    except InvalidJson as error:
        raise _refused("malformed", "the bearer token does not hold strict JSON") from error
    if not isinstance(value, dict):
        raise _refused("malformed", "the bearer token does not hold JSON objects")
    return value


def _decoded(segment: str) -> bytes:
    try:
        return unb64url(segment)
    except ValueError as error:
        raise _refused("malformed", "the bearer token is not base64url") from error


def _is_subject(value: Any) -> bool:
    try:
        return is_nfc(UserId(value))
    except InvalidId:
        return False


def _refused(code: str, message: str) -> DatasetAgentError:
    return _fault(code, message, Category.UNAUTHENTICATED)


def _fault(code: str, message: str, category: Category) -> DatasetAgentError:
    return DatasetAgentError(Component.CONTROL_PLANE, category, f"control_plane.identity.{code}", message)
