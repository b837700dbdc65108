"""Arguments are found by shape and direction; what could be two things stays open."""

from __future__ import annotations

from typing import Any

import pytest

from contract.schema import Parameter
from control_plane.arguments import find_arguments
from control_plane.confirm import confirm
from tests.control_plane.control_plane_world import NOW


def _parameter(name: str, kind: str, **changes: Any) -> Parameter:
    return Parameter.model_validate({"name": name, "type": kind, "description": "d"} | changes)


def _find(question: str, *parameters: Parameter) -> tuple[dict[str, Any], set[str]]:
    found = find_arguments(question, parameters, NOW)
    return dict(found.values), set(found.ambiguous)


FLOOR = _parameter("min_yield", "FLOAT64")
CEILING = _parameter("max_yield", "FLOAT64")
START = _parameter("start_date", "DATE")
END = _parameter("end_date", "DATE")


@pytest.mark.parametrize(
    ("question", "values"),
    [
        ("yield from 95", {"min_yield": 95.0}),
        ("yield up to 95", {"max_yield": 95.0}),
        ("yield of at least 95.5 %", {"min_yield": 95.5}),
        ("yield at most 95%", {"max_yield": 95.0}),
        ("yield between 80 and 95", {"min_yield": 80.0, "max_yield": 95.0}),
        ("yield at most 95 and at least 80", {"min_yield": 80.0, "max_yield": 95.0}),
    ],
)
def test_a_bound_is_read_from_its_words(question: str, values: dict[str, float]) -> None:
    assert _find(question, FLOOR, CEILING) == (values, set())


@pytest.mark.parametrize(
    "question", ["yield above 95", "yield below 95", "yield below 95 and above 80", "yield between 95 and 80"]
)
def test_a_bound_that_does_not_say_the_same_as_its_parameter_stays_open(question: str) -> None:
    assert _find(question, FLOOR, CEILING) == ({}, {"min_yield", "max_yield"})


@pytest.mark.parametrize(
    ("question", "values"),
    [
        ("yield above 95", {"yield_above": 95.0}),
        ("yield below 95", {"yield_below": 95.0}),
        ("yield at least 95", {}),
        ("yield between 80 and 95", {}),
    ],
)
def test_a_bound_whose_name_leaves_the_figure_out_is_read_so(question: str, values: dict[str, float]) -> None:
    assert _find(question, _parameter("yield_above", "FLOAT64"), _parameter("yield_below", "FLOAT64"))[0] == values


@pytest.mark.parametrize("question", ["yield 95", "yield above 80 and above 95", "yield above 80, 95"])
def test_a_bound_that_is_not_clear_stays_open(question: str) -> None:
    assert _find(question, FLOOR, CEILING) == ({}, {"min_yield", "max_yield"})


def test_the_wrong_direction_does_not_fill_the_only_bound() -> None:
    assert _find("yield above 95", CEILING) == ({}, {"max_yield"})


@pytest.mark.parametrize(
    ("question", "values"),
    [
        ("from 2024-01-01 to 2024-02-29", {"start_date": "2024-01-01", "end_date": "2024-02-29"}),
        ("until 2023-05-01", {"end_date": "2023-05-01"}),
        ("since 2024-05-01", {"start_date": "2024-05-01"}),
        ("since yesterday", {"start_date": "2026-09-20"}),
        ("before today", {"end_date": "2026-09-21"}),
    ],
)
def test_dates_are_read_with_their_direction(question: str, values: dict[str, str]) -> None:
    assert _find(question, START, END) == (values, set())


@pytest.mark.parametrize("question", ["since 2024-02-30", "since 2024-13-01", "since 24-01-01", "since 2024"])
def test_what_is_no_date_fills_no_date(question: str) -> None:
    assert _find(question, START)[0] == {}


