"""Each kind of answer as the result of a tool call, member for member: what a model reads, and what stands beside it."""

from __future__ import annotations

from typing import Any

from contract.result import CacheOutcome, StoredResult
from contract.verdict import Decision, Reason
from remote_agent.mcp_result import tool_result
from remote_agent.outcome import Answer
from remote_agent.refusals import OUTWARD
from tests.evidence.evidence_builders import BODY, DOCUMENT, EXECUTION, NOW
from tests.evidence.provenance_trees import receipt_by

GRANTED = Decision(Reason.PRINCIPAL_AUTHORIZED, "BPD-DATA-014", "2026.09.01", "permitted", decision_id="dec-1")
RECEIPT = receipt_by("urn:dataset-agent:remote")
SEALED = {"payload": "eA==", "payloadType": "application/vnd.in-toto+json", "signatures": []}
STORED = StoredResult(
    "task-1", "https://a.example/results/task-1", "application/json", "ab" * 32, 9, 2, False, DOCUMENT.as_of, NOW + 60
)


def refused(reason: Reason, **members: Any) -> Answer:
    return Answer(Decision(reason, None, None, "it may not", decision_id="dec-1"), receipt=RECEIPT, **members)


def granted(**members: Any) -> Answer:
    return Answer(GRANTED, execution=EXECUTION, receipt=RECEIPT, envelope=SEALED, **members)


def test_rows_are_the_very_text_that_is_signed_and_the_proof_stands_beside_them() -> None:
    told = tool_result(granted(document=DOCUMENT, cache=CacheOutcome("HIT", "dsc:1:key", derived=True)), "task-1")
    assert told == {
        "content": [{"type": "text", "text": BODY.decode()}],
        "isError": False,
        "_meta": {
            "dataset-agent/decision": GRANTED.public(),
            "dataset-agent/task": "task-1",
            "dataset-agent/provenance": SEALED,
            "dataset-agent/cache": {
                "outcome": "HIT",
                "key": "dsc:1:key",
                "derived": True,
                "as_of": DOCUMENT.as_of,
                "execution_id": "exe-1",
            },
        },
    }


def test_a_result_that_is_old_says_how_old() -> None:
    stale = granted(document=DOCUMENT, cache=CacheOutcome("STALE", "dsc:1:key"), age_s=61.23456)
    assert tool_result(stale, "task-1")["_meta"]["dataset-agent/cache"]["age_s"] == 61.235


def test_a_result_that_waits_elsewhere_is_a_link_with_its_digest() -> None:
    told = tool_result(granted(document=STORED), "task-1")
    assert told["content"] == [
        {
            "type": "resource_link",
            "name": "result",
            "uri": "https://a.example/results/task-1",
            "mimeType": "application/json",
            "size": 9,
        }
    ]
    assert told["_meta"]["dataset-agent/result"] == {
        "sha256": "ab" * 32,
        "size": 9,
        "row_count": 2,
        "truncated": False,
        "as_of": DOCUMENT.as_of,
        "expires_at": "2027-01-15T08:01:00.000000Z",
    }


def test_a_refusal_is_an_error_with_its_reason_its_receipt_and_what_to_do() -> None:
    answer = refused(Reason.RATE_LIMITED, retry_after_s=2.5)
    hint = OUTWARD[Reason.RATE_LIMITED].hint
    assert tool_result(answer, "task-1") == {
        "content": [{"type": "text", "text": f"INDETERMINATE: RATE_LIMITED. it may not. Next: {hint}."}],
        "isError": True,
        "_meta": {
            "dataset-agent/decision": answer.decision.public(),
            "dataset-agent/task": "task-1",
            "dataset-agent/error": {"retryable": True, "hint": hint, "retry_after_s": 3},
            "dataset-agent/receipt": RECEIPT.to_json(),
        },
    }


def test_a_half_call_is_told_what_is_missing() -> None:
    proposal = {"call": {"capability": "compare_batches"}, "missing": [{"name": "batch_a"}, {"name": "batch_b"}]}
    told = tool_result(refused(Reason.ARGUMENTS_MISSING, proposal=proposal), "task-1")
    (said,) = told["content"]
    assert said["text"].endswith("Call again, with a fresh grant, with: batch_a, batch_b.")
    assert (told["isError"], told["_meta"]["dataset-agent/proposal"]) == (True, proposal)


def test_a_call_that_waits_for_a_person_says_by_what_it_goes_on() -> None:
    review = {"approval_id": "apr-1", "expires_at": "2027-01-15T08:00:00.000000Z"}
    told = tool_result(refused(Reason.REVIEW_REQUIRED, review=review), "task-1")
    assert (told["isError"], told["_meta"]["dataset-agent/review"]) == (True, review)


def test_without_evidence_there_is_no_receipt() -> None:
    answer = Answer(Decision(Reason.EVIDENCE_UNAVAILABLE, None, None, "no", decision_id="dec-1"))
    meta = tool_result(answer, "task-1")["_meta"]
    assert set(meta) == {"dataset-agent/decision", "dataset-agent/task", "dataset-agent/error"}
