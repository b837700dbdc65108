"""The tree against a naive reading of RFC 9162, section 2.1."""

from __future__ import annotations

import hashlib
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence.merkle import (
    EMPTY_ROOT,
    Frontier,
    consistency_path,
    inclusion_path,
    leaf_hash,
    node_hash,
    root_of,
    verify_consistency,
    verify_inclusion,
)

_LEAVES = st.lists(st.binary(max_size=8), min_size=1, max_size=70).map(lambda data: [leaf_hash(item) for item in data])


def naive_root(leaves: list[bytes]) -> bytes:
    """MTH(D_n), word for word."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    k = 1
    while k * 2 < len(leaves):
        k *= 2
    return hashlib.sha256(b"\x01" + naive_root(leaves[:k]) + naive_root(leaves[k:])).digest()


def test_leaf_and_node_hashes_carry_their_prefix() -> None:
    assert leaf_hash(b"") == hashlib.sha256(b"\x00").digest()
    assert node_hash(b"a" * 32, b"b" * 32) == hashlib.sha256(b"\x01" + b"a" * 32 + b"b" * 32).digest()


def test_the_certificate_transparency_test_vector_holds() -> None:
    data = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
    leaves = [leaf_hash(bytes.fromhex(item)) for item in data]
    assert root_of(leaves).hex() == "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"


def test_an_empty_tree_has_the_hash_of_nothing() -> None:
    assert root_of([]) == EMPTY_ROOT == naive_root([])


@settings(deadline=None)
@given(_LEAVES)
def test_a_frontier_has_the_naive_root_at_every_size(leaves: list[bytes]) -> None:
    frontiers = list(accumulate(leaves, lambda frontier, leaf: frontier.append(leaf), initial=Frontier()))
    assert [frontier.root() for frontier in frontiers] == [naive_root(leaves[:n]) for n in range(len(leaves) + 1)]


@settings(deadline=None)
@given(_LEAVES)
def test_a_frontier_survives_its_bytes(leaves: list[bytes]) -> None:
    frontier = Frontier()
    for leaf in leaves:
        frontier = frontier.append(leaf)
    assert Frontier.from_bytes(frontier.size, frontier.to_bytes()) == frontier


@settings(deadline=None)
@given(_LEAVES, st.data())
def test_every_leaf_has_an_inclusion_proof(leaves: list[bytes], data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(leaves) - 1))
    path = inclusion_path(index, leaves)
    assert verify_inclusion(leaves[index], index, len(leaves), path, naive_root(leaves))


@settings(deadline=None)
@given(_LEAVES, st.binary(max_size=8))
def test_the_next_leaf_s_path_is_known_before_it_is_appended(leaves: list[bytes], data: bytes) -> None:
    frontier = Frontier()
    for leaf in leaves:
        frontier = frontier.append(leaf)
    grown = [*leaves, leaf_hash(data)]
    assert frontier.path_of_next() == inclusion_path(len(leaves), grown)


@settings(deadline=None)
@given(_LEAVES, st.data())
def test_a_changed_inclusion_proof_fails(leaves: list[bytes], data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(leaves) - 1))
    path, root = list(inclusion_path(index, leaves)), naive_root(leaves)
    match data.draw(st.sampled_from(["leaf", "longer", "shorter", "flipped", "root", "outside"])):
        case "leaf":
            verified = verify_inclusion(leaf_hash(b"not in the tree"), index, len(leaves), path, root)
        case "longer":
            verified = verify_inclusion(leaves[index], index, len(leaves), [*path, root], root)
        case "shorter" if path:
            verified = verify_inclusion(leaves[index], index, len(leaves), path[:-1], root)
        case "flipped" if path:
            at = data.draw(st.integers(0, len(path) - 1))
            path[at] = bytes([path[at][0] ^ 1]) + path[at][1:]
            verified = verify_inclusion(leaves[index], index, len(leaves), path, root)
        case "outside":
            verified = verify_inclusion(leaves[index], len(leaves), len(leaves), path, root)
        case _:
            verified = verify_inclusion(leaves[index], index, len(leaves), path, bytes(32))
    assert not verified


@settings(max_examples=200, deadline=None)
@given(_LEAVES, st.data())
def test_every_prefix_has_a_consistency_proof(leaves: list[bytes], data: st.DataObject) -> None:
    first = data.draw(st.integers(1, len(leaves)))
    path = consistency_path(first, leaves)
    assert verify_consistency(first, naive_root(leaves[:first]), len(leaves), naive_root(leaves), path)


@settings(max_examples=200, deadline=None)
@given(_LEAVES, st.data())
def test_a_rewritten_prefix_has_none(leaves: list[bytes], data: st.DataObject) -> None:
    first = data.draw(st.integers(1, len(leaves)))
    changed = data.draw(st.integers(0, first - 1))
    forked = [*leaves[:changed], leaf_hash(b"rewritten by the fork"), *leaves[changed + 1 :]]
    path = consistency_path(first, forked)
    assert not verify_consistency(first, naive_root(leaves[:first]), len(forked), naive_root(forked), path)


@pytest.mark.parametrize("first", [0, 3])
def test_no_consistency_proof_exists_outside_the_tree(first: int) -> None:
    with pytest.raises(IndexError):
        consistency_path(first, [leaf_hash(b"a"), leaf_hash(b"b")])


def test_a_frontier_whose_peaks_do_not_fit_its_size_is_refused() -> None:
    with pytest.raises(ValueError, match="peak"):
        Frontier.from_bytes(3, bytes(32))


@pytest.mark.parametrize(("size", "peaks"), [(-1, 1), (1, 0), (1, 2), (3, 1), (0, 1)])
def test_a_frontier_has_one_peak_for_every_set_bit_of_its_size(size: int, peaks: int) -> None:
    with pytest.raises(ValueError, match="one peak"):
        Frontier(size, (b"x" * 32,) * peaks)


def test_peaks_are_whole_hashes() -> None:
    with pytest.raises(ValueError, match="do not fit"):
        Frontier.from_bytes(3, b"x" * 40)


@pytest.mark.parametrize("index", [-1, 3, 4])
def test_no_path_leads_from_a_leaf_that_is_not_there(index: int) -> None:
    with pytest.raises(IndexError):
        inclusion_path(index, [b"a" * 32] * 3)


@pytest.mark.parametrize("first", [0, -1, 4])
def test_no_proof_is_of_a_tree_that_was_never_a_part(first: int) -> None:
    with pytest.raises(IndexError):
        consistency_path(first, [b"a" * 32] * 3)


def test_a_proof_of_a_leaf_outside_or_with_more_steps_than_the_tree_has_is_none() -> None:
    leaf, more = b"a" * 32, b"b" * 32
    assert verify_inclusion(leaf, 0, 1, (), leaf)
    assert not verify_inclusion(leaf, 1, 1, (), leaf)
    assert not verify_inclusion(leaf, 0, 1, (more,), node_hash(more, leaf))


def test_a_proof_of_consistency_is_of_a_smaller_tree_and_has_no_more_steps_than_it_takes() -> None:
    x, one, two, three = (bytes([number]) * 32 for number in range(4))
    assert not verify_consistency(2, x, 1, x, ())
    assert not verify_consistency(3, x, 4, x, ())
    old, new = node_hash(two, x), node_hash(two, node_hash(x, one))
    assert verify_consistency(3, old, 4, new, (x, one, two))
    assert not verify_consistency(3, node_hash(three, old), 4, node_hash(three, new), (x, one, two, three))