@pytest.mark.parametrize(
    ("question", "value"),
    [
        ("top 5 batches", 5),
        ("5 and 5", None),
        ("top 5.0 batches", 5),
        ("show -3", -3),
        ("B005 and H2O and 2024-01-01", None),
        ("1,000", None),
    ],
)
def test_a_number_is_a_number_of_its_own(question: str, value: int | None) -> None:
    assert _find(question, _parameter("count", "INT64"))[0].get("count") == value


def test_a_fraction_is_no_integer() -> None:
    assert _find("top 5.5", _parameter("count", "INT64")) == ({}, {"count"})


def test_a_decimal_keeps_its_digits_as_text() -> None:
    assert _find("at least 0.10000000000000001", _parameter("min_mass", "NUMERIC"))[0] == {
        "min_mass": "0.10000000000000001"
    }


def test_two_plain_numbers_are_not_told_apart_by_order() -> None:
    assert _find("rows 5 score 7", _parameter("rows", "INT64"), _parameter("score", "INT64"))[0] == {}


def test_one_number_that_two_types_could_take_stays_open() -> None:
    assert _find("about 5", _parameter("rows", "INT64"), _parameter("score", "FLOAT64"))[0] == {}


@pytest.mark.parametrize(("question", "found"), [("top 5", {}), ("top 50", {"count": 50}), ("top 500", {})])
def test_a_number_outside_the_bounds_is_not_confirmed(question: str, found: dict[str, int]) -> None:
    assert _find(question, _parameter("count", "INT64", minimum=10, maximum=100))[0] == found


METRIC = _parameter(
    "metric", "STRING", values=["yield", "capture_yield"], synonyms={"capture_yield": ["protein a yield"]}
)


@pytest.mark.parametrize(
    ("question", "value"),
    [
        ("yield", "yield"),
        ("capture yield", "capture_yield"),
        ("Protein A yields", "capture_yield"),
        ("yielding", "yield"),
    ],
)
def test_a_longer_phrase_hides_the_value_inside_it(question: str, value: str) -> None:
    assert _find(question, METRIC) == ({"metric": value}, set())


def test_a_word_that_two_parameters_claim_stays_open() -> None:
    other = _parameter("other", "STRING", values=["yield", "mass"])
    assert _find("yield", METRIC, other) == ({}, {"metric", "other"})


def test_a_repeated_parameter_takes_all_values_once() -> None:
    lots = _parameter("lots", "STRING", pattern="L[0-9]+", case="upper", repeated=True)
    assert _find("lots L2, l1 and L2", lots) == ({"lots": ["L2", "L1"]}, set())


def test_more_values_than_a_list_may_hold_stay_open() -> None:
    lots = _parameter("lots", "STRING", pattern="L[0-9]+", repeated=True, max_items=2)
    assert _find("L1 L2 L3", lots) == ({}, {"lots"})


def test_case_is_kept_where_it_has_meaning() -> None:
    strict = _parameter("lot", "STRING", pattern="L[0-9]+")
    assert _find("lot l1", strict)[0] == {}


def test_a_hyphenated_identifier_is_one_piece() -> None:
    run = _parameter("run", "STRING", pattern="RUN-[0-9]{4}", case="upper")
    assert _find("show run-0001.", run)[0] == {"run": "RUN-0001"}


def test_an_optional_parameter_that_is_not_clear_is_told_as_open() -> None:
    lot = _parameter("lot", "STRING", pattern="L[0-9]+", default="L1")
    assert _find("L2 or L3", lot) == ({}, {"lot"})


@pytest.mark.parametrize(
    ("kind", "value", "confirmed"),
    [
        ("INT64", 5, 5),
        ("INT64", True, None),
        ("INT64", "5", 5),
        ("INT64", 2**63, None),
        ("INT64", "1e400", None),
        ("FLOAT64", float("nan"), None),
        ("FLOAT64", float("inf"), None),
        ("NUMERIC", "12.50", "12.50"),
        ("NUMERIC", "9" * 100, None),
        ("BOOL", True, True),
        ("BOOL", "true", None),
        ("STRING", "a", "a"),
        ("STRING", "e\u0301", None),
        ("STRING", "a\x00", None),
        ("STRING", "", None),
        ("STRING", "a" * 300, None),
        ("DATE", "2024-02-29", "2024-02-29"),
        ("DATE", "2023-02-29", None),
        ("TIMESTAMP", "2024-01-01T00:00:00Z", "2024-01-01T00:00:00+00:00"),
        ("TIMESTAMP", "2024-01-01T00:00:00", None),
        ("BYTES", "YQ==", None),
    ],
)
def test_a_value_is_confirmed_by_its_type(kind: str, value: Any, confirmed: Any) -> None:
    assert confirm(_parameter("p", kind), value) == confirmed


