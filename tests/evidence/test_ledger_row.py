"""The model of a row is closed: what does not belong cannot get in."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from contract.verdict import Decision, Reason
from evidence.row import Kind, LedgerRow, leaf_data, recordable
from tests.evidence.evidence_builders import CALL_HASH, SUBJECT, make_row, refused_row

TOKEN = "eyJhbGciOiJFZDI1NTE5In0.eyJzdWIiOiJ1LWVuZy0wMSJ9.c2lnbmF0dXJl"


@pytest.mark.parametrize("member", ["arguments", "rows", "token", "rationale", "result"])
def test_a_row_has_no_place_for(member: str) -> None:
    with pytest.raises(ValidationError):
        make_row(**{member: "x"})


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("dataset", "Purification Batches"),
        ("requested_dataset", "a" * 65),
        ("capability", "'; DROP TABLE entries"),
        ("call_hash", "B001"),
        ("result_digest", "a" * 63),
        ("leaf_digest", TOKEN),
        ("policy_id", TOKEN),
        ("decision_id", "two words"),
        ("agent_id", "urn:\u00e9"),
        ("rows_returned", -1),
        ("cache", "PERHAPS"),
        ("reason", "OF_MY_OWN"),
        ("recorded_at", float("nan")),
        ("subject", ""),
        ("event_ids", ("e",) * 65),
    ],
)
def test_a_value_outside_its_grammar_is_refused(member: str, value: object) -> None:
    with pytest.raises(ValidationError):
        make_row(**{member: value})


@pytest.mark.parametrize("member", ["trace_id", "session_id", "request_id", "txn", "leaf_jti", "task_id", "tenant"])
@pytest.mark.parametrize("value", [TOKEN, "show me batch B001", "x" * 201, "\u00e9", "nul\x00"])
def test_a_hostile_correlation_id_is_recorded_as_its_digest(member: str, value: str) -> None:
    recorded = getattr(make_row(**{member: value}), member)
    assert recorded == recordable(value)
    assert recorded.startswith("sha256:")
    assert value not in recorded


def test_a_plain_correlation_id_is_recorded_as_it_is() -> None:
    assert recordable("4bf92f3577b34da6a3ce929d0e0e4736") == "4bf92f3577b34da6a3ce929d0e0e4736"


def test_granted_names_its_policy() -> None:
    with pytest.raises(ValidationError, match="GRANTED names its policy"):
        make_row(policy_id=None)


def test_indeterminate_names_none() -> None:
    with pytest.raises(ValidationError, match="INDETERMINATE names no policy"):
        refused_row(reason=Reason.EVALUATOR_TIMEOUT, policy_id="BPD-DATA-014")


@pytest.mark.parametrize("member", ["dataset_version", "revision", "capability"])
def test_granted_on_a_dataset_says_which_data(member: str) -> None:
    with pytest.raises(ValidationError, match="GRANTED on a dataset"):
        make_row(**{member: None})


def test_a_subject_needs_its_issuer() -> None:
    with pytest.raises(ValidationError, match="issuer"):
        make_row(issuer=None)


@pytest.mark.parametrize("cache", ["MISS", "STALE", None])
def test_what_is_derived_is_a_hit(cache: str | None) -> None:
    make_row(cache="HIT", derived=1)
    with pytest.raises(ValidationError, match="what is derived is a HIT"):
        make_row(cache=cache, derived=1)


def test_a_row_of_a_removal_names_the_rows_and_no_other_row_does() -> None:
    removed = "0-10:" + "0" * 64
    make_row(kind=Kind.SEGMENT_REMOVED, segment=removed)
    for members in ({"segment": removed}, {"kind": Kind.SEGMENT_REMOVED}):
        with pytest.raises(ValidationError, match="a removal names its rows"):
            make_row(**members)


@pytest.mark.parametrize("value", [1.5, True, b"x", ["x"], {"a": 1}])
def test_a_leaf_is_of_texts_and_integers(value: object) -> None:
    cells: dict[str, Any] = {"kind": "terminal", "rows_returned": 2, "client": None}
    assert leaf_data(0, cells) == b'{"client":null,"index":0,"kind":"terminal","rows_returned":2}'
    with pytest.raises(TypeError, match="text, an integer or null"):
        leaf_data(0, cells | {"reason": value})


def test_printing_a_row_shows_nothing_personal() -> None:
    text = repr(make_row())
    assert SUBJECT not in text
    assert CALL_HASH not in text


def test_a_decision_gives_its_members() -> None:
    decision = Decision(
        reason=Reason.INSUFFICIENT_PRIVILEGE, policy_id="AD-POL-005", policy_version="2026.1", rationale="not entitled"
    )
    row = LedgerRow(
        **LedgerRow.decided(decision),
        side="root",
        recorded_at=1.0,
        agent_id="urn:dataset-agent:root",
        request_id="r",
    )
    assert (row.reason, row.policy_id, row.decision_id) == (decision.reason, "AD-POL-005", decision.decision_id)
