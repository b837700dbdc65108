"""Questions about datasets of other domains are read right, or who asks is asked: no words are answered as other ones."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from control_plane.arguments import find_arguments
from control_plane.descriptor import DatasetDescriptor
from control_plane.interpret import hear, supplement
from tests.control_plane.control_plane_world import NOW, make_descriptor, raw_capability
from tests.control_plane.invented_worlds import FREIGHT, INVENTED
from tests.control_plane.reading_tables import Called, call_of, read_table, told
from tests.shipped_registry import shipped_registry

WORLD = [*(manifest.published() for manifest in shipped_registry().datasets.values()), *INVENTED]
TABLE = read_table(Path(__file__).parent / "readings_invented.txt")
BEFORE = """
don't show; not; why; how often; how long; count the pairs of; the average of; the highest; top 5; all but; everything except; other
than; without; only; half of; twice; the opposite of; the trend of; forecast of; delete; export; plot; rank; join
"""
AFTER = """
as a trend; over time; sorted by name; in descending order; except B001; excluding the rest; joined with sales; twice as much as B009;
compared to B009; versus the mean; as a percentage; at least; or more; when it rained; unless it failed; three times; the other way
round; and back; minus one; or B009; but not B009; in miles; tomorrow; why; because of heat; correlated with heat; which failed;
then delete it; as a csv; on Mondays; two days ago; half; a third; increasing; outside Europe
"""


def _call(question: str, world: list[DatasetDescriptor] = WORLD) -> Called | None:
    return call_of(hear(question, world, now=NOW))


@pytest.mark.parametrize(("question", "expected"), [row[1:] for row in TABLE], ids=[row[1] for row in TABLE])
def test_a_question_about_an_invented_dataset_is_read_as_the_table_says(question: str, expected: str) -> None:
    assert told(hear(question, WORLD, now=NOW)) == expected


def test_the_table_holds_questions_of_every_kind_once() -> None:
    kinds = Counter(row[0] for row in TABLE)
    assert len({row[1] for row in TABLE}) == len(TABLE) >= 180
    assert kinds.keys() == {
        "beside", "bound", "count", "day", "grouping", "name", "text", "turned", "two", "way",
    }  # fmt: skip


@cache
def _understood() -> list[str]:
    """Questions that are calls, but for searches: any word may be part of what is sought."""
    asked = [row[1] for row in TABLE if not row[2].startswith(("-", "?"))]
    return [
        question
        for question in asked
        if "text" not in (call := _call(question) or ("", "", {}))[2] and call[1] != "search"
    ]


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_what_no_call_can_do_is_never_answered_as_the_plain_call(data: st.DataObject) -> None:
    question = data.draw(st.sampled_from(_understood()))
    before, after = ([text.strip() for text in listed.replace("\n", " ").split(";")] for listed in (BEFORE, AFTER))
    asked = data.draw(
        st.one_of(
            st.sampled_from([f"{text} {question}" for text in before]),
            st.sampled_from([f"{question} {text}" for text in after]),
            st.sampled_from([f"{question}, {text}" for text in after]),
        )
    )
    assert _call(asked) is None or _call(asked) != _call(question), asked


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(range(1_000)), st.sampled_from([" and ", ", ", "; ", ". ", " or ", " then "]))
def test_two_questions_are_never_answered_as_one_of_them(number: int, between: str) -> None:
    asked = _understood()
    one, other = asked[number % len(asked)], asked[number // 7 % len(asked)]
    if _call(one) != _call(other):
        assert _call(f"{one}{between}{other}") is None


@pytest.mark.parametrize(
    ("question", "least", "largest"),
    [
        ("above 3", 4, None), ("more than 3", 4, None), ("at least 3", 3, None), ("not below 3", 3, None),
        ("below 3", None, 2), ("fewer than 3", None, 2), ("at most 3", None, 3), ("not above 3", None, 3),
        ("above 1 and below 3", 2, 2), ("between 1 and 3", 1, 3),
    ],
)  # fmt: skip
def test_a_whole_number_that_is_left_out_has_the_next_one_for_its_bound(
    question: str, least: int | None, largest: int | None
) -> None:
    (routes,) = [item for item in FREIGHT.capabilities if item.name == "routes"]
    found = find_arguments(f"stops {question}", routes.parameters, NOW, capability=routes)
    wanted = {"min_stops": least, "max_stops": largest}
    assert found.values == {name: value for name, value in wanted.items() if value is not None}


def test_a_bound_that_leaves_the_figure_out_is_told_with_what_can_be_said() -> None:
    found = hear("Shipments from Hamburg to Oslo over 500 kg", WORLD, now=NOW).proposal
    assert found is not None
    assert "min_weight takes it in: say at least 500" in found.missing[0].description


@pytest.mark.parametrize(("said", "destination"), [("to Oslo", "oslo"), ("Oslo", "oslo"), ("from Oslo", None)])
def test_what_completes_a_call_is_of_the_end_that_its_words_name(said: str, destination: str | None) -> None:
    found = supplement(said, FREIGHT, {"origin": "hamburg"}, "list_shipments", now=NOW)
    assert found.arguments.get("destination") == destination


def test_declared_order_does_not_decide_which_end_is_which() -> None:
    ports = {"type": "STRING", "description": "d", "values": ["oslo", "cork"], "case": "lower", "max_length": 8}
    capability = raw_capability(
        "moves", keywords=["moves"], parameters=[{"name": "destination", **ports}, {"name": "origin", **ports}]
    )
    world = [make_descriptor(capability)]
    moved = ("plants", "moves", {"destination": "cork", "origin": "oslo"})
    assert _call("moves from Oslo to Cork", world) == _call("moves to Cork from Oslo", world) == moved
