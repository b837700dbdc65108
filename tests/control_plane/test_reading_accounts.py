"""No word of a question that tells something is left out: an argument takes it, the card says it, or nothing is called."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from control_plane.descriptor import DatasetDescriptor
from control_plane.interpret import Heard, hear, supplement
from tests.control_plane.control_plane_world import NOW, make_descriptor, raw_capability
from tests.control_plane.reading_tables import Called, call_of, read_table, told
from tests.shipped_registry import shipped_registry

HERE = Path(__file__).parent
SAMPLES = HERE.parent / "memo" / "bioreactor-samples.json"
SHIPPED = [manifest.published() for manifest in shipped_registry().datasets.values()]
WORLD = [*SHIPPED, DatasetDescriptor.model_validate(json.loads(SAMPLES.read_text(encoding="utf-8")))]
TABLE = read_table(HERE / "readings.txt")
POLAR = """
not no never without except excluding including only other unless but neither nor rather minus above below under
more less most least highest lowest first second third last next half twice some few several many nearly roughly
than before after until since yesterday Monday women Basle 17 3.25 -1 1999 B999 kg mg/L % hours 5th
"""


def _asked(question: str, world: list[DatasetDescriptor] = WORLD) -> Heard:
    return hear(question, world, now=NOW)


def _call(question: str, world: list[DatasetDescriptor] = WORLD) -> Called | None:
    return call_of(_asked(question, world))


@pytest.mark.parametrize(("question", "expected"), [row[1:] for row in TABLE], ids=[row[1] for row in TABLE])
def test_a_question_is_read_as_the_table_says(question: str, expected: str) -> None:
    assert told(_asked(question)) == expected


def test_the_table_holds_many_questions_of_every_kind_once() -> None:
    kinds = Counter(row[0] for row in TABLE)
    assert len({row[1] for row in TABLE}) == len(TABLE) >= 250
    assert kinds.keys() == {
        "direction", "identifier", "injection", "misspelling", "negation", "paraphrase", "quantity", "subject", "time",
        "two", "unit",
    }  # fmt: skip


@cache
def _understood() -> list[str]:
    examples = [example for item in WORLD for one in item.capabilities for example in one.examples]
    asked = [row[1] for row in TABLE if not row[2].startswith(("-", "?"))]
    return [question for question in dict.fromkeys([*examples, *asked]) if _call(question) is not None]


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_word_that_denies_limits_or_counts_never_leaves_a_call_as_it_was(data: st.DataObject) -> None:
    words = data.draw(st.sampled_from(_understood())).split()
    added = data.draw(st.sampled_from(POLAR.split()))
    at = data.draw(st.integers(0, len(words)))
    changed = " ".join([*words[:at], added, *words[at:]])
    # A word that is there already is taken by the same argument.
    if added not in words:
        assert _call(changed) is None or _call(changed) != _call(" ".join(words)), changed


@pytest.mark.parametrize(
    "lacking", [(d, c) for d in SHIPPED for c in d.capabilities], ids=lambda x: f"{x[0].dataset}.{x[1].name}"
)
def test_an_example_is_no_call_of_another_capability_where_its_own_may_not_be_asked(lacking: Any) -> None:
    descriptor, capability = lacking
    kept = tuple(item for item in descriptor.capabilities if item is not capability)
    rest = [item for item in SHIPPED if item is not descriptor]
    world = [*rest, descriptor.model_copy(update={"capabilities": kept})]
    assert {example: _call(example, world) for example in capability.examples} == dict.fromkeys(capability.examples)


def test_what_completes_a_call_is_accounted_for_too() -> None:
    purification = next(item for item in SHIPPED if item.dataset == "purification-batches")

    def said(words: str) -> dict[str, Any]:
        found = supplement(words, purification, {"batch_a": "B001"}, "compare_batches", now=NOW)
        assert bool(found.missing) == ("batch_b" not in found.arguments)
        return dict(found.arguments)

    assert said("the other one is B120") == {"batch_a": "B001", "batch_b": "B120"}
    assert said("not B120") == said("B120 without polishing") == said("anything except B120") == {"batch_a": "B001"}


def test_a_declared_word_is_understood_and_any_other_is_told() -> None:
    def world(*keywords: str) -> list[DatasetDescriptor]:
        return [make_descriptor(raw_capability("count", keywords=["count", "plants", *keywords]))]

    assert _asked("count the blooming plants", world()).left == ("blooming",)
    assert _asked("count the blooming plants", world("blooming")).left == ()
    assert _call("count the blooming plants", world("blooming")) is not None
