"""What a person is told who was not admitted: of what is hidden from them, nothing but what they said themselves.

A dataset is *hidden* from a person where no public card shows it and the directory gives them
nothing in it. Whether it exists, as which version, who serves it and what it takes is then not
theirs to learn. A *capability* is hidden where its agent's public card shows the dataset without it, and the
directory does not give it to the person: what it takes, and which values that may have, is not theirs either. All of
that follows from the person, the names they asked for and the public cards alone, so that what is
hidden and a name that nobody uses are treated by the same lines. The ledger has the true decision.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from contract.verdict import Decision, NotGranted, Reason, Verdict
from control_plane.admission_rules import CAPABILITY, NOT_REGISTERED
from control_plane.descriptor import DatasetDescriptor
from root_agent.asking import Asking, Target
from root_agent.wanted import TypedCall

_RECORDED: Final = ("record_refusal", "record_indeterminate")
_OF_ANY_NAME: Final = frozenset(
    {Reason.PROHIBITED_OPERATION, Reason.DESCRIPTOR_INVALID, Reason.UNREGISTERED_CAPABILITY}
)
"""Reasons that a dataset has for names of capabilities, whether it has one of that name or not."""


def outward(asking: Asking, decision: Decision, policy_version: str, *, opaque: bool) -> tuple[Asking, Decision]:
    """An asking that ended, and its decision, as the person may see them.

    ``opaque`` also gives the one answer that an unknown name gets.
    ``policy_version`` is the root's own.
    """
    call = asking.target.call if asking.target else asking.wanted.call
    if call is None or asking.attempts or _was_admitted(asking, decision):
        return asking, decision
    veiled = opaque and asking.principal is not None
    # As it was said: the bounds that a period stands for are of a capability that has one.
    said = Target(asking.wanted.call or call, None, None)
    if _is_hidden(asking, call.dataset):
        if veiled:
            return _unknown(asking, decision, said, policy_version)
        return (asking if asking.target is None else replace(asking, target=said)), decision
    if asking.target is None or not _hides(asking, call):
        return asking, decision
    shown = replace(asking, target=replace(said, agent_id=asking.target.agent_id, descriptor=asking.target.descriptor))
    if veiled and decision.reason not in _OF_ANY_NAME:
        return _unregistered(shown, decision, call.dataset, policy_version)
    return shown, decision


def _was_admitted(asking: Asking, decision: Decision) -> bool:
    """Whether the root itself granted the call, also where it then asks for what the words do not say."""
    granted = asking.admitted is not None and asking.admitted.verdict is Verdict.GRANTED
    return granted or decision.verdict is Verdict.GRANTED or decision.reason is Reason.ARGUMENTS_MISSING


def _is_hidden(asking: Asking, dataset: str) -> bool:
    entitled = asking.principal is not None and bool(asking.principal.entitlements.get(dataset))
    return not entitled and not any(offer.dataset == dataset and offer.public is not None for offer in asking.offered)


def _hides(asking: Asking, call: TypedCall) -> bool:
    """Whether the capability, if there is one of this name, is on no public card and not the person's."""
    if asking.principal is not None and asking.principal.holds(call.dataset, call.capability):
        return False
    shown = [offer.public for offer in asking.offered if offer.dataset == call.dataset]
    return not any(isinstance(card, DatasetDescriptor) and card.capability(call.capability) for card in shown)


def _unknown(asking: Asking, decision: Decision, target: Target, policy_version: str) -> tuple[Asking, Decision]:
    """The answer about a dataset that nobody uses; which agents were asked for their cards would tell who serves it."""
    stop = NotGranted(Reason.MISSING_DESCRIPTOR, NOT_REGISTERED)
    ended, told = _told_as(stop, asking, decision, policy_version, node="record_indeterminate")
    return replace(ended, target=target, unavailable=()), told


def _unregistered(asking: Asking, decision: Decision, dataset: str, policy_version: str) -> tuple[Asking, Decision]:
    """The answer about a capability that the dataset does not have."""
    rationale = f"{dataset} registers no capability of this name"
    stop = NotGranted(Reason.UNREGISTERED_CAPABILITY, rationale, policy_id=CAPABILITY.policy_id)
    return _told_as(stop, asking, decision, policy_version, node="record_refusal")


def _told_as(
    stop: NotGranted, asking: Asking, decision: Decision, policy_version: str, *, node: str
) -> tuple[Asking, Decision]:
    told = replace(stop.decision(policy_version), decision_id=decision.decision_id)
    visited = tuple(node if step in _RECORDED else step for step in asking.visited)
    return replace(asking, admitted=told, stop=told, visited=visited), told
