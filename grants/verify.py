"""The one door: from an ``Execution-Grant`` header to a ``VerifiedGrant``, or a reason why not.

Every check has its own reason. Checks that are absent on purpose: admission (this service
decides again), and replay and revocation (``grants.state``, last, in one round trip), so
that an attempt that fails here never burns a grant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final, Generic, NamedTuple, TypeVar

from contract.call import Operation
from contract.canonical import b64url
from contract.extension import MAX_GRANT_HEADER_BYTES
from contract.grant import _VERIFIED, VerifiedGrant
from contract.scope import Scope, widening
from contract.signing import PublicKey
from contract.verdict import NotGranted, Reason
from grants import jose
from grants.claims import (
    GRANT_TYP,
    MAX_CHAIN,
    MAX_LEAF_LIFE,
    MAX_ROOT_LIFE,
    SKEW,
    ChildClaims,
    GrantClaims,
    InvalidClaims,
    RootClaims,
    UnknownConstraint,
    read,
)
from grants.memory import Remembered
from grants.trust import Trust, TrustedIssuer

REMEMBERED_ROOTS: Final = 1_024

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


def verify(
    header: str | None,
    *,
    trust: Trust,
    audience: str,
    client: str,
    operation: Operation,
    now: float,
) -> VerifiedGrant:
    """Accept a chain for this receiver, this client and this operation, at ``now`` (POSIX seconds).

    ``client`` is the agent that authenticated on the connection; ``operation`` is what was
    received, never what the grant says. Raises ``NotGranted`` with one reason per check.
    """
    tokens = _tokens(header)
    root, issuer = _root(tokens[0], trust, now)
    chain = Chain(root, _children(root, tokens[1:]))
    _check_times(chain, now)
    _check_issuer(root, issuer)
    _check_links(chain)
    _check_receiver(chain.leaf, audience, client)
    _check_holders(chain, trust)
    _check_operation(chain.leaf, operation)
    _check_policy_version(root, trust)
    return _verified(chain, operation)


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
    """The root token, remembered or read, and the issuer that owns its key *now*."""
    name = _roots.name(token)
    root = _roots.find(name, now)
    if root is None:
        root = _read_root(token, trust)
        _roots.keep(name, root, until=root.claims.exp + SKEW)
    issuer, _ = _owner(root.kid, trust)
    return root, issuer


def _read_root(token: str, trust: Trust) -> Root:
    """The key is found by its thumbprint among pinned keys; nothing unverified is read but the header."""
    compact = _split(token)
    kid = _checked_header(compact, members=frozenset({"alg", "typ", "kid"}))["kid"]
    if not isinstance(kid, str):
        raise NotGranted(Reason.GRANT_HEADER_INVALID, "the root token's kid is not text")
    _, key = _owner(kid, trust)
    return _link(compact, key, RootClaims)


def _owner(kid: str, trust: Trust) -> tuple[TrustedIssuer, PublicKey]:
    owned = trust.grant_key(kid)
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
        _checked_header(compact, members=frozenset({"alg", "typ"}))
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


def _check_times(chain: Chain, now: float) -> None:
    """Two clocks may differ by ``SKEW``; a child never outlives its parent by a second."""
    for link in chain.links:
        claims = link.claims
        if claims.exp - claims.iat > (MAX_ROOT_LIFE if link is chain.root else MAX_LEAF_LIFE):
            raise NotGranted(Reason.GRANT_LIFETIME_EXCEEDED, "a token lives longer than its kind may")
        if max(claims.iat, claims.nbf) > now + SKEW:
            raise NotGranted(Reason.GRANT_NOT_YET_VALID, "a token is not valid yet")
        if now >= claims.exp + SKEW:
            raise NotGranted(Reason.GRANT_EXPIRED, "a token has expired; ask with a fresh one")
    for parent, child in pairwise(chain.links):
        if child.claims.exp > parent.claims.exp:
            raise NotGranted(Reason.GRANT_LIFETIME_EXCEEDED, "a token outlives its parent")


def _check_issuer(root: Root, issuer: TrustedIssuer) -> None:
    if root.claims.iss != issuer.url:
        raise NotGranted(Reason.GRANT_ISSUER_UNTRUSTED, "the key of the root token is not its issuer's")
    if not root.claims.sub.startswith(issuer.subject_prefix):
        raise NotGranted(Reason.GRANT_ISSUER_UNTRUSTED, "the issuer may not speak for this subject")
    if root.claims.tctx.tenant not in issuer.tenants:
        raise NotGranted(Reason.GRANT_TENANT_UNKNOWN, "the issuer may not speak for this tenant")


def _check_links(chain: Chain) -> None:
    parent: Link[GrantClaims] = chain.root
    for child in chain.children:
        _check_joined(parent, child)
        _check_depth(parent.claims, child.claims)
        _check_narrowed(parent.scopes, child.scopes)
        parent = child


def _check_joined(parent: Link[GrantClaims], child: Child) -> None:
    """Every child stands on exactly its parent and speaks of the same transaction."""
    above, below = parent.claims, child.claims
    joined = {
        "par_hash": below.par_hash == b64url(parent.digest),
        "iss": below.iss == above.cnf.jwk.thumbprint_uri,
        "act": below.act.sub == above.aud,
        "sub": below.sub == above.sub,
        "txn": below.txn == above.txn,
        "tctx": below.tctx == above.tctx,
        "rctx": below.rctx.trace_id == above.rctx.trace_id,
        "iat": below.iat >= above.iat - SKEW,
    }
    for claim, holds in joined.items():
        if not holds:
            raise NotGranted(Reason.GRANT_CHAIN_BROKEN, f"a token does not follow from its parent: {claim}")


def _check_depth(above: GrantClaims, below: ChildClaims) -> None:
    if below.del_depth != above.del_depth + 1:
        raise NotGranted(Reason.GRANT_CHAIN_BROKEN, "a token does not follow from its parent: del_depth")
    if below.del_max_depth > above.del_max_depth:
        raise NotGranted(Reason.GRANT_WIDENED, "a token would widen del_max_depth")
    if below.del_depth > below.del_max_depth:
        raise NotGranted(Reason.GRANT_TOO_DEEP, "the grant was delegated further than it allows")


def _check_narrowed(above: Sequence[Scope], below: Sequence[Scope]) -> None:
    member = widening(above, below)
    if member is not None:
        raise NotGranted(Reason.GRANT_WIDENED, f"a token would widen {member}")


def _check_receiver(leaf: Child, audience: str, client: str) -> None:
    if leaf.claims.aud != audience:
        raise NotGranted(Reason.GRANT_AUDIENCE_MISMATCH, "the grant is for another agent")
    if leaf.scopes and not any(audience in scope.locations for scope in leaf.scopes):
        raise NotGranted(Reason.GRANT_AUDIENCE_MISMATCH, "the grant's dataset may not be served by this agent")
    if leaf.claims.act.sub != client:
        raise NotGranted(Reason.GRANT_CLIENT_MISMATCH, "the grant was sent by another agent than the one that asks")


def _check_holders(chain: Chain, trust: Trust) -> None:
    """Every holder that is pinned here holds a key accepted for it; the receiver itself is always pinned."""
    for link in chain.links:
        agent = trust.agent(link.claims.aud)
        if agent is None and link is chain.leaf:
            raise NotGranted(Reason.GRANT_KEY_UNTRUSTED, "this agent's own key is not in the trust file")
        if agent is not None and link.claims.cnf.jwk not in agent.accepted_keys:
            raise NotGranted(Reason.GRANT_KEY_UNTRUSTED, "the grant names another key for a known agent")


def _check_operation(leaf: Child, received: Operation) -> None:
    if leaf.claims.op.value() != received:
        raise NotGranted(Reason.GRANT_OPERATION_MISMATCH, "the grant is for another operation than the one received")
    if not leaf.scopes and (received.call_hash or received.task):
        raise NotGranted(Reason.NO_ACTIVE_GRANT, "a discovery grant authorizes no call")


def _check_policy_version(root: Root, trust: Trust) -> None:
    version = root.claims.tctx.policy_version
    if version is not None and trust.policy_versions is not None and version not in trust.policy_versions:
        raise NotGranted(Reason.UNKNOWN_POLICY_VERSION, "the grant rests on a policy version that is not known here")


def _verified(chain: Chain, operation: Operation) -> VerifiedGrant:
    root, leaf = chain.root, chain.leaf
    return VerifiedGrant(
        issuer=root.claims.iss,
        subject=root.claims.sub,
        tenant=root.claims.tctx.tenant,
        client=leaf.claims.act.sub,
        txn=root.claims.txn,
        jtis=tuple(link.claims.jti for link in chain.links),
        leaf_digest=leaf.digest.hex(),
        root_issued_at=root.claims.iat,
        root_expires_at=root.claims.exp,
        leaf_issued_at=leaf.claims.iat,
        leaf_expires_at=leaf.claims.exp,
        issuer_kid=root.kid,
        holders=tuple(link.claims.cnf.jwk.thumbprint for link in chain.links),
        scopes=leaf.scopes,
        operation=operation,
        holder_key=leaf.claims.cnf.jwk,
        tctx=MappingProxyType(root.claims.tctx.record()),
        rctx=MappingProxyType(root.claims.rctx.record() | leaf.claims.rctx.record()),
        proof=_VERIFIED,
    )
