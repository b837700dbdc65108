"""A remote's reply as a typed outcome. Not yet verified: ``receipt.py`` does that before a row is shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from contract.result import StoredResult
from contract.verdict import VERDICTS, NotGranted, Reason, Verdict


class Outcome(StrEnum):
    """How a remote answered. Only ``COMPLETED`` may carry rows; ``REVIEW`` waits for a person there."""

    COMPLETED = "COMPLETED"
    REVIEW = "GRANTED_REQUIRES_REVIEW"
    REFUSED = "REFUSED"
    INDETERMINATE = "INDETERMINATE"


@dataclass(frozen=True, slots=True)
class RemoteDecision:
    """What the remote says it decided. Unsigned on a refusal: recorded and shown, never trusted."""

    reason: Reason
    policy_id: str | None
    policy_version: str
    decision_id: str
    rationale: str

    @property
    def verdict(self) -> Verdict:
        return VERDICTS[self.reason]

    def to_json(self) -> dict[str, Any]:
        return {
            "verdict": self.verdict.value,
            "reason": self.reason.value,
            "policy_id": self.policy_id,
            "policy_version": self.policy_version,
            "decision_id": self.decision_id,
            "rationale": self.rationale,
        }


@dataclass(frozen=True, slots=True)
class Reply:
    """One reply. ``body`` are the result bytes as received, ``envelope`` the DSSE JSON beside them.

    ``stored`` stands in place of ``body`` where the bytes are to be fetched.

    ``reason`` is set unless COMPLETED: the remote's own where it gave a readable decision,
    else one of ``REMOTE_*``. ``review`` tells of the approval that its task waits for; it grants nothing.
    """

    outcome: Outcome
    task_id: str = ""
    reason: Reason | None = None
    message: str = ""
    decision: RemoteDecision | None = None
    receipt: Mapping[str, Any] | None = None
    error: Mapping[str, Any] | None = None
    proposal: Mapping[str, Any] | None = None
    review: Mapping[str, Any] | None = None
    body: bytes = field(default=b"", repr=False)
    stored: StoredResult | None = None
    envelope: Mapping[str, Any] | None = field(default=None, repr=False)

    @property
    def codes(self) -> dict[str, str | None]:
        """What may be told of it anywhere: how it ended, and the reason."""
        return {"remote__outcome": self.outcome.value, "remote__reason": self.reason.value if self.reason else None}

    @classmethod
    def failed(cls, reason: Reason, message: str, *, task_id: str = "") -> Reply:
        """An INDETERMINATE reply in place of one that never came or cannot be read."""
        return cls(outcome=Outcome.INDETERMINATE, reason=reason, message=message, task_id=task_id)


def stop_of(reply: Reply) -> NotGranted:
    """The stop a reply without rows amounts to."""
    decision = reply.decision if reply.outcome in (Outcome.REFUSED, Outcome.REVIEW) else None
    return NotGranted(
        reply.reason or Reason.REMOTE_RESPONSE_INVALID,
        reply.message or "the dataset agent gave no reason",
        policy_id=decision.policy_id if decision else None,
        policy_version=decision.policy_version if decision else "",
    )
