"""One call as it is sent to another agent: the admitted plan, the leaf for exactly its bytes, what came back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from contract.call import RESULT_MEDIA_TYPE, Call, Operation
from contract.result import Result
from contract.scope import Scope
from contract.signing import Signer
from contract.verdict import NotGranted, Reason
from evidence.predicate import Statement
from grants.derive import derive, header_value, leaf_digest, leaf_jti, root_ids
from grants.trust import TrustedAgent

METHOD = "SendMessage"
STREAM_METHOD = "SendStreamingMessage"


@dataclass(frozen=True, slots=True)
class Plan:
    """One admitted call, the scope it needs, and the chain it is sent under. The chain is in no representation.

    ``media_type`` is the form the result is wanted in. ``scope`` is of the call's own dataset. ``narrow`` are the
    scopes a leaf is narrowed to, and ``max_depth`` how deep it may be delegated; ``None`` leaves them as the chain has
    them. ``tool`` is the MCP tool that the call is made by; ``None`` for a call over A2A.
    """

    call: Call
    agent_id: str
    scope: Scope
    chain: tuple[str, ...] = field(repr=False)
    narrow: tuple[Scope, ...] | None = None
    max_depth: int | None = None
    media_type: str = RESULT_MEDIA_TYPE
    tool: str | None = None


@dataclass(frozen=True, slots=True)
class Sent:
    """What left for one attempt: headers for the wire, and what the answer must be about.

    ``issuer`` signed the root token; ``client`` is the agent that sends.
    """

    headers: Mapping[str, str] = field(repr=False)
    issuer: str
    client: str
    leaf_jti: str
    leaf_digest: str
    root_jti: str
    txn: str


@dataclass(frozen=True, slots=True)
class Verified:
    """Rows whose provenance was verified, with the envelope that proves it; or what is proven of rows still to be fetched."""

    document: Result = field(repr=False)
    envelope: Mapping[str, Any] = field(repr=False)
    statement: Statement = field(repr=False)
    upstream_digest: str


def send_with_leaf(
    plan: Plan,
    signer: Signer,
    *,
    client: str,
    audience: TrustedAgent | None,
    now: float,
    ttl: int,
    headers: Callable[[str, str], Mapping[str, str]],
    operation: Operation | None = None,
) -> Sent:
    """A fresh leaf for exactly the plan's bytes, and the headers that ``headers(agent id, grant)`` makes of it.

    ``operation`` is another one within the same plan: to fetch what its call left.

    The plan is checked here, where it is consumed, and not only where it was made. Raises
    ``NotGranted`` where it is not the call of its scope, and as ``grants.derive.derive``.
    """
    call, scope = plan.call, plan.scope
    if call.dataset != scope.dataset or call.capability not in scope.actions:
        raise NotGranted(Reason.GRANT_WIDENED, "the plan is not a call of its grant")
    if audience is None or plan.agent_id != audience.id or plan.agent_id not in scope.locations:
        raise NotGranted(Reason.GRANT_AUDIENCE_MISMATCH, "the plan names an agent the grant does not")
    chain = derive(
        plan.chain,
        signer,
        audience=audience,
        operation=operation or Operation(METHOD, call_hash=call.call_hash),
        now=now,
        ttl=ttl,
        narrow=plan.narrow,
        max_depth=plan.max_depth,
    )
    issuer, root_jti, txn = root_ids(chain)
    return Sent(
        headers=headers(plan.agent_id, header_value(chain)),
        issuer=issuer,
        client=client,
        leaf_jti=leaf_jti(chain),
        leaf_digest=leaf_digest(chain),
        root_jti=root_jti,
        txn=txn,
    )
