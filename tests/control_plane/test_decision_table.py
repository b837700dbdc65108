"""The page of the decision table says what the rules do: every line happens, and nothing else is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from contract.verdict import VERDICTS, Reason, Verdict
from control_plane import admission_rules, decision_table
from control_plane.admission import AdmissionRequest, EvaluatorFailure, admit, explain
from control_plane.admission_rules import RULES, Case, Rule
from control_plane.decision_table import FORBID, LINES, PERMIT, READS, Line, main, page
from control_plane.policy import Outcome, PolicyAnswer
from control_plane.registry import InvalidDataset
from tests.control_plane.control_plane_world import (
    VERSION,
    make_descriptor,
    make_principal,
    make_request,
    permit,
    raw_capability,
)

PAGE = Path(__file__).resolve().parents[2] / "docs" / "decision-table.md"


def _said(outcome: Outcome, policy_id: str | None = None) -> PolicyAnswer:
    return PolicyAnswer(outcome, policy_id, VERSION)


def _about(**capability: Any) -> dict[str, Any]:
    governed = {"policy_id": "P-1"} | capability
    return {"descriptor": make_descriptor(raw_capability(**governed), policies=[governed["policy_id"]])}


# What makes each line of the table happen, in its order: changes of a request that is granted, and the answer.
HAPPENS: tuple[tuple[dict[str, Any], PolicyAnswer | EvaluatorFailure], ...] = (
    ({"principal": None}, permit()),
    ({"descriptor": None}, permit()),
    ({"descriptor": InvalidDataset("plants", "broken")}, permit()),
    ({"descriptor": make_descriptor(prohibited=["read"])}, permit()),
    ({"capability": "other"}, permit()),
    ({"stated_revision": "r0"}, permit()),
    ({"stated_policy_version": "0", "accepted_policy_versions": frozenset({VERSION})}, permit()),
    ({"schema_version": "99"}, permit()),
    ({}, EvaluatorFailure(Reason.EVALUATOR_TIMEOUT)),
    ({}, EvaluatorFailure(Reason.EVALUATOR_UNAVAILABLE)),
    ({}, _said(Outcome.MISSING_ATTRIBUTE)),
    ({}, _said(Outcome.FORBID, "P-9")),
    ({"principal": make_principal(tenant="other")}, permit()),
    ({}, _said(Outcome.NONE)),
    ({}, _said(Outcome.ERROR)),
    (_about(policy_id="P-2"), permit()),
    (_about(sensitivity="restricted"), permit()),
    (_about(effect="write"), permit()),
    ({"max_age_s": 1.0}, permit()),
    (_about(retention_requirement={"days": 1}), permit()),
    (_about(requires_review=True), permit()),
    ({}, permit()),
)


@pytest.mark.parametrize(
    ("line", "happens"),
    list(zip(LINES, HAPPENS, strict=True)),
    ids=[f"{line.rule.name}: {line.when}" for line in LINES],
)
def test_a_line_of_the_table_is_what_happens(line: Line, happens: tuple[dict[str, Any], Any]) -> None:
    changes, answer = happens
    request = make_request(**changes)
    decision = admit(request, answer)
    named = {FORBID: "P-9", PERMIT: "P-1"}.get(str(line.policy_id), line.policy_id)
    assert (decision.reason, decision.policy_id) == (line.reason, named)
    assert explain(request, answer)[-1].rule == line.rule.name


def test_every_rule_and_every_reason_of_admission_has_a_line() -> None:
    assert [rule for rule in RULES if not any(line.rule is rule for line in LINES)] == []
    members = list(Reason)
    of_admission = set(members[: members.index(Reason.ARGUMENTS_INVALID)])
    beside = {Reason.COLUMN_NOT_PERMITTED, Reason.PRINCIPAL_ATTRIBUTE_CONFLICT}  # of the query, and of the token
    assert {line.reason for line in LINES} == of_admission - beside


def test_the_lines_stand_in_the_order_of_the_rules() -> None:
    numbers = [decision_table.number_of(line.rule) for line in LINES]
    assert numbers == sorted(numbers)


def test_an_indeterminate_line_names_no_policy() -> None:
    unknown = [line for line in LINES if VERDICTS[line.reason] is Verdict.INDETERMINATE]
    assert {line.policy_id for line in unknown} == {None}


class _Watched:
    """A value that notes which of its members are read. For ``isinstance`` it is what it stands for."""

    def __init__(self, value: Any, name: str, read: set[str]) -> None:
        self.__dict__.update(_value=value, _name=name, _read=read)

    @property
    def __class__(self) -> Any:
        return type(self.__dict__["_value"])

    def __eq__(self, other: object) -> bool:
        return bool(self.__dict__["_value"] == other)

    def __hash__(self) -> int:
        return hash(self.__dict__["_value"])

    def __getattr__(self, name: str) -> Any:
        path = f"{self._name}.{name}".removeprefix("request.")
        self._read.add(_AS_TOLD.get(path, path))
        value = getattr(self._value, name)
        if path in ("principal", "descriptor") and value is not None:
            return _Watched(value, path, self._read)
        return value


# A method of the descriptor reads these of its members.
_AS_TOLD = {"descriptor.capability": "descriptor.capabilities", "descriptor.age_s": "descriptor.as_of"}
# What is only said in the rationale, or leads to the part that is read.
_TOLD = {"capability.name", "descriptor", "descriptor.dataset"}


def _judges() -> list[tuple[Rule, Any, bool]]:
    of_request = [(rule, judge, True) for rule, judge in admission_rules._OF_REQUEST]
    of_case = [(rule, judge, False) for rule, judge in (*admission_rules._OF_WORLD, *admission_rules._OF_CASE)]
    entitlement = [(admission_rules.ENTITLEMENT, admission_rules._entitlement, False)]
    return [*of_request, *of_case, *entitlement]


def _read_by(rule: Rule, judge: Any, of_request: bool, request: AdmissionRequest, answer: Any) -> set[str]:
    read: set[str] = set()
    watched = _Watched(request, "request", read)
    if of_request:
        judge(watched)
        return read
    try:
        case = admission_rules.case_of(request)
    except LookupError:
        return read
    parts = [_Watched(getattr(case, name), name, read) for name in ("principal", "descriptor", "capability")]
    if rule is admission_rules.ENTITLEMENT:
        judge(Case(watched, *parts), answer)
        return read | {"answer"}
    judge(Case(watched, *parts))
    return read


def test_a_rule_reads_what_the_table_says_and_nothing_else() -> None:
    found: dict[str, set[str]] = {rule.name: set() for rule in RULES}
    for line, (changes, answer) in zip(LINES, HAPPENS, strict=True):
        request = make_request(**changes)
        for rule, judge, of_request in _judges():
            if of_request and decision_table.number_of(rule) > decision_table.number_of(line.rule):
                continue
            found[rule.name] |= _read_by(rule, judge, of_request, request, answer)
    fresh = make_request(**_about(freshness_requirement_s=1), max_age_s=1e12)
    found[admission_rules.FRESHNESS.name] |= _read_by(
        admission_rules.FRESHNESS, admission_rules._freshness, False, fresh, permit()
    )
    told = {name: set(members) for name, members in READS.items()}
    assert {name: members - told[name] - _TOLD for name, members in found.items()} == dict.fromkeys(found, set())
    assert {name: told[name] - members for name, members in found.items()} == dict.fromkeys(found, set())


def test_the_page_is_the_present_table() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), (
        "python -m control_plane.decision_table --write docs/decision-table.md"
    )


def test_the_page_is_written_where_it_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--write", str(tmp_path / "page.md")]) == 0
    assert (tmp_path / "page.md").read_text(encoding="utf-8") == page()
    assert main([]) == 0
    assert capsys.readouterr().out == page()
    assert main(["--write"]) == 2
