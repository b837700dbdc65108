"""Verdicts, reasons and decisions.

A refusal is an outcome, not an error. Every reason belongs to exactly one verdict,
so a decision cannot claim ``GRANTED`` for a reason that refuses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from contract.ids import new_id
from contract.scope import Obligations


class Verdict(StrEnum):
    """What admission comes to. INDETERMINATE is unknown authority: neither a permission nor a refusal."""

    GRANTED = "GRANTED"
    REFUSED = "REFUSED"
    INDETERMINATE = "INDETERMINATE"


class Route(StrEnum):
    """Where a decision leads: a verdict, or to a person where approval is all that is missing. It grants nothing."""

    GRANTED = "GRANTED"
    GRANTED_REQUIRES_REVIEW = "GRANTED_REQUIRES_REVIEW"
    REFUSED = "REFUSED"
    INDETERMINATE = "INDETERMINATE"


class Reason(StrEnum):
    """Every reason code that can leave the system. Add here, in ``_INDETERMINATE`` where it is one, and in docs/reasons.md."""

    # admission
    PRINCIPAL_AUTHORIZED = "PRINCIPAL_AUTHORIZED"
    DESCRIPTOR_INVALID = "DESCRIPTOR_INVALID"
    PROHIBITED_OPERATION = "PROHIBITED_OPERATION"
    UNREGISTERED_CAPABILITY = "UNREGISTERED_CAPABILITY"
    SCHEMA_VERSION_MISMATCH = "SCHEMA_VERSION_MISMATCH"
    INSUFFICIENT_PRIVILEGE = "INSUFFICIENT_PRIVILEGE"
    CLASSIFICATION_EXCEEDS_CLEARANCE = "CLASSIFICATION_EXCEEDS_CLEARANCE"
    EFFECT_NOT_PERMITTED = "EFFECT_NOT_PERMITTED"
    FRESHNESS_UNSATISFIABLE = "FRESHNESS_UNSATISFIABLE"
    REVIEW_REQUIRED = "REVIEW_REQUIRED"
    COLUMN_NOT_PERMITTED = "COLUMN_NOT_PERMITTED"
    MISSING_DESCRIPTOR = "MISSING_DESCRIPTOR"
    UNKNOWN_POLICY_VERSION = "UNKNOWN_POLICY_VERSION"
    INSUFFICIENT_RETENTION = "INSUFFICIENT_RETENTION"
    EVALUATOR_UNAVAILABLE = "EVALUATOR_UNAVAILABLE"
    EVALUATOR_TIMEOUT = "EVALUATOR_TIMEOUT"
    MISSING_PRINCIPAL_ATTRIBUTE = "MISSING_PRINCIPAL_ATTRIBUTE"
    UNKNOWN_DATASET_REVISION = "UNKNOWN_DATASET_REVISION"
    UNKNOWN_PRINCIPAL = "UNKNOWN_PRINCIPAL"
    PRINCIPAL_ATTRIBUTE_CONFLICT = "PRINCIPAL_ATTRIBUTE_CONFLICT"
    # the call
    ARGUMENTS_INVALID = "ARGUMENTS_INVALID"
    CALL_MALFORMED = "CALL_MALFORMED"
    # approval
    APPROVAL_DENIED = "APPROVAL_DENIED"
    APPROVAL_EXPIRED = "APPROVAL_EXPIRED"
    APPROVAL_MISMATCH = "APPROVAL_MISMATCH"
    APPROVAL_ALREADY_DECIDED = "APPROVAL_ALREADY_DECIDED"
    # the grant
    NO_ACTIVE_GRANT = "NO_ACTIVE_GRANT"
    GRANT_MALFORMED = "GRANT_MALFORMED"
    GRANT_HEADER_INVALID = "GRANT_HEADER_INVALID"
    GRANT_ALGORITHM_NOT_ALLOWED = "GRANT_ALGORITHM_NOT_ALLOWED"
    GRANT_ISSUER_UNTRUSTED = "GRANT_ISSUER_UNTRUSTED"
    GRANT_KEY_UNTRUSTED = "GRANT_KEY_UNTRUSTED"
    GRANT_SIGNATURE_INVALID = "GRANT_SIGNATURE_INVALID"
    GRANT_CLAIMS_INVALID = "GRANT_CLAIMS_INVALID"
    GRANT_NOT_YET_VALID = "GRANT_NOT_YET_VALID"
    GRANT_EXPIRED = "GRANT_EXPIRED"
    GRANT_LIFETIME_EXCEEDED = "GRANT_LIFETIME_EXCEEDED"
    GRANT_CHAIN_BROKEN = "GRANT_CHAIN_BROKEN"
    GRANT_TOO_DEEP = "GRANT_TOO_DEEP"
    GRANT_WIDENED = "GRANT_WIDENED"
    GRANT_CONSTRAINT_UNKNOWN = "GRANT_CONSTRAINT_UNKNOWN"
    GRANT_AUDIENCE_MISMATCH = "GRANT_AUDIENCE_MISMATCH"
    GRANT_CLIENT_MISMATCH = "GRANT_CLIENT_MISMATCH"
    GRANT_OPERATION_MISMATCH = "GRANT_OPERATION_MISMATCH"
    GRANT_TENANT_UNKNOWN = "GRANT_TENANT_UNKNOWN"
    GRANT_REPLAYED = "GRANT_REPLAYED"
    GRANT_REVOKED = "GRANT_REVOKED"
    REPLAY_MEMORY_LOST = "REPLAY_MEMORY_LOST"
    STATE_UNAVAILABLE = "STATE_UNAVAILABLE"
    KEYS_UNAVAILABLE = "KEYS_UNAVAILABLE"
    # the limits of a caller
    RATE_LIMITED = "RATE_LIMITED"
    CONCURRENCY_LIMITED = "CONCURRENCY_LIMITED"
    # running and proving
    EXECUTION_FAILED = "EXECUTION_FAILED"
    EXECUTION_TIMEOUT = "EXECUTION_TIMEOUT"
    BUDGET_EXCEEDED = "BUDGET_EXCEEDED"
    RESULT_TOO_LARGE = "RESULT_TOO_LARGE"
    RESULT_INVALID = "RESULT_INVALID"
    RESULT_NOT_FOUND = "RESULT_NOT_FOUND"
    RESULT_STORE_UNAVAILABLE = "RESULT_STORE_UNAVAILABLE"
    EVIDENCE_UNAVAILABLE = "EVIDENCE_UNAVAILABLE"
    CANCELLED = "CANCELLED"
    # the asking side
    INTENT_NOT_UNDERSTOOD = "INTENT_NOT_UNDERSTOOD"
    ARGUMENTS_MISSING = "ARGUMENTS_MISSING"
    REMOTE_UNREACHABLE = "REMOTE_UNREACHABLE"
    REMOTE_UNAVAILABLE = "REMOTE_UNAVAILABLE"
    REMOTE_TIMEOUT = "REMOTE_TIMEOUT"
    REMOTE_RESPONSE_INVALID = "REMOTE_RESPONSE_INVALID"
    REMOTE_CARD_INVALID = "REMOTE_CARD_INVALID"
    REMOTE_PROVENANCE_INVALID = "REMOTE_PROVENANCE_INVALID"
    REMOTE_FAULT = "REMOTE_FAULT"


_INDETERMINATE = frozenset(
    {
        Reason.MISSING_DESCRIPTOR,
        Reason.UNKNOWN_POLICY_VERSION,
        Reason.INSUFFICIENT_RETENTION,
        Reason.EVALUATOR_UNAVAILABLE,
        Reason.EVALUATOR_TIMEOUT,
        Reason.MISSING_PRINCIPAL_ATTRIBUTE,
        Reason.UNKNOWN_DATASET_REVISION,
        Reason.UNKNOWN_PRINCIPAL,
        Reason.PRINCIPAL_ATTRIBUTE_CONFLICT,
        Reason.REPLAY_MEMORY_LOST,
        Reason.STATE_UNAVAILABLE,
        Reason.KEYS_UNAVAILABLE,
        Reason.RATE_LIMITED,
        Reason.CONCURRENCY_LIMITED,
        Reason.EXECUTION_FAILED,
        Reason.EXECUTION_TIMEOUT,
        Reason.RESULT_STORE_UNAVAILABLE,
        Reason.EVIDENCE_UNAVAILABLE,
        Reason.CANCELLED,
        Reason.INTENT_NOT_UNDERSTOOD,
        Reason.ARGUMENTS_MISSING,
        Reason.REMOTE_UNREACHABLE,
        Reason.REMOTE_UNAVAILABLE,
        Reason.REMOTE_TIMEOUT,
        Reason.REMOTE_RESPONSE_INVALID,
        Reason.REMOTE_CARD_INVALID,
        Reason.REMOTE_PROVENANCE_INVALID,
        Reason.REMOTE_FAULT,
    }
)


def verdict_of(reason: Reason) -> Verdict:
    """The one verdict a reason belongs to."""
    if reason is Reason.PRINCIPAL_AUTHORIZED:
        return Verdict.GRANTED
    return Verdict.INDETERMINATE if reason in _INDETERMINATE else Verdict.REFUSED


VERDICTS: Mapping[Reason, Verdict] = MappingProxyType({reason: verdict_of(reason) for reason in Reason})


@dataclass(frozen=True, slots=True)
class Decision:
    """What one policy decision point decided, and by which rule.

    ``policy_id`` names the policy that produced the decision and is ``None`` where none
    did; it is always ``None`` on INDETERMINATE. ``rationale`` is a sentence for people
    that holds no argument and no row.
    """

    reason: Reason
    policy_id: str | None
    policy_version: str
    rationale: str
    decision_id: str = field(default_factory=lambda: new_id("dec"))
    obligations: Obligations = field(default_factory=Obligations)

    def __post_init__(self) -> None:
        verdict = VERDICTS[self.reason]
        if verdict is Verdict.INDETERMINATE and self.policy_id is not None:
            raise ValueError("an INDETERMINATE decision names no policy")
        if verdict is Verdict.GRANTED and not self.policy_id:
            raise ValueError("a GRANTED decision names its policy")
        if not self.rationale:
            raise ValueError("a decision has a rationale")

    @property
    def verdict(self) -> Verdict:
        return VERDICTS[self.reason]

    @property
    def route(self) -> Route:
        """The verdict; to a person where every rule holds but that one must approve."""
        return Route.GRANTED_REQUIRES_REVIEW if self.reason is Reason.REVIEW_REQUIRED else Route(self.verdict)

    def public(self) -> dict[str, Any]:
        """The JSON form that crosses A2A, is printed and is recorded."""
        return {
            "verdict": self.verdict.value,
            "reason": self.reason.value,
            "policy_id": self.policy_id,
            "policy_version": self.policy_version,
            "decision_id": self.decision_id,
            "rationale": self.rationale,
        }


class NotGranted(Exception):
    """Raised where the request path stops: a reason that is not GRANTED, and one sentence.

    It carries an outcome, not a fault; the path turns it into a recorded decision.
    ``message`` holds no argument, row, token or policy text. ``retry_after_s`` is in how many
    seconds to try again, where that is known.
    """

    def __init__(
        self,
        reason: Reason,
        message: str,
        *,
        policy_id: str | None = None,
        policy_version: str = "",
        retry_after_s: float | None = None,
    ) -> None:
        if VERDICTS[reason] is Verdict.GRANTED:
            raise ValueError("NotGranted cannot carry a granting reason")
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.policy_id = policy_id
        self.policy_version = policy_version
        self.retry_after_s = retry_after_s

    def decision(self, policy_version: str) -> Decision:
        """The decision this stop amounts to, stamped with the policy version in force."""
        return Decision(
            reason=self.reason,
            policy_id=self.policy_id,
            policy_version=self.policy_version or policy_version,
            rationale=self.message,
        )
