"""Admission: one decision, by rules in a fixed order, each with its own policy id.

The order (the first rule that stops wins):

==  ==========================  ===========  =================================
 1  the principal is known      –            UNKNOWN_PRINCIPAL
 2  the dataset is registered   AD-POL-001   MISSING_DESCRIPTOR
 3  its descriptor is valid     AD-POL-002   DESCRIPTOR_INVALID
 4  nothing prohibited          AD-POL-004   PROHIBITED_OPERATION
 5  a registered capability     AD-POL-003   UNREGISTERED_CAPABILITY
 6  a current revision          –            UNKNOWN_DATASET_REVISION
 7  an accepted policy version  –            UNKNOWN_POLICY_VERSION
 8  the same schema             AD-POL-007   SCHEMA_VERSION_MISMATCH
 9  entitled, by policy         AD-POL-005   INSUFFICIENT_PRIVILEGE
10  within clearance            AD-POL-006   CLASSIFICATION_EXCEEDS_CLEARANCE
11  an effect that is held      AD-POL-009   EFFECT_NOT_PERMITTED
12  fresh enough                AD-POL-008   FRESHNESS_UNSATISFIABLE
13  retained long enough        –            INSUFFICIENT_RETENTION
14  no review outstanding       AD-POL-010   REVIEW_REQUIRED
==  ==========================  ===========  =================================

Rule 9 asks the policies: a matching forbid refuses under its own id, a permit grants under
its own, no match is AD-POL-005. An evaluator that fails, is late, or misses an attribute
of the principal is INDETERMINATE. An INDETERMINATE decision names no policy. Rule 14 is the last: where it
stops, every other rule holds, and the decision's route is GRANTED_REQUIRES_REVIEW.

``admit`` is pure: equal inputs, equal decision. No model, no IO and no clock is in reach.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from contract.tracing import tracing
from contract.verdict import Decision, Reason
from control_plane.admission_rules import (
    AdmissionRequest,
    Case,
    EvaluatorFailure,
    Review,
    Rule,
    Stop,
    before_policies,
    case_of,
    case_or_stop,
    stop_of,
    with_policies,
)
from control_plane.evaluator import Evaluator, EvaluatorTimeout, EvaluatorUnavailable, InProcessEvaluator
from control_plane.policy import PolicyAnswer, PolicyRequest

__all__ = [
    "AdmissionRequest",
    "EvaluatorFailure",
    "Review",
    "RuleOutcome",
    "admit",
    "ask_policies",
    "decide",
    "early",
    "explain",
    "question_of",
]


@dataclass(frozen=True, slots=True)
class RuleOutcome:
    """One line of an explanation: the rule, and the rationale where it stopped."""

    rule: str
    policy_id: str | None
    passed: bool
    rationale: str


def admit(request: AdmissionRequest, answer: PolicyAnswer | EvaluatorFailure) -> Decision:
    """The decision on a request, given what the policies answered."""
    case = case_or_stop(request)
    return _stopped(request, case, request.policy_version) if isinstance(case, Stop) else _judged(case, answer)


async def decide(request: AdmissionRequest, evaluator: Evaluator) -> Decision:
    """``admit`` with the evaluator's answer; rules 1 to 8 are settled without asking it.

    Never raises for what an evaluator does: whatever it throws is unknown authority. What the
    policy set of this process granted before is not judged again (``admission_memo``).
    """
    granted = evaluator.granted if isinstance(evaluator, InProcessEvaluator) else None
    known = granted.find(request) if granted is not None else None
    if known is not None:
        return known
    case = case_or_stop(request)
    if isinstance(case, Stop):
        return _stopped(request, case, request.policy_version)
    decision = _judged(case, await ask_policies(evaluator, question_of(case)))
    if granted is not None:
        granted.keep(request, decision)
    return decision


def explain(request: AdmissionRequest, answer: PolicyAnswer | EvaluatorFailure) -> tuple[RuleOutcome, ...]:
    """Every rule in order, up to and with the one that decided."""
    outcomes: list[RuleOutcome] = []
    for rule, stop in _all_rules(request, answer):
        if stop is not None:
            outcomes.append(RuleOutcome(rule.name, stop.policy_id, False, stop.rationale))
            break
        permitting = answer.policy_id if rule.asks_policies and isinstance(answer, PolicyAnswer) else None
        outcomes.append(RuleOutcome(rule.name, permitting or rule.policy_id, True, ""))
    return tuple(outcomes)


def question_of(case: Case) -> PolicyRequest:
    """What the policies are asked about a case."""
    capability, descriptor = case.capability, case.descriptor
    return PolicyRequest(
        case.principal,
        descriptor.dataset,
        capability.name,
        capability.effect,
        capability.sensitivity,
        descriptor.tenant,
        capability.policy_id,
    )


async def ask_policies(evaluator: Evaluator, question: PolicyRequest) -> PolicyAnswer | EvaluatorFailure:
    """The evaluator's answer, or why there is none; whatever it throws is unknown authority."""
    try:
        with tracing("policy.evaluate", private=True):  # whether it was asked says whether somebody asked before
            return await evaluator.evaluate(question)
    except EvaluatorTimeout:
        return EvaluatorFailure(Reason.EVALUATOR_TIMEOUT)
    except EvaluatorUnavailable:
        return EvaluatorFailure(Reason.EVALUATOR_UNAVAILABLE)
    except Exception:
        # An evaluator with a bug ends in INDETERMINATE too, not in a fault that a caller might retry around.
        return EvaluatorFailure(Reason.EVALUATOR_UNAVAILABLE)


def _all_rules(
    request: AdmissionRequest, answer: PolicyAnswer | EvaluatorFailure
) -> Iterator[tuple[Rule, Stop | None]]:
    yield from before_policies(request)
    yield from with_policies(case_of(request), answer)


def early(request: AdmissionRequest) -> Decision | None:
    """The decision where one of rules 1 to 8 makes it: no policy is asked then."""
    case = case_or_stop(request)
    return _stopped(request, case, request.policy_version) if isinstance(case, Stop) else None


def _judged(case: Case, answer: PolicyAnswer | EvaluatorFailure) -> Decision:
    request = case.request
    stop = stop_of(case, answer)
    if stop is not None:
        version = answer.policy_version if isinstance(answer, PolicyAnswer) else request.policy_version
        return _stopped(request, stop, version)
    if not isinstance(answer, PolicyAnswer):
        raise TypeError("a request past every rule has an answer")
    return Decision(
        reason=Reason.PRINCIPAL_AUTHORIZED,
        policy_id=answer.policy_id,
        policy_version=answer.policy_version,
        rationale=f"policy {answer.policy_id} permits {case.capability.name} on {case.descriptor.dataset}",
        decision_id=request.decision_id,
        obligations=answer.obligations,
    )


def _stopped(request: AdmissionRequest, stop: Stop, policy_version: str) -> Decision:
    return Decision(
        reason=stop.reason,
        policy_id=stop.policy_id,
        policy_version=policy_version,
        rationale=stop.rationale,
        decision_id=request.decision_id,
    )
