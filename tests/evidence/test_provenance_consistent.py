"""A statement that contradicts itself, or holds text that is none, is no provenance, whoever signed it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.result import CacheOutcome, Execution, ResultDocument, instant
from contract.scope import Sensitivity
from contract.verdict import NotGranted, Reason
from evidence.dsse import InvalidProvenance, sign_envelope
from evidence.provenance import read_statement
from evidence.statement import draft
from tests.authority_builder import make_authority
from tests.evidence.evidence_builders import NOW, draft_members
from tests.evidence.provenance_trees import ROOT, Node, agent_id, grown, opened, signer_of, unverified, verified

HONEST = opened(grown(Node(0)))


def told(path: str, value: Any) -> dict[str, Any]:
    """The honest statement with another value at a place of its predicate."""
    statement = opened(grown(Node(0)))
    *above, name = path.split(".")
    place = statement["predicate"]
    for step in above:
        place = place[step]
    place[name] = value
    return statement


def check_of(statement: dict[str, Any]) -> str | None:
    try:
        read_statement(statement)
    except InvalidProvenance as error:
        return error.check
    return None


@pytest.mark.parametrize(
    ("path", "value"),
    [
        *[
            (path, text)
            for path in ("sealed_at", "execution.started", "execution.ended", "result.as_of")
            for text in (
                "9999-99-99T99:99:99Z",
                "2026-02-29T00:00:00Z",
                "0000-01-01T00:00:00Z",
                "2026-01-01T24:00:00Z",
                "2026-01-01T00:00:00",
                "2026-01-01T00:00:00+00:00",
                "2026-01-01T00:00:00.Z",
                "2026-01-01",
                "",
            )
        ],
        ("execution.started", "2027-01-15T08:00:04.000000Z"),
        ("execution.ended", "2027-01-15T08:00:05.000001Z"),
        ("sealed_at", "2027-01-15T07:59:53.000000Z"),
        ("cache.used", True),
        ("cache", {"outcome": "HIT", "used": False, "key": "dsc:1:key"}),
        ("cache", {"outcome": "STALE", "used": False, "key": "dsc:1:key"}),
        ("cache", {"outcome": "STALE", "used": True, "key": "dsc:1:key", "derived": True}),
        ("cache", {"outcome": "WITHHELD", "used": True, "key": None}),
        ("cache", {"outcome": "WITHHELD", "used": False, "key": "dsc:1:key"}),
        ("cache", {"outcome": "OFF", "used": False, "key": "dsc:1:key"}),
        ("authorization.sensitivity", "restricted"),
        ("authorization.sensitivity", "secret"),
        ("authorization.rows_returned", 1_001),
        ("authorization.limits", {"max_rows": None, "max_bytes": 0}),
        ("execution.tool_origin", "MODEL"),
    ],
)
def test_a_statement_that_contradicts_itself_or_the_calendar_is_refused(path: str, value: Any) -> None:
    assert check_of(told(path, value)) == "schema"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("execution.started", "2027-01-15T08:00:03.750000Z"),  # 5 s after it ended, by another clock
        ("execution.ended", "2027-01-15T08:00:05.000000Z"),
        ("sealed_at", "2027-01-15T07:59:53.750000Z"),
        ("result.as_of", "2028-02-29T23:59:59.123456789Z"),
        ("cache", {"outcome": "HIT", "used": True, "key": "dsc:1:key"}),
        ("cache", {"outcome": "STALE", "used": True, "key": "dsc:1:key"}),
        ("cache", {"outcome": "OFF", "used": False, "key": None}),
        ("grant.client", "urn:dataset-agent:Ägent 7/α"),
        ("authorization.rows_returned", 1_000),
        ("authorization.limits", {"max_rows": None, "max_bytes": HONEST["predicate"]["result"]["size"]}),
    ],
)
def test_clocks_may_differ_by_five_seconds_and_text_may_be_any_language(path: str, value: Any) -> None:
    assert check_of(told(path, value)) is None


TEXTS = [
    *("agent.id", "grant.issuer", "grant.client", "grant.jti", "grant.root_jti", "grant.txn"),
    *("decision.decision_id", "decision.policy_id", "decision.policy_version", "operation.tool_name"),
    *("authorization.principal_class", "execution.execution_id", "execution.engine", "execution.job_id"),
    *("cache.key", "result.media_type", "invocation.request_id", "invocation.trace_id", "invocation.session_id"),
    *("invocation.invocation_id", "invocation.task_id", "invocation.function_call_id"),
]


@pytest.mark.parametrize("path", TEXTS)
@given(st.characters(categories=["Cc", "Cf", "Zl", "Zp"]))
def test_no_text_holds_a_control_format_or_line_character(path: str, char: str) -> None:
    assert check_of(told(path, f"a{char}b")) == "schema"


@pytest.mark.parametrize("char", ["\x00", "\x1b", "\n", "\u202e", "\u2066", "\u200b", "\u2028", "\ufeff"])
def test_no_source_and_no_name_of_another_agent_holds_one_either(char: str) -> None:
    assert check_of(told("dataset.sources", [f"s3{char}"])) == "schema"
    envelope = grown(Node(1), client=agent_id(0), path="0.0")
    stated = {"agent_id": f"{agent_id(1)}{char}", "task_id": None, "result_digest": "0" * 64, "envelope": envelope}
    assert check_of(told("upstream", [stated])) == "schema"
    assert check_of(told("upstream", [stated | {"agent_id": agent_id(1), "task_id": f"t{char}"}])) == "schema"


@pytest.mark.parametrize(
    "change",
    [
        {"x": 10**30},
        {"x": [[[[1]]]]},
        {"signatures": []},
        {"signatures": "both"},
        {"payload": 1},
        {"payloadType": None},
    ],
)
def test_a_carried_envelope_has_nothing_beside_what_was_signed(change: dict[str, Any]) -> None:
    envelope = grown(Node(1), client=agent_id(0), path="0.0")
    if change.get("signatures") == "both":
        change = {"signatures": envelope["signatures"] * 2}
    stated = {"agent_id": agent_id(1), "task_id": None, "result_digest": "0" * 64, "envelope": envelope | change}
    assert check_of(told("upstream", [stated])) == "schema"


@pytest.mark.parametrize("text", ["2026-08-31T22:00:00Z", "2026-08-31T22:00:00.000000Z", "0001-01-01T00:00:00.1Z"])
def test_an_instant_is_read_as_one(text: str) -> None:
    assert instant(text).tzinfo is not None


@pytest.mark.parametrize(
    "execution",
    [
        Execution("exe-1", "duckdb", None, "LOCAL", NOW + 10, NOW),
        Execution("exe-1", "duckdb", None, "LOCAL", NOW, NOW + 10),
        Execution("exe-1", "duck\ndb", None, "LOCAL", NOW, NOW),
    ],
)
def test_an_agent_drafts_none_of_these_itself(execution: Execution) -> None:
    with pytest.raises(NotGranted) as caught:
        draft(make_authority(), **draft_members(execution=execution))
    assert caught.value.reason is Reason.EVIDENCE_UNAVAILABLE


def test_a_restricted_result_does_not_say_whether_it_was_stored() -> None:
    with pytest.raises(NotGranted):
        draft(make_authority(sensitivity=Sensitivity.RESTRICTED), **draft_members())
    assert draft(
        make_authority(sensitivity=Sensitivity.RESTRICTED), **draft_members(cache=CacheOutcome("WITHHELD"))
    ).body


def test_what_rests_on_another_answer_was_not_stored_before() -> None:
    def stored(statement: dict[str, Any]) -> None:
        statement["predicate"]["cache"] = {"outcome": "HIT", "used": True, "key": "dsc:1:key"}

    with pytest.raises(InvalidProvenance) as caught:
        verified(grown(Node(0, (Node(1),)), change=stored))
    assert caught.value.check == "cache"


def test_what_is_carried_was_signed_before_what_carries_it() -> None:
    def later(statement: dict[str, Any]) -> None:
        statement["predicate"]["sealed_at"] = "9999-12-31T23:59:59.999999Z"

    lower = grown(Node(1), client=agent_id(0), path="0.0", change=later)
    statement = opened(grown(Node(0, (Node(1),))))
    statement["predicate"]["upstream"][0]["envelope"] = lower
    with pytest.raises(InvalidProvenance) as caught:
        verified(sign_envelope(statement, signer_of(agent_id(0))))
    assert caught.value.check == "sealed_at"


def test_the_honest_statement_is_one() -> None:
    assert check_of(HONEST) is None
    assert unverified(grown(Node(0), client=ROOT)).predicate.cache.outcome == "MISS"


TWO_ROWS = ResultDocument(b"0123456789", 2, truncated=False, as_of="2026-08-31T22:00:00Z")


@pytest.mark.parametrize("limits", [{"max_rows": 1}, {"max_bytes": 9}])
def test_a_result_beyond_its_limits_is_never_drafted(limits: dict[str, int]) -> None:
    with pytest.raises(NotGranted) as caught:
        draft(make_authority(), **{**draft_members(), "document": TWO_ROWS, **limits})
    assert caught.value.reason is Reason.EVIDENCE_UNAVAILABLE
