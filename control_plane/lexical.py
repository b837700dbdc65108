"""BM25 over numbered documents: the best few of those that may be found, exactly, and the same every time.

Robertson and Zaragoza, "The Probabilistic Relevance Framework" (2009), with a fixed pivot for the
length of a document: what a document weighs does not depend on which others are there. How
rare a term is, is counted over the documents the asker may know of and no others, so that nothing
of a result, its order and its scores included, depends on a document that is hidden from them.
Documents are numbered from zero; sets of them are bits of an integer. docs/decisions/0013 says why it is no library.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

K1: Final = 1.2
B: Final = 0.75
PIVOT: Final = 60.0
"""Length of an ordinary document, in weighted terms, where nothing better is known."""
_COMMON_SHARE: Final = 0.5
_COMMON_FLOOR: Final = 20
_ROUNDING: Final = 1 + 1e-9


@dataclass(frozen=True, slots=True)
class Ranked:
    """``best`` are (number, score); ``matching`` and ``admissible`` count what shares a telling term."""

    best: tuple[tuple[int, float], ...]
    matching: int
    admissible: int


@dataclass(frozen=True, slots=True)
class _Term:
    """One asked term. ``idf`` is the asker's; ``most`` bounds what it adds to any document."""

    name: str
    idf: float
    weights: Mapping[int, float]
    bits: int
    most: float


class LexicalIndex:
    """An inverted index. Documents are added, and the last ones may be taken out again."""

    def __init__(self, pivot: float = PIVOT) -> None:
        self._pivot = pivot
        self._count = 0
        self._weights: dict[str, dict[int, float]] = {}
        self._bits: dict[str, int] = {}
        self._most: dict[str, float] = {}

    def __len__(self) -> int:
        return self._count

    def add(self, document: Mapping[str, float]) -> int:
        """Add weighted term frequencies; the number of the document."""
        number, self._count = self._count, self._count + 1
        norm = K1 * (1 - B + B * sum(document.values()) / self._pivot)
        for term, frequency in document.items():
            weight = frequency * (K1 + 1) / (frequency + norm)
            self._weights.setdefault(term, {})[number] = weight
            self._most[term] = max(weight, self._most.get(term, 0.0))
            self._bits.pop(term, None)
        return number

    def keep(self, count: int) -> None:
        """Take out every document but the first ``count``."""
        for term, weights in list(self._weights.items()):
            if next(reversed(weights)) >= count:
                kept = {number: weight for number, weight in weights.items() if number < count}
                self._bits.pop(term, None)
                if kept:
                    self._weights[term] = kept
                else:
                    del self._weights[term], self._most[term]
        self._count = min(self._count, count)

    def search(
        self,
        asked: Iterable[str],
        *,
        known: int,
        usable: Collection[int],
        usable_bits: int,
        order: Sequence[int],
        k: int,
    ) -> Ranked:
        """The ``k`` best of the ``usable`` documents by score, then by ``order[number]``.

        ``known`` are the documents the asker may know of, as bits; ``usable`` and ``usable_bits``, the
        same set twice, are among them. A document that shares no telling term is not found. In a large index a
        term of most documents tells next to nothing and costs the most, so it counts only where nothing rarer is asked.
        """
        terms = self._telling(asked, known)
        found = 0
        for term in terms:
            found |= term.bits
        found &= known
        scores = _scores(terms, usable, k) if k > 0 else {}
        least = heapq.nlargest(k, scores.values())[-1] if len(scores) > k else 0.0
        near = [item for item in scores.items() if item[1] >= least]
        near.sort(key=lambda item: (-item[1], order[item[0]]))
        return Ranked(tuple(near[:k]) if k > 0 else (), found.bit_count(), (found & usable_bits).bit_count())

    def _telling(self, asked: Iterable[str], known: int) -> list[_Term]:
        count = known.bit_count()
        terms: list[_Term] = []
        common: list[_Term] = []
        for name in asked:
            weights = self._weights.get(name)
            if weights is None:
                continue
            bits = self._bits_of(name, weights)
            holding = (bits & known).bit_count()
            if not holding:
                continue
            idf = math.log(1 + (count - holding + 0.5) / (holding + 0.5))
            term = _Term(name, idf, weights, bits, idf * self._most[name] * _ROUNDING)
            (common if count >= _COMMON_FLOOR and holding > _COMMON_SHARE * count else terms).append(term)
        return sorted(terms or common, key=lambda term: (-term.idf, term.name))

    def _bits_of(self, name: str, weights: Mapping[int, float]) -> int:
        bits = self._bits.get(name)
        if bits is None:
            bits = self._bits[name] = bits_of(weights)
        return bits


def bits_of(numbers: Collection[int]) -> int:
    """A set of documents, each as the bit of its number."""
    held = bytearray(max(numbers, default=0) // 8 + 1)
    for number in numbers:
        held[number >> 3] |= 1 << (number & 7)
    return int.from_bytes(held, "little")


def _scores(terms: Sequence[_Term], usable: Collection[int], k: int) -> dict[int, float]:
    """Scores of usable documents: of all that can be among the ``k`` best, and of some others.

    Once the terms that are left cannot lift a new document over the ``k``-th (MaxScore, Turtle and
    Flood 1995), they are looked up for the documents that were found, and no more.
    """
    scores: dict[int, float] = {}
    for place, term in enumerate(terms):
        if len(scores) > k:
            rest = sum(left.most for left in terms[place:])
            least = heapq.nlargest(k, scores.values())[-1]
            if least > rest:
                near = {number: score for number, score in scores.items() if score + rest >= least}
                return _looked_up(terms[place:], near)
        _add(term, usable, scores)
    return scores


def _add(term: _Term, usable: Collection[int], scores: dict[int, float]) -> None:
    weights, idf = term.weights, term.idf
    if len(usable) < len(weights):
        for number in usable:
            if number in weights:
                scores[number] = scores.get(number, 0.0) + idf * weights[number]
        return
    for number, weight in weights.items():
        if number in usable:
            scores[number] = scores.get(number, 0.0) + idf * weight


def _looked_up(terms: Sequence[_Term], scores: dict[int, float]) -> dict[int, float]:
    for term in terms:
        weights, idf = term.weights, term.idf
        for number in scores:
            weight = weights.get(number)
            if weight is not None:
                scores[number] += idf * weight
    return scores
