"""The committed pairs: whatever is remembered, no question is given another's meaning."""

from __future__ import annotations

from functools import cache

from control_plane.memo import call_of
from control_plane.memo_confirm import accounts
from control_plane.memo_telling import told
from tests.memo.memo_world import Meaning, Pair, kept, nearest, offered, pairs, recalled


def _name(pair: Pair) -> str:
    return f"{pair.kind}: {pair.question}"


@cache
def _answers() -> list[tuple[Pair, Meaning | None]]:
    held = kept()
    return [(pair, recalled(pair.question, held)) for pair in pairs()]


def test_there_are_at_least_three_hundred_pairs_each_with_its_meaning() -> None:
    assert len(pairs()) >= 300 and len({(pair.earlier.words, pair.question) for pair in pairs()}) == len(pairs())


def test_no_question_is_given_the_meaning_of_another() -> None:
    wrong = [_name(pair) for pair, given in _answers() if given not in (None, pair.means)]
    assert wrong == []


def test_most_paraphrases_are_given_their_meaning() -> None:
    same = [given == pair.means for pair, given in _answers() if pair.is_paraphrase]
    assert sum(same) / len(same) >= 0.75


def test_likeness_alone_gives_many_of_them_a_wrong_meaning() -> None:
    held = kept()
    wrong = [pair for pair in pairs() if nearest(pair.question, held, least=0.6) not in (None, pair.means)]
    assert len(wrong) / len(pairs()) > 0.3


def test_a_remembered_question_accounts_for_its_own_call() -> None:
    for read in kept():
        call = call_of(read, offered())
        assert call is not None and accounts(told(read.words, call), call), read.words


def test_the_very_words_are_given_their_meaning() -> None:
    held = kept()
    assert [read.words for read in held if recalled(read.words, held) != read.meaning] == []
