"""What each policy of a set makes of one question: an explanation, never a decision.

Every policy, its scope and each clause of its conditions are asked by themselves, all in one
evaluation. The decision stays that of ``PolicySet.evaluate``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import cedarpy

from contract.scope import Obligations, ScopeError
from control_plane.cedar_clauses import Clause, clauses
from control_plane.cedar_files import Policy
from control_plane.cedar_request import cedar_request, entities, policy_set, uid
from control_plane.obligations import MissingAttribute
from control_plane.policy import PolicyRequest, PolicySet

_WHOLE: Final = "whole"
_SCOPE: Final = "scope"


class State(StrEnum):
    """Whether a policy matches a question, and what kept it from that."""

    MATCHES = "matches"
    OTHER_SCOPE = "is about something else"
    UNMET = "a condition does not hold"
    FAILED = "could not be evaluated"
    MISSING_ATTRIBUTE = "reads an attribute that the principal lacks"


@dataclass(frozen=True, slots=True)
class PolicyTrace:
    """One policy. ``unmet`` are the clauses that do not hold, ``lacks`` attributes that are read and not there.

    ``obligations`` are those of a permit that matches, bound for this principal.
    """

    policy: Policy
    state: State
    unmet: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    obligations: Obligations | None = None

    def to_json(self) -> dict[str, Any]:
        policy = self.policy
        return {
            "policy_id": policy.policy_id,
            "effect": policy.effect,
            "description": policy.description,
            "file": policy.file,
            "line": policy.line,
            "state": self.state.name.lower(),
            "unmet": list(self.unmet),
            "lacks": list(self.lacks),
            "obligations": None if self.obligations is None else self.obligations.to_json(),
        }


def trace(policies: PolicySet, request: PolicyRequest) -> tuple[PolicyTrace, ...]:
    """Every policy that is asked about the dataset, in the set's order.

    Where Cedar cannot hold what the directory says of the principal, every policy is FAILED.
    """
    asked = policies.about(request.dataset)
    parts = {policy.policy_id: clauses(policy.document) for policy in asked}
    try:
        documents = {name: part for policy in asked for name, part in _parts(policy, parts[policy.policy_id])}
        result = cedarpy.is_authorized(
            cedar_request(request, uid(request.principal)), policy_set(documents), entities([request.principal])
        )
    except (ValueError, KeyError, TypeError):
        return tuple(PolicyTrace(policy, State.FAILED) for policy in asked)
    holds = frozenset(result.diagnostics.reasons)
    failed = frozenset(name for name in documents if any(f"`{name}`" in error for error in result.diagnostics.errors))
    return tuple(_traced(policy, parts[policy.policy_id], request, holds, failed) for policy in asked)


def _parts(policy: Policy, of: Sequence[Clause]) -> list[tuple[str, Mapping[str, Any]]]:
    """The policy, its scope and its clauses as policies of their own; all permit, so that each answers for itself."""
    alone = {**policy.document, "effect": "permit", "annotations": {}}
    named = [(_WHOLE, policy.document["conditions"]), (_SCOPE, [])]
    named += [(str(number), [clause.condition]) for number, clause in enumerate(of)]
    return [(f"{policy.policy_id}/{part}", {**alone, "conditions": conditions}) for part, conditions in named]


def _traced(
    policy: Policy, of: Sequence[Clause], request: PolicyRequest, holds: frozenset[str], failed: frozenset[str]
) -> PolicyTrace:
    name = policy.policy_id
    if f"{name}/{_SCOPE}" not in holds:
        return PolicyTrace(policy, State.OTHER_SCOPE)
    lacks = tuple(sorted(policy.reads - request.principal.attributes.keys()))
    if f"{name}/{_WHOLE}" in failed:
        return PolicyTrace(policy, State.MISSING_ATTRIBUTE if lacks else State.FAILED, lacks=lacks)
    if f"{name}/{_WHOLE}" not in holds:
        # A clause that fails by itself is guarded by another, which is told.
        unmet = [
            clause.text
            for number, clause in enumerate(of)
            if f"{name}/{number}" not in holds and f"{name}/{number}" not in failed
        ]
        return PolicyTrace(policy, State.UNMET, unmet=tuple(unmet))
    if policy.effect == "forbid":
        return PolicyTrace(policy, State.MATCHES)
    try:
        return PolicyTrace(policy, State.MATCHES, obligations=policy.obligations.bind(request.principal))
    except MissingAttribute as error:
        return PolicyTrace(policy, State.MISSING_ATTRIBUTE, lacks=(str(error),))
    except ScopeError:
        return PolicyTrace(policy, State.FAILED)