def _problems(question: str, *parameters: Parameter) -> dict[str, str]:
    return dict(find_arguments(question, parameters, NOW).problems)


def test_a_long_or_unprintable_pattern_is_not_quoted() -> None:
    for pattern in ("L[0-9]{1}" + "|Q[0-9]{1}" * 8, "L[0-9]\x1b"):
        assert _problems("lot L12", _parameter("lot", "STRING", pattern=pattern)) == {
            "lot": "L12 does not match the declared pattern"
        }


@pytest.mark.parametrize("word", ["L1;DROP", "x" * 30 + "1", "1.5.2", "a@b1"])
def test_only_a_short_plain_identifier_is_quoted(word: str) -> None:
    assert word not in _problems(f"lot {word}", _parameter("lot", "STRING", pattern="L[0-9]{2}")).get("lot", "")


def test_an_identifier_that_another_parameter_took_is_not_blamed() -> None:
    lot, run = _parameter("lot", "STRING", pattern="L[0-9]+"), _parameter("run", "STRING", pattern="R[0-9]+")
    assert _problems("lot L1", lot, run) == {}


def test_a_word_that_two_parameters_claim_is_told_for_both() -> None:
    other = _parameter("other", "STRING", values=["yield", "mass"])
    assert _problems("yield", METRIC, other) == dict.fromkeys(
        ("metric", "other"), "what is said could be this or another parameter"
    )


def test_a_bound_that_is_not_clear_is_told() -> None:
    told = "a FLOAT64 is said, but not for which bound, or it is out of bounds"
    assert _problems("yield 95", FLOOR, CEILING) == {"min_yield": told, "max_yield": told}


def test_identifiers_are_counted_once_each_and_words_never() -> None:
    lot, word = _parameter("lot", "STRING", pattern="L[0-9]+"), _parameter("word", "STRING", pattern="[a-z]+")
    assert find_arguments("lots L1, L2 and L1", (lot,), NOW).named == 2
    assert find_arguments("any words at all", (word,), NOW).named == 0


SOURCE = _parameter("source", "STRING", values=["basel", "cork"], case="lower")
TARGET = _parameter("target", "STRING", values=["basel", "cork"], case="lower")
PARENT = _parameter("parent_lot", "STRING", pattern="L[0-9]{3}", case="upper")
CHILD = _parameter("child_lot", "STRING", pattern="L[0-9]{3}", case="upper")
FIRST = _parameter("batch_a", "STRING", pattern="B[0-9]{3}", case="upper")
SECOND = _parameter("batch_b", "STRING", pattern="B[0-9]{3}", case="upper")


@pytest.mark.parametrize(
    ("question", "child", "parent"),
    [
        ("link parent L100 child L200", "L200", "L100"),
        ("link child L100 parent L200", "L100", "L200"),
        ("link child L100 with parent L200", "L100", "L200"),
        ("link child_lot L100 to parent_lot L200", "L100", "L200"),
        ("the child lot is L100, its parent lot L200", "L100", "L200"),
        ("child: L100, parent: L200", "L100", "L200"),
        ("link child L100 to L200", "L100", "L200"),
        ("link L100 to its child L200", "L200", "L100"),
        ("child L100 and child L100", "L100", None),
    ],
)
def test_a_value_is_of_the_parameter_that_is_named_before_it(question: str, child: str, parent: str | None) -> None:
    wanted = {"child_lot": child} | ({} if parent is None else {"parent_lot": parent})
    assert _find(question, PARENT, CHILD)[0] == wanted


