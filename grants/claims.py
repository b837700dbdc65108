"""The claims of a root token, of a derived token and of a client's assertion: closed, strict, frozen.

A profile of the attenuating-agent-token and agent-delegation-chain drafts over RFC 7519
(claims), RFC 7800 (``cnf``), RFC 8693 (``act``) and RFC 9396 (``authorization_details``).
Reading them checks form only; what they mean together is judged in ``grants.verify``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, Final, Self, TypeVar

from pydantic import AfterValidator, ConfigDict, Field, PlainValidator, ValidationError, model_validator
from pydantic.dataclasses import dataclass

from contract.call import Operation
from contract.canonical import InvalidJson, b64url, parse_json
from contract.ids import is_nfc
from contract.schema import Strict
from contract.scope import Scope
from contract.signing import PublicKey
from grants.details import Details, Identifier, Note
from grants.jose import MAX_TOKEN_BYTES

GRANT_TYP: Final = "execution-grant+jwt"
DELEGATE: Final = "delegate"

MAX_CHAIN: Final = 4
MAX_DEPTH: Final = MAX_CHAIN - 1
MAX_ROOT_LIFE: Final = 300
MAX_LEAF_LIFE: Final = 60
SKEW: Final = 5
"""Seconds by which two clocks may differ."""


def _public_key(value: Any) -> PublicKey:
    if isinstance(value, PublicKey):
        return value
    if not isinstance(value, dict) or value.keys() != {"kty", "crv", "x"} or not isinstance(value["x"], str):
        raise ValueError("is not exactly a public Ed25519 JWK")
    if value["kty"] != "OKP" or value["crv"] != "Ed25519":
        raise ValueError("is not an Ed25519 key")
    return _interned(value["x"])


@lru_cache(maxsize=1_024)
def _interned(x: str) -> PublicKey:
    """One value per key, since a key's thumbprint and its parsed form are remembered in it."""
    return PublicKey.from_jwk({"kty": "OKP", "crv": "Ed25519", "x": x})


Instant = Annotated[int, Field(ge=0, lt=100_000_000_000)]
Digest = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{43}$")]
HexDigest = Annotated[str, Field(strict=True, pattern=r"^[0-9a-f]{64}$")]
Method = Annotated[str, Field(strict=True, pattern=r"^[A-Za-z]{1,64}$")]
Key = Annotated[PublicKey, PlainValidator(_public_key)]

# Claims that are objects are plain frozen values, made in half the time of a model. pydantic's
# strict dataclasses take no JSON object, so the type of each of their members is strict itself.
_CLOSED: Final = ConfigDict(extra="forbid")


def _only_true(value: bool) -> bool:
    if not value:
        raise ValueError("is true, or left out")
    return value


@dataclass(frozen=True, config=_CLOSED)
class Actor:
    """RFC 8693 ``act``: the agent that sends this token on."""

    sub: Identifier


@dataclass(frozen=True, config=_CLOSED)
class Confirmation:
    """RFC 7800 ``cnf``: the key of the agent that may derive from this token."""

    jwk: Key


@dataclass(frozen=True, config=_CLOSED)
class OperationClaim:
    """``op``: the one operation a token is good for."""

    method: Method
    call_hash: HexDigest | None = None
    task: Identifier | None = None
    negotiate: Annotated[bool, Field(strict=True), AfterValidator(_only_true)] | None = None

    @model_validator(mode="after")
    def _one_subject(self) -> Self:
        named = (self.call_hash is not None) + (self.task is not None) + (self.negotiate is not None)
        if named != (0 if self.method in ("discover", DELEGATE) else 1):
            raise ValueError("an operation names one call, one task or a negotiation")
        return self

    def value(self) -> Operation:
        return Operation(self.method, self.call_hash, self.task, self.negotiate is True)


@dataclass(frozen=True, config=_CLOSED)
class TransactionContext:
    """``tctx``: the issuer's record of its decision; recorded by receivers, never trusted."""

    tenant: Identifier
    principal_class: Note
    intent: Note | None = None
    policy_id: Note | None = None
    policy_version: Note | None = None
    decision_id: Note | None = None

    def record(self) -> dict[str, str]:
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass(frozen=True, config=_CLOSED)
class RequestContext:
    """``rctx``: what joins the traces of both sides."""

    trace_id: Note
    session_id: Identifier | None = None
    invocation_id: Identifier | None = None
    request_id: Identifier | None = None

    def record(self) -> dict[str, str]:
        return {name: value for name, value in vars(self).items() if value is not None}


