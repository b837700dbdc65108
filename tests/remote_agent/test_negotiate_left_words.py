"""What a dataset agent says of words that no call of it takes: which they are, and whether they limit."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from remote_agent.negotiate import _propose
from remote_agent.outcome import Request
from tests.control_plane.control_plane_world import NOW
from tests.shipped_registry import shipped_registry

SHIPPED = [manifest.published() for manifest in shipped_registry().datasets.values()]


def _said(question: str) -> dict[str, Any]:
    return _propose(cast(Request, SimpleNamespace(question=question, half=None)), SHIPPED, NOW)


@pytest.mark.parametrize(
    ("question", "words", "limits"),
    [
        ("Find batches without resin fouling", ["without"], True),
        ("Compare the recovry of batches B001 and B002", ["recovry"], False),
    ],
)
def test_words_that_limit_are_told_from_those_that_may_be_left_out(
    question: str, words: list[str], limits: bool
) -> None:
    said = _said(question)
    assert (said["not_understood"], said["limits"]) == (words, limits)
    assert said["capabilities"]


def test_where_no_words_are_left_over_nothing_is_said_of_them() -> None:
    assert _said("what is love").keys() == {"capabilities"}
