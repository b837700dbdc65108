"""A grant after verification: the value the request path holds, never the token text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import InitVar, dataclass
from typing import Any

from contract.call import Operation
from contract.scope import Scope
from contract.signing import PublicKey

_VERIFIED = object()


@dataclass(frozen=True, slots=True)
class VerifiedGrant:
    """A chain that ``grants.verify`` accepted for this receiver and this operation.

    Only that module may make one (``proof`` is its private token; a test looks for other
    callers). ``scopes`` has one entry a dataset; it is empty on a discovery grant, which
    authorizes no call. Some may be for other agents, to be delegated to them. ``jtis`` has
    one entry a token, the root's first.
    Times are POSIX seconds. ``tctx`` and ``rctx`` are the sender's records: recorded,
    never trusted.
    """

    issuer: str
    subject: str
    tenant: str
    client: str
    txn: str
    jtis: tuple[str, ...]
    leaf_digest: str
    root_issued_at: int
    root_expires_at: int
    leaf_issued_at: int
    leaf_expires_at: int
    issuer_kid: str
    holders: tuple[str, ...]
    scopes: tuple[Scope, ...]
    operation: Operation
    holder_key: PublicKey
    tctx: Mapping[str, Any]
    rctx: Mapping[str, Any]
    proof: InitVar[object]

    def __post_init__(self, proof: object) -> None:
        if proof is not _VERIFIED:
            raise TypeError("a VerifiedGrant comes from grants.verify only")

    @property
    def root_jti(self) -> str:
        return self.jtis[0]

    @property
    def leaf_jti(self) -> str:
        return self.jtis[-1]

    def scope_at(self, dataset: str, agent_id: str) -> Scope | None:
        """What the grant lets ``agent_id`` do with ``dataset``; ``None`` for nothing."""
        return next((s for s in self.scopes if s.dataset == dataset and agent_id in s.locations), None)
