"""A period in a question: read where it is plain, told where it is not, and never left out unseen."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from contract.zone import read_zone
from control_plane.descriptor import DatasetDescriptor
from control_plane.interpret import Proposal, check_proposal, interpret, supplement
from tests.control_plane.control_plane_world import raw_capability, raw_manifest

NOW = datetime(2024, 11, 30, 23, 30, tzinfo=UTC).timestamp()
ZURICH = read_zone("Europe/Zurich")


def bound(name: str, kind: str = "DATE", **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "description": f"bound {name}", "nullable": True, **more}


def number(name: str) -> dict[str, Any]:
    return {"name": name, "type": "INT64", "description": "litres", "nullable": True}


def period(name: str, start: str, end: str) -> dict[str, str]:
    return {"name": name, "from": start, "to": end}


def world(*parameters: dict[str, Any], periods: list[dict[str, str]] | None = None) -> DatasetDescriptor:
    capability = raw_capability(
        name="count_harvests",
        description="count batches that were harvested",
        keywords=["harvests", "harvested", "count harvests", "how many", "per month", "find harvests mentioning"],
        examples=["Count harvests in March 2024"],
        parameters=list(parameters) or [bound("harvested_from"), bound("harvested_to")],
        periods=[period("harvested", "harvested_from", "harvested_to")] if periods is None else periods,
    )
    raw = raw_manifest(capabilities=[capability])
    keep = {"tables", "bigquery", "revision_command"}
    published = {name: value for name, value in raw.items() if name not in keep}
    published["capabilities"] = [{name: value for name, value in capability.items() if name != "template"}]
    return DatasetDescriptor.model_validate(published)


HARVESTS = world()


def asked(question: str, descriptor: DatasetDescriptor = HARVESTS) -> Proposal:
    found = interpret(question, [descriptor], now=NOW, zone=ZURICH)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("question", "start", "end"),
    [
        ("Count harvests in March 2024", "2024-03-01", "2024-04-01"),
        ("How many batches were harvested in 2024?", "2024-01-01", "2025-01-01"),
        ("Count the harvests, 2024", "2024-01-01", "2025-01-01"),
        ("March 2024: count harvests", "2024-03-01", "2024-04-01"),
        ("Count harvests per month in 2024", "2024-01-01", "2025-01-01"),
        ("Count harvests today", "2024-12-01", "2024-12-02"),
        ("Count last month's harvests", "2024-11-01", "2024-12-01"),
        ("Count harvests over the last 7 days", "2024-11-25", "2024-12-02"),
        ("Count harvests since 2024-03-15", "2024-03-15", None),
        ("Count harvests before 15 March 2024", None, "2024-03-15"),
        ("Count harvests between 2024-01-15 and 2024-02-03.", "2024-01-15", "2024-02-04"),
        ("Count harvests between 2022 and 2023", "2022-01-01", "2024-01-01"),
        ("Count harvests 2024-01-15..2024-02-03", "2024-01-15", "2024-02-04"),
        ("Count harvests in Q1 2024, please", "2024-01-01", "2024-04-01"),
        ("In March 2024, how many harvests (2024-03)?", "2024-03-01", "2024-04-01"),
        ("How many harvests were there", None, None),
    ],
)
def test_what_a_question_says_of_time_becomes_both_bounds(question: str, start: str | None, end: str | None) -> None:
    found = asked(question)
    given = {"harvested_from": start, "harvested_to": end}
    assert dict(found.arguments) == {name: value for name, value in given.items() if value is not None}
    assert found.missing == ()


@pytest.mark.parametrize(
    "question",
    [
        "Count harvests on 03/04/2024",
        "Count harvests in March",
        "Count harvests 2024",
        "Count harvests not in 2024",
        "Count harvests except in March 2024",
        "Count harvests apart from 2024-03",
        "Count harvests at the end of 2024",
        "Count harvests in the first half of 2024",
        "Count harvests until 2024-03-15",
        "Count harvests by 2024-03-15",
        "Count harvests from March 2024",
        "Count harvests no later than 2024-03-15",
        "Count harvests in 2024 or later",
        "Count harvests in March 2024 and April 2024",
        "Count harvests in 2023 and 2024",
        "Count harvests in 2000 L",
        "Count harvests next month",
        "Count harvests two days ago",
        "Count harvests last 3 months",
        "Count harvests on Monday",
        "Count harvests since 2024-03-15T10:00:00Z",
        "Count harvests in March 2024 at 2024-13-01",
        "Count harvests last week of March 2024",
    ],
)
def test_what_is_not_plain_is_told_and_fills_nothing(question: str) -> None:
    found = asked(question)
    assert dict(found.arguments) == {}
    assert [item.name for item in found.missing] == ["harvested_from", "harvested_to"]
    assert all("write harvested as one of: 2024, 2024-03" in item.description for item in found.missing)


def test_a_number_that_may_be_a_year_is_of_neither() -> None:
    tanks = world(bound("harvested_from"), bound("harvested_to"), number("least_l"), number("most_l"))
    plain = asked("Count harvests of at least 2000 since 2024-03-01", tanks)
    assert dict(plain.arguments) == {"harvested_from": "2024-03-01", "least_l": 2000}
    either = asked("Count harvests between 2000 and 2020", tanks)
    assert dict(either.arguments) == {}
    assert {item.name for item in either.missing} >= {"harvested_from", "harvested_to"}


def test_a_quoted_time_is_text_and_a_said_one_is_no_text() -> None:
    search = world(
        {"name": "query", "type": "STRING", "description": "text that is sought"},
        bound("harvested_from"),
        bound("harvested_to"),
    )
    said = asked("Find harvests mentioning fouling in March 2024", search)
    assert dict(said.arguments) == {"query": "fouling", "harvested_from": "2024-03-01", "harvested_to": "2024-04-01"}
    assert dict(asked("Find harvests mentioning 'March 2024'", search).arguments) == {"query": "March 2024"}


def test_of_two_periods_each_is_named_just_before() -> None:
    both = world(
        bound("harvested_from"), bound("harvested_to"), bound("released_from"), bound("released_to"),
        periods=[period("harvested", "harvested_from", "harvested_to"), period("released", "released_from", "released_to")],
    )  # fmt: skip
    found = asked("Count harvests harvested in March 2024 and released in April 2024", both)
    assert dict(found.arguments) == {
        "harvested_from": "2024-03-01",
        "harvested_to": "2024-04-01",
        "released_from": "2024-04-01",
        "released_to": "2024-05-01",
    }
    assert dict(asked("Count harvests of all the batches in March 2024", both).arguments) == {}


def test_what_a_parameter_does_not_take_is_told() -> None:
    narrow = world(bound("harvested_from", minimum="2024-01-01"), bound("harvested_to"))
    assert [item.name for item in asked("Count harvests in 2023", narrow).missing] == ["harvested_from", "harvested_to"]


def test_a_model_may_name_a_period_and_code_reads_it() -> None:
    def proposed(**arguments: Any) -> Proposal | None:
        raw = {"dataset": HARVESTS.dataset, "capability": "count_harvests", "arguments": arguments}
        return check_proposal(raw, [HARVESTS], now=NOW, zone=ZURICH)

    read, unread = proposed(harvested="today"), proposed(harvested="03/04/2024")
    assert read is not None and dict(read.arguments) == {"harvested_from": "2024-12-01", "harvested_to": "2024-12-02"}
    assert unread is not None and [item.name for item in unread.missing] == ["harvested_from", "harvested_to"]
    beside = proposed(harvested="2024", harvested_from="2023-01-01")
    assert beside is not None and len(beside.missing) == 1 and beside.missing[0].name == "harvested_to"
    assert proposed(produced="2024") is None


def test_words_that_complete_a_call_say_the_period_that_is_open() -> None:
    open_ = world(bound("harvested_from", nullable=False), bound("harvested_to", nullable=False))
    found = supplement("last month", open_, {}, "count_harvests", now=NOW, zone=ZURICH)
    assert dict(found.arguments) == {"harvested_from": "2024-11-01", "harvested_to": "2024-12-01"}
    half = supplement("last month", open_, {"harvested_from": "2024-01-01"}, "count_harvests", now=NOW, zone=ZURICH)
    assert [item.name for item in half.missing] == ["harvested_to"]


@pytest.mark.parametrize(
    "periods",
    [
        [period("harvested_from", "harvested_from", "harvested_to")],
        [period("harvested", "harvested_from", "harvested_from")],
        [period("harvested", "harvested_from", "nothing")],
        [period("harvested", "harvested_from", "litres")],
        [period("harvested", "litres", "litres2")],
        [period("harvested", "harvested_from", "days")],
        [period("harvested", "harvested_from", "harvested_to")] * 2,
        [period("one", "harvested_from", "harvested_to"), period("two", "harvested_to", "third")],
        [{"name": "harvested", "from": "harvested_from"}],
    ],
)
def test_a_period_lies_between_two_bounds_of_its_own(periods: list[dict[str, str]]) -> None:
    declared = [
        bound("harvested_from"), bound("harvested_to"), bound("third"), number("litres"), number("litres2"),
        bound("days", repeated=True),
    ]  # fmt: skip
    with pytest.raises(ValidationError):
        world(*declared, periods=periods)


def test_a_period_crosses_a_card_unchanged() -> None:
    assert HARVESTS.to_json()["capabilities"][0]["periods"] == [period("harvested", "harvested_from", "harvested_to")]
    assert DatasetDescriptor.model_validate(HARVESTS.to_json()) == HARVESTS
