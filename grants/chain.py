"""From a header to a chain: every token read only after the key that it needs was seen to sign it.

What the claims mean together, and here, is judged in ``grants.verify``, whose only source of
chains this is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

from contract.extension import MAX_GRANT_HEADER_BYTES
from contract.scope import Scope
from contract.signing import PublicKey
from contract.verdict import NotGranted, Reason
from grants import jose
from grants.claims import (
    GRANT_TYP,
    MAX_CHAIN,
    SKEW,
    ChildClaims,
    GrantClaims,
    InvalidClaims,
    RootClaims,
    read,
)
from grants.details import UnknownConstraint
from grants.memory import Remembered
from grants.trust import Trust, TrustedIssuer

REMEMBERED_ROOTS: Final = 1_024
_ROOT_HEADER: Final = frozenset({"alg", "typ", "kid"})
_CHILD_HEADER: Final = frozenset({"alg", "typ"})

Claims = TypeVar("Claims", bound=GrantClaims, covariant=True)
Model = TypeVar("Model", bound=GrantClaims)


class Link(NamedTuple, Generic[Claims]):
    """One token whose signature by the key ``kid`` and whose form are verified.

    ``digest`` is SHA-256 of its signing input.
    """

    claims: Claims
    scopes: tuple[Scope, ...]
    digest: bytes
    kid: str


Root = Link[RootClaims]
Child = Link[ChildClaims]


class Chain(NamedTuple):
    """A root token and at least one derived from it."""

    root: Root
    children: tuple[Child, ...]

    @property
    def leaf(self) -> Child:
        return self.children[-1]

    @property
    def links(self) -> tuple[Link[GrantClaims], ...]:
        return (self.root, *self.children)


_roots: Final = Remembered[Root](REMEMBERED_ROOTS)


def read_chain(header: str | None, trust: Trust, now: float) -> tuple[Chain, TrustedIssuer]:
    """The chain in a header, and the issuer that owns the root token's key.

    Raises ``NotGranted`` for the first thing that is wrong with a token's form or signature.
    """
    tokens = _tokens(header)
    root, issuer = _root(tokens[0], trust, now)
    return Chain(root, _children(root, tokens[1:])), issuer


def _tokens(header: str | None) -> list[str]:
    if not header:
        raise NotGranted(Reason.NO_ACTIVE_GRANT, "the request carries no execution grant")
    if len(header) > MAX_GRANT_HEADER_BYTES or not header.isascii():
        raise NotGranted(Reason.GRANT_MALFORMED, f"the grant is not ASCII of at most {MAX_GRANT_HEADER_BYTES} bytes")
    tokens = header.split(",")
    if len(tokens) > MAX_CHAIN:
        raise NotGranted(Reason.GRANT_TOO_DEEP, f"the grant has more than {MAX_CHAIN} tokens")
    return tokens


def _root(token: str, trust: Trust, now: float) -> tuple[Root, TrustedIssuer]:
    """The root token, remembered or read, and the issuer that owns its key *now*.

    Where several issuers publish the key, that is the one which the token, seen to be signed by it, names.
    """
    name = _roots.name(token)
    root = _roots.find(name, now)
    if root is None:
        root = _read_root(token, trust)
        _roots.keep(name, root, until=root.claims.exp + SKEW)
    issuer, _ = _owner(root.kid, trust, root.claims.iss)
    return root, issuer


def _read_root(token: str, trust: Trust) -> Root:
    """The key is found by its thumbprint among pinned keys; nothing unverified is read but the header."""
    compact = _split(token)
    kid = _checked_header(compact, members=_ROOT_HEADER)["kid"]
    if not isinstance(kid, str):
        raise NotGranted(Reason.GRANT_HEADER_INVALID, "the root token's kid is not text")
    _, key = _owner(kid, trust)
    return _link(compact, key, RootClaims)


def _owner(kid: str, trust: Trust, issuer: str | None = None) -> tuple[TrustedIssuer, PublicKey]:
    owned = trust.grant_key(kid, issuer)
    if owned is None and trust.unreachable:
        raise NotGranted(Reason.KEYS_UNAVAILABLE, "the keys that an issuer publishes cannot be read")
    if owned is None:
        raise NotGranted(Reason.GRANT_KEY_UNTRUSTED, "the root token is signed with a key that is not trusted")
    return owned


def _children(root: Root, tokens: Sequence[str]) -> tuple[Child, ...]:
    """Each token is read only after the key that its parent names has been seen to sign it."""
    if not tokens:
        raise NotGranted(Reason.GRANT_CHAIN_BROKEN, "a root token alone proves no possession; derive a leaf from it")
    children: list[Child] = []
    key = root.claims.cnf.jwk
    for token in tokens:
        compact = _split(token)
        _checked_header(compact, members=_CHILD_HEADER)
        children.append(_link(compact, key, ChildClaims))
        key = children[-1].claims.cnf.jwk
    return tuple(children)


def _split(token: str) -> jose.Compact:
    try:
        return jose.split(token)
    except jose.MalformedHeader as error:
        raise NotGranted(Reason.GRANT_HEADER_INVALID, str(error)) from error
    except jose.MalformedToken as error:
        raise NotGranted(Reason.GRANT_MALFORMED, str(error)) from error


def _checked_header(compact: jose.Compact, *, members: frozenset[str]) -> Mapping[str, Any]:
    header = compact.header
    if header.get("alg") != jose.ALGORITHM:
        raise NotGranted(Reason.GRANT_ALGORITHM_NOT_ALLOWED, f"a token's algorithm is not {jose.ALGORITHM}")
    if header.keys() != members:
        raise NotGranted(Reason.GRANT_HEADER_INVALID, f"a token's header is not exactly {', '.join(sorted(members))}")
    if header["typ"] != GRANT_TYP:
        raise NotGranted(Reason.GRANT_HEADER_INVALID, f"a token's typ is not {GRANT_TYP}")
    return header


def _link(compact: jose.Compact, key: PublicKey, model: type[Model]) -> Link[Model]:
    if not jose.signature_holds(compact, key):
        raise NotGranted(Reason.GRANT_SIGNATURE_INVALID, "a token is not signed by the key that it needs")
    try:
        claims = read(model, compact.payload)
        return Link(claims, claims.scopes, compact.digest, key.thumbprint)
    except InvalidClaims as error:
        raise NotGranted(Reason.GRANT_CLAIMS_INVALID, str(error)) from error
    except UnknownConstraint as error:
        raise NotGranted(Reason.GRANT_CONSTRAINT_UNKNOWN, str(error)) from error
