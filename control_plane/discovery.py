"""Discovery: which datasets a question may be about, among those the principal may use.

A lexical rank (``lexical.py``), the same for the same question and entries. The authorization
filter runs before anything is cut to a limit: what a principal may not use takes no slot and
appears nowhere in the result. And nothing of a result depends on it: a dataset, or a
capability of one, that is on no public card and that the person may not use changes no candidate, no
order, no score and no count that is told, whatever its descriptor says. Relevance authorizes
nothing; admission does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from contract.principal import Principal
from control_plane.descriptor import DatasetCapability, DatasetDescriptor
from control_plane.lexical import PIVOT, LexicalIndex, bits_of
from control_plane.words import content_stems

MAX_REMEMBERED_PRINCIPALS: Final = 1_024
MAX_OWN_FACES: Final = 50_000
"""Documents of what is on no public card, for all principals that are remembered together."""
_NAME_WEIGHT, _KEYWORD_WEIGHT, _TEXT_WEIGHT, _EXAMPLE_WEIGHT = 3.0, 2.0, 1.0, 0.5
_NOTHING: Final[frozenset[str]] = frozenset()


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """A dataset as a verified card describes it, and the agent that serves it.

    ``public`` are the capabilities that its agent's public card shows: anybody may know of them.
    """

    descriptor: DatasetDescriptor
    agent_id: str
    agent_url: str
    public: frozenset[str] = _NOTHING


@dataclass(frozen=True, slots=True)
class Candidate:
    """A dataset the principal may use; ``capabilities`` are the permitted ones, most relevant first."""

    entry: CatalogueEntry
    score: float
    capabilities: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Funnel:
    """How many were left after each stage, for the record of a request.

    ``registered`` are all entries, ``known`` those the person may know of: they are public or may
    be used. From there on only these count: how many ``matching`` there are says nothing of the others.
    """

    registered: int
    known: int
    matching: int
    admissible: int
    capabilities: int
    shown: int

    def told(self) -> Funnel:
        """The same without what only the record may say: that there is more than the person may know of."""
        return replace(self, registered=self.known)


@dataclass(frozen=True, slots=True)
class Discovery:
    """What was found, best first, and how many were left after each stage."""

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


@dataclass(frozen=True, slots=True)
class _Held:
    """What one principal may use and know of. ``usable`` is by face; bits are of faces."""

    principal: Principal
    usable: Mapping[int, tuple[int, tuple[DatasetCapability, ...]]]
    usable_bits: int
    known: int


class DiscoveryIndex:
    """An index of entries: built once, asked many times.

    What is indexed of an entry is a *face*: what it says of itself and of some of its capabilities.
    Everybody shares the public one; who may use more has one that says that, too.
    """

    def __init__(self, entries: Sequence[CatalogueEntry]) -> None:
        # A fixed order makes equal scores rank alike, however the entries arrived.
        self._entries = tuple(sorted(entries, key=lambda entry: (entry.descriptor.dataset, entry.agent_id)))
        self._by_dataset: dict[str, list[int]] = {}
        for number, entry in enumerate(self._entries):
            self._by_dataset.setdefault(entry.descriptor.dataset, []).append(number)
        shown = [(number, entry) for number, entry in enumerate(self._entries) if entry.public]
        documents = [_document(entry.descriptor, entry.public) for _, entry in shown]
        self._lexical = LexicalIndex(_mean_length(documents))
        self._entry_of: list[int] = []
        self._faces: dict[tuple[int, frozenset[str]], int] = {}
        for (number, entry), document in zip(shown, documents, strict=True):
            self._faces[number, entry.public] = self._lexical.add(document)
            self._entry_of.append(number)
        self._public_count = len(self._entry_of)
        self._public = (1 << self._public_count) - 1
        self._vocabularies: dict[int, Mapping[str, frozenset[str]]] = {}
        self._held: dict[int, _Held] = {}

    def discover(self, question: str, principal: Principal, *, limit: int) -> Discovery:
        """The ``limit`` best entries the principal may use; entries that share no word are left out."""
        asked = tuple(dict.fromkeys(content_stems(question)))
        held = self._of(principal)
        ranked = self._lexical.search(
            asked,
            known=held.known,
            usable=held.usable.keys(),
            usable_bits=held.usable_bits,
            order=self._entry_of,
            k=max(0, limit),
        )
        candidates = tuple(self._candidate(*held.usable[face], score, asked) for face, score in ranked.best)
        funnel = Funnel(
            registered=len(self._entries),
            known=held.known.bit_count(),
            matching=ranked.matching,
            admissible=ranked.admissible,
            capabilities=sum(len(candidate.capabilities) for candidate in candidates),
            shown=len(candidates),
        )
        return Discovery(candidates, funnel)

    def public(self, question: str, *, limit: int) -> tuple[CatalogueEntry, ...]:
        """The ``limit`` best entries by what public cards say, whoever asks."""
        asked = tuple(dict.fromkeys(content_stems(question)))
        everything = range(self._public_count)
        ranked = self._lexical.search(
            asked, known=self._public, usable=everything, usable_bits=self._public, order=self._entry_of, k=limit
        )
        return tuple(self._entries[self._entry_of[face]] for face, _ in ranked.best)

    def _candidate(
        self, number: int, capabilities: Iterable[DatasetCapability], score: float, asked: Iterable[str]
    ) -> Candidate:
        known = self._vocabularies.get(number)
        if known is None:
            known = {item.name: _vocabulary(item) for item in self._entries[number].descriptor.capabilities}
            self._vocabularies[number] = known
        overlap = {item.name: len(known[item.name].intersection(asked)) for item in capabilities}
        return Candidate(self._entries[number], score, tuple(sorted(overlap, key=lambda name: (-overlap[name], name))))

    def _of(self, principal: Principal) -> _Held:
        held = self._held.get(id(principal))
        if held is not None and held.principal is principal:
            return held
        if len(self._held) >= MAX_REMEMBERED_PRINCIPALS or len(self._lexical) > self._public_count + MAX_OWN_FACES:
            self._forget()
        held = self._held[id(principal)] = self._looked_at(principal)
        return held

    def _looked_at(self, principal: Principal) -> _Held:
        usable: dict[int, tuple[int, tuple[DatasetCapability, ...]]] = {}
        hidden: list[int] = []
        for dataset in principal.entitlements:
            for number in self._by_dataset.get(dataset, ()):
                entry = self._entries[number]
                capabilities = permitted(entry.descriptor, principal)
                if capabilities:
                    face = self._face(number, entry.public.union(item.name for item in capabilities))
                    usable[face] = number, capabilities
                    if face >= self._public_count and entry.public:
                        hidden.append(self._faces[number, entry.public])
        usable_bits = bits_of(usable)
        return _Held(principal, usable, usable_bits, (self._public & ~bits_of(hidden)) | usable_bits)

    def _face(self, number: int, shown: frozenset[str]) -> int:
        face = self._faces.get((number, shown))
        if face is None:
            face = self._faces[number, shown] = self._lexical.add(_document(self._entries[number].descriptor, shown))
            self._entry_of.append(number)
        return face

    def _forget(self) -> None:
        """Everybody's own faces, and who had them."""
        self._held.clear()
        self._lexical.keep(self._public_count)
        del self._entry_of[self._public_count :]
        self._faces = {place: face for place, face in self._faces.items() if face < self._public_count}


def _mean_length(documents: Sequence[Mapping[str, float]]) -> float:
    return sum(sum(document.values()) for document in documents) / len(documents) if documents else PIVOT


def _document(descriptor: DatasetDescriptor, shown: frozenset[str]) -> dict[str, float]:
    """Weighted term frequencies of what a descriptor says of itself and of the capabilities that are ``shown``."""
    terms: dict[str, float] = {}
    _add(terms, _NAME_WEIGHT, descriptor.dataset)
    _add(terms, _TEXT_WEIGHT, descriptor.description, *descriptor.schemas)
    for capability in descriptor.capabilities:
        if capability.name not in shown:
            continue
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


def _vocabulary(capability: DatasetCapability) -> frozenset[str]:
    text = " ".join((capability.name, capability.description, *capability.keywords, *capability.examples))
    return frozenset(content_stems(text))
