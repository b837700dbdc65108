"""What is no obligation, and what is no policy's answer, is refused in the words that say which member it is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from contract.scope import ScopeError
from control_plane.obligations import parse_annotations, parse_obligations
from control_plane.policy import PolicyAnswer

NONE: dict[str, Any] = {"rows": {}, "columns": None, "masks": {}}


def test_obligations_of_nothing_are_obligations() -> None:
    assert parse_obligations(NONE).columns is None


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (["rows", "columns", "masks"], "exactly the members"),
        (NONE | {"more": 1}, "exactly the members"),
        (NONE | {"columns": {}}, "columns must be a list or null"),
        (NONE | {"masks": []}, "masks must be an object"),
        (NONE | {"stale_s": True}, "stale_s must be a number"),
        (NONE | {"columns": ["a b.c"]}, "is not table.column"),
        (NONE | {"columns": ["a.b.c"]}, "is not table.column"),
        (NONE | {"columns": ["a.b", "a.b"]}, "stands twice"),
    ],
)
def test_what_is_no_obligation_is_refused(raw: Any, said: str) -> None:
    with pytest.raises(ScopeError, match=said):
        parse_obligations(raw)


@pytest.mark.parametrize(
    ("constraint", "said"),
    [
        (["x"], "needs a constraint object"),
        ({"one_of": {"principal": 3}}, "a bound value is exactly"),
        ({"one_of": {"principal": "No Slug"}}, "a bound value is exactly"),
        ({"one_of": {"principal": "sites", "more": 1}}, "a bound value is exactly"),
    ],
)
def test_a_row_constraint_that_could_not_be_bound_is_refused_when_it_is_loaded(constraint: Any, said: str) -> None:
    with pytest.raises(ScopeError, match=said):
        parse_annotations({"rows": json.dumps({"plants.site": constraint})})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"policy_id": 3}, "must be text"),
        ({"policy_version": 3}, "must be text"),
        ({"attributes": "abc"}, "must be a list of names"),
        ({"attributes": [1]}, "must be a list of names"),
        ({"policy_version": ""}, "states its policy version"),
        ({"more": 1}, "unknown member"),
    ],
)
def test_what_is_no_answer_of_a_policy_is_refused(changes: dict[str, Any], said: str) -> None:
    told = {"outcome": "permit", "policy_id": "P-1", "policy_version": "1"}
    assert PolicyAnswer.from_json(told).policy_id == "P-1"
    with pytest.raises(ValueError, match=said):
        PolicyAnswer.from_json(told | changes)