@pytest.mark.parametrize(
    "question",
    [
        "L100 (child) and L200 (parent)",
        "L100 (child), L200",
        "L100 is the child and L200 the parent",
        "parent and child L100 L200",
        "child L100 and child L200",
        "parent L100 L200 L300",
        "lot L100",
        "link L100 and L200",
        "link L100 to L200",
    ],
)
def test_names_that_do_not_say_whose_a_value_is_leave_it_open(question: str) -> None:
    assert _find(question, PARENT, CHILD) == ({}, {"parent_lot", "child_lot"})


@pytest.mark.parametrize(
    ("question", "values"),
    [
        ("transfers of Basel into Cork", {"source": "basel", "target": "cork"}),
        ("transfers from Basel to Cork", {"source": "basel", "target": "cork"}),
        ("transfers to Cork from Basel", {"source": "basel", "target": "cork"}),
        ("transfers Basel to Cork", {"source": "basel", "target": "cork"}),
        ("transfers from Basel to Basel", {"source": "basel", "target": "basel"}),
        ("transfers into target Basel of source Cork", {"source": "cork", "target": "basel"}),
        ("transfers into Basel of Cork", {}),
        ("transfers at Basel for Cork", {}),
        ("transfers for Basel at Cork", {}),
        ("transfers for Basel into Cork", {}),
        ("transfers at Basel and Cork", {}),
        ("transfers Basel, Cork", {}),
        ("transfers to site Basel to Cork", {}),
        ("transfers into Basel and Cork", {}),
        ("transfers into Basel", {"target": "basel"}),
        ("transfers from Basel", {"source": "basel"}),
    ],
)
def test_words_of_direction_that_do_not_tell_two_values_apart_leave_them_open(
    question: str, values: dict[str, str]
) -> None:
    assert _find(question, SOURCE, TARGET)[0] == values


@pytest.mark.parametrize(
    ("question", "values"),
    [
        ("recovery of B001 in B002", {"batch_a": "B001", "batch_b": "B002"}),
        ("for B001", {"batch_a": "B001"}),
        ("compare a batch B001 with batch B002", {"batch_a": "B001", "batch_b": "B002"}),
        ("compare batch b B001 with batch a B002", {"batch_a": "B002", "batch_b": "B001"}),
    ],
)
def test_parameters_that_are_only_numbered_are_filled_in_order(question: str, values: dict[str, str]) -> None:
    assert _find(question, FIRST, SECOND)[0] == values


def test_the_one_value_of_several_parameters_is_of_the_one_that_is_needed() -> None:
    also = PARENT.model_copy(update={"name": "excluded_lot", "nullable": True})
    assert _find("lot L100", PARENT, also)[0] == {"parent_lot": "L100"}


COUNTRIES = _parameter("countries", "STRING", repeated=True, values=["us", "it", "in", "de", "eu", "a"])


@pytest.mark.parametrize(
    ("question", "values"),
    [
        ("audits in DE", ["de"]),
        ("show us audits in DE", ["de"]),
        ("show a list of audits in DE", ["de"]),
        ("In DE, the audits", ["de"]),
        ("A list of audits in DE", ["de"]),
        ("AUDITS IN DE", ["de"]),
        ("audits in IT and DE", ["it", "de"]),
        ("audits in DE, IN and US", ["de", "in", "us"]),
        ("audits of column A", ["a"]),
    ],
)
def test_a_word_of_language_is_a_value_where_capitals_make_a_name_of_it(question: str, values: list[str]) -> None:
    assert _find(question, COUNTRIES) == ({"countries": values}, set())


@pytest.mark.parametrize("question", ["audits of us", "audits in it and de", "audits: de, us", "audits of de and in"])
def test_a_word_of_language_where_a_value_would_stand_leaves_it_open(question: str) -> None:
    assert _find(question, COUNTRIES) == ({}, {"countries"})
