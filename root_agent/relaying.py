"""The root agent's own provenance of a result it passes on: drafted before its row, sealed after it."""

from __future__ import annotations

import logging
from dataclasses import replace

from contract.errors import SignerUnavailable
from contract.key_ring import sign_with
from contract.verdict import Decision, NotGranted, Reason
from delegation.reply import Reply
from delegation.sending import Verified
from evidence.checkpoint import Receipt
from evidence.statement import Draft, Invocation, relay
from root_agent.asking import Asking
from root_agent.evidence_row import evidence_row
from root_agent.service import Service

log = logging.getLogger(__name__)


def draft_relay(asking: Asking, verified: Verified, reply: Reply, service: Service) -> Draft:
    """The other agent's statement under this one's decision. Raises ``NotGranted`` where it cannot be sealed."""
    decision = asking.decision
    if decision is None:
        raise NotGranted(Reason.EXECUTION_FAILED, "nothing was decided")
    run = run_context(asking)
    return relay(
        verified.statement,
        dict(verified.envelope),
        agent_id=service.root_id,
        decision=decision,
        document=verified.document,
        invocation=Invocation(asking.request_id, run["trace_id"], run["session_id"], run["invocation_id"]),
        now=service.clock(),
        task_id=reply.task_id or None,
    )


async def sealed(asking: Asking, drafted: Draft, receipt: Receipt, service: Service) -> Asking:
    """With the signed relay; or ended, with a further row, where what was recorded could not be signed."""
    decision = asking.decision
    if decision is None:
        raise NotGranted(Reason.EXECUTION_FAILED, "nothing was decided")
    try:
        relayed = await sign_with(service.holder, lambda by: drafted.seal(receipt, by))
    except Exception as fault:
        return await _withdrawn(asking, decision, fault, service)
    return replace(asking, evidence=receipt.to_json(), relayed=relayed)


def run_context(asking: Asking) -> dict[str, str]:
    """The ids that join a grant, a statement and an ADK session."""
    return {
        "trace_id": asking.trace_id,
        "session_id": str(asking.session_id),
        "invocation_id": str(asking.invocation_id or asking.session_id),
    }


async def _withdrawn(asking: Asking, granted: Decision, fault: Exception, service: Service) -> Asking:
    """A result that was recorded and then could not be signed: nothing is shown, and a further row says so."""
    log.error("sealing failed with %s", type(fault).__name__)
    reason = Reason.KEYS_UNAVAILABLE if isinstance(fault, SignerUnavailable) else Reason.EVIDENCE_UNAVAILABLE
    stop = NotGranted(reason, "the answer could not be signed, so nothing is shown")
    asking = asking.stopped(stop.decision(asking.world_in(service).policy_version))
    row = evidence_row(asking, asking.stop or granted, service, withdrawn=granted)
    try:
        receipt = await service.ledger.append_async(row)
    except NotGranted:  # whatever signs rows does not sign either
        return asking
    return replace(asking, evidence=receipt.to_json())
