"""Nothing that is found, nor its order, score or count, depends on what the person may not know of."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

import control_plane.discovery as discovery
from contract.principal import Principal
from contract.scope import Sensitivity
from control_plane.discovery import CatalogueEntry, Discovery, DiscoveryIndex, permitted
from control_plane.lexical import K1, B, LexicalIndex
from tests.control_plane.control_plane_world import make_descriptor, make_principal, raw_capability

WORDS = ["recovery", "yield", "batch", "resin", "column", "peak", "assay", "titre", "pool", "buffer", "filter", "trend"]
NAMES = ("read", "count")
PERSON = make_principal(entitlements={"plants": frozenset({"read"})})
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join)


drawn = st.lists(
    st.tuples(texts, texts, texts, st.sampled_from([(), ("read",), ("read", "count")])), min_size=1, max_size=30
)
"""Of each dataset the keywords of its two capabilities, its description, and which of them are on the public card."""

Drawn = list[tuple[str, str, str, tuple[str, ...]]]


def entries(of: Drawn) -> list[CatalogueEntry]:
    found = []
    for number, (*keywords, description, public) in enumerate(of):
        capabilities = [raw_capability(name, keywords=[keyword]) for name, keyword in zip(NAMES, keywords, strict=True)]
        descriptor = make_descriptor(*capabilities, dataset=f"d{number:02}", description=description)
        found.append(CatalogueEntry(descriptor, "urn:a", "http://127.0.0.1:8801", frozenset(public)))
    return found


holdings = st.dictionaries(
    st.integers(0, 29).map(lambda number: f"d{number:02}"),
    st.frozensets(st.sampled_from(["read", "count"])),
    max_size=12,
)


def told(found: Discovery) -> object:
    """All that leaves: names, order, scores, capabilities and the counts that are told."""
    shown = [(item.entry.descriptor.dataset, item.score, item.capabilities) for item in found.candidates]
    return shown, found.funnel.told()


def without_hidden(entry: CatalogueEntry, principal: Principal, secret: str) -> CatalogueEntry | None:
    """The entry with other words in every capability that the person may not know of; ``None`` where it is all hidden."""
    usable = {item.name for item in permitted(entry.descriptor, principal)}
    if not usable and not entry.public:
        return None
    changed = tuple(
        item if item.name in usable | entry.public else item.model_copy(update={"keywords": (secret,)})
        for item in entry.descriptor.capabilities
    )
    descriptor = entry.descriptor.model_copy(update={"capabilities": changed})
    return CatalogueEntry(descriptor, entry.agent_id, entry.agent_url, entry.public)


@settings(max_examples=150, deadline=None)
@given(drawn, holdings, texts, texts, st.integers(0, 6))
def test_what_a_person_may_not_know_of_changes_nothing_that_is_told(
    of: Drawn, held: dict[str, frozenset[str]], question: str, secret: str, limit: int
) -> None:
    catalogue, principal = entries(of), make_principal(entitlements=held)
    visible = [kept for entry in catalogue if (kept := without_hidden(entry, principal, secret)) is not None]
    whole = DiscoveryIndex(catalogue).discover(question, principal, limit=limit)
    assert told(whole) == told(DiscoveryIndex(visible).discover(question, principal, limit=limit))


@settings(max_examples=100, deadline=None)
@given(drawn, holdings, texts)
def test_who_asked_before_changes_nothing_for_whoever_asks_next(
    of: Drawn, held: dict[str, frozenset[str]], question: str
) -> None:
    catalogue = entries(of)
    principal, everything = (
        make_principal(entitlements=held),
        {f"d{n:02}": frozenset({"read", "count"}) for n in range(30)},
    )
    asked_before = DiscoveryIndex(catalogue)
    asked_before.discover(question, make_principal(subject="u-2", entitlements=everything), limit=5)
    fresh = DiscoveryIndex(catalogue)
    assert told(asked_before.discover(question, principal, limit=5)) == told(
        fresh.discover(question, principal, limit=5)
    )


def test_a_question_in_the_words_of_a_hidden_dataset_counts_nothing_but_in_the_record() -> None:
    hidden = CatalogueEntry(
        make_descriptor(dataset="secret", description="unicorn assay"), "urn:a", "http://127.0.0.1:1"
    )
    own = CatalogueEntry(make_descriptor(description="roses"), "urn:a", "http://127.0.0.1:1", frozenset({"read"}))
    funnel = DiscoveryIndex([hidden, own]).discover("unicorn assay", PERSON, limit=5).funnel
    assert (funnel.registered, funnel.known, funnel.matching) == (2, 1, 0)
    assert funnel.told().registered == 1


def test_a_person_finds_by_what_they_may_use_and_is_on_no_public_card() -> None:
    restricted = make_descriptor(
        raw_capability("read", keywords=["unicorn"], sensitivity="restricted", policy_id="P-1"), policies=["P-1"]
    )
    index = DiscoveryIndex([CatalogueEntry(restricted, "urn:a", "http://127.0.0.1:1")])
    cleared = make_principal(clearance=Sensitivity.RESTRICTED)
    assert [item.entry.descriptor.dataset for item in index.discover("unicorn", cleared, limit=5).candidates] == [
        "plants"
    ]
    assert index.discover("unicorn", PERSON, limit=5).candidates == ()
    assert index.public("unicorn", limit=5) == ()


def test_who_may_use_more_than_is_public_is_told_of_one_dataset_and_not_of_two() -> None:
    both = make_descriptor(raw_capability("read"), raw_capability("count"), dataset="plants", description="roses")
    index = DiscoveryIndex([CatalogueEntry(both, "urn:a", "http://127.0.0.1:1", frozenset({"read"}))])
    person = make_principal(entitlements={"plants": frozenset({"read", "count"})})
    funnel = index.discover("roses", person, limit=5).funnel
    assert (funnel.known, funnel.matching, funnel.admissible) == (1, 1, 1)


def test_what_is_remembered_of_principals_is_bounded_and_forgetting_it_changes_no_result() -> None:
    chance = random.Random(1)
    catalogue = [
        CatalogueEntry(
            make_descriptor(dataset=f"d{n:02}", description=" ".join(chance.sample(WORDS, 4))),
            "urn:a",
            "http://127.0.0.1:1",
        )
        for n in range(20)
    ]
    index, limit = DiscoveryIndex(catalogue), discovery.MAX_REMEMBERED_PRINCIPALS
    people = [make_principal(entitlements={f"d{n % 20:02}": frozenset({"read"})}) for n in range(limit + 20)]
    first = told(index.discover("batch column", people[0], limit=5))
    for person in people[1:]:
        index.discover("batch column", person, limit=5)
    assert len(index._held) <= limit
    assert told(index.discover("batch column", people[0], limit=5)) == first


def slowly(
    documents: Sequence[dict[str, float]], asked: Sequence[str], known: set[int], usable: set[int], k: int
) -> list[int]:
    """BM25 as it is written down, over every document."""

    def score(number: int) -> float:
        total = 0.0
        for term in sorted(terms, key=lambda name: (-idf[name], name)):
            frequency = documents[number].get(term)
            if frequency is not None:
                norm = K1 * (1 - B + B * sum(documents[number].values()) / 60.0)
                total += idf[term] * (frequency * (K1 + 1) / (frequency + norm))
        return total

    holding = {term: sum(term in documents[number] for number in known) for term in asked}
    found = [term for term in asked if holding[term]]
    telling = [term for term in found if len(known) < 20 or holding[term] <= 0.5 * len(known)]
    terms = telling or found
    idf = {term: math.log(1 + (len(known) - holding[term] + 0.5) / (holding[term] + 0.5)) for term in terms}
    near = [number for number in usable if any(term in documents[number] for term in terms)]
    return sorted(near, key=lambda number: (-score(number), number))[:k]


documents = st.lists(st.dictionaries(st.sampled_from(WORDS), st.sampled_from([0.5, 1.0, 2.0]), max_size=8), max_size=60)


@settings(max_examples=300, deadline=None)
@given(
    documents,
    st.lists(st.sampled_from(WORDS), unique=True, max_size=6),
    st.integers(0, 2**60),
    st.integers(1, 5),
    st.integers(0, 60),
)
def test_the_best_few_are_those_of_the_whole_ranking(
    given_documents: list[dict[str, float]], asked: list[str], mask: int, k: int, kept: int
) -> None:
    index = LexicalIndex()
    for document in given_documents:
        index.add(document)
    index.search(asked, known=(1 << len(index)) - 1, usable=(), usable_bits=0, order=(), k=k)
    index.keep(kept)
    count = len(index)
    known = {number for number in range(count) if number % 7}
    usable = {number for number in known if mask >> number & 1}
    found = index.search(
        asked,
        known=sum(1 << number for number in known),
        usable=usable,
        usable_bits=sum(1 << number for number in usable),
        order=range(count),
        k=k,
    )
    expected = slowly(given_documents[:count], asked, known, usable, count + 1)
    assert ([number for number, _ in found.best], found.admissible) == (expected[:k], len(expected))
