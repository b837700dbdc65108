"""A telling word more, less or elsewhere is another question; what is proven is proven either way round."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from control_plane.memo import alike, as_kept, call_of
from control_plane.memo_call import Call
from control_plane.memo_confirm import accounts, dates_are_said, means_the_same
from control_plane.memo_telling import told
from control_plane.memo_terms import EXTREMES, NEGATIONS, RESTRICTING, STRUCTURE, TIMES
from tests.memo.memo_world import Kept, Pair, kept, offered, pairs

SAME = [pair for pair in pairs() if pair.is_paraphrase]
TELLING = sorted(
    (NEGATIONS | EXTREMES | RESTRICTING | set(TIMES) | STRUCTURE) - {"and", "with", "between", "against", "both"}
)
FIGURES = [
    "B777",
    "L777",
    "7",
    "7.5",
    "-7",
    "70 %",
    "7 mg",
    "2021",
    "2021-05-06",
    "May 2021",
    "yesterday",
    "7 days ago",
]
SUBJECTS = ["perfusion", "filtrate", "US", "A", "cost", "forecast", "ß", "ЦВЕТ", "%", "+", "≠", "~", "n't", "protein A"]


def _call(read: Kept) -> Call:
    call = call_of(read, offered())
    assert call is not None
    return call


def _inserted(text: str, word: str, at: int) -> str:
    parts = text.split()
    at %= len(parts) + 1
    return " ".join((*parts[:at], word, *parts[at:]))


@settings(max_examples=150, deadline=None)
@given(pair=st.sampled_from(SAME), word=st.sampled_from(TELLING + FIGURES + SUBJECTS), at=st.integers(0, 20))
def test_a_telling_word_more_is_another_question(pair: Pair, word: str, at: int) -> None:
    changed = _inserted(pair.question, word, at)
    assert not means_the_same(changed, pair.earlier.words, _call(pair.earlier))


@settings(max_examples=100, deadline=None)
@given(pair=st.sampled_from(SAME), word=st.sampled_from(sorted(NEGATIONS)), at=st.integers(0, 20))
def test_a_denial_more_is_another_question(pair: Pair, word: str, at: int) -> None:
    changed = _inserted(pair.question, word, at)
    assert not means_the_same(changed, pair.earlier.words, _call(pair.earlier))


@settings(max_examples=100, deadline=None)
@given(pair=st.sampled_from(SAME), figure=st.sampled_from(FIGURES), at=st.integers(0, 20))
def test_a_figure_more_is_another_question(pair: Pair, figure: str, at: int) -> None:
    changed = _inserted(pair.question, figure, at)
    assert not means_the_same(changed, pair.earlier.words, _call(pair.earlier))


@settings(max_examples=100, deadline=None)
@given(pair=st.sampled_from(SAME), number=st.integers(1, 9))
def test_another_digit_is_another_question(pair: Pair, number: int) -> None:
    digits = [at for at, char in enumerate(pair.question) if char.isdigit()]
    for at in digits:
        changed = pair.question[:at] + str((int(pair.question[at]) + number) % 10) + pair.question[at + 1 :]
        assert not means_the_same(changed, pair.earlier.words, _call(pair.earlier))


@settings(max_examples=100, deadline=None)
@given(pair=st.sampled_from(SAME), data=st.data())
def test_a_telling_word_less_is_another_question(pair: Pair, data: st.DataObject) -> None:
    call, earlier = _call(pair.earlier), pair.earlier.words
    parts = earlier.split()
    at = data.draw(st.integers(0, len(parts) - 1))
    changed = " ".join((*parts[:at], *parts[at + 1 :]))
    if {token.text for token in told(changed, call).tokens} != {token.text for token in told(earlier, call).tokens}:
        assert not means_the_same(changed, earlier, call)


def test_what_is_proven_is_proven_either_way_round() -> None:
    for pair in SAME:
        call = _call(pair.earlier)
        one, other = pair.question, pair.earlier.words
        assert means_the_same(one, other, call) == means_the_same(other, one, call)


def test_each_pair_alone_is_judged_rightly() -> None:
    found = {pair.question for pair in pairs() if alike(pair.question, [pair.earlier], offered()) is not None}
    assert found <= {pair.question for pair in SAME}


COMPARED = {"batch_a": "B001", "batch_b": "B002"}


def _held(capability: str, **arguments: object) -> Call:
    dataset = "purification-batches" if capability == "compare_batches" else "bioreactor-samples"
    return _call(Kept("", dataset, capability, arguments))


@pytest.mark.parametrize(
    ("capability", "arguments", "words"),
    [
        ("readings", {"site": "basel"}, "Latest titre readings of site Basel"),
        ("readings", {"site": "basel"}, "Titre readings of site Basel above 5"),
        ("readings", {"site": "basel"}, "Titre readings of site Cork"),
        ("readings", {"site": "basel"}, "Titre readings of site Basel with samples"),
        ("readings", {"site": "basel", "max_titre": "2"}, "Titre readings of site Basel"),
        ("readings", {"max_titre": "2"}, "Titre readings above 2 g/L"),
        ("readings", {"max_titre": "2"}, "Titre readings below 2 mg/L"),
        ("readings", {"to": "2024-01-15"}, "Titre readings after 2024-01-15"),
        ("readings", {"from": "2024-01-15"}, "Titre readings before 2024-01-15"),
        ("readings", {"include_rejected": True}, "Titre readings without rejected"),
        ("trace_lots", {"lots": []}, "Genealogy of lots"),
        ("trace_lots", {"lots": ["L100", "L200"]}, "Genealogy of lot L100"),
    ],
)
def test_words_and_arguments_that_do_not_account_for_one_another(
    capability: str, arguments: dict[str, object], words: str
) -> None:
    call = _held(capability, **arguments)
    assert not accounts(told(words, call), call)


def test_what_is_not_accounted_for_in_both_questions_proves_nothing() -> None:
    call = _held("readings", site="basel")
    assert not means_the_same("show latest titre readings of Basel", "latest titre readings of Basel", call)


def test_a_question_that_no_longer_says_what_is_asked_is_another() -> None:
    call = _held("compare_batches", **COMPARED)
    assert not means_the_same("recovery of B001 and B002", "compare the recovery of B001 and B002", call)


def test_words_that_name_batches_and_ask_nothing_prove_nothing() -> None:
    call = _held("compare_batches", **COMPARED)
    assert not means_the_same("batches B001 and B002", "batch B001 and batch B002", call)


def test_two_records_that_are_proven_and_differ_prove_nothing() -> None:
    read = next(item for item in kept() if item.capability == "trace_lots")
    swapped = Kept(read.words, read.dataset, read.capability, {"lots": ["L200", "L100"]})
    assert alike("show the ancestry of lots L100 and L200", [read], offered()) is not None
    assert alike("show the ancestry of lots L100 and L200", [read, swapped], offered()) is None


def test_a_record_of_a_capability_that_is_not_offered_is_nothing() -> None:
    read = next(item for item in kept() if item.capability == "trace_lots")
    assert as_kept(read, offered()[:2]) is None and alike(read.words, [read], offered()[:2]) is None


@pytest.mark.parametrize(
    "arguments",
    [{"lots": ["L100"], "more": 1}, {"lots": ["X100"]}, {"lots": []}, {}, {"lots": "L100"}],
    ids=["undeclared", "another shape", "none", "missing", "not a list"],
)
def test_a_record_whose_arguments_no_longer_fit_is_nothing(arguments: dict[str, object]) -> None:
    assert as_kept(Kept("genealogy of lots", "bioreactor-samples", "trace_lots", arguments), offered()) is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("Titre readings in 2023", True),
        ("Titre readings of the year 2023", True),
        ("Titre readings of that year", False),
        ("Titre readings in 2024", False),
    ],
)
def test_days_that_are_not_said_may_be_others_tomorrow(words: str, said: bool) -> None:
    read = Kept(words, "bioreactor-samples", "readings", {"from": "2023-01-01", "to": "2024-01-01"})
    assert dates_are_said(words, _call(read)) is said
