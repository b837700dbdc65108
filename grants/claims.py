"""The claims of a root token, of a derived token and of a client's assertion: closed, strict, frozen.

A profile of the attenuating-agent-token and agent-delegation-chain drafts over RFC 7519
(claims), RFC 7800 (``cnf``), RFC 8693 (``act``) and RFC 9396 (``authorization_details``).
Reading them checks form only; what they mean together is judged in ``grants.verify``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cached_property, lru_cache
from typing import Annotated, Any, Final, Literal, Self, TypeVar

import orjson
from pydantic import (
    AfterValidator,
    Field,
    PlainValidator,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)

from contract.call import Operation
from contract.canonical import InvalidJson, b64url, parse_json
from contract.ids import MAX_ID_BYTES, Slug, Version, is_nfc
from contract.schema import Strict
from contract.scope import Scope, ScopeError, Sensitivity, parse_rows, rows_to_json
from contract.signing import PublicKey
from grants.jose import MAX_TOKEN_BYTES
from grants.memory import Bounded

GRANT_TYP: Final = "execution-grant+jwt"
DETAIL_TYPE: Final = "dataset-access:v1"
DELEGATE: Final = "delegate"

MAX_CHAIN: Final = 4
MAX_DEPTH: Final = MAX_CHAIN - 1
MAX_DETAILS: Final = 8
MAX_ROOT_LIFE: Final = 300
MAX_LEAF_LIFE: Final = 60
SKEW: Final = 5
"""Seconds by which two clocks may differ."""
MAX_REMEMBERED_ENTRIES_BYTES: Final = 1_024


_entries: Final = Bounded[bytes, "tuple[Detail, ...]"](256)


class UnknownConstraint(ScopeError):
    """An authorization this profile does not know; what is not understood is not permitted."""


def _unique(values: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(values)) != len(values):
        raise ValueError("names something twice")
    return values


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


_PRINTABLE = r"^[^\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+$"
Identifier = Annotated[str, Field(max_length=MAX_ID_BYTES, pattern=_PRINTABLE)]
Note = Annotated[str, Field(max_length=256, pattern=_PRINTABLE)]
Instant = Annotated[int, Field(ge=0, lt=100_000_000_000)]
Digest = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{43}$")]
HexDigest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Method = Annotated[str, Field(pattern=r"^[A-Za-z]{1,64}$")]
ColumnName = Annotated[str, Field(max_length=256, pattern=r"^[^.\s]+\.[^.\s]+$")]
Key = Annotated[PublicKey, PlainValidator(_public_key)]


class Actor(Strict):
    """RFC 8693 ``act``: the agent that sends this token on."""

    sub: Identifier


class Confirmation(Strict):
    """RFC 7800 ``cnf``: the key of the agent that may derive from this token."""

    jwk: Key


class OperationClaim(Strict):
    """``op``: the one operation a token is good for."""

    method: Method
    call_hash: HexDigest | None = None
    task: Identifier | None = None
    negotiate: Literal[True] | None = None

    @model_validator(mode="after")
    def _one_subject(self) -> Self:
        named = (self.call_hash is not None) + (self.task is not None) + (self.negotiate is not None)
        if named != (0 if self.method in ("discover", DELEGATE) else 1):
            raise ValueError("an operation names one call, one task or a negotiation")
        return self

    def value(self) -> Operation:
        return Operation(self.method, self.call_hash, self.task, self.negotiate is True)


class Detail(Strict):
    """An entry of RFC 9396 ``authorization_details``; ``columns`` absent means every column."""

    type: Note
    locations: Annotated[
        tuple[Identifier, ...], Field(min_length=1, max_length=16, strict=False), AfterValidator(_unique)
    ]
    identifier: Slug
    dataset_version: Version
    revision: Identifier
    actions: Annotated[tuple[Slug, ...], Field(min_length=1, max_length=64, strict=False), AfterValidator(_unique)]
    max_sensitivity: Annotated[Sensitivity, Field(strict=False)]
    columns: (
        Annotated[tuple[ColumnName, ...], Field(max_length=1_000, strict=False), AfterValidator(_unique)] | None
    ) = None
    constraints: dict[str, Any] = Field(default_factory=dict, max_length=100)

    @cached_property
    def scope(self) -> Scope:
        """Raises ``UnknownConstraint`` for a type or a constraint outside the vocabulary."""
        if self.type != DETAIL_TYPE:
            raise UnknownConstraint("the grant holds an unknown type of authorization")
        try:
            constraints = parse_rows(self.constraints)
        except ScopeError as error:
            raise UnknownConstraint("the grant holds a constraint outside the vocabulary") from error
        return Scope(
            dataset=self.identifier,
            dataset_version=self.dataset_version,
            revision=self.revision,
            actions=frozenset(self.actions),
            locations=frozenset(self.locations),
            max_sensitivity=self.max_sensitivity,
            columns=None if self.columns is None else frozenset(self.columns),
            constraints=constraints,
        )


class TransactionContext(Strict):
    """``tctx``: the issuer's record of its decision; recorded by receivers, never trusted."""

    tenant: Identifier
    principal_class: Note
    intent: Note | None = None
    policy_id: Note | None = None
    policy_version: Note | None = None
    decision_id: Note | None = None

    def record(self) -> dict[str, str]:
        return {name: value for name, value in vars(self).items() if value is not None}


