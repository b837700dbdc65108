"""What an identity provider's token must be: pure judgement on bytes (OpenID Connect Core 1.0, RFC 7519, 8725, 9068).

Two halves, because a key has to be found between them: ``read_token`` takes a token apart in
one spelling only and judges its header, ``judge`` its claims once the signature holds. The
nonce and the hashes of an ID token are for the client that asked for it and are not looked at
here. No message repeats anything of a token.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from contract.canonical import InvalidJson, parse_json, unb64url
from contract.errors import Category, Component, DatasetAgentError
from contract.ids import MAX_ID_BYTES, InvalidId, UserId, is_nfc
from contract.principal import AttributeValue
from contract.provider import NO_TYPE, IdentityProvider

MAX_TOKEN_BYTES: Final = 16_384
MAX_HEADER_BYTES: Final = 2_048
MAX_AUDIENCES: Final = 16
MAX_ATTRIBUTE_TEXTS: Final = 256
_MAX_DEPTH: Final = 8
_MAX_INSTANT: Final = 2**53 - 1

# Keys that a token brings along, compression, encryption, nesting and extensions (RFC 7515, 7516, 7797).
_REFUSED_MEMBERS: Final = frozenset({"jwk", "jku", "x5u", "x5c", "crit", "b64", "cty", "zip", "enc", "epk"})
_ABSENT: Final = object()


@dataclass(frozen=True, slots=True)
class VerifiedPerson:
    """Whom a token stands for, by its issuer's names, what its mapped claims say of them, and until when it is accepted."""

    issuer: str
    subject: str
    attributes: Mapping[str, AttributeValue]
    until: float = field(default=math.inf, compare=False)


@dataclass(frozen=True, slots=True, repr=False)
class UnverifiedToken:
    """A token whose header is acceptable; nothing in it is believed yet."""

    algorithm: str
    kid: str | None
    payload: bytes
    signing_input: bytes
    signature: bytes


def read_token(token: str, provider: IdentityProvider) -> UnverifiedToken:
    """Raises UNAUTHENTICATED for anything but one strict compact JWS with an acceptable header."""
    if len(token) > MAX_TOKEN_BYTES:
        raise refused("malformed", f"the identity token is larger than {MAX_TOKEN_BYTES} bytes")
    segments = token.split(".", 5)
    if len(segments) == 5:
        raise refused("encrypted", "an encrypted token is not accepted: send the signed one")
    if len(segments) != 3 or not all(segments):
        raise refused("malformed", "the bearer token is not a compact JWT")
    header = _object(_decoded(segments[0]), MAX_HEADER_BYTES)
    return UnverifiedToken(
        algorithm=_algorithm(header, provider),
        kid=_kid(header),
        payload=_decoded(segments[1]),
        signing_input=f"{segments[0]}.{segments[1]}".encode("ascii"),
        signature=_decoded(segments[2]),
    )


def judge(payload: bytes, provider: IdentityProvider, now: float) -> VerifiedPerson:
    """The person of a payload whose signature held; ``now`` is POSIX seconds. Raises UNAUTHENTICATED."""
    claims = _object(payload, MAX_TOKEN_BYTES)
    if claims.get("iss") != provider.issuer:
        raise refused("issuer", "the identity token is from another issuer")
    _check_audience(claims.get("aud"), provider)
    _check_times(claims, provider, now)
    if "cnf" in claims:
        raise refused("bound", "the identity token is bound to a key, and this service takes bearer tokens only")
    if "events" in claims:
        raise refused("type", "a security event is no identity token")
    _check_required(claims, provider)
    until = min(_instant(claims, "exp"), _instant(claims, "iat") + provider.max_age_s) + provider.leeway_s
    return VerifiedPerson(provider.issuer, _subject(claims, provider), _attributes(claims, provider), until)


def refused(code: str, message: str) -> DatasetAgentError:
    return DatasetAgentError(Component.CONTROL_PLANE, Category.UNAUTHENTICATED, f"control_plane.oidc.{code}", message)


def _algorithm(header: Mapping[str, Any], provider: IdentityProvider) -> str:
    if not _REFUSED_MEMBERS.isdisjoint(header):
        raise refused("header", "the identity token's header has a member that is not accepted")
    algorithm = header.get("alg")
    if not isinstance(algorithm, str) or algorithm not in provider.algorithms:
        raise refused("algorithm", "the identity token is signed by an algorithm that is not accepted")
    kind = header.get("typ", NO_TYPE)
    if not isinstance(kind, str) or ("typ" in header and kind == NO_TYPE):
        raise refused("type", "the identity token's typ is not accepted")
    # RFC 7515, section 4.1.9: media types, "application/" may be left out
    if kind.lower().removeprefix("application/") not in provider.types:
        raise refused("type", "the identity token's typ is not accepted")
    return algorithm


