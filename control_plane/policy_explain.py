"""Why a principal would get a verdict: each rule with its inputs, each policy, and what would change it.

The decision is ``admission``'s own. What would change it is found by deciding again with facts
changed, one at a time and then several together; nothing is inferred from the text of a policy.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

from contract.verdict import Decision, Reason, Verdict
from control_plane.admission import AdmissionRequest, EvaluatorFailure, admit, early, explain, question_of
from control_plane.admission_rules import RULES, case_of
from control_plane.decision_table import READS
from control_plane.descriptor import DatasetDescriptor
from control_plane.policy import PolicyAnswer, PolicyRequest, PolicySet
from control_plane.policy_changes import Change, changes, together
from control_plane.policy_trace import PolicyTrace, State, trace

Ask = Callable[[PolicySet | None, PolicyRequest], Awaitable[PolicyAnswer | EvaluatorFailure]]
"""Answers a question under a set of this side, or (``None``) whatever decides elsewhere."""

MAX_TRIED: Final = 1_000
MAX_TOGETHER: Final = 3
MAX_WAYS: Final = 5
_NEVER_READ: Final = Reason.EVALUATOR_UNAVAILABLE


@dataclass(frozen=True, slots=True)
class RuleReport:
    """A rule: whether it ``holds``, ``decides`` or was ``not reached``, and the facts it read, by name."""

    number: int
    rule: str
    policy_id: str | None
    status: str
    rationale: str
    reads: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Effect:
    """What came of changing facts: those changed, and the decision then."""

    changed: tuple[str, ...]
    decision: Decision
    of_person: bool = True


@dataclass(frozen=True, slots=True)
class Explanation:
    """Of one call under one policy version.

    ``policies`` are empty where the policies are not at hand, or were not asked. ``effects`` are the single changes
    after which it would be decided otherwise, those that grant first; ``ways`` the smallest sets
    of several that grant, where no single one does. ``tried`` is how many decisions were made for that.
    """

    decision: Decision
    rules: tuple[RuleReport, ...]
    asked: PolicyRequest | None
    answer: PolicyAnswer | EvaluatorFailure | None
    policies: tuple[PolicyTrace, ...]
    effects: tuple[Effect, ...]
    ways: tuple[Effect, ...]
    tried: int


async def explain_call(
    request: AdmissionRequest,
    ask: Ask,
    policies: PolicySet | None,
    *,
    known: PolicySet | None = None,
    classes: Iterable[str] = (),
) -> Explanation:
    """Why ``request`` is decided as it is by ``policies``, or by a server (``None``).

    Of a server's policies those in ``known`` are shown where it answers under their version.
    """
    decision, answer = await _decided(request, ask, policies)
    asked = question_of(case_of(request)) if answer is not None else None
    shown = policies or _known(known, answer)
    traces = trace(shown, asked) if shown is not None and asked is not None else ()
    possible = changes(request, (one.policy for one in traces), classes)
    effects = [await _effect(ask, policies, [change], change.request) for change in possible]
    if policies is not None:
        effects += [await _without(request, ask, policies, one) for one in traces if one.state in _MATTERS]
    told = [effect for effect in effects if _outcome(effect.decision) != _outcome(decision)]
    told.sort(key=lambda effect: effect.decision.verdict is not Verdict.GRANTED)
    ways: list[Effect] = []
    tried = len(effects)
    grants = any(effect.decision.verdict is Verdict.GRANTED for effect in told)
    if decision.verdict is not Verdict.GRANTED and not grants:
        ways, more = await _ways(request, ask, policies, [change for change in possible if change.of_person])
        tried += more
    reports = tuple(_reports(request, answer))
    return Explanation(decision, reports, asked, answer, traces, tuple(told), tuple(ways), tried)


def _known(known: PolicySet | None, answer: PolicyAnswer | EvaluatorFailure | None) -> PolicySet | None:
    """The policies that a server answered by, as far as a version can tell."""
    is_theirs = known is not None and isinstance(answer, PolicyAnswer) and known.version == answer.policy_version
    return known if is_theirs else None


_MATTERS: Final = frozenset({State.MATCHES, State.FAILED, State.MISSING_ATTRIBUTE})


async def _decided(
    request: AdmissionRequest, ask: Ask, policies: PolicySet | None
) -> tuple[Decision, PolicyAnswer | EvaluatorFailure | None]:
    """The decision, and what the policies said where they were asked."""
    settled = early(request)
    if settled is not None:
        return settled, None
    answer = await ask(policies, question_of(case_of(request)))
    return admit(request, answer), answer


async def _effect(ask: Ask, policies: PolicySet | None, changed: Sequence[Change], request: AdmissionRequest) -> Effect:
    decision, _ = await _decided(request, ask, policies)
    told = tuple(change.text for change in changed)
    return Effect(told, decision, of_person=all(change.of_person for change in changed))


async def _without(request: AdmissionRequest, ask: Ask, policies: PolicySet, one: PolicyTrace) -> Effect:
    """With one policy taken out of the set."""
    name = one.policy.policy_id
    decision, _ = await _decided(request, ask, policies.without(name))
    return Effect((f"without the policy {name}",), decision, of_person=False)


async def _ways(
    request: AdmissionRequest, ask: Ask, policies: PolicySet | None, possible: Sequence[Change]
) -> tuple[list[Effect], int]:
    """The smallest sets of changes that grant, up to ``MAX_WAYS``, and how many were tried."""
    found: list[Effect] = []
    tried = 0
    for size in range(2, MAX_TOGETHER + 1):
        for chosen in combinations(possible, size):
            if len({change.about for change in chosen}) < size:
                continue
            if tried >= MAX_TRIED or len(found) >= MAX_WAYS:
                return found, tried
            tried += 1
            effect = await _effect(ask, policies, chosen, together(request, chosen))
            if effect.decision.verdict is Verdict.GRANTED:
                found.append(effect)
        if found:
            break
    return found, tried


def _outcome(decision: Decision) -> tuple[Any, ...]:
    return decision.reason, decision.policy_id, decision.obligations


def _reports(request: AdmissionRequest, answer: PolicyAnswer | EvaluatorFailure | None) -> Iterable[RuleReport]:
    # A request that needed no answer is stopped before the rule that reads one.
    outcomes = explain(request, answer if answer is not None else EvaluatorFailure(_NEVER_READ))
    for number, rule in enumerate(RULES, 1):
        if number > len(outcomes):
            yield RuleReport(number, rule.name, rule.policy_id, "not reached", "", {})
            continue
        outcome = outcomes[number - 1]
        status = "holds" if outcome.passed else "decides"
        reads = {name: _fact(request, answer, name) for name in READS[rule.name]}
        yield RuleReport(number, rule.name, outcome.policy_id, status, outcome.rationale, reads)


def _fact(request: AdmissionRequest, answer: PolicyAnswer | EvaluatorFailure | None, name: str) -> Any:
    """What a rule read, as JSON. Of the principal and the descriptor as wholes only whether they are known."""
    thing, _, member = name.partition(".")
    if name == "answer":
        return _said(answer)
    if name in ("principal", "descriptor"):
        return _standing(getattr(request, name), name)
    if thing == "capability" and member:
        descriptor = request.descriptor
        held = descriptor.capability(request.capability) if isinstance(descriptor, DatasetDescriptor) else None
        return _plain(getattr(held, member, None))
    if name == "descriptor.capabilities":
        return [item.name for item in getattr(request.descriptor, "capabilities", ())]
    if name == "principal.attributes":
        return None if request.principal is None else request.principal.attributes_json()
    found: Any = request
    for part in name.split("."):
        found = getattr(found, part, None)
    return _plain(found)


def _standing(value: Any, name: str) -> str:
    if value is None:
        return "unknown"
    return "known" if name == "principal" else "valid" if isinstance(value, DatasetDescriptor) else "not valid"


def _said(answer: PolicyAnswer | EvaluatorFailure | None) -> dict[str, Any] | None:
    if isinstance(answer, EvaluatorFailure):
        return {"failed": answer.reason.value}
    return None if answer is None else {key: value for key, value in answer.to_json().items() if key != "obligations"}


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (str, int, float)):
        return getattr(value, "value", value)
    if hasattr(value, "isoformat"):
        return value.isoformat()
    return sorted(value) if isinstance(value, frozenset) else list(value) if isinstance(value, tuple) else value
