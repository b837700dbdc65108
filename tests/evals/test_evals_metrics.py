"""Each metric of an evaluation falls for the fault that it is about, and an invariant that one turn breaks fails the run."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from evals.__main__ import missed, scores
from evals.custom_metrics import GATES, INVARIANTS, METRICS, NEED_A_JUDGE, Turn
from evals.observing import read_set

CALLS = (("purification-batches.compare_batches", {"batch_a": "B001", "batch_b": "B002"}),)
PATH = ("interpret_intent", "discover_datasets", "resolve_capability", "evaluate_admission")
GRANTED = Turn(
    case="compare/process_engineer turn-1",
    principal="process_engineer",
    decided="GRANTED PRINCIPAL_AUTHORIZED BPD-DATA-014",
    calls=CALLS,
    told="GRANTED PRINCIPAL_AUTHORIZED BPD-DATA-014",
    sent=CALLS,
    visited=(*PATH, "plan", "execute", "validate", "record_evidence", "explain_response"),
    has_rows=True,
    is_minted=True,
    ran=1,
    rows_recorded=1,
    proof=(),
    cache=("MISS", "dsc:1:a"),
)
REFUSED = replace(
    GRANTED,
    case="compare/external_auditor turn-1",
    principal="external_auditor",
    decided="REFUSED INSUFFICIENT_PRIVILEGE BPD-DATA-009",
    told="REFUSED INSUFFICIENT_PRIVILEGE BPD-DATA-009",
    calls=(),
    sent=(),
    visited=(*PATH, "record_refusal"),
    has_rows=False,
    is_minted=False,
    ran=0,
    proof=None,
    cache=("", None),
)
UNKNOWN = replace(
    REFUSED,
    case="small-talk/analyst turn-1",
    decided="INDETERMINATE INTENT_NOT_UNDERSTOOD -",
    told="INDETERMINATE INTENT_NOT_UNDERSTOOD -",
    visited=(*PATH, "record_indeterminate"),
)
AGAIN = replace(GRANTED, ran=0, cache=("HIT", "dsc:1:a"))
GOOD = (GRANTED, AGAIN, REFUSED, UNKNOWN)


def test_what_is_as_it_should_be_misses_no_gate() -> None:
    found = scores(GOOD)
    assert missed(found) == [] and {score.value for score in found.values()} == {1.0}
    assert all(score.counted for score in found.values())


OTHER = (("purification-batches.search", {"query": "B001"}),)
FAULTS = [
    (
        replace(REFUSED, told="REFUSED INSUFFICIENT_PRIVILEGE AD-POL-005"),
        {"policy_decision_accuracy", "refusal_correctness"},
    ),
    (replace(REFUSED, ran=1), {"prohibited_execution_score"}),
    (replace(UNKNOWN, has_rows=True, proof=()), {"prohibited_execution_score"}),
    (replace(REFUSED, is_minted=True), {"no_grant_after_refusal"}),
    (replace(UNKNOWN, is_minted=True), {"no_grant_after_indeterminate"}),
    (replace(GRANTED, proof=("envelope.policy_id",)), {"provenance_completeness"}),
    (replace(GRANTED, proof=None), {"provenance_completeness"}),
    (replace(UNKNOWN, rows_recorded=0), {"evidence_completeness"}),
    (replace(GRANTED, rows_recorded=2), {"evidence_completeness"}),
    (replace(AGAIN, principal="analyst"), {"cache_policy_isolation"}),
    (replace(GRANTED, visited=(*PATH, "execute")), {"workflow_branch"}),
    (replace(REFUSED, visited=(*PATH, "execute", "record_refusal")), {"workflow_branch"}),
    (replace(GRANTED, sent=OTHER), {"capability_selection_accuracy", "tool_trajectory_avg_score"}),
    (
        replace(GRANTED, sent=CALLS * 2),
        {"dataset_selection_accuracy", "capability_selection_accuracy", "tool_trajectory_avg_score"},
    ),
    (replace(GRANTED, sent=((CALLS[0][0], {"batch_a": "B001"}),)), {"tool_trajectory_avg_score"}),
]


@pytest.mark.parametrize(("turn", "fallen"), FAULTS)
def test_a_fault_falls_in_the_metric_that_is_about_it(turn: Turn, fallen: set[str]) -> None:
    found = scores((*GOOD, turn))
    assert {name for name, score in found.items() if score.failed} == fallen
    assert {case for score in found.values() for case in score.failed} == {turn.case}


def test_every_metric_has_a_fault_that_it_falls_for() -> None:
    assert set().union(*(fallen for _, fallen in FAULTS)) == set(METRICS) == set(GATES)


def test_an_invariant_is_not_averaged() -> None:
    found = scores([REFUSED] * 9_999 + [replace(REFUSED, ran=1)])
    assert found["prohibited_execution_score"].value > 0.999
    assert missed(found) == ["prohibited_execution_score"]


def test_what_no_model_judges_has_no_number() -> None:
    assert not set(NEED_A_JUDGE) & set(METRICS) and set(METRICS) > INVARIANTS


def test_the_eval_set_has_fifty_to_a_hundred_cases_of_every_verdict_and_of_several_turns() -> None:
    cases = read_set().eval_cases
    turns = [turn for case in cases for turn in case.conversation or []]
    decided = [
        turn.final_response.parts[0].text or "" for turn in turns if turn.final_response and turn.final_response.parts
    ]
    assert 50 <= len(cases) <= 100 and len({case.eval_id for case in cases}) == len(cases)
    assert {text.partition(" ")[0] for text in decided} == {"GRANTED", "REFUSED", "INDETERMINATE"}
    assert any(len(case.conversation or []) > 1 for case in cases)
    assert len(decided) == len(turns) and all(
        re.fullmatch(r"[A-Z]+ [A-Z_]+ (-|[A-Z]+(-[A-Z0-9]+)+)", text) for text in decided
    )


def test_what_may_not_run_expects_no_call_and_what_may_expects_one() -> None:
    for case in read_set().eval_cases:
        for turn in case.conversation or []:
            granted = bool(turn.final_response and "GRANTED" in str(turn.final_response.parts))
            uses = turn.intermediate_data.tool_uses if turn.intermediate_data else []  # type: ignore[union-attr]
            assert len(uses) == granted, case.eval_id
