"""Discovery ranks alike every time, and what may not be used takes no slot."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contract.scope import Sensitivity
from control_plane.descriptor import DatasetDescriptor
from control_plane.discovery import CatalogueEntry, DiscoveryIndex, discover, permitted
from control_plane.principals import load_directory
from control_plane.registry import load_registry
from tests.control_plane.control_plane_world import DATASETS, make_descriptor, make_principal, raw_capability

WORDS = [
    "recovery",
    "yield",
    "batch",
    "resin",
    "column",
    "peak",
    "assay",
    "stability",
    "titre",
    "pool",
    "buffer",
    "filter",
    "harvest",
    "site",
    "trend",
]


def _entry(descriptor: DatasetDescriptor, agent: str = "urn:a") -> CatalogueEntry:
    """An entry whose card shows it to everybody."""
    return _hidden(descriptor, agent, public=frozenset(item.name for item in descriptor.capabilities))


def _hidden(
    descriptor: DatasetDescriptor, agent: str = "urn:a", public: frozenset[str] = frozenset()
) -> CatalogueEntry:
    return CatalogueEntry(descriptor, agent, "http://127.0.0.1:8801", public)


def _named(name: str, words: str, **changes: object) -> CatalogueEntry:
    return _entry(make_descriptor(raw_capability(keywords=[words]), dataset=name, description=words, **changes))


def _shipped() -> list[CatalogueEntry]:
    return [_entry(manifest.published()) for manifest in load_registry(DATASETS).datasets.values()]


def _catalogue(count: int) -> list[CatalogueEntry]:
    chance = random.Random(7)
    return [_named(f"d{number:05}", " ".join(chance.sample(WORDS, 4))) for number in range(count)]


def test_the_shipped_question_finds_its_dataset_first() -> None:
    engineer = load_directory(DATASETS / "principals.yaml").named("process_engineer")
    assert engineer is not None
    found = discover("Compare the recovery of batches B001 and B002", _shipped(), engineer, limit=5)
    assert found.candidates[0].entry.descriptor.dataset == "purification-batches"
    assert found.candidates[0].capabilities[0] == "compare_batches"


def test_a_restricted_dataset_is_nowhere_in_another_persons_result() -> None:
    engineer = load_directory(DATASETS / "principals.yaml").named("process_engineer")
    assert engineer is not None
    found = discover("clinical subject observations recovery endpoint", _shipped(), engineer, limit=5)
    assert "clinical-private" not in repr(found)


def test_what_is_not_permitted_takes_no_slot() -> None:
    better = [_named(f"better-{number}", "roses roses roses") for number in range(20)]
    own = _named("own", "roses and tulips")
    found = discover("roses", [*better, own], make_principal(entitlements={"own": frozenset({"read"})}), limit=1)
    assert [candidate.entry for candidate in found.candidates] == [own]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"tenant": "other"}, "another tenant"),
        ({"prohibited": ["read"]}, "prohibited"),
    ],
)
def test_a_dataset_of_which_nothing_is_left_is_not_permitted(changes: dict[str, object], why: str) -> None:
    assert permitted(make_descriptor(**changes), make_principal()) == (), why


def test_a_capability_above_clearance_is_not_permitted() -> None:
    descriptor = make_descriptor(raw_capability(sensitivity="confidential", policy_id="P-1"), policies=["P-1"])
    cleared = [make_principal(clearance=level) for level in (Sensitivity.INTERNAL, Sensitivity.CONFIDENTIAL)]
    assert [len(permitted(descriptor, principal)) for principal in cleared] == [0, 1]


def test_only_permitted_capabilities_are_shown() -> None:
    entry = _entry(make_descriptor(raw_capability("read"), raw_capability("write"), dataset="plants"))
    (candidate,) = discover("plants", [entry], make_principal(), limit=5).candidates
    assert candidate.capabilities == ("read",)


def test_the_funnel_narrows() -> None:
    entries = [_named("a", "roses"), _named("b", "roses"), _named("c", "roses"), _named("d", "stones")]
    principal = make_principal(entitlements={name: frozenset({"read"}) for name in ("a", "b", "d")})
    funnel = discover("roses", entries, principal, limit=1).funnel
    assert (funnel.registered, funnel.matching, funnel.admissible, funnel.shown) == (4, 3, 2, 1)


def test_a_question_without_a_shared_word_finds_nothing() -> None:
    assert discover("astronomy", [_named("own", "roses")], make_principal(), limit=5).candidates == ()


def test_no_entries_find_nothing() -> None:
    assert discover("roses", [], make_principal(), limit=5).funnel.registered == 0


def test_equal_scores_rank_by_name_however_the_entries_arrive() -> None:
    entries = [_named(name, "roses") for name in ("c", "a", "b")]
    principal = make_principal(entitlements={name: frozenset({"read"}) for name in "abc"})
    for order in (entries, entries[::-1]):
        found = discover("roses", order, principal, limit=3).candidates
        assert [candidate.entry.descriptor.dataset for candidate in found] == ["a", "b", "c"]


def test_words_are_matched_by_stem() -> None:
    entries = [_named("own", "comparison of batches"), _named("plants", "stones")]
    principal = make_principal(entitlements={"own": frozenset({"read"})})
    assert len(discover("batch", entries, principal, limit=5).candidates) == 1


CATALOGUE = _catalogue(400)
INDEX = DiscoveryIndex(CATALOGUE)


@settings(max_examples=100, deadline=None)
@given(
    held=st.sets(st.sampled_from([entry.descriptor.dataset for entry in CATALOGUE]), max_size=40),
    question=st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join),
    limit=st.integers(min_value=0, max_value=10),
)
def test_exposure_is_zero_and_every_slot_goes_to_the_best_that_is_permitted(
    held: set[str], question: str, limit: int
) -> None:
    principal = make_principal(entitlements={name: frozenset({"read"}) for name in held})
    shown = INDEX.discover(question, principal, limit=limit).candidates
    everything = INDEX.discover(question, principal, limit=10_000).candidates
    assert {candidate.entry.descriptor.dataset for candidate in everything} <= held
    assert shown == everything[:limit]
    assert INDEX.discover(question, principal, limit=limit).candidates == shown