class RequestContext(Strict):
    """``rctx``: what joins the traces of both sides."""

    trace_id: Note
    session_id: Identifier | None = None
    invocation_id: Identifier | None = None
    request_id: Identifier | None = None

    def record(self) -> dict[str, str]:
        return {name: value for name, value in vars(self).items() if value is not None}


def _one_a_dataset(details: tuple[Detail, ...]) -> tuple[Detail, ...]:
    if len({detail.identifier for detail in details}) != len(details):
        raise ValueError("names a dataset twice")
    return details


def _read_once(entries: Any, read: ValidatorFunctionWrapHandler) -> Any:
    """Entries that are written alike are read once; they are values, and grant nothing by themselves."""
    try:
        written = orjson.dumps(entries)
    except orjson.JSONEncodeError:  # an integer beyond 64 bits: whatever it is for, it is read
        return read(entries)
    known = _entries.get(written)
    if known is None:
        known = read(entries)
        if len(written) <= MAX_REMEMBERED_ENTRIES_BYTES:
            _entries.keep(written, known)
    return known


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
    authorization_details: Annotated[
        tuple[Detail, ...],
        Field(max_length=MAX_DETAILS, strict=False),
        AfterValidator(_one_a_dataset),
        WrapValidator(_read_once),
    ]
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
        return tuple(detail.scope for detail in self.authorization_details)


class RootClaims(GrantClaims):
    """What an issuer signs for the agent that asks."""

    del_depth: Literal[0]

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
        return model.__pydantic_validator__.validate_python(claims)
    except InvalidJson as error:
        raise InvalidClaims(f"the claims are not acceptable: {error}") from error
    except ValidationError as error:
        raise InvalidClaims(_first_fault(model, error)) from error


def write(claims: Mapping[str, Any]) -> bytes:
    return json.dumps(claims, separators=(",", ":"), ensure_ascii=False).encode()


def jwk_of(key: PublicKey) -> dict[str, str]:
    """The shortest JWK of a key, as it stands in ``cnf``."""
    return {"kty": "OKP", "crv": "Ed25519", "x": b64url(key.raw)}


def details_of(scopes: Iterable[Scope]) -> list[dict[str, Any]]:
    """``authorization_details`` of scopes, in the order of their datasets."""
    return [_detail_of(scope) for scope in sorted(scopes, key=lambda scope: scope.dataset)]


def _detail_of(scope: Scope) -> dict[str, Any]:
    detail: dict[str, Any] = {
        "type": DETAIL_TYPE,
        "locations": sorted(scope.locations),
        "identifier": scope.dataset,
        "dataset_version": scope.dataset_version,
        "revision": scope.revision,
        "actions": sorted(scope.actions),
        "max_sensitivity": scope.max_sensitivity.value,
    }
    if scope.columns is not None:
        detail["columns"] = sorted(scope.columns)
    if scope.constraints:
        detail["constraints"] = rows_to_json(scope.constraints)
    return detail


def _check_normal(value: Any) -> None:
    """Two spellings of one name would be two subjects (canonical JSON does not normalise)."""
    if isinstance(value, str) and not is_nfc(value):
        raise InvalidJson("text is not in Unicode normal form C")
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list):
        for item in value:
            _check_normal(item)


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
