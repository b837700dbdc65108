"""What is known so far about one request, which becomes its terminal row of evidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from contract.grant import VerifiedGrant
from contract.scope import Sensitivity
from contract.verdict import Decision, NotGranted
from evidence.checkpoint import Receipt
from evidence.row import Kind, LedgerRow, Side
from remote_agent.outcome import BoundCall, Found, Request, Supplied


@dataclass(slots=True)
class Trail:
    """What is known so far about one request; it becomes the terminal evidence row.

    ``recorded`` says that the row is being written, or was tried; with ``receipt`` it is. With
    ``refreshes`` it is of what ran behind the answer of that decision, for whoever asks next. ``approved_by`` is the
    decision of the approval that was used.
    """

    request: Request
    grant: VerifiedGrant | None = None
    call: BoundCall | None = None
    decision: Decision | None = None
    supplied: Supplied | None = None
    found: Found | None = None
    recorded: bool = False
    receipt: Receipt | None = None
    refreshes: Decision | None = None
    approved_by: str | None = None

    @property
    def is_restricted(self) -> bool:
        """Whether it asks a restricted capability, as far as is known."""
        capability = self.call.capability if self.call else None
        return capability is not None and capability.descriptor.sensitivity is Sensitivity.RESTRICTED

    def row(self, agent_id: str, now: float, *, withdrawn: Decision | None = None) -> LedgerRow:
        """The terminal row of this request as far as it came: ids, codes and digests only.

        With ``withdrawn``, a decision whose terminal row is written already, the row that says
        that nothing was released after it.
        """
        if self.decision is None:
            raise ValueError("a terminal row needs a decision")
        cause = withdrawn or self.refreshes
        return LedgerRow(
            kind=Kind.BLOCKED if withdrawn else Kind.CACHE_REFRESHED if self.refreshes else Kind.TERMINAL,
            caused_by=cause.decision_id if cause else self.approved_by,
            side=Side.REMOTE,
            recorded_at=now,
            agent_id=agent_id,
            client=self.request.client,
            request_id=self.request.request_id,
            trace_id=self.trace_id,
            **LedgerRow.decided(self.decision),
            **self._asked(),
            **self._resolved(),
            **LedgerRow.granted(self.grant, self.call.principal.principal_class if self.call else None),
            **self._ran(),
            task_id=self.request.task_id or None,
            upstream_digest=self.supplied.digest if self.supplied else None,
        )

    def ids(self) -> dict[str, str]:
        """What it may be called in a log line and in a span."""
        told = {"request_id": self.request.request_id, "trace_id": self.trace_id, "task_id": self.request.task_id}
        return {name: value for name, value in told.items() if value}

    @property
    def trace_id(self) -> str | None:
        """The root's trace where its grant names one, so that one id joins both ledgers."""
        stated = self.grant.rctx.get("trace_id") if self.grant else None
        return str(stated or self.request.trace_id) or None

    def _asked(self) -> dict[str, Any]:
        try:
            call = self.call.call if self.call else self.request.parsed_call()
        except NotGranted:  # nothing readable was asked for
            return {}
        return {
            "requested_dataset": call.dataset,
            "requested_capability": call.capability,
            "call_hash": call.call_hash,
        }

    def _resolved(self) -> dict[str, Any]:
        if self.call is None or self.call.served is None:
            return {}
        descriptor, capability = self.call.served.descriptor, self.call.capability
        return {
            "dataset": descriptor.dataset,
            "dataset_version": descriptor.version,
            "revision": descriptor.revision,
            "schema_version": descriptor.schema_version,
            "capability": self.call.call.capability if capability else None,
            "template_digest": capability.template.digest if capability else None,
        }

    def _ran(self) -> dict[str, Any]:
        found = self.found
        if found is None:
            return {}
        return {
            "result_digest": found.document.digest,
            "rows_returned": found.document.row_count,
            "cache": found.cache.outcome,
            "derived": 1 if found.cache.derived else None,
            "execution_id": found.execution.execution_id,
            "tool_origin": "A2A" if self.supplied else found.execution.tool_origin,
            "session_id": found.run.session_id,
            "invocation_id": found.run.invocation_id,
            "event_ids": (found.run.function_call_id,) if found.run.function_call_id else (),
        }
