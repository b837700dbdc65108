"""The ledger's row of what somebody did about an approval, or tried to."""

from __future__ import annotations

from collections.abc import Callable

from approvals.approval import Approval
from contract.principal import Principal
from contract.verdict import Decision
from evidence.row import Kind, LedgerRow, Side


def row_of(
    approval: Approval, who: Principal | None, decision: Decision, kind: Kind, *, cause: str | None = None
) -> Callable[[str, float], LedgerRow]:
    """The row, for whose ledger and when (POSIX seconds). ``who`` is ``None`` where the directory knows nobody.

    It is caused by the decision that the call waits, or by ``cause``.
    """

    def row(agent_id: str, at: float) -> LedgerRow:
        return LedgerRow(
            kind=kind,
            side=Side.REMOTE,
            recorded_at=at,
            agent_id=agent_id,
            request_id=approval.id,
            caused_by=cause or approval.decision_id,
            **LedgerRow.decided(decision),
            issuer=None if who is None else who.issuer,
            subject=None if who is None else who.subject,
            tenant=None if who is None else who.tenant,
            principal_class=None if who is None else who.principal_class,
            requested_dataset=approval.asked.dataset,
            requested_capability=approval.asked.capability,
            dataset=approval.asked.dataset,
            dataset_version=approval.asked.dataset_version,
            revision=approval.asked.revision,
            capability=approval.asked.capability,
            template_digest=approval.asked.template_digest,
            root_jti=approval.root_jti,
            task_id=approval.task_id,
            trace_id=approval.trace_id,
        )

    return row
