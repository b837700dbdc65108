"""What a holder signs: a child token for the next agent, for one operation, never wider."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

from contract.call import Operation
from contract.canonical import b64url
from contract.errors import Category, Component, DatasetAgentError
from contract.extension import MAX_GRANT_HEADER_BYTES
from contract.key_ring import signer_of
from contract.scope import Scope, widening
from contract.signing import Signer
from contract.verdict import NotGranted, Reason
from grants import jose
from grants.claims import (
    GRANT_TYP,
    MAX_LEAF_LIFE,
    ChildClaims,
    GrantClaims,
    InvalidClaims,
    RootClaims,
    jwk_of,
    read,
    write,
)
from grants.details import details_of
from grants.trust import TrustedAgent


def derive(
    chain: Sequence[str],
    signer: Signer,
    *,
    audience: TrustedAgent,
    operation: Operation,
    now: float,
    ttl: int = MAX_LEAF_LIFE,
    narrow: Sequence[Scope] | None = None,
    max_depth: int | None = None,
) -> tuple[str, ...]:
    """``chain`` and a fresh leaf for ``audience`` and ``operation``, signed by the holder.

    ``signer`` holds the key that the last token names; of a ``KeyRing`` the one that does
    signs, so that a grant outlives the rotation of its holder's key. The leaf lives ``ttl`` seconds (60
    at most) and never longer than its parent. ``narrow`` replaces the parent's scopes by
    narrower ones, of the same datasets or of some of them. ``max_depth`` is the depth down
    to which the leaf may be delegated, its own where its receiver is to ask nobody further;
    ``None`` leaves it as the parent has it.

    Raises ``NotGranted`` where the parent has expired, may not be delegated further, or
    would be widened; ``grants.derive.key`` and ``grants.derive.chain`` where the caller
    holds another key or no chain. The holder trusts its own chain: no signature is checked.
    """
    parent, digest = _parent(chain)
    holder = signer_of(signer, parent.cnf.jwk)
    if holder is None:
        raise _fault("grants.derive.key", "this key is not the holder of the grant; derive with the key in its cnf")
    if int(now) >= parent.exp:
        raise NotGranted(Reason.GRANT_EXPIRED, "the grant has expired; ask its issuer for a new one")
    if parent.del_depth >= parent.del_max_depth:
        raise NotGranted(Reason.GRANT_TOO_DEEP, "the grant may not be delegated further")
    if max_depth is not None and max_depth > parent.del_max_depth:
        raise NotGranted(Reason.GRANT_TOO_DEEP, "the grant may not be delegated as far as it would have to be")
    if not 0 < ttl <= MAX_LEAF_LIFE:
        raise _fault("grants.derive.ttl", f"a derived token lives 1 to {MAX_LEAF_LIFE} seconds")
    issued = max(int(now), parent.iat)
    claims: dict[str, Any] = {
        "iss": holder.public_key.thumbprint_uri,
        "sub": parent.sub,
        "aud": audience.id,
        "act": {"sub": parent.aud},
        "iat": issued,
        "nbf": issued,
        "exp": min(issued + ttl, parent.exp),
        "jti": secrets.token_urlsafe(16),
        "txn": parent.txn,
        "cnf": {"jwk": jwk_of(audience.key)},
        "del_depth": parent.del_depth + 1,
        "del_max_depth": parent.del_max_depth if max_depth is None else max(max_depth, parent.del_depth + 1),
        "par_hash": b64url(digest),
        "authorization_details": details_of(_narrowed(parent.scopes, narrow)),
        "op": operation.to_json(),
        "tctx": parent.tctx.record(),
        "rctx": {"trace_id": parent.rctx.trace_id},
    }
    payload = write(claims)
    try:
        read(ChildClaims, payload)
    except InvalidClaims as error:
        raise _fault("grants.derive.claims", f"nothing is derived: {error}") from error
    return (*chain, jose.sign(payload, holder, typ=GRANT_TYP))


def header_value(chain: Sequence[str]) -> str:
    """The ``Execution-Grant`` header of a chain, root token first.

    Raises ``NotGranted(GRANT_MALFORMED)``, as its receiver would, for one over
    ``MAX_GRANT_HEADER_BYTES``.
    """
    value = ",".join(chain)
    if len(value) > MAX_GRANT_HEADER_BYTES:
        why = f"the grant would be larger than {MAX_GRANT_HEADER_BYTES} bytes: ask for fewer columns and constraints"
        raise NotGranted(Reason.GRANT_MALFORMED, why)
    return value


def leaf_digest(chain: Sequence[str]) -> str:
    """Hex SHA-256 of the leaf's signing input: what provenance names as the grant it answered."""
    return jose.split(chain[-1]).digest.hex()


def root_ids(chain: Sequence[str]) -> tuple[str, str, str]:
    """The root token's issuer, ``jti`` and ``txn``, from a chain of one's own. Raises ``grants.derive.chain``."""
    root, _ = _parent(chain[:1])
    return root.iss, root.jti, root.txn


def leaf_jti(chain: Sequence[str]) -> str:
    """The leaf's ``jti``, from a chain of one's own."""
    return _parent(chain)[0].jti


def _parent(chain: Sequence[str]) -> tuple[GrantClaims, bytes]:
    if not chain:
        raise _fault("grants.derive.chain", "there is no token to derive from")
    try:
        compact = jose.split(chain[-1])
        return read(RootClaims if len(chain) == 1 else ChildClaims, compact.payload), compact.digest
    except (jose.MalformedToken, InvalidClaims) as error:
        raise _fault("grants.derive.chain", f"the chain's last token does not read: {error}") from error


def _narrowed(parent: Sequence[Scope], narrow: Sequence[Scope] | None) -> Sequence[Scope]:
    if narrow is None:
        return parent
    member = widening(parent, narrow)
    if member is not None:
        raise NotGranted(Reason.GRANT_WIDENED, f"the child would widen {member}")
    return narrow


def _fault(code: str, message: str) -> DatasetAgentError:
    return DatasetAgentError(Component.GRANTS, Category.INVALID_INPUT, code, message)
