"""An approval for those who decide about it: one line without an argument, or the whole."""

from __future__ import annotations

from typing import Any

from approvals.approval import Approval, State, digest_of
from control_plane.principals import Directory
from evidence.row import rfc3339


def waits(approval: Approval, now: float) -> bool:
    return approval.state is State.PENDING and not approval.is_over(now)


def line(approval: Approval, directory: Directory, now: float) -> dict[str, Any]:
    over = approval.state in (State.PENDING, State.APPROVED) and approval.is_over(now)
    return {
        "id": approval.id,
        "state": "expired" if over else approval.state.value,
        "dataset": approval.asked.dataset,
        "capability": approval.asked.capability,
        "requester": _name(directory, *approval.requester.person),
        "client": approval.requester.client,
        "created_at": rfc3339(approval.created),
        "expires_at": rfc3339(approval.expires),
    }


def whole(approval: Approval, directory: Directory, now: float) -> dict[str, Any]:
    ruling, asked = approval.ruling, approval.asked
    decided = None
    if ruling is not None:
        decided = {
            "approver": _name(directory, ruling.issuer, ruling.subject),
            "at": rfc3339(ruling.at),
            "why": ruling.why,
            "decision_id": ruling.decision_id,
            "policy_id": ruling.policy_id,
            "policy_version": ruling.policy_version,
        }
    return {
        **line(approval, directory, now),
        "dataset_version": asked.dataset_version,
        "revision": asked.revision,
        "template_digest": asked.template_digest,
        "arguments": dict(asked.arguments),
        "approved_arguments": None if approval.edited is None else dict(approval.edited),
        "arguments_digest": digest_of(approval.arguments),
        "issuer": approval.requester.issuer,
        "subject": approval.requester.subject,
        "tenant": approval.requester.tenant,
        "task_id": approval.task_id,
        "request_id": approval.request_id,
        "invocation_id": approval.invocation_id,
        "decision_id": approval.decision_id,
        "root_jti": approval.root_jti,
        "trace_id": approval.trace_id,
        "decided": decided,
    }


def _name(directory: Directory, issuer: str, subject: str) -> str:
    """The directory's label; the identity itself of who is not in it any more."""
    found = directory.find(issuer, subject)
    return f"{issuer}#{subject}" if found is None else found.name
