"""The rules of admission as values in one fixed order; ``admission`` documents and walks them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Final

from contract.ids import new_id
from contract.principal import Principal
from contract.verdict import VERDICTS, Reason, Verdict
from control_plane.descriptor import DatasetCapability, DatasetDescriptor, Effect
from control_plane.policy import Outcome, PolicyAnswer
from control_plane.registry import InvalidDataset

EFFECTS_ATTRIBUTE: Final = "effects"
NOT_REGISTERED: Final = "no dataset of this name is registered here"
_FREE_EFFECTS: Final = frozenset({Effect.READ, Effect.COMPUTE})


class Review(StrEnum):
    """What is known of a person's approval: none yet, given for this very call, or another agent's to ask for."""

    OUTSTANDING = "outstanding"
    GIVEN = "given"
    ELSEWHERE = "elsewhere"


@dataclass(frozen=True, slots=True)
class EvaluatorFailure:
    """Why there is no answer: EVALUATOR_UNAVAILABLE or EVALUATOR_TIMEOUT."""

    reason: Reason

    def __post_init__(self) -> None:
        if self.reason not in (Reason.EVALUATOR_UNAVAILABLE, Reason.EVALUATOR_TIMEOUT):
            raise ValueError("an evaluator fails by being unavailable or late")


@dataclass(frozen=True, slots=True)
class AdmissionRequest:
    """Everything a decision depends on but the policies.

    ``principal`` and ``descriptor`` are this service's own, ``None`` where it knows none.
    ``policy_version`` is the one in force here. The ``stated_*`` members and
    ``schema_version`` are what the asking side says it relied on, ``None`` where it says
    nothing; ``accepted_policy_versions`` is ``None`` where every version is accepted.
    ``max_age_s`` is the oldest data the asker takes, in seconds; ``now`` is POSIX seconds. ``review`` is what is
    known of the approval that a capability with ``requires_review`` needs: the root agent leaves it to the dataset agent.
    """

    principal: Principal | None
    dataset: str
    capability: str
    descriptor: DatasetDescriptor | InvalidDataset | None
    policy_version: str
    now: float
    stated_dataset_version: str | None = None
    stated_revision: str | None = None
    stated_policy_version: str | None = None
    accepted_policy_versions: frozenset[str] | None = None
    schema_version: str | None = None
    max_age_s: float | None = None
    review: Review = Review.OUTSTANDING
    decision_id: str = field(default_factory=partial(new_id, "dec"))


@dataclass(frozen=True, slots=True)
class Case:
    """A request about a known person, a valid dataset and a registered capability."""

    request: AdmissionRequest
    principal: Principal
    descriptor: DatasetDescriptor
    capability: DatasetCapability


@dataclass(frozen=True, slots=True)
class Stop:
    """Where a rule ends the matter. ``policy_id`` is ``None`` on INDETERMINATE."""

    reason: Reason
    rationale: str
    policy_id: str | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule's name, and the policy id under which it refuses (``None``: it never refuses)."""

    name: str
    policy_id: str | None
    asks_policies: bool = False

    def stop(self, reason: Reason, rationale: str, policy_id: str | None = None) -> Stop:
        if VERDICTS[reason] is Verdict.INDETERMINATE:
            return Stop(reason, rationale)
        return Stop(reason, rationale, policy_id or self.policy_id)


Finding = tuple[Reason, str] | None

PRINCIPAL: Final = Rule("the principal is known", None)
REGISTERED: Final = Rule("the dataset is registered", "AD-POL-001")
VALID: Final = Rule("the descriptor is valid", "AD-POL-002")
PROHIBITED: Final = Rule("the operation is not prohibited", "AD-POL-004")
CAPABILITY: Final = Rule("the capability is registered", "AD-POL-003")
REVISION: Final = Rule("the revision is current", None)
POLICY_VERSION: Final = Rule("the policy version is accepted", None)
SCHEMA: Final = Rule("the schema version is the same", "AD-POL-007")
ENTITLEMENT: Final = Rule("the policies permit it", "AD-POL-005", asks_policies=True)
CLEARANCE: Final = Rule("the sensitivity is within clearance", "AD-POL-006")
EFFECT: Final = Rule("the effect is held", "AD-POL-009")
FRESHNESS: Final = Rule("the data are fresh enough", "AD-POL-008")
RETENTION: Final = Rule("the retention is sufficient", None)
REVIEW: Final = Rule("no review is outstanding", "AD-POL-010")
RULES: Final = (
    PRINCIPAL,
    REGISTERED,
    VALID,
    PROHIBITED,
    CAPABILITY,
    REVISION,
    POLICY_VERSION,
    SCHEMA,
    ENTITLEMENT,
    CLEARANCE,
    EFFECT,
    FRESHNESS,
    RETENTION,
    REVIEW,
)


