"""The root's own evidence row: ids, codes, counts and digests; the ledger commits what is personal."""

from __future__ import annotations

from dataclasses import astuple

from contract.verdict import Decision
from control_plane.descriptor import DatasetDescriptor
from evidence.row import Kind, LedgerRow, Side
from root_agent.asking import Asking
from root_agent.service import Service


def evidence_row(
    asking: Asking, decision: Decision, service: Service, *, withdrawn: Decision | None = None
) -> LedgerRow:
    """The terminal row of an asking that ends, or is about to end, with ``decision``.

    With ``withdrawn``, a decision whose terminal row is written already, the row that says
    that nothing was released after it.
    """
    principal, target, sent = asking.principal, asking.target, asking.sent
    verified, reply = asking.verified, asking.reply
    descriptor = target.descriptor if target and isinstance(target.descriptor, DatasetDescriptor) else None
    capability = descriptor.capability(target.call.capability) if descriptor and target else None
    told = verified.statement.predicate if verified else None
    return LedgerRow(
        **LedgerRow.decided(decision),
        kind=Kind.TERMINAL if withdrawn is None else Kind.BLOCKED,
        caused_by=withdrawn.decision_id if withdrawn else None,
        side=Side.ROOT,
        recorded_at=service.clock(),
        agent_id=service.root_id,
        request_id=asking.request_id,
        issuer=asking.person.issuer,
        subject=asking.person.subject,
        tenant=principal.tenant if principal else None,
        principal_class=principal.principal_class if principal else None,
        requested_dataset=target.call.dataset if target else None,
        requested_capability=target.call.capability if target else None,
        dataset=descriptor.dataset if descriptor else None,
        dataset_version=descriptor.version if descriptor else None,
        revision=descriptor.revision if descriptor else None,
        schema_version=descriptor.schema_version if descriptor else None,
        capability=capability.name if capability else None,
        root_jti=sent.root_jti if sent else None,
        leaf_jti=sent.leaf_jti if sent else None,
        txn=sent.txn if sent else None,
        leaf_digest=sent.leaf_digest if sent else None,
        call_hash=asking.plan.call.call_hash if asking.plan else None,
        result_digest=verified.document.digest if verified else None,
        rows_returned=verified.document.row_count if verified else None,
        template_digest=told.operation.template_digest if told else None,
        cache=told.cache.outcome if told else None,
        derived=1 if told and told.cache.derived else None,
        execution_id=told.execution.execution_id if told else None,
        tool_origin=("A2A" if asking.plan is None or asking.plan.tool is None else "MCP") if sent else None,
        task_id=reply.task_id or None if reply else None,
        upstream_digest=verified.upstream_digest if verified else None,
        funnel=_funnel(asking),
        trace_id=asking.trace_id,
        session_id=str(asking.session_id),
        invocation_id=str(asking.invocation_id) if asking.invocation_id else None,
        event_ids=asking.event_ids,
    )


def _funnel(asking: Asking) -> str | None:
    return None if asking.funnel is None else ">".join(str(count) for count in astuple(asking.funnel))
