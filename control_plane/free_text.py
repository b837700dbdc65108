"""The free text of a question: what a search is to look for."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from contract.schema import Parameter, SqlType
from control_plane.argument_hits import is_unbroken
from control_plane.confirm import confirm
from control_plane.descriptor import DatasetCapability, DatasetDescriptor
from control_plane.limits import is_participle
from control_plane.period_hits import QUOTED, said_of_time, without_time
from control_plane.reader_terms import POLAR, RELATIONS, TELLING
from control_plane.words import ASKING_STEMS, STOP_WORDS, Word, find_phrase, stem, stems, words

_QUOTE_IT: Final = "to look for these very words, put them in quotes"
_BREAK: Final = re.compile(r"[.,;:!?](?:\s|$)|[\n\r]")
_LINK_TEXT: Final = "for about with containing contain mentioning mention mentions matching called named regarding"
LINK_STEMS: Final = frozenset(stem(word) for word in _LINK_TEXT.split())
_TURNING_TEXT: Final = """
because due vs ago ever always still already yet soon currently recently precisely again often usually ever
thanks maybe perhaps roughly please distinct unique respectively vice etc plus times per near
"""
_TURNING: Final = (RELATIONS | TELLING | frozenset(_TURNING_TEXT.split()) | STOP_WORDS) - {"of", "the", "a", "an"}
"""Words inside a text that mostly say something about it, and are no part of it."""
_WHICH: Final = frozenset({"which", "what", "give"})


@dataclass(frozen=True, slots=True)
class FreeText:
    """The value of the free-text parameter ``name``; ``is_marked`` by quotes or a word such as *mentioning*.

    ``start`` and ``end`` are where it stands (character offsets, quotes included). ``problem`` says why these words
    may be more than a text: then they are none.
    """

    name: str
    value: str
    is_marked: bool
    start: int
    end: int
    problem: str = ""


def find_text(question: str, descriptor: DatasetDescriptor, capability: DatasetCapability) -> FreeText | None:
    """What is said for the one free-text parameter, or ``None`` where nothing is left for it.

    Quoted text wins; then what follows *for*, *with*, *mentioning* and the like; then, in a question that begins
    with a word of asking, the words that neither the capability nor the dataset accounts for, where they stand
    together. Where the capability has periods, a period that is said is no text, unless it is quoted.
    """
    open_parameters = [item for item in capability.parameters if is_free_text(item)]
    if len(open_parameters) != 1:
        return None
    parameter = open_parameters[0]
    quoted = list(QUOTED.finditer(question))
    if quoted:
        match, text = quoted[0], next(part for part in quoted[0].groups() if part)
        value = confirm(parameter, text.strip()) if len(quoted) == 1 and text.strip() else None
        return None if value is None else FreeText(parameter.name, str(value), True, *match.span())
    asked = words(without_time(question, said_of_time(question)) if capability.periods else question)
    said, is_marked = _said(asked, descriptor, capability)
    if not said:
        return None
    start, end = said[0].start, said[-1].end
    said = _identifier(said, capability) if is_unbroken(question, said) else said
    text = question[said[0].start : end]
    value = confirm(parameter, text)
    if value is None:
        return None
    return FreeText(
        parameter.name, str(value), is_marked, start, end, _problem(text, said, capability, is_marked=is_marked)
    )


def is_free_text(parameter: Parameter) -> bool:
    """Whether any words fit it; of a pattern with wildcards nobody's words are taken for one."""
    return (
        parameter.type is SqlType.STRING
        and parameter.pattern is None
        and not parameter.values
        and not parameter.repeated
        and not parameter.wildcards
    )


def _said(
    asked: Sequence[Word], descriptor: DatasetDescriptor, capability: DatasetCapability
) -> tuple[Sequence[Word], bool]:
    known = frozenset(stems(" ".join((descriptor.dataset, *descriptor.schemas, *capability.keywords, capability.name))))
    unknown = [at for at, word in enumerate(asked) if not (word.is_stop or word.stem in known)]
    for number, word in enumerate(asked):
        if word.stem in LINK_STEMS:
            tail = _tail(asked, number + 1, unknown, known)
            if tail:
                return tail, True
    left = [at for at, word in enumerate(asked) if _is_telling(word, known)]
    if not left or left[-1] - left[0] >= len(left) or not _asks(asked[: left[0]]):
        return (), False
    return asked[left[0] : left[-1] + 1], False


def _identifier(said: Sequence[Word], capability: DatasetCapability) -> Sequence[Word]:
    """*Batch B017* is sought as B017, where a result has a column of batches."""
    columns = frozenset(stem for column in capability.results for stem in stems(column.name))
    is_named = any(char.isdigit() for char in said[-1].text) and not said[-1].text.isdigit()
    return said[-1:] if is_named and columns.issuperset(word.stem for word in said[:-1]) else said


def _is_telling(word: Word, known: frozenset[str]) -> bool:
    return not word.is_stop and word.stem not in known and word.stem not in LINK_STEMS


def _asks(before: Sequence[Word]) -> bool:
    """Whether a question begins with a word of asking: else the words that are left may ask for anything."""
    for word in before:
        if word.stem in ASKING_STEMS or word.text.casefold() in _WHICH:
            return True
        if not word.is_stop:
            return False
    return False


def _problem(text: str, said: Sequence[Word], capability: DatasetCapability, *, is_marked: bool) -> str:
    """Why several words that nothing quotes may be more than the text that is sought."""
    inside = [word for word in said if word.text.casefold() in _TURNING]
    # *The loss of the vacuum* is one thing, *resin fouling the median* are two.
    inside += [word for before, word in zip(said, said[1:], strict=False) if _sets_apart(before, word)]
    figures = [word for word in said if any(char.isdigit() for char in word.text)]
    spelled = tuple(word.stem for word in said)
    columns = [stems(column.name) for column in capability.results]
    is_of_column = any(len(phrase) < len(spelled) and find_phrase(phrase, spelled) is not None for phrase in columns)
    is_figure = bool(figures) and (len(said) > 1 or (not is_marked and said[0].text.isdigit()))
    # *Which runs failed* asks for what is so, and not for texts that say it.
    if is_participle(said[-1].text) and (not is_marked or len(said) > 1):
        return f"“{text}” may be what happened, and a search finds only texts that hold the word; to look for it, put it in quotes"
    if inside or is_figure or is_of_column or _BREAK.search(text):
        return f"“{' '.join(text.split())}” may say more than one thing; {_QUOTE_IT}"
    return ""


def _sets_apart(before: Word, word: Word) -> bool:
    return word.text.casefold() in ("the", "a", "an") and before.text.casefold() != "of"


def is_polar(text: FreeText) -> bool:
    """Whether a text that nothing quotes denies or limits something: then it is no text, and is not asked for as one."""
    return bool(text.problem) and any(word.text.casefold() in POLAR for word in words(text.value))


def _tail(asked: Sequence[Word], start: int, unknown: Sequence[int], known: frozenset[str]) -> Sequence[Word]:
    """What follows a link, unless that is only the dataset's own words (*for batches with …*).

    ``start`` is behind the link; ``unknown`` is where words stand that neither the dataset nor the language accounts for.
    """
    own = bisect_left(unknown, start)
    if own == len(unknown) or asked[unknown[own]].stem in LINK_STEMS:
        return ()
    while asked[start].is_stop and asked[start].stem not in known:
        start += 1
    return asked[start : unknown[-1] + 1]
