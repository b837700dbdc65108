"""How much of a question a capability accounts for, and how telling each word is.

A word that few of the offered capabilities use tells more than one that many use, and a word
that none uses tells most: it speaks of something else. Weights lie between 0 and 1 however
many capabilities are offered, so readings over different offers compare.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from control_plane.descriptor import DatasetCapability, DatasetDescriptor
from control_plane.free_text import FreeText
from control_plane.memo_terms import UNITS
from control_plane.reader_terms import IDLE
from control_plane.words import ASKING_STEMS, content_stems, find_phrase, stems

LEAST_SHARED: Final = 2
LEAST_COVERED: Final = 0.5
_IDLE_STEMS: Final = frozenset(stems(" ".join(sorted(IDLE))))
_DIGIT: Final = re.compile(r"\d")
_IN_UNIT: Final = re.compile(
    rf"(?<=\bin )(?:{'|'.join(sorted(name for name in UNITS if len(name) > 2 and name.isalpha()))})\b"
)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The words of a capability and its dataset.

    ``phrases`` name it on purpose and count where the whole phrase is said. ``told`` are the
    stems of prose and of phrases, which say less. ``nouns`` are those of the dataset's name
    and schemas.
    """

    phrases: frozenset[tuple[str, ...]]
    told: frozenset[str]
    nouns: frozenset[str]

    @classmethod
    def of(cls, descriptor: DatasetDescriptor, capability: DatasetCapability) -> Vocabulary:
        nouns = _union([descriptor.dataset, *descriptor.schemas])
        names = [capability.name, *capability.keywords, *(column.name for column in capability.results)]
        names += [period.name for period in capability.periods]
        for parameter in capability.parameters:
            names += [parameter.name, *parameter.values]
            names += [synonym for synonyms in parameter.synonyms.values() for synonym in synonyms]
        single = nouns | _union(capability.examples)
        phrases = frozenset(_phrase(name) for name in names) | {(stem,) for stem in single}
        told = _union([descriptor.description, capability.description, *names])
        return cls(phrases - {()}, told | single, nouns)

    def named_in(self, text: tuple[str, ...]) -> frozenset[str]:
        """The stems of every phrase that stands in a question's stems."""
        found = (phrase for phrase in self.phrases if find_phrase(phrase, text) is not None)
        return frozenset(stem for phrase in found for stem in phrase)


@dataclass(frozen=True, slots=True)
class Reading:
    """A question's stems, and the weight (0 to 1) of each stem that some capability uses.

    ``telling`` are the distinct ones of words that carry meaning. ``subject`` are the distinct stems that say what is
    asked about: no stop words, no words of asking, nothing with a digit (identifiers and numbers are for the parameters).
    """

    question: str
    stems: tuple[str, ...]
    telling: frozenset[str]
    subject: frozenset[str]
    weights: Mapping[str, float]

    @classmethod
    def of(cls, question: str, descriptors: Sequence[DatasetDescriptor]) -> Reading:
        known = [Vocabulary.of(descriptor, item) for descriptor in descriptors for item in descriptor.capabilities]
        counts: dict[str, int] = {}
        for stem in (stem for found in known for stem in found.told):
            counts[stem] = counts.get(stem, 0) + 1
        unknown = math.log(1 + 2 * max(1, len(known)))
        weights = {stem: math.log(1 + len(known) / count) / unknown for stem, count in counts.items()}
        subject = telling(_IN_UNIT.sub(" ", question)) - ASKING_STEMS - _IDLE_STEMS
        return cls(question, stems(question), telling(question), subject, weights)

    def weight(self, stem: str) -> float:
        return self.weights.get(stem, 1.0)

    def asks(self) -> bool:
        """Whether a word of asking (*find*, *show*) stands in the question."""
        return not ASKING_STEMS.isdisjoint(self.stems)

    def holds(self, phrase: tuple[str, ...], spaced: frozenset[str] = frozenset()) -> bool:
        """Whether the phrase is said, with nothing inside it but words of ``spaced``."""
        if find_phrase(phrase, self.stems) is not None:
            return True
        return (
            bool(spaced)
            and find_phrase(phrase, tuple(s for s in self.stems if s in phrase or s not in spaced)) is not None
        )

    def is_about(
        self, known: Vocabulary, *, named: int, text: FreeText | None, timed: frozenset[str] = frozenset()
    ) -> bool:
        """Whether ``known`` accounts for the question, and not just for a word that any question may hold.

        ``named`` is how many identifiers of the capability were found, ``text`` the free text
        it would look for. At least two things must be shared, one of them more than a word of
        asking, and at least half of the weight of what is asked about. A word that is only
        told has half of its weight, and so has free text that nothing marks, unless the
        dataset itself is named: then it may be anything. ``timed`` are the stems by which a
        period of the capability is said: one more thing that is shared, and nothing that is asked about.
        """
        free = telling(text.value) if text is not None else frozenset()
        asked = self.subject - free - timed
        told = asked & known.told
        shared = len(told) + named
        if not shared or shared + self.asks() + (text is not None) + bool(timed) < LEAST_SHARED:
            return False
        accounted = self._sum(told) / 2 + self._sum(told & known.named_in(self.stems)) / 2
        wanted = self._sum(asked)
        if text is not None and not text.is_marked and asked.isdisjoint(known.nouns):
            wanted += self._sum(free) / 2
        return accounted >= LEAST_COVERED * wanted

    def _sum(self, found: Iterable[str]) -> float:
        # Added in one order, so that equal questions have equal sums.
        return sum(self.weight(stem) for stem in sorted(found))


def telling(text: str) -> frozenset[str]:
    """Stems of the words that carry meaning, without identifiers and numbers."""
    return frozenset(stem for stem in content_stems(text) if not _DIGIT.search(stem))


@lru_cache(maxsize=16_384)
def plain(text: str) -> frozenset[str]:
    """``telling`` of what a descriptor says, which is asked for with every question. What people say is not remembered."""
    return telling(text)


@lru_cache(maxsize=16_384)
def _phrase(text: str) -> tuple[str, ...]:
    return stems(text)


def _union(texts: Iterable[str]) -> frozenset[str]:
    return frozenset(stem for text in texts for stem in plain(text))