def _kid(header: Mapping[str, Any]) -> str | None:
    if "kid" not in header:
        return None
    kid = header["kid"]
    if not isinstance(kid, str) or not 1 <= len(kid) <= MAX_ID_BYTES:
        raise refused("header", "the identity token's kid is not a short text")
    return kid


def _check_audience(audience: Any, provider: IdentityProvider) -> None:
    named = [audience] if isinstance(audience, str) else audience
    if not isinstance(named, list) or not all(isinstance(one, str) for one in named):
        raise refused("audience", "the identity token's aud is not a text or a list of texts")
    if provider.audience not in named or len(named) > MAX_AUDIENCES:
        raise refused("audience", "the identity token is for another audience")
    if len(named) > 1 and "azp" not in provider.required:
        # OpenID Connect Core, section 3.1.3.7: who it was issued to must be known then
        raise refused("audience", "the identity token has several audiences, which needs azp among the required claims")


def _check_times(claims: Mapping[str, Any], provider: IdentityProvider, now: float) -> None:
    issued, expires = _instant(claims, "iat"), _instant(claims, "exp")
    not_before = _instant(claims, "nbf") if "nbf" in claims else issued
    if expires <= issued:
        raise refused("claims", "the identity token's exp is not after its iat")
    if max(issued, not_before) > now + provider.leeway_s:
        raise refused("not_yet_valid", "the identity token is not valid yet; check the clocks")
    if expires <= now - provider.leeway_s:
        raise refused("expired", "the identity token has expired; sign in again")
    if issued + provider.max_age_s <= now - provider.leeway_s:
        raise refused("too_old", f"the identity token is older than {provider.max_age_s} seconds; sign in again")


def _instant(claims: Mapping[str, Any], name: str) -> int:
    value = claims.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MAX_INSTANT:
        raise refused("claims", f"the identity token's {name} is not a time in whole seconds")
    return value


def _check_required(claims: Mapping[str, Any], provider: IdentityProvider) -> None:
    for name, accepted in provider.required.items():
        value = _claim(claims, name)
        held = value if isinstance(value, list) else [value]
        if not any(_same(one, wanted) for one in held for wanted in accepted):
            raise refused("required", "the identity token does not hold a claim that is required, with a value that is")


def _same(value: Any, wanted: Any) -> bool:
    """Equal and of one type: 1 is not true."""
    return type(value) is type(wanted) and bool(value == wanted)


def _subject(claims: Mapping[str, Any], provider: IdentityProvider) -> str:
    for name in {"sub", provider.subject_claim}:
        if not _is_subject(claims.get(name)):
            raise refused("subject", "the identity token names no subject")
    return str(claims[provider.subject_claim])


def _is_subject(value: Any) -> bool:
    try:
        return is_nfc(UserId(value))
    except InvalidId:
        return False


def _attributes(claims: Mapping[str, Any], provider: IdentityProvider) -> Mapping[str, AttributeValue]:
    """What the mapped claims say; a claim that is absent or null says nothing."""
    found: dict[str, AttributeValue] = {}
    for attribute, name in provider.attributes.items():
        value = _claim(claims, name)
        if value is not _ABSENT and value is not None:
            found[attribute] = _attribute(attribute, value)
    return MappingProxyType(found)


def _attribute(name: str, value: Any) -> AttributeValue:
    if isinstance(value, list) and len(value) <= MAX_ATTRIBUTE_TEXTS and all(_is_text(one) for one in value):
        return tuple(sorted(set(value)))
    if isinstance(value, bool) or (isinstance(value, str) and _is_text(value)):
        return value
    if isinstance(value, int) and abs(value) <= _MAX_INSTANT:
        return value
    raise refused(
        "attribute", f"the claim that fills {name} is no short text, whole number, true, false or list of texts"
    )


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= MAX_ID_BYTES and is_nfc(value) and "\x00" not in value


def _claim(claims: Mapping[str, Any], name: str) -> Any:
    """A claim by its name, or by JSON Pointer (RFC 6901) through objects."""
    if not name.startswith("/"):
        return claims.get(name, _ABSENT)
    value: Any = claims
    for step in name[1:].split("/"):
        if not isinstance(value, Mapping):
            return _ABSENT
        value = value.get(step.replace("~1", "/").replace("~0", "~"), _ABSENT)
    return value


def _object(data: bytes, limit: int) -> Mapping[str, Any]:
    try:
        value = parse_json(data, limit=limit, max_depth=_MAX_DEPTH)
    except InvalidJson as error:
        raise refused("malformed", "the bearer token does not hold strict JSON") from error
    if not isinstance(value, dict):
        raise refused("malformed", "the bearer token does not hold JSON objects")
    return value


def _decoded(segment: str) -> bytes:
    try:
        return unb64url(segment)
    except ValueError as error:
        raise refused("malformed", "the bearer token is not base64url") from error
