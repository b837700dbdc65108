"""Keys of an identity provider (RFC 7517, 7518, 8037): read strictly, each for what it may verify.

PyJWT checks the signatures, through a registry of its own that has exactly the algorithms a
setting can name. Its parsers of tokens and keys are not used.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey, EllipticCurvePublicNumbers
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey, RSAPublicNumbers
from jwt.algorithms import Algorithm, ECAlgorithm, OKPAlgorithm, RSAAlgorithm, RSAPSSAlgorithm
from jwt.api_jws import PyJWS

from contract.canonical import unb64url
from contract.ids import MAX_ID_BYTES
from contract.published import key_entries
from contract.signing import PublicKey

MIN_RSA_BITS: Final = 2_048
MAX_RSA_BITS: Final = 8_192
_MAX_RSA_EXPONENT: Final = 2**32
_P256_BYTES: Final = 32
_PRIVATE: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})

_RSA: Final = frozenset({"RS256", "PS256"})
_EC: Final = frozenset({"ES256"})
_ED25519: Final = frozenset({"EdDSA", "Ed25519"})


def _registry() -> PyJWS:
    registry = PyJWS(algorithms=[])
    known: dict[str, Algorithm] = {
        "RS256": RSAAlgorithm(RSAAlgorithm.SHA256),
        "PS256": RSAPSSAlgorithm(RSAPSSAlgorithm.SHA256),
        "ES256": ECAlgorithm(ECAlgorithm.SHA256, SECP256R1),
        "EdDSA": OKPAlgorithm(),
        "Ed25519": OKPAlgorithm(),
    }
    for name, algorithm in known.items():
        registry.register_algorithm(name, algorithm)
    return registry


_JWS: Final = _registry()
_VERIFIERS: Final = MappingProxyType({name: _JWS.get_algorithm_by_name(name) for name in _RSA | _EC | _ED25519})


class _Unusable(ValueError):
    """An entry of a key set that verifies nothing here."""


@dataclass(frozen=True, slots=True)
class ProviderKey:
    """A public key, the ``kid`` it is published under and the algorithms it may verify."""

    kid: str | None
    algorithms: frozenset[str]
    public: RSAPublicKey | EllipticCurvePublicKey | Ed25519PublicKey

    def verifies(self, algorithm: str, signature: bytes, message: bytes) -> bool:
        """Whether ``signature`` is this key's over ``message`` by an algorithm that it is for."""
        return algorithm in self.algorithms and _VERIFIERS[algorithm].verify(message, self.public, signature)


def read_keys(data: bytes) -> tuple[ProviderKey, ...]:
    """The usable keys of a key set. Raises ``contract.published.Unreadable`` for what is no set.

    Passed over: other types, curves and algorithms, RSA outside 2048 to 8192 bits, keys for
    encryption, and keys whose private half is published.
    """
    keys: list[ProviderKey] = []
    for entry in key_entries(data):
        try:
            keys.append(_key(entry))
        except ValueError:
            continue
    return tuple(keys)


def holds(keys: Iterable[ProviderKey], kid: str) -> bool:
    """Whether any key is published under ``kid``."""
    return any(key.kid == kid for key in keys)


def fitting(keys: Iterable[ProviderKey], *, kid: str | None, algorithm: str) -> ProviderKey | None:
    """The one key that a token's header means; ``None`` where none or several could be meant.

    Without a ``kid`` that is the only key for the algorithm, whatever its own ``kid`` is.
    """
    found = [key for key in keys if algorithm in key.algorithms and kid in (None, key.kid)]
    return found[0] if len(found) == 1 else None


def _key(jwk: Any) -> ProviderKey:
    if not isinstance(jwk, dict) or _PRIVATE & set(jwk):
        raise _Unusable
    kid, operations = jwk.get("kid"), jwk.get("key_ops", ["verify"])
    if kid is not None and not (isinstance(kid, str) and 1 <= len(kid) <= MAX_ID_BYTES):
        raise _Unusable
    if jwk.get("use", "sig") != "sig" or not isinstance(operations, list) or "verify" not in operations:
        raise _Unusable
    public, algorithms = _public(jwk)
    if "alg" in jwk:
        algorithms = _pinned(algorithms, jwk["alg"])
    if not algorithms:
        raise _Unusable
    return ProviderKey(kid, algorithms, public)


def _pinned(algorithms: frozenset[str], name: Any) -> frozenset[str]:
    """What is left where the key says its one algorithm; Ed25519's two names are one."""
    if not isinstance(name, str) or name not in algorithms:
        return frozenset()
    return _ED25519 if name in _ED25519 else frozenset({name})


def _public(jwk: dict[str, Any]) -> tuple[RSAPublicKey | EllipticCurvePublicKey | Ed25519PublicKey, frozenset[str]]:
    match jwk.get("kty"), jwk.get("crv"):
        case "RSA", None:
            return _rsa(_number(jwk, "n"), _number(jwk, "e")), _RSA
        case "EC", "P-256":
            point = EllipticCurvePublicNumbers(_coordinate(jwk, "x"), _coordinate(jwk, "y"), SECP256R1())
            return point.public_key(), _EC
        case "OKP", "Ed25519":
            raw = _bytes(jwk, "x")
            PublicKey(raw)  # refuses what everybody could sign for
            return Ed25519PublicKey.from_public_bytes(raw), _ED25519
    raise _Unusable


def _rsa(modulus: int, exponent: int) -> RSAPublicKey:
    if not MIN_RSA_BITS <= modulus.bit_length() <= MAX_RSA_BITS or not 3 <= exponent < _MAX_RSA_EXPONENT:
        raise _Unusable
    if modulus % 2 == 0:
        raise _Unusable
    return RSAPublicNumbers(exponent, modulus).public_key()


def _coordinate(jwk: dict[str, Any], name: str) -> int:
    if len(_bytes(jwk, name)) != _P256_BYTES:
        raise _Unusable
    return _number(jwk, name)


def _number(jwk: dict[str, Any], name: str) -> int:
    return int.from_bytes(_bytes(jwk, name))


def _bytes(jwk: dict[str, Any], name: str) -> bytes:
    text = jwk.get(name)
    if not isinstance(text, str):
        raise _Unusable
    return unb64url(text)
