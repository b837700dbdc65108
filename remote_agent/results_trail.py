"""The rows of one request for a stored result: that its release starts, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from contract.authority import Authority
from contract.grant import VerifiedGrant
from contract.scope import Sensitivity
from contract.verdict import Decision
from evidence.row import Kind, LedgerRow, Side
from remote_agent.outcome import Request
from remote_agent.service import Service
from remote_agent.spool import Held


@dataclass(slots=True)
class ReleaseTrail:
    """What is known so far of one request for a result; it becomes its rows."""

    request: Request
    grant: VerifiedGrant | None = None
    held: Held | None = None
    authority: Authority | None = None
    unsatisfiable: bool = False

    @property
    def trace_id(self) -> str | None:
        stated = self.grant.rctx.get("trace_id") if self.grant else None
        return str(stated or self.request.trace_id) or None

    @property
    def is_restricted(self) -> bool:
        """Whether the result is of a restricted capability, as far as is known."""
        return self.held is not None and self.held.terms.authority.sensitivity is Sensitivity.RESTRICTED

    def ids(self) -> dict[str, str]:
        """What it may be called in a log line and in a span."""
        task = self.request.operation.task if self.held else None  # until then it is what somebody sent
        told = {"request_id": self.request.request_id, "trace_id": self.trace_id, "task_id": task}
        return {name: value for name, value in told.items() if value}

    def row(self, decision: Decision, service: Service, kind: Kind, released: int | None) -> LedgerRow:
        request = self.request
        return LedgerRow(
            kind=kind,
            side=Side.REMOTE,
            recorded_at=service.clock(),
            agent_id=service.agent_id,
            client=request.client,
            request_id=request.request_id,
            trace_id=self.trace_id,
            task_id=request.operation.task,
            bytes_released=released,
            **LedgerRow.decided(decision),
            **LedgerRow.granted(self.grant, self.authority.principal.principal_class if self.authority else None),
            **self._held(),
        )

    def _held(self) -> dict[str, Any]:
        if self.held is None:
            return {}
        made = self.held.terms.authority
        return {
            "caused_by": made.decision.decision_id,
            "dataset": made.dataset,
            "dataset_version": made.dataset_version,
            "revision": made.revision,
            "schema_version": made.schema_version,
            "capability": made.capability,
            "template_digest": self.held.terms.template_digest,
            "result_digest": self.held.result.digest,
        }
