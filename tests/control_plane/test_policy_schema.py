"""What docs/opa.md and the JSON Schema say of a policy server is what is sent, and what is taken."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from contract.scope import Mask, Obligations, Sensitivity, parse_rows
from control_plane.descriptor import Effect
from control_plane.policy import Outcome, PolicyAnswer, PolicyRequest
from control_plane.policy_schema import main, policy_schema, schema_text
from tests.control_plane.control_plane_world import make_principal, make_question, permit

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "opa.md").read_text(encoding="utf-8")
BLOCKS = dict(re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
SCHEMA = policy_schema()


def _is_valid(part: str, document: Any) -> bool:
    return Draft202012Validator({"$defs": SCHEMA["$defs"], "$ref": f"#/$defs/{part}"}).is_valid(document)


def test_the_published_schema_is_the_present_one() -> None:
    published = (DOCS / "policy.schema.json").read_text(encoding="utf-8")
    assert published == schema_text(), "python -m control_plane.policy_schema --write docs/policy.schema.json"


def test_the_schema_is_a_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)


def test_the_schema_is_written_where_it_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--write", str(tmp_path / "x.json")]) == 0
    assert (tmp_path / "x.json").read_text(encoding="utf-8") == schema_text()
    assert main([]) == 0
    assert capsys.readouterr().out == schema_text()
    assert main(["x"]) == 2


NAMES = st.from_regex(r"[a-z][a-z0-9_-]{0,8}", fullmatch=True)
VALUES = st.one_of(st.text(max_size=8), st.booleans(), st.integers(), st.lists(st.text(max_size=4)).map(tuple))
QUESTIONS = st.builds(
    make_question,
    principal=st.builds(
        make_principal,
        tenant=NAMES,
        principal_class=NAMES,
        clearance=st.sampled_from(Sensitivity),
        attributes=st.dictionaries(NAMES, VALUES, max_size=3),
    ),
    dataset=NAMES,
    capability=NAMES,
    effect=st.sampled_from(Effect),
    sensitivity=st.sampled_from(Sensitivity),
    tenant=NAMES,
    policy_id=st.sampled_from([None, "P-1"]),
)


@settings(max_examples=60, deadline=None)
@given(QUESTIONS)
def test_every_question_that_is_sent_is_of_the_schema(question: PolicyRequest) -> None:
    assert _is_valid("question", {"input": json.loads(json.dumps(question.to_json()))})


@pytest.mark.parametrize("member", [*make_question().to_json(), "name"])
def test_a_question_with_a_member_more_or_less_is_not_of_the_schema(member: str) -> None:
    question = make_question().to_json()
    if member in question:
        del question[member]
    else:
        question[member] = "x"
    assert not _is_valid("question", {"input": question})


def test_the_question_of_the_page_has_the_members_of_one_that_is_sent() -> None:
    told = json.loads(BLOCKS["json"])["input"]
    sent = make_question().to_json()
    assert list(told) == list(sent)
    assert list(told["principal"]) == list(sent["principal"])
    assert _is_valid("question", {"input": told})
    assert PolicyRequest.from_json(told).to_json() == told


FULL = Obligations(
    rows=parse_rows({"plants.site": {"one_of": ["a", 1], "not_one_of": []}, "plants.id": {"min": 3, "prefix": "x"}}),
    columns=frozenset({"plants.id"}),
    masks={"plants.id": Mask.HASH},
    stale_s=60,
)


@pytest.mark.parametrize(
    "answer",
    [
        permit(),
        permit(obligations=FULL),
        PolicyAnswer(Outcome.FORBID, "P-1", "1"),
        PolicyAnswer(Outcome.NONE, None, "1"),
        PolicyAnswer(Outcome.ERROR, None, "1", detail="x"),
        PolicyAnswer(Outcome.MISSING_ATTRIBUTE, None, "1", attributes=("site",)),
    ],
)
def test_every_answer_that_is_given_is_of_the_schema(answer: PolicyAnswer) -> None:
    assert _is_valid("answer", {"result": answer.to_json()})


GOOD = permit(obligations=FULL).to_json()
ROWS = GOOD["obligations"]["rows"]


def _obliged(**members: Any) -> dict[str, Any]:
    return GOOD | {"obligations": GOOD["obligations"] | members}


@pytest.mark.parametrize(
    "result",
    [
        True,
        None,
        [],
        {},
        {"allow": True},
        GOOD | {"outcome": "allow"},
        GOOD | {"policy_id": None},
        GOOD | {"policy_id": ""},
        GOOD | {"policy_id": 7},
        GOOD | {"policy_version": ""},
        GOOD | {"policy_version": 1},
        GOOD | {"outcome": "none"},
        GOOD | {"more": 1},
        GOOD | {"attributes": "site"},
        GOOD | {"attributes": [1]},
        GOOD | {"attributes": ["Not A Name"]},
        GOOD | {"attributes": ["a"] * 9},
        GOOD | {"obligations": None},
        GOOD | {"obligations": {"rows": {}}},
        _obliged(more={}),
        _obliged(rows={"id": {"min": 1}}),
        _obliged(rows={"plants.id": {}}),
        _obliged(rows={"plants.id": {"like": "x"}}),
        _obliged(rows={"plants.id": {"one_of": "x"}}),
        _obliged(rows={"plants.id": {"one_of": [1.5]}}),
        _obliged(rows={"plants.id": {"one_of": [True]}}),
        _obliged(rows={"plants.id": {"max": 2**53}}),
        _obliged(rows={"plants.id": {"prefix": ""}}),
        _obliged(columns="plants.id"),
        _obliged(columns=["id"]),
        _obliged(columns=["plants.id", "plants.id"]),
        _obliged(masks={"plants.id": "blur"}),
        _obliged(masks={"id": "hash"}),
        _obliged(stale_s=-1),
        _obliged(stale_s=604_801),
        _obliged(stale_s="60"),
    ],
)
def test_what_is_no_decision_is_neither_of_the_schema_nor_taken(result: Any) -> None:
    assert not _is_valid("answer", {"result": result})
    with pytest.raises(ValueError):
        PolicyAnswer.from_json(result)


def test_an_undefined_document_is_no_answer_of_the_schema() -> None:
    assert not _is_valid("answer", {})
