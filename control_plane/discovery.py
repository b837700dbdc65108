"""Discovery: which datasets a question may be about, among those the principal may use.

A lexical rank (BM25 over weighted fields), the same for the same question and entries. The
authorization filter runs before anything is cut to a limit: what a principal may not use
takes no slot and appears nowhere in the result. Relevance authorizes nothing; admission does.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from contract.principal import Principal
from control_plane.descriptor import DatasetCapability, DatasetDescriptor
from control_plane.words import content_stems

K1: Final = 1.2
B: Final = 0.75
MAX_REMEMBERED_PRINCIPALS: Final = 1_024
_COMMON_SHARE: Final = 0.5
_COMMON_FLOOR: Final = 20
_NAME_WEIGHT, _KEYWORD_WEIGHT, _TEXT_WEIGHT, _EXAMPLE_WEIGHT = 3.0, 2.0, 1.0, 0.5


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """A dataset as a verified card describes it, and the agent that serves it."""

    descriptor: DatasetDescriptor
    agent_id: str
    agent_url: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """A dataset the principal may use; ``capabilities`` are the permitted ones, most relevant first."""

    entry: CatalogueEntry
    score: float
    capabilities: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Funnel:
    """How many were left after each stage, for the record of a request.

    ``matching`` is relevance alone and is a number only: it names nothing.
    """

    registered: int
    matching: int
    admissible: int
    capabilities: int
    shown: int


@dataclass(frozen=True, slots=True)
class Discovery:
    candidates: tuple[Candidate, ...]
    funnel: Funnel


def permitted(descriptor: DatasetDescriptor, principal: Principal) -> tuple[DatasetCapability, ...]:
    """The capabilities that entitlement, tenant, clearance and prohibition leave to a principal."""
    held = principal.entitlements.get(descriptor.dataset)
    if not held or principal.tenant != descriptor.tenant:
        return ()
    return tuple(
        capability
        for capability in descriptor.capabilities
        if capability.name in held
        and capability.name not in descriptor.prohibited
        and capability.sensitivity.within(principal.clearance)
    )


def discover(question: str, entries: Sequence[CatalogueEntry], principal: Principal, *, limit: int) -> Discovery:
    """One question over a few entries; keep a ``DiscoveryIndex`` where the entries stay."""
    return DiscoveryIndex(entries).discover(question, principal, limit=limit)


class DiscoveryIndex:
    """An inverted index of entries: built once, asked many times, never changed."""

    def __init__(self, entries: Sequence[CatalogueEntry]) -> None:
        # A fixed order makes equal scores rank alike, however the entries arrived.
        self._entries = tuple(sorted(entries, key=lambda entry: (entry.descriptor.dataset, entry.agent_id)))
        self._postings = _postings([_document(entry.descriptor) for entry in self._entries])
        self._by_dataset: dict[str, list[int]] = {}
        for number, entry in enumerate(self._entries):
            self._by_dataset.setdefault(entry.descriptor.dataset, []).append(number)
        self._vocabularies: dict[int, dict[str, frozenset[str]]] = {}
        self._permitted: dict[int, tuple[Principal, Mapping[int, tuple[DatasetCapability, ...]]]] = {}

    def discover(self, question: str, principal: Principal, *, limit: int) -> Discovery:
        """The ``limit`` best entries the principal may use; entries that share no word are left out."""
        asked = tuple(dict.fromkeys(content_stems(question)))
        scores = self._scores(asked)
        usable = self._usable(principal)
        few, many = sorted((scores.keys(), usable.keys()), key=len)
        admissible = [number for number in few if number in many]
        ranked = sorted(admissible, key=lambda number: (-scores[number], number))[: max(0, limit)]
        candidates = tuple(
            Candidate(self._entries[number], scores[number], self._relevant(number, usable[number], asked))
            for number in ranked
        )
        funnel = Funnel(
            registered=len(self._entries),
            matching=len(scores),
            admissible=len(admissible),
            capabilities=sum(len(candidate.capabilities) for candidate in candidates),
            shown=len(candidates),
        )
        return Discovery(candidates, funnel)

    def _scores(self, asked: Iterable[str]) -> dict[int, float]:
        """Scores by entry. In a large index a term of most entries tells next to nothing and
        costs the most, so it counts only where nothing rarer was asked."""
        found = [postings for term in asked if (postings := self._postings.get(term))]
        telling = [postings for postings in found if not self._is_common(postings)]
        scores: dict[int, float] = {}
        for postings in telling or found:
            for number, weight in postings:
                scores[number] = scores.get(number, 0.0) + weight
        return scores

    def _is_common(self, postings: Sequence[object]) -> bool:
        count = len(self._entries)
        return count >= _COMMON_FLOOR and len(postings) > _COMMON_SHARE * count

    def _relevant(
        self, number: int, capabilities: Iterable[DatasetCapability], asked: Iterable[str]
    ) -> tuple[str, ...]:
        known = self._vocabularies.get(number)
        if known is None:
            known = {item.name: _vocabulary(item) for item in self._entries[number].descriptor.capabilities}
            self._vocabularies[number] = known
        overlap = {item.name: len(known[item.name].intersection(asked)) for item in capabilities}
        return tuple(sorted(overlap, key=lambda name: (-overlap[name], name)))

    def _usable(self, principal: Principal) -> Mapping[int, tuple[DatasetCapability, ...]]:
        held = self._permitted.get(id(principal))
        if held is not None and held[0] is principal:
            return held[1]
        usable: dict[int, tuple[DatasetCapability, ...]] = {}
        for dataset in principal.entitlements:
            for number in self._by_dataset.get(dataset, ()):
                capabilities = permitted(self._entries[number].descriptor, principal)
                if capabilities:
                    usable[number] = capabilities
        if len(self._permitted) >= MAX_REMEMBERED_PRINCIPALS:
            self._permitted.clear()
        self._permitted[id(principal)] = (principal, usable)
        return usable


def _document(descriptor: DatasetDescriptor) -> dict[str, float]:
    """Weighted term frequencies of everything a descriptor says."""
    terms: dict[str, float] = {}
    _add(terms, _NAME_WEIGHT, descriptor.dataset)
    _add(terms, _TEXT_WEIGHT, descriptor.description, *descriptor.schemas)
    for capability in descriptor.capabilities:
        _add(terms, _TEXT_WEIGHT, capability.name, capability.description)
        _add(terms, _KEYWORD_WEIGHT, *capability.keywords)
        _add(terms, _EXAMPLE_WEIGHT, *capability.examples)
        for parameter in capability.parameters:
            _add(terms, _EXAMPLE_WEIGHT, parameter.description, *parameter.values)
            for synonyms in parameter.synonyms.values():
                _add(terms, _EXAMPLE_WEIGHT, *synonyms)
    return terms


def _add(terms: dict[str, float], weight: float, *texts: str) -> None:
    for text in texts:
        for term in content_stems(text):
            terms[term] = terms.get(term, 0.0) + weight


def _postings(documents: Sequence[Mapping[str, float]]) -> dict[str, tuple[tuple[int, float], ...]]:
    """Per term, each document and its whole BM25 contribution."""
    count = len(documents)
    lengths = [sum(document.values()) for document in documents]
    mean = sum(lengths) / count if count else 1.0
    found: dict[str, list[tuple[int, float]]] = {}
    for number, document in enumerate(documents):
        norm = K1 * (1 - B + B * lengths[number] / mean)
        for term, frequency in document.items():
            found.setdefault(term, []).append((number, frequency * (K1 + 1) / (frequency + norm)))
    postings: dict[str, tuple[tuple[int, float], ...]] = {}
    for term, items in found.items():
        idf = math.log(1 + (count - len(items) + 0.5) / (len(items) + 0.5))
        postings[term] = tuple((number, idf * weight) for number, weight in items)
    return postings


def _vocabulary(capability: DatasetCapability) -> frozenset[str]:
    text = " ".join((capability.name, capability.description, *capability.keywords, *capability.examples))
    return frozenset(content_stems(text))
