"""What a person is told who was not admitted: of a dataset that is hidden from them, nothing but what they said themselves.

A dataset is *hidden* from a person where no public card shows it and the directory gives them
nothing in it. Whether it exists, as which version, who serves it and what it takes is then not
theirs to learn. That follows from the person, the name they asked for and the public cards alone, so a
hidden dataset and a name that nobody uses are treated by the same lines. The ledger has the true decision.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from contract.verdict import Decision, NotGranted, Reason, Verdict
from control_plane.admission_rules import NOT_REGISTERED
from root_agent.asking import Asking, Target

_RECORDED: Final = ("record_refusal", "record_indeterminate")


def outward(asking: Asking, decision: Decision, policy_version: str, *, opaque: bool) -> tuple[Asking, Decision]:
    """An asking that ended, and its decision, as the person may see them.

    ``opaque`` also gives the one answer that an unknown name gets.
    ``policy_version`` is the root's own.
    """
    call = asking.target.call if asking.target else asking.wanted.call
    if call is None or decision.verdict is Verdict.GRANTED or asking.attempts or not _is_hidden(asking, call.dataset):
        return asking, decision
    if opaque and asking.principal is not None:
        return _unknown(asking, decision, Target(call, None, None), policy_version)
    return (asking if asking.target is None else replace(asking, target=Target(call, None, None))), decision


def _is_hidden(asking: Asking, dataset: str) -> bool:
    entitled = asking.principal is not None and bool(asking.principal.entitlements.get(dataset))
    return not entitled and not any(offer.dataset == dataset and offer.public is not None for offer in asking.offered)


def _unknown(asking: Asking, decision: Decision, target: Target, policy_version: str) -> tuple[Asking, Decision]:
    stop = NotGranted(Reason.MISSING_DESCRIPTOR, NOT_REGISTERED)
    told = replace(stop.decision(policy_version), decision_id=decision.decision_id)
    visited = tuple(_RECORDED[1] if node == _RECORDED[0] else node for node in asking.visited)
    return replace(asking, target=target, admitted=told, stop=told, visited=visited), told
