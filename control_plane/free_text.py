"""The free text of a question: what a search is to look for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from contract.schema import Parameter, SqlType
from control_plane.confirm import confirm
from control_plane.descriptor import DatasetCapability, DatasetDescriptor
from control_plane.period_hits import QUOTED, said_of_time, without_time
from control_plane.words import Word, stem, stems, words

_LINK_TEXT: Final = "for about with containing contain mentioning mention mentions matching called named regarding"
_LINKS: Final = frozenset(stem(word) for word in _LINK_TEXT.split())


@dataclass(frozen=True, slots=True)
class FreeText:
    """The value of the free-text parameter ``name``; ``is_marked`` by quotes or a word such as *mentioning*."""

    name: str
    value: str
    is_marked: bool


def find_text(question: str, descriptor: DatasetDescriptor, capability: DatasetCapability) -> FreeText | None:
    """What is said for the one free-text parameter, or ``None`` where nothing is left for it.

    Quoted text wins; then what follows *for*, *with*, *mentioning* and the like; then the
    words that neither the capability nor the dataset accounts for. Where the capability has
    periods, a period that is said is no text, unless it is quoted.
    """
    if capability.periods:
        question = without_time(question, said_of_time(question))
    open_parameters = [item for item in capability.parameters if is_free_text(item)]
    if len(open_parameters) != 1:
        return None
    parameter = open_parameters[0]
    quoted = [next(part for part in match.groups() if part) for match in QUOTED.finditer(question)]
    if quoted:
        text, is_marked = (quoted[0] if len(quoted) == 1 else ""), True
    else:
        text, is_marked = _unaccounted(question, descriptor, capability)
    value = confirm(parameter, text.strip()) if text.strip() else None
    return None if value is None else FreeText(parameter.name, str(value), is_marked)


def is_free_text(parameter: Parameter) -> bool:
    """Whether any words fit it; of a pattern with wildcards nobody's words are taken for one."""
    return (
        parameter.type is SqlType.STRING
        and parameter.pattern is None
        and not parameter.values
        and not parameter.repeated
        and not parameter.wildcards
    )


def _unaccounted(question: str, descriptor: DatasetDescriptor, capability: DatasetCapability) -> tuple[str, bool]:
    known = frozenset(stems(" ".join((descriptor.dataset, *descriptor.schemas, *capability.keywords, capability.name))))
    asked = words(question)
    for number, word in enumerate(asked):
        if word.stem in _LINKS:
            tail = _tail(asked[number + 1 :], known)
            if tail:
                return question[tail[0].start : tail[-1].end], True
    left = [word for word in asked if not word.is_stop and word.stem not in known and word.stem not in _LINKS]
    return " ".join(word.text for word in left), False


def _tail(words_after: Sequence[Word], known: frozenset[str]) -> Sequence[Word]:
    """What follows a link, unless that is only the dataset's own words (*for batches with …*)."""

    def accounted(word: Word) -> bool:
        return word.is_stop or word.stem in known

    own = next((number for number, word in enumerate(words_after) if not accounted(word)), len(words_after))
    if own == len(words_after) or words_after[own].stem in _LINKS:
        return ()
    start, end = 0, len(words_after)
    while words_after[start].is_stop and words_after[start].stem not in known:
        start += 1
    while accounted(words_after[end - 1]):
        end -= 1
    return words_after[start:end]
