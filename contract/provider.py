"""An organisation's identity provider as settings describe it (OpenID Connect Core 1.0, RFC 8725).

Text from the environment becomes one frozen value here, or one sentence that says what is wrong
with it. What the provider's tokens must be is judged in ``control_plane.oidc``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from contract.address import secure_url
from contract.canonical import InvalidJson, parse_json
from contract.ids import is_slug

ALGORITHMS: Final = ("RS256", "PS256", "ES256", "EdDSA", "Ed25519")
"""Every algorithm that can be accepted. ``EdDSA`` and ``Ed25519`` (RFC 9864) are one, by two names."""
NO_TYPE: Final = "absent"
"""The word that accepts a token whose header has no ``typ``."""
MAX_CLAIMS: Final = 16
MAX_NAME_CHARS: Final = 128
_MAX_SETTING_BYTES: Final = 8_192

# What a grant, a client assertion, a logout token, a proof or an event is typed as is no identity.
_TYPES: Final = frozenset({"jwt", "at+jwt", "id+jwt", NO_TYPE})
# OpenID Connect Core, section 5.7: these may be reassigned, so they identify nobody.
_REASSIGNED: Final = frozenset(
    {"name", "given_name", "family_name", "middle_name", "nickname", "preferred_username", "email", "phone_number"}
    | {"upn", "unique_name", "username", "login"}
)
# Judged by rules of their own, or not about the person.
_OWN_RULES: Final = frozenset({"iss", "aud", "exp", "nbf", "iat", "jti", "nonce", "at_hash", "c_hash"})
# What the directory alone says.
RESERVED_ATTRIBUTES: Final = frozenset(
    {"issuer", "subject", "tenant", "name", "principal_class", "clearance", "entitlements", "effects"}
)

Accepted = str | int | bool


@dataclass(frozen=True, slots=True)
class IdentityProvider:
    """Whose identity tokens are believed, and which of them.

    ``jwks_url`` is ``None`` where the provider's discovery document says it. ``types`` are in
    lower case and may hold ``NO_TYPE``. ``leeway_s`` and ``max_age_s`` are seconds.
    ``required`` maps a claim to the values of which it must have one; ``attributes`` maps a
    principal's attribute to the claim it is filled from. A claim is a top-level name, or a
    JSON Pointer (RFC 6901) where it begins with ``/``.
    """

    issuer: str
    audience: str
    jwks_url: str | None = None
    authorities: Path | None = None
    algorithms: frozenset[str] = frozenset({"RS256", "ES256"})
    types: frozenset[str] = frozenset({"jwt"})
    leeway_s: int = 5
    max_age_s: int = 7_200
    subject_claim: str = "sub"
    required: Mapping[str, tuple[Accepted, ...]] = field(default_factory=lambda: MappingProxyType({}))
    attributes: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


def issuer_url(text: str) -> str:
    """OpenID Connect Discovery 1.0, section 3: https, no query, no fragment. Raises ``ValueError``."""
    secure_url(text)
    return text


def jwks_url(text: str) -> str:
    """Raises ``ValueError``."""
    secure_url(text, query=True)
    return text


def audience(text: str) -> str:
    """Raises ``ValueError``."""
    if not 1 <= len(text) <= 512 or not text.isprintable() or " " in text:
        raise ValueError("it must be one audience of 1 to 512 characters without a blank")
    return text


def algorithms(text: str) -> frozenset[str]:
    """Blank-separated names. Raises ``ValueError`` for one that is not accepted, ``none`` and HMAC above all."""
    return _words(text, frozenset(ALGORITHMS), f"it must be names among {' '.join(ALGORITHMS)}")


def types(text: str) -> frozenset[str]:
    """Blank-separated ``typ`` values, in lower case. Raises ``ValueError``."""
    allowed = f"it must be names among JWT at+jwt id+jwt {NO_TYPE}"
    return _words(text.lower(), _TYPES, allowed)


def subject_claim(text: str) -> str:
    """A top-level claim. Raises ``ValueError`` for one that a provider may give to somebody else later."""
    if claim_name(text) in _REASSIGNED or text in _OWN_RULES or text.startswith("/"):
        raise ValueError("it must be a claim that is never given to another person (sub, oid, employee_id, …)")
    return text


def required(text: str) -> Mapping[str, tuple[Accepted, ...]]:
    """``{"claim": value or [values]}``. Raises ``ValueError``."""
    shape = 'it must be JSON like {"azp": "portal", "tid": ["a", "b"]}'
    found: dict[str, tuple[Accepted, ...]] = {}
    for name, value in _object(text, shape).items():
        values = value if isinstance(value, list) else [value]
        if not 1 <= len(values) <= MAX_CLAIMS or not all(isinstance(one, str | int) for one in values):
            raise ValueError(f"{shape}, the values text, whole numbers, true or false")
        if claim_name(name) in _OWN_RULES:
            raise ValueError(f"{name} has a rule of its own")
        found[name] = tuple(values)
    return MappingProxyType(found)


def attributes(text: str) -> Mapping[str, str]:
    """``{"attribute": "claim"}``. Raises ``ValueError``, also for what the directory alone says."""
    shape = 'it must be JSON like {"site": "https://acme.example/site", "roles": "/realm_access/roles"}'
    found: dict[str, str] = {}
    for name, claim in _object(text, shape).items():
        if not is_slug(name) or not isinstance(claim, str):
            raise ValueError(f"{shape}, attributes named as in principals.yaml")
        if name in RESERVED_ATTRIBUTES:
            raise ValueError(f"{name} is said by principals.yaml alone")
        found[name] = claim_name(claim)
    return MappingProxyType(found)


def claim_name(text: str) -> str:
    """A claim's name or JSON Pointer. Raises ``ValueError``."""
    if not 1 <= len(text) <= MAX_NAME_CHARS or not text.isprintable() or text == "/":
        raise ValueError(f"a claim is named by 1 to {MAX_NAME_CHARS} characters")
    return text


def _words(text: str, known: frozenset[str], problem: str) -> frozenset[str]:
    words = text.split()
    if not words or len(set(words)) != len(words) or not known.issuperset(words):
        raise ValueError(problem)
    return frozenset(words)


def _object(text: str, shape: str) -> dict[str, Any]:
    try:
        value = parse_json(text.encode("utf-8", "surrogatepass"), limit=_MAX_SETTING_BYTES, max_depth=3)
    except InvalidJson:
        raise ValueError(shape) from None
    if not isinstance(value, dict) or not 1 <= len(value) <= MAX_CLAIMS:
        raise ValueError(shape)
    return value