class GrantClaims(Strict):
    """What every token of a chain says."""

    iss: Identifier
    sub: Identifier
    aud: Identifier
    act: Actor
    iat: Instant
    nbf: Instant
    exp: Instant
    jti: Note
    txn: Note
    cnf: Confirmation
    del_depth: Annotated[int, Field(ge=0, le=MAX_DEPTH)]
    del_max_depth: Annotated[int, Field(ge=0, le=MAX_DEPTH)]
    authorization_details: Details
    op: OperationClaim
    tctx: TransactionContext
    rctx: RequestContext

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if not self.iat <= self.nbf < self.exp:
            raise ValueError("iat, nbf and exp are not in order")
        return self

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """What may be done, one entry a dataset; none on a discovery grant. Raises ``UnknownConstraint``."""
        return tuple([detail.scope for detail in self.authorization_details])


class RootClaims(GrantClaims):
    """What an issuer signs for the agent that asks."""

    del_depth: Annotated[int, Field(ge=0, le=0)]

    @model_validator(mode="after")
    def _from_issuer(self) -> Self:
        if self.act.sub != self.iss or self.op.method != DELEGATE:
            raise ValueError("a root token is sent by its issuer, to be delegated")
        return self


class ChildClaims(GrantClaims):
    """What a holder signs for the next agent."""

    del_depth: Annotated[int, Field(ge=1, le=MAX_DEPTH)]
    par_hash: Digest


class PrincipalClaim(Strict):
    """The person on whose behalf a client looks at tasks it already sent; it authorizes nothing."""

    iss: Identifier
    tenant: Identifier
    sub: Identifier


class ClientClaims(Strict):
    """A client's assertion of who it is (RFC 7523, section 3)."""

    iss: Identifier
    sub: Identifier
    aud: Identifier
    iat: Instant
    exp: Instant
    jti: Note
    principal: PrincipalClaim | None = None


Model = TypeVar("Model", bound=Strict)


class InvalidClaims(ValueError):
    """Claims that are not exactly the model's; the message names a claim, never its value."""


def read(model: type[Model], payload: bytes) -> Model:
    """The claims in a payload. Raises ``InvalidClaims``."""
    try:
        claims = parse_json(payload, limit=MAX_TOKEN_BYTES)
        if not payload.isascii() or b"\\u" in payload:
            _check_normal(claims)
        if b"null" in payload:
            _check_no_null(claims)
        found: Model = model.__pydantic_validator__.validate_python(claims)
        return found
    except InvalidJson as error:
        raise InvalidClaims(f"the claims are not acceptable: {error}") from error
    except ValidationError as error:
        raise InvalidClaims(_first_fault(model, error)) from error


def write(claims: Mapping[str, Any]) -> bytes:
    return json.dumps(claims, separators=(",", ":"), ensure_ascii=False).encode()


def jwk_of(key: PublicKey) -> dict[str, str]:
    """The shortest JWK of a key, as it stands in ``cnf``."""
    return {"kty": "OKP", "crv": "Ed25519", "x": b64url(key.raw)}


def _check_normal(value: Any) -> None:
    """Two spellings of one name would be two subjects (canonical JSON does not normalise)."""
    if isinstance(value, str) and not is_nfc(value):
        raise InvalidJson("text is not in Unicode normal form C")
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list):
        for item in value:
            _check_normal(item)


def _check_no_null(value: Any) -> None:
    """What is optional is left out: nothing is said in two ways. Constraints are judged by their vocabulary."""
    if value is None:
        raise InvalidJson("a claim is null")
    if isinstance(value, dict):
        value = [member for name, member in value.items() if name != "constraints"]
    if isinstance(value, list):
        for item in value:
            _check_no_null(item)


def _first_fault(model: type[Strict], error: ValidationError) -> str:
    """Name the first claim at fault; a name that is not ours would be the sender's text."""
    where = error.errors(include_url=False, include_context=False, include_input=False)[0]["loc"]
    claim = where[0] if where else None
    if claim is None:
        return "the claims contradict one another"
    return (
        f"the claim {claim} is missing or not acceptable"
        if claim in model.model_fields
        else "there is an unknown claim"
    )
