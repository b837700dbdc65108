"""The one door: from an ``Execution-Grant`` header to a ``VerifiedGrant``, or a reason why not.

Every check has its own reason; those of form and signature are in ``grants.chain``. Checks
that are absent on purpose: admission (this service decides again), and replay and revocation
(``grants.state``, last, in one round trip), so that an attempt that fails here never burns a
grant.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from types import MappingProxyType

from contract.call import Operation
from contract.canonical import b64url
from contract.grant import _VERIFIED, VerifiedGrant
from contract.scope import Scope, widening
from contract.verdict import NotGranted, Reason
from grants.chain import Chain, Child, Link, Root, read_chain
from grants.claims import MAX_LEAF_LIFE, MAX_ROOT_LIFE, SKEW, ChildClaims, GrantClaims
from grants.trust import Trust, TrustedIssuer


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
    chain, issuer = read_chain(header, trust, now)
    _check_times(chain, now)
    _check_issuer(chain.root, issuer)
    _check_links(chain)
    _check_receiver(chain.leaf, audience, client)
    _check_holders(chain, trust)
    _check_operation(chain.leaf, operation)
    _check_policy_version(chain.root, trust)
    return _verified(chain, operation)


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
    claim = _apart(parent, child.claims)
    if claim is not None:
        raise NotGranted(Reason.GRANT_CHAIN_BROKEN, f"a token does not follow from its parent: {claim}")


def _apart(parent: Link[GrantClaims], below: ChildClaims) -> str | None:
    """The first claim in which a child does not follow from its parent."""
    above = parent.claims
    if below.par_hash != b64url(parent.digest):
        return "par_hash"
    if below.iss != above.cnf.jwk.thumbprint_uri:
        return "iss"
    if below.act.sub != above.aud:
        return "act"
    if below.sub != above.sub:
        return "sub"
    if below.txn != above.txn:
        return "txn"
    if below.tctx != above.tctx:
        return "tctx"
    if below.rctx.trace_id != above.rctx.trace_id:
        return "rctx"
    if below.iat < above.iat - SKEW:
        return "iat"
    return None


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
    """Every holder that is pinned here holds a key accepted for it; the receiver itself is always pinned.

    No holder, known or not, holds a key that is revoked.
    """
    for link in chain.links:
        if link.claims.cnf.jwk.thumbprint in trust.revoked_keys:
            raise NotGranted(Reason.GRANT_KEY_UNTRUSTED, "the grant names a key that is revoked")
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
        jtis=tuple([link.claims.jti for link in chain.links]),
        leaf_digest=leaf.digest.hex(),
        root_issued_at=root.claims.iat,
        root_expires_at=root.claims.exp,
        leaf_issued_at=leaf.claims.iat,
        leaf_expires_at=leaf.claims.exp,
        issuer_kid=root.kid,
        holders=tuple([link.claims.cnf.jwk.thumbprint for link in chain.links]),
        scopes=leaf.scopes,
        operation=operation,
        holder_key=leaf.claims.cnf.jwk,
        tctx=MappingProxyType(root.claims.tctx.record()),
        rctx=MappingProxyType(root.claims.rctx.record() | leaf.claims.rctx.record()),
        proof=_VERIFIED,
    )