def before_policies(request: AdmissionRequest) -> Iterator[tuple[Rule, Stop | None]]:
    """Each rule that needs no policy's answer, with its stop; the reader leaves at the first stop."""
    for rule, judge in _OF_REQUEST:
        yield rule, _stop(rule, judge(request))
    case = case_of(request)
    for rule, judge_case in _OF_WORLD:
        yield rule, _stop(rule, judge_case(case))


def with_policies(case: Case, answer: PolicyAnswer | EvaluatorFailure) -> Iterator[tuple[Rule, Stop | None]]:
    """The remaining rules, for a request that got past the first ones."""
    yield ENTITLEMENT, _entitlement(case, answer)
    for rule, judge in _OF_CASE:
        yield rule, _stop(rule, judge(case))


def case_or_stop(request: AdmissionRequest) -> Case | Stop:
    """What rules 1 to 8 leave: the case that the policies are asked about, or where one of them ends the matter."""
    for rule, judge in _OF_REQUEST:
        if (finding := judge(request)) is not None:
            return rule.stop(*finding)
    case = case_of(request)
    for rule, judge_case in _OF_WORLD:
        if (finding := judge_case(case)) is not None:
            return rule.stop(*finding)
    return case


def stop_of(case: Case, answer: PolicyAnswer | EvaluatorFailure) -> Stop | None:
    """Where rule 9, with what the policies answered, or a later one ends the matter; ``None`` where all hold."""
    if (stop := _entitlement(case, answer)) is not None:
        return stop
    for rule, judge in _OF_CASE:
        if (finding := judge(case)) is not None:
            return rule.stop(*finding)
    return None


def case_of(request: AdmissionRequest) -> Case:
    """Raises ``LookupError`` for a request that rules 1 to 5 stop."""
    descriptor = request.descriptor
    if request.principal is None or not isinstance(descriptor, DatasetDescriptor):
        raise LookupError("the request is about no known person or dataset")
    capability = descriptor.capability(request.capability)
    if capability is None:
        raise LookupError("the request is about no registered capability")
    return Case(request, request.principal, descriptor, capability)


def _stop(rule: Rule, finding: Finding) -> Stop | None:
    return None if finding is None else rule.stop(*finding)


def _principal(request: AdmissionRequest) -> Finding:
    if request.principal is None:
        return Reason.UNKNOWN_PRINCIPAL, "the directory knows no principal of this identity"
    return None


def _registered(request: AdmissionRequest) -> Finding:
    if request.descriptor is None or request.descriptor.dataset != request.dataset:
        return Reason.MISSING_DESCRIPTOR, NOT_REGISTERED
    return None


def _valid(request: AdmissionRequest) -> Finding:
    if isinstance(request.descriptor, InvalidDataset):
        return Reason.DESCRIPTOR_INVALID, "the dataset's descriptor is not valid; its publisher must repair it"
    return None


def _prohibited(request: AdmissionRequest) -> Finding:
    descriptor = request.descriptor
    if isinstance(descriptor, DatasetDescriptor) and request.capability in descriptor.prohibited:
        return Reason.PROHIBITED_OPERATION, f"{descriptor.dataset} prohibits this operation for everyone"
    return None


def _capability(request: AdmissionRequest) -> Finding:
    descriptor = request.descriptor
    if isinstance(descriptor, DatasetDescriptor) and descriptor.capability(request.capability) is None:
        return Reason.UNREGISTERED_CAPABILITY, f"{descriptor.dataset} registers no capability of this name"
    return None


def _revision(case: Case) -> Finding:
    request, descriptor = case.request, case.descriptor
    if request.stated_revision not in (None, descriptor.revision):
        return Reason.UNKNOWN_DATASET_REVISION, "the stated dataset revision is not the current revision here"
    if request.stated_dataset_version not in (None, descriptor.version):
        return Reason.UNKNOWN_DATASET_REVISION, "the stated dataset version has no current revision here"
    return None


def _policy_version(case: Case) -> Finding:
    accepted, stated = case.request.accepted_policy_versions, case.request.stated_policy_version
    if accepted is not None and stated is not None and stated not in accepted:
        return Reason.UNKNOWN_POLICY_VERSION, "the stated policy version is not one that is accepted here"
    return None


def _schema(case: Case) -> Finding:
    if case.request.schema_version not in (None, case.descriptor.schema_version):
        return Reason.SCHEMA_VERSION_MISMATCH, "the expected schema version is not the dataset's"
    return None


