"""What was granted before under one policy set, so that the same request is not judged rule by rule again.

A decision depends on the request, on the principal and the descriptor that are served, on the
policies, and on the time. The two objects are known by their place in memory, which stays theirs
because they are held here, and they are frozen; everything else that is stated is compared by
value, and the time, and the age that is asked for, are judged anew at each use. Each policy set has a memo of
its own, so nothing outlives a reload. What is refused or unknown is judged every time.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from contract.verdict import Decision, Verdict
from control_plane.admission_rules import AdmissionRequest, case_of, is_fresh

MAX_REMEMBERED: Final = 4_096


class Granted:
    """Grants by everything they depend on but the time; all are forgotten when they become too many."""

    def __init__(self) -> None:
        self._held: dict[tuple[Any, ...], tuple[AdmissionRequest, Decision]] = {}

    def find(self, request: AdmissionRequest) -> Decision | None:
        """The decision on an equal request, with the id that this one brings; ``None`` where it must be judged."""
        held = self._held.get(_name(request))
        if held is None or not is_fresh(case_of(request)):
            return None
        return replace(held[1], decision_id=request.decision_id)

    def keep(self, request: AdmissionRequest, decision: Decision) -> None:
        """Remember a decision that grants; any other is left alone."""
        if decision.verdict is not Verdict.GRANTED:
            return
        if len(self._held) >= MAX_REMEMBERED:
            self._held.clear()
        self._held[_name(request)] = (request, decision)


def _name(request: AdmissionRequest) -> tuple[Any, ...]:
    """Every member of a request but the time, the age that is asked for and the decision's id."""
    return (
        id(request.principal),
        id(request.descriptor),
        request.dataset,
        request.capability,
        request.policy_version,
        request.stated_dataset_version,
        request.stated_revision,
        request.stated_policy_version,
        request.accepted_policy_versions,
        request.schema_version,
        request.review,
    )
