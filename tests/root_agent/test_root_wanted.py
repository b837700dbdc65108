"""What a person asks is checked where it comes in, and whoever is told no learns what to send."""

from __future__ import annotations

from typing import Any

import pytest

from contract.call import ARROW_MEDIA_TYPE, MAX_CALL_BYTES, MAX_QUESTION_CHARS, RESULT_MEDIA_TYPE
from contract.errors import Category, DatasetAgentError
from root_agent.wanted import MAX_AGE_S, Wanted

CALL: dict[str, Any] = {"dataset": "plants", "capability": "read", "arguments": {"batch": "B001"}}


def refused(**asked: Any) -> str:
    with pytest.raises(DatasetAgentError) as problem:
        Wanted.of(**asked)
    assert problem.value.category is Category.INVALID_INPUT
    return problem.value.code.removeprefix("root_agent.")


def sized(size: int) -> dict[str, Any]:
    """A call of so many bytes."""
    call = {**CALL, "arguments": {"text": ""}}
    held = Wanted.of(call=call).call
    assert held is not None
    return {**CALL, "arguments": {"text": "x" * (size - len(held.encode()))}}


def test_what_is_asked_is_kept_as_it_came() -> None:
    words = Wanted.of("which?", max_age_s=60, schema_version="1", zone="Europe/Zurich", media_type=ARROW_MEDIA_TYPE)
    assert (words.question, words.call, words.max_age_s, words.schema_version) == ("which?", None, 60.0, "1")
    assert (str(words.zone), words.media_type) == ("Europe/Zurich", ARROW_MEDIA_TYPE)
    typed = Wanted.of(call=CALL, task="task-1")
    assert typed.call is not None
    assert (typed.call.dataset, typed.call.capability, typed.call.arguments) == ("plants", "read", {"batch": "B001"})
    assert (typed.question, typed.task, typed.media_type, typed.max_age_s) == (None, "task-1", RESULT_MEDIA_TYPE, None)


def test_words_or_a_call_are_asked_and_never_both() -> None:
    assert refused() == refused(question="which?", call=CALL) == "ask.shape"


@pytest.mark.parametrize("question", ["", "  \n", 7, ["which?"], {"text": "which?"}, b"which?"])
def test_a_question_is_words(question: object) -> None:
    assert refused(question=question) == "question.empty"


def test_a_question_has_a_length_and_is_unicode() -> None:
    Wanted.of("x" * MAX_QUESTION_CHARS)
    assert refused(question="x" * (MAX_QUESTION_CHARS + 1)) == "question.too_long"
    assert refused(question="\ud800") == "question.unicode"


@pytest.mark.parametrize("task", ["", "x" * 201, "two\nlines", "é", 7, ["task-1"]])
def test_a_task_is_named_by_a_plain_id(task: object) -> None:
    assert refused(call=CALL, task=task) == "ask.task"


def test_a_task_is_completed_by_a_call() -> None:
    assert refused(question="which?", task="task-1") == "ask.task"


@pytest.mark.parametrize("form", ["text/csv", "", "application/json; charset=utf-8"])
def test_a_result_comes_in_a_form_that_there_is(form: str) -> None:
    assert refused(call=CALL, media_type=form) == "ask.form"


@pytest.mark.parametrize("age", [True, False, "60", -1, MAX_AGE_S + 1, float("nan"), float("inf"), [60]])
def test_an_age_is_a_number_of_seconds(age: object) -> None:
    assert [Wanted.of("w?", max_age_s=most).max_age_s for most in (0, 0.5, MAX_AGE_S)] == [0.0, 0.5, float(MAX_AGE_S)]
    assert refused(question="which?", max_age_s=age) == "ask.max_age"


@pytest.mark.parametrize("version", ["", 1, "two\nlines", ["1"], "x" * 201])
def test_a_version_is_a_plain_id(version: object) -> None:
    assert refused(question="which?", schema_version=version) == "ask.schema_version"


@pytest.mark.parametrize("zone", ["Europe/Nowhere", 7, "../etc/passwd"])
def test_a_zone_is_one_that_there_is(zone: object) -> None:
    assert refused(question="which?", zone=zone) == "ask.zone"


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("plants.read", "call.shape"),
        (["dataset", "capability", "arguments"], "call.shape"),
        ({}, "call.shape"),
        (CALL | {"more": 1}, "call.shape"),
        ({"dataset": "plants", "capability": "read"}, "call.shape"),
        (CALL | {"dataset": 7}, "call.names"),
        (CALL | {"dataset": "Plants of a garden"}, "call.names"),
        (CALL | {"capability": None}, "call.names"),
        (CALL | {"capability": "'; DROP"}, "call.names"),
        (CALL | {"arguments": [["batch", "B001"]]}, "call.arguments"),
        (CALL | {"arguments": None}, "call.arguments"),
        (CALL | {"arguments": {1: "x"}}, "call.arguments"),
        (CALL | {"arguments": {"x": {1, 2}}}, "call.arguments"),
        (CALL | {"arguments": {"x": float("nan")}}, "call.arguments"),
    ],
)
def test_a_call_is_a_dataset_a_capability_and_arguments_of_json(call: object, code: str) -> None:
    assert refused(call=call) == code


def test_a_call_has_a_size() -> None:
    Wanted.of(call=sized(MAX_CALL_BYTES))
    assert refused(call=sized(MAX_CALL_BYTES + 1)) == "call.too_large"
