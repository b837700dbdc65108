"""Who may approve a call of somebody else: the same rules and policies, asked about the action ``approve``.

An approver is another person than the requester, whatever any policy says (AD-POL-011). Beyond
that it is a decision like any: the person is known, of the dataset's tenant, permitted by the
policies, which see the capability's sensitivity and the entitlement ``approve``, and cleared for
what is shown to them. No capability may have that name (``control_plane.descriptor``).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from contract.verdict import Decision, NotGranted, Reason
from control_plane.admission import AdmissionRequest, admit, ask_policies, early, question_of
from control_plane.admission_rules import Review, Rule, case_of
from control_plane.descriptor import APPROVE, DatasetDescriptor, Effect
from control_plane.evaluator import Evaluator

SEPARATE: Final = Rule("the approver is not the requester", "AD-POL-011")


async def decide_approver(request: AdmissionRequest, requester: tuple[str, str], evaluator: Evaluator) -> Decision:
    """Whether ``request.principal`` may approve a call of ``request.capability`` that ``requester`` made.

    ``requester`` is (issuer, subject). GRANTED names the policy that permits ``approve``. What
    concerns running it (freshness, retention, the review itself) is not asked here.
    """
    asked = _about_approving(request)
    if (settled := early(asked)) is not None:
        return settled
    if asked.principal is not None and asked.principal.key == requester:
        stop = NotGranted(
            Reason.INSUFFICIENT_PRIVILEGE, "nobody approves a call of their own", policy_id=SEPARATE.policy_id
        )
        return replace(stop.decision(asked.policy_version), decision_id=asked.decision_id)
    return admit(asked, await ask_policies(evaluator, question_of(case_of(asked))))


def _about_approving(request: AdmissionRequest) -> AdmissionRequest:
    """The same dataset with the one capability ``approve``, as sensitive as what is to be approved."""
    descriptor = request.descriptor
    capability = descriptor.capability(request.capability) if isinstance(descriptor, DatasetDescriptor) else None
    if not isinstance(descriptor, DatasetDescriptor) or capability is None:
        return request
    asked = capability.model_copy(
        update={
            "name": APPROVE,
            "effect": Effect.READ,
            "policy_id": None,
            "freshness_requirement_s": None,
            "retention_requirement": None,
        }
    )
    described = descriptor.model_copy(update={"capabilities": (asked,), "prohibited": ()})
    return replace(request, capability=APPROVE, descriptor=described, review=Review.ELSEWHERE, max_age_s=None)
