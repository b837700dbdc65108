"""A STRUCT on the command line is JSON, whichever way it is written."""

from __future__ import annotations

import pytest

from contract.errors import DatasetAgentError
from contract.schema import Parameter
from control_plane.free_text import is_free_text
from dataset_agent.arguments import read_arguments

FIELDS = [{"name": "low", "type": "INT64"}]
RANGE = Parameter.model_validate({"name": "range", "type": "STRUCT", "fields": FIELDS, "description": "a range"})
RANGES = RANGE.model_copy(update={"name": "ranges", "repeated": True})


def test_a_struct_is_read_as_json() -> None:
    declared = {"range": RANGE, "ranges": RANGES}
    for pair in ('range={"low": 3}', 'range:={"low": 3}'):
        assert read_arguments([pair], declared) == {"range": {"low": 3}}
    assert read_arguments(['ranges=[{"low": 3}, {"low": 4}]'], declared) == {"ranges": [{"low": 3}, {"low": 4}]}


def test_what_is_no_json_is_refused_by_the_name_of_the_parameter() -> None:
    with pytest.raises(DatasetAgentError, match="--arg range: "):
        read_arguments(["range=low"], {"range": RANGE})


def test_words_of_a_question_are_no_pattern() -> None:
    text = Parameter.model_validate({"name": "t", "type": "STRING", "description": "a text"})
    assert is_free_text(text)
    assert not is_free_text(text.model_copy(update={"wildcards": True}))
