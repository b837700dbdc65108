"""What of a question's spelling tells nothing, and what is a date, a number or a unit of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_plane.memo_words import is_momentary, is_relative, normalised, number, singular, tokens


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Show  titre\treadings ?", "show titre readings"),
        ("Compare B001 and B002", "compare B001 and B002"),
        ("Cafe\u0301 readings", "Café readings"),
    ],
)
def test_spelling_that_tells_nothing_is_taken_away(one: str, other: str) -> None:
    assert normalised(one) == normalised(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("find 'a  b'", "find 'a b'"),
        ("find 'why?'", "find 'why'"),
        ("show US readings", "show us readings"),
        ("readings of 5 mM", "readings of 5 MM"),
        ("Basel readings", "basel readings"),
        ("show A, B", "show A B"),
    ],
)
def test_spelling_that_may_tell_something_stays(one: str, other: str) -> None:
    assert normalised(one) != normalised(other)


@given(st.text())
def test_to_normalise_twice_changes_nothing_more(text: str) -> None:
    assert normalised(normalised(text)) == normalised(text)


@given(st.text())
def test_any_text_has_words(text: str) -> None:
    tokens(text), is_relative(text), is_momentary(text)


@pytest.mark.parametrize(
    "question",
    [
        "yesterday's readings",
        "readings of the LAST week",
        "since 2024-01-01",
        "this year",
        "readings 3 days ago",
        "on Monday",
    ],
)
def test_words_that_may_mean_another_day_tomorrow_are_relative(question: str) -> None:
    assert is_relative(question)


@pytest.mark.parametrize("question", ["readings of 2024", "titre above 5 g/L", "batches B001 and B002"])
def test_words_that_mean_the_same_tomorrow_are_not(question: str) -> None:
    assert not is_relative(question)


@pytest.mark.parametrize("question", ["what is pending now", "last 2 hours", "this morning", "10 minutes ago"])
def test_words_that_change_within_a_day_are_momentary(question: str) -> None:
    assert is_momentary(question)


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("2024-03-01", "2024-03-01..2024-03-02"),
        ("1 March 2024", "2024-03-01..2024-03-02"),
        ("March 1st, 2024", "2024-03-01..2024-03-02"),
        ("March 2024", "2024-03-01..2024-04-01"),
        ("2024-12", "2024-12-01..2025-01-01"),
        ("2024-Q4", "2024-10-01..2025-01-01"),
        ("Q1 2024", "2024-01-01..2024-04-01"),
        ("2024-W01", "2024-01-01..2024-01-08"),
    ],
)
def test_a_date_is_its_days_however_it_is_written(text: str, span: str) -> None:
    assert [(token.kind, token.text) for token in tokens(text)] == [("date", span)]


@pytest.mark.parametrize("text", ["2024-02-30", "31 June 2024", "2024-W60", "0000-01-01"])
def test_a_date_that_no_calendar_has_is_none(text: str) -> None:
    assert all(token.kind != "date" for token in tokens(text))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("5mg", [("number", "5"), ("unit", "mg")]),
        ("5.0 milligrams", [("number", "5"), ("unit", "mg")]),
        ("3 g / L", [("number", "3"), ("unit", "g/L")]),
        ("5 mM", [("number", "5"), ("unit", "mM")]),
        ("5 MM", [("number", "5"), ("word", "mm")]),
        ("95 %", [("number", "95"), ("unit", "%")]),
        ("−5", [("number", "-5")]),
        ("1,000", [("id", "1,000")]),
        ("B001-B002", [("id", "b001"), ("sign", "-"), ("id", "b002")]),
        ("side-by-side", [("word", "side"), ("word", "by"), ("word", "side")]),
        ("B001's", [("id", "b001")]),
    ],
)
def test_numbers_units_and_signs_keep_what_they_say(text: str, told: list[tuple[str, str]]) -> None:
    assert [(token.kind, token.text) for token in tokens(text)] == told


@pytest.mark.parametrize(("one", "other"), [("batches", "batch"), ("Recoveries", "recovery"), ("column's", "columns")])
def test_number_and_case_of_a_word_tell_nothing(one: str, other: str) -> None:
    assert singular(one) == singular(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("filtrate", "filtration"),
        ("goods", "good"),
        ("noted", "not"),
        ("mean", "meaning"),
        ("news", "new"),
        ("pooled", "pooling"),
    ],
)
def test_another_word_of_the_same_stem_is_another_word(one: str, other: str) -> None:
    assert singular(one) != singular(other)


def test_no_digit_of_a_long_number_is_lost() -> None:
    assert number("9" * 40) != number("9" * 39 + "8") and number("0.10") == number(".1") == number("+00.1")


def test_zero_has_no_sign() -> None:
    assert number("-0.0") == number("0") == "0"
