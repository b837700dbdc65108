"""What a capability's card says that the words of a question may be held against.

Not its values: a value that is no argument of a call says something else than the call does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from control_plane.argument_hits import Place
from control_plane.arguments import find_arguments
from control_plane.descriptor import DatasetCapability, DatasetDescriptor
from control_plane.free_text import find_text
from control_plane.memo_terms import COUNTS, NEGATIONS
from control_plane.memo_words import Token, tokens
from control_plane.reader_terms import GROUPING, IDLE, PASSED, POLAR, RELATIONS, TELLING
from control_plane.words import stem, stems

HERE: Final = "\ue000"
"""Stands for an argument in a text of which only the other words are looked at."""

_DIGIT: Final = re.compile(r"\d")
_MAX_KEPT: Final = 1_024
_KEPT: dict[tuple[object, ...], tuple[DatasetDescriptor, Published]] = {}


@dataclass(frozen=True, slots=True)
class Published:
    """``phrases`` are accounted for as a whole, ``single`` wherever they stand, all as stems.

    ``pairs`` are neighbours of which one is a word of relation (*over runs*, *by method*, *differ from*);
    an argument is ``HERE`` in them. ``nouns`` are the words of the dataset's name and schemas, ``named`` those of the
    capability's name and keywords.
    """

    phrases: frozenset[tuple[str, ...]]
    single: frozenset[str]
    pairs: frozenset[tuple[str, str]]
    nouns: frozenset[str]
    named: frozenset[str]

    @classmethod
    def of(cls, descriptor: DatasetDescriptor, capability: DatasetCapability) -> Published:
        """Made once of each capability beside those that are seen with it: cards are kept for a while.

        Whoever may ask fewer of a dataset's capabilities reads a descriptor of these alone, so what words the
        others have is part of what is remembered.
        """
        seen = (capability, *descriptor.capabilities)
        key = (descriptor.dataset, descriptor.description, descriptor.schemas, *map(id, seen))
        kept = _KEPT.get(key)
        if kept is not None:
            return kept[1]
        made = cls._made(descriptor, capability)
        if len(_KEPT) >= _MAX_KEPT:
            _KEPT.clear()
        _KEPT[key] = descriptor, made  # which holds the capabilities, so that no other gets their ids
        return made

    @classmethod
    def _made(cls, descriptor: DatasetDescriptor, capability: DatasetCapability) -> Published:
        named = [capability.name, *capability.keywords, *(period.name for period in capability.periods)]
        columns = [column.name for column in capability.results]
        examples = [spelled(tokens(_example(example, descriptor, capability))) for example in capability.examples]
        # *step_no* is the number of a step, and denies none.
        shown = {phrase for phrase in map(stems, columns) if NEGATIONS.isdisjoint(phrase)}
        whole = {stems(text) for text in named} | shown | set(examples)
        nouns = _content(stems(" ".join((descriptor.dataset, *descriptor.schemas))))
        own = {word for text in named for word in _content(stems(text))}
        prose = _content(stems(capability.description))
        prose |= _content(stems(descriptor.description)) - _of_others(descriptor, capability) - _words(columns)
        prose |= {word for example in examples for word in _content(example)}
        told = [*map(stems, (*capability.keywords, capability.description)), *examples]
        return cls(
            phrases=frozenset(phrase for phrase in whole if phrase and not POLAR.issuperset(phrase)),
            single=frozenset(nouns | own | (prose - _values(capability))),
            pairs=frozenset(pair for text in told for pair in _pairs(text)),
            nouns=nouns,
            named=frozenset(own),
        )


def masked(question: str, places: Iterable[Place]) -> str:
    """The question with ``HERE`` for each of the places, which do not overlap and are in order."""
    out: list[str] = []
    at = 0
    for place in places:
        out += [question[at : place.start].replace(HERE, "\ufffd"), f" {HERE} "]
        at = place.end
    return "".join((*out, question[at:].replace(HERE, "\ufffd")))


def spelled(found: Iterable[Token]) -> tuple[str, ...]:
    return tuple(stem(token.raw) if token.kind == "word" else token.text for token in found)


def merged(places: Iterable[Place]) -> list[Place]:
    """In order, and each stretch once: of two that overlap the one that starts first, and of these the longer."""
    out: list[Place] = []
    for place in sorted(places, key=lambda item: (item.start, -item.end)):
        if not out or out[-1].end <= place.start:
            out.append(place)
    return out


def neighbour(word: str) -> str:
    """One word for all that says *by which*."""
    return "by" if word in GROUPING else word


def _example(example: str, descriptor: DatasetDescriptor, capability: DatasetCapability) -> str:
    found = find_arguments(example, capability.parameters, 0.0, capability=capability)
    places = [*found.places, *(Place(start, end, ()) for start, end in found.times)]
    text = find_text(example, descriptor, capability)
    if text is not None:
        places.append(Place(text.start, text.end, (text.name,)))
    return masked(example, merged(places))


def _content(text: Iterable[str]) -> frozenset[str]:
    return frozenset(word for word in text if word not in IDLE | TELLING and word != HERE and not _DIGIT.search(word))


def _values(capability: DatasetCapability) -> frozenset[str]:
    listed = [item for item in capability.parameters if item.values]
    said = [value for item in listed for value in item.values]
    said += [synonym for item in listed for names in item.synonyms.values() for synonym in names]
    return _words(said)


def _of_others(descriptor: DatasetDescriptor, capability: DatasetCapability) -> frozenset[str]:
    """The words by which another capability of the dataset is asked for, and its values."""
    others = [item for item in descriptor.capabilities if item.name != capability.name]
    named = _words(text for item in others for text in (item.name, *item.keywords))
    return named.union(*map(_values, others))


def _words(texts: Iterable[str]) -> frozenset[str]:
    return frozenset(word for text in texts for word in stems(text))


def _pairs(text: Sequence[str]) -> Iterable[tuple[str, str]]:
    telling = [neighbour(word) for word in text if word not in PASSED | COUNTS.keys()]
    for at, word in enumerate(telling):
        if word not in RELATIONS or word in NEGATIONS:
            continue
        # *Per treatment arm* is by the arm.
        reach = 3 if word == "by" else 2
        yield from ((word, after) for after in telling[at + 1 : at + reach])
        if at and word != "by" and telling[at - 1] != HERE:
            yield telling[at - 1], word