def _entitlement(case: Case, answer: PolicyAnswer | EvaluatorFailure) -> Stop | None:
    if isinstance(answer, EvaluatorFailure):
        late = answer.reason is Reason.EVALUATOR_TIMEOUT
        why = "did not answer within its budget" if late else "could not be reached or understood"
        return ENTITLEMENT.stop(answer.reason, f"the policy evaluator {why}")
    if answer.outcome is not Outcome.PERMIT:
        return _unpermitted(case, answer)
    if (stop := _of_another_tenant(case)) is not None:
        return stop
    if case.capability.policy_id not in (None, answer.policy_id):
        name, dataset, governing = case.capability.name, case.descriptor.dataset, case.capability.policy_id
        governed = f"policy {governing} governs {name} on {dataset} and does not permit it"
        return ENTITLEMENT.stop(Reason.INSUFFICIENT_PRIVILEGE, governed)
    return None


def _unpermitted(case: Case, answer: PolicyAnswer) -> Stop:
    """What any answer but a permit comes to: a refusal only where a policy forbids, or none permits."""
    name, dataset = case.capability.name, case.descriptor.dataset
    if answer.outcome is Outcome.MISSING_ATTRIBUTE:
        names = f" ({', '.join(answer.attributes)})" if answer.attributes else ""
        missing = f"a policy reads an attribute that the directory does not hold for the principal{names}"
        return ENTITLEMENT.stop(Reason.MISSING_PRINCIPAL_ATTRIBUTE, missing)
    if answer.outcome is Outcome.FORBID:
        forbidden = f"policy {answer.policy_id} forbids {name} on {dataset} to this principal"
        return ENTITLEMENT.stop(Reason.INSUFFICIENT_PRIVILEGE, forbidden, answer.policy_id)
    if (stop := _of_another_tenant(case)) is not None:
        return stop
    if answer.outcome is Outcome.NONE:
        refused = f"no policy permits {name} on {dataset} to this principal"
        return ENTITLEMENT.stop(Reason.INSUFFICIENT_PRIVILEGE, refused)
    return ENTITLEMENT.stop(Reason.EVALUATOR_UNAVAILABLE, "the policies could not be evaluated")


def _of_another_tenant(case: Case) -> Stop | None:
    if case.principal.tenant != case.descriptor.tenant:
        return ENTITLEMENT.stop(Reason.INSUFFICIENT_PRIVILEGE, f"{case.descriptor.dataset} belongs to another tenant")
    return None


def _clearance(case: Case) -> Finding:
    sensitivity, clearance = case.capability.sensitivity, case.principal.clearance
    if not sensitivity.within(clearance):
        over = f"{case.capability.name} is {sensitivity.value} and the principal is cleared for {clearance.value}"
        return Reason.CLASSIFICATION_EXCEEDS_CLEARANCE, over
    return None


def _effect(case: Case) -> Finding:
    effect = case.capability.effect
    if effect in _FREE_EFFECTS:
        return None
    held = case.principal.attributes.get(EFFECTS_ATTRIBUTE)
    if isinstance(held, tuple) and effect.value in held:
        return None
    return Reason.EFFECT_NOT_PERMITTED, f"the principal does not hold the effect {effect.value}"


def is_fresh(case: Case) -> bool:
    """Whether the data are young enough for who asks and for the capability: all that hangs on the time."""
    asked, required = case.request.max_age_s, case.capability.freshness_requirement_s
    if asked is None and required is None:
        return True
    age = case.descriptor.age_s(case.request.now)
    return all(age <= limit for limit in (asked, required) if limit is not None)


def _freshness(case: Case) -> Finding:
    if not is_fresh(case):
        return Reason.FRESHNESS_UNSATISFIABLE, f"{case.descriptor.dataset} is older than the request allows"
    return None


def _retention(case: Case) -> Finding:
    for kind, needed in (case.capability.retention_requirement or {}).items():
        if case.descriptor.retention.get(kind, -1) < needed:
            short = f"{case.descriptor.dataset} cannot show the retention of {kind} that the capability requires"
            return Reason.INSUFFICIENT_RETENTION, short
    return None


def _review(case: Case) -> Finding:
    if case.capability.requires_review and case.request.review is Review.OUTSTANDING:
        return Reason.REVIEW_REQUIRED, f"{case.capability.name} needs a person's approval before it may run"
    return None


_OF_REQUEST: Final[tuple[tuple[Rule, Callable[[AdmissionRequest], Finding]], ...]] = (
    (PRINCIPAL, _principal),
    (REGISTERED, _registered),
    (VALID, _valid),
    (PROHIBITED, _prohibited),
    (CAPABILITY, _capability),
)
_OF_WORLD: Final[tuple[tuple[Rule, Callable[[Case], Finding]], ...]] = (
    (REVISION, _revision),
    (POLICY_VERSION, _policy_version),
    (SCHEMA, _schema),
)
_OF_CASE: Final[tuple[tuple[Rule, Callable[[Case], Finding]], ...]] = (
    (CLEARANCE, _clearance),
    (EFFECT, _effect),
    (FRESHNESS, _freshness),
    (RETENTION, _retention),
    (REVIEW, _review),
)
