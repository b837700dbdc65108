"""An explanation of a decision for people."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from contract.scope import Obligations
from contract.verdict import Verdict
from control_plane.policy_explain import Effect, Explanation, RuleReport
from control_plane.policy_trace import PolicyTrace, State
from dataset_agent.console import paragraph, say, table

_SHOWN: Final = 8
_INDENT: Final = 2
_DEEPER: Final = 4


def show_explanation(one: Explanation, after: Sequence[str]) -> None:
    """The decision, the rules up to the one that decided, each policy, obligations, and what would change it."""
    decision = one.decision
    by = f" by {decision.policy_id}" if decision.policy_id else ""
    say(f"{decision.verdict.value} {decision.reason.value}{by}, policy version {decision.policy_version}")
    paragraph(decision.rationale, indent=_INDENT)
    say("")
    columns = ("rule", "it is checked that", "policy", "outcome", "it read")
    table("Rules", columns, [_rule(rule) for rule in one.rules if rule.status != "not reached"], lead=columns[:4])
    if one.policies:
        say("")
        say("Policies")
        for policy in one.policies:
            _policy(policy, is_named=policy.policy.policy_id == decision.policy_id)
    if decision.verdict is Verdict.GRANTED:
        say("")
        _obligations(one.policies, decision.obligations)
    for line in after:
        paragraph(line, indent=0)
    say("")
    _changes(one)


def _rule(rule: RuleReport) -> tuple[object, ...]:
    reads = ", ".join(
        f"{name} {_moment(value) if name == 'now' else _value(value)}" for name, value in rule.reads.items()
    )
    return rule.number, rule.rule, rule.policy_id or "", rule.status, reads


def _value(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "none" if value is None else json.dumps(value, ensure_ascii=False)


def _moment(value: Any) -> str:
    """As ``descriptor.as_of`` beside it is shown."""
    return datetime.fromtimestamp(value, UTC).isoformat() if isinstance(value, float | int) else _value(value)


def _policy(one: PolicyTrace, *, is_named: bool) -> None:
    policy = one.policy
    state = one.state.value + (", and decides" if is_named else "")
    paragraph(f"{policy.policy_id} ({policy.effect}, policies/{policy.place}): {state}", indent=_INDENT)
    if policy.description:
        paragraph(policy.description, indent=_DEEPER)
    for clause in one.unmet:
        paragraph(f"does not hold: {clause}", indent=_DEEPER)
    if one.lacks:
        paragraph(f"lacks: {', '.join(one.lacks)}", indent=_DEEPER)


def _obligations(policies: Sequence[PolicyTrace], met: Obligations) -> None:
    """What each permit demands, and what is left where all hold together."""
    demanding = [one for one in policies if one.state is State.MATCHES and one.obligations not in (None, Obligations())]
    if met == Obligations():
        say("Obligations: none; every row, every column, no mask")
        return
    say("Obligations" if len(demanding) < 2 else "Obligations, where all of these hold together")
    if len(demanding) > 1:
        for one in demanding:
            _demands(f"{one.policy.policy_id}: ", one.obligations or Obligations())
    _demands("together: " if len(demanding) > 1 else "", met)


def _demands(of: str, held: Obligations) -> None:
    shown = held.to_json()
    for column, constraint in shown["rows"].items():
        paragraph(f"{of}rows: {column} {json.dumps(constraint, ensure_ascii=False)}", indent=_INDENT)
    if shown["columns"] is not None:
        paragraph(f"{of}columns: {', '.join(shown['columns']) or 'none'}", indent=_INDENT)
    for column, mask in shown["masks"].items():
        paragraph(f"{of}mask: {column} {mask}", indent=_INDENT)
    if held.stale_s:
        paragraph(f"{of}stale: answered for {held.stale_s} s past its time", indent=_INDENT)


def _changes(one: Explanation) -> None:
    is_granted = one.decision.verdict is Verdict.GRANTED
    grants = [effect for effect in one.effects if effect.decision.verdict is Verdict.GRANTED]
    others = [effect for effect in one.effects if effect.decision.verdict is not Verdict.GRANTED]
    if is_granted:
        _listed("It would not be granted, were the principal or the call", others)
        _listed("It would be granted otherwise", grants)
    else:
        _listed("It would be granted by one change", grants)
        _listed("It would be granted by these changes together", one.ways)
        _listed("It would be decided otherwise, and not granted", others)
        if not grants and not one.ways:
            say("Nothing that was tried would grant it.")
    tried = "1 decision was" if one.tried == 1 else f"{one.tried:,} decisions were"
    note_of = "one fact at a time" if not one.ways else "one fact at a time, then several together"
    paragraph(
        f"{tried} tried, {note_of}. A value that no policy and no directory writes out was not.",
        indent=0,
    )


def _listed(head: str, effects: Sequence[Effect]) -> None:
    if not effects:
        return
    say(f"{head}:")
    for effect in effects[:_SHOWN]:
        decision = effect.decision
        by = f" by {decision.policy_id}" if decision.policy_id else ""
        paragraph(
            f"{' and '.join(effect.changed)}: {decision.verdict.value} {decision.reason.value}{by}", indent=_INDENT
        )
    if len(effects) > _SHOWN:
        paragraph(f"and {len(effects) - _SHOWN} more: --json tells all", indent=_INDENT)
