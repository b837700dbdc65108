"""The Merkle tree of RFC 9162, section 2.1: hashes, proofs, and a frontier that grows leaf by leaf."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

EMPTY_ROOT = hashlib.sha256(b"").digest()
HASH_BYTES = 32


def leaf_hash(data: bytes) -> bytes:
    """The hash of a leaf; its prefix keeps a leaf from passing for a node."""
    return hashlib.sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """The hash of an inner node (RFC 9162, section 2.1.1)."""
    return hashlib.sha256(b"\x01" + left + right).digest()


@dataclass(frozen=True, slots=True)
class Frontier:
    """A tree reduced to the roots of its perfect subtrees, largest first: one per set bit of ``size``.

    It is all an append needs, so appending costs O(log n) and reads no earlier leaf.
    """

    size: int = 0
    peaks: tuple[bytes, ...] = ()

    def __post_init__(self) -> None:
        if self.size < 0 or len(self.peaks) != self.size.bit_count():
            raise ValueError("a frontier has one peak for every set bit of its size")

    @classmethod
    def from_bytes(cls, size: int, data: bytes) -> Frontier:
        """From the concatenated peaks. Raises ``ValueError`` where they do not fit ``size``."""
        if len(data) != HASH_BYTES * size.bit_count():
            raise ValueError("the peaks do not fit the size")
        return cls(size, tuple(data[at : at + HASH_BYTES] for at in range(0, len(data), HASH_BYTES)))

    def to_bytes(self) -> bytes:
        return b"".join(self.peaks)

    def append(self, leaf: bytes) -> Frontier:
        """The tree with one more leaf, given by its leaf hash."""
        peaks, carry, size = list(self.peaks), leaf, self.size
        while size & 1:
            carry = node_hash(peaks.pop(), carry)
            size >>= 1
        return Frontier(self.size + 1, (*peaks, carry))

    def root(self) -> bytes:
        if not self.peaks:
            return EMPTY_ROOT
        root = self.peaks[-1]
        for peak in reversed(self.peaks[:-1]):
            root = node_hash(peak, root)
        return root

    def path_of_next(self) -> tuple[bytes, ...]:
        """The inclusion path that the next leaf appended has in the tree it completes."""
        return self.peaks[::-1]


def root_of(leaves: Sequence[bytes]) -> bytes:
    """The root over leaf hashes."""
    frontier = Frontier()
    for leaf in leaves:
        frontier = frontier.append(leaf)
    return frontier.root()


def inclusion_path(index: int, leaves: Sequence[bytes]) -> tuple[bytes, ...]:
    """PATH(index, leaves) of RFC 9162, section 2.1.3.1, from the leaf upwards; O(n)."""
    if not 0 <= index < len(leaves):
        raise IndexError("the leaf is not in the tree")
    if len(leaves) == 1:
        return ()
    split = _split(len(leaves))
    if index < split:
        return (*inclusion_path(index, leaves[:split]), root_of(leaves[split:]))
    return (*inclusion_path(index - split, leaves[split:]), root_of(leaves[:split]))


def consistency_path(first: int, leaves: Sequence[bytes]) -> tuple[bytes, ...]:
    """PROOF(first, leaves) of RFC 9162, section 2.1.4.1; O(n)."""
    if not 0 < first <= len(leaves):
        raise IndexError("the earlier tree is not a part of the later one")
    return _subproof(first, leaves, complete=True)


def verify_inclusion(leaf: bytes, index: int, size: int, path: Sequence[bytes], root: bytes) -> bool:
    """Whether ``leaf`` stands at ``index`` of the tree of ``size`` with ``root`` (RFC 9162, section 2.1.3.2)."""
    if not 0 <= index < size:
        return False
    node, last, computed = index, size - 1, leaf
    for sibling in path:
        if last == 0:
            return False
        if node & 1 or node == last:
            computed = node_hash(sibling, computed)
            while not node & 1 and node:
                node, last = node >> 1, last >> 1
        else:
            computed = node_hash(computed, sibling)
        node, last = node >> 1, last >> 1
    return last == 0 and computed == root


def verify_consistency(first: int, first_root: bytes, second: int, second_root: bytes, path: Sequence[bytes]) -> bool:
    """Whether the tree of ``first`` leaves is a prefix of the one of ``second`` (RFC 9162, section 2.1.4.2)."""
    if first == second:
        return not path and first_root == second_root
    if not 0 < first < second:
        return False
    proof = list(path) if first & (first - 1) else [first_root, *path]
    if not proof:
        return False
    node, last = first - 1, second - 1
    while node & 1:
        node, last = node >> 1, last >> 1
    old = new = proof[0]
    for sibling in proof[1:]:
        if last == 0:
            return False
        if node & 1 or node == last:
            old, new = node_hash(sibling, old), node_hash(sibling, new)
            while not node & 1 and node:
                node, last = node >> 1, last >> 1
        else:
            new = node_hash(new, sibling)
        node, last = node >> 1, last >> 1
    return last == 0 and old == first_root and new == second_root


def _split(size: int) -> int:
    """The largest power of two smaller than ``size``."""
    return 1 << (size - 1).bit_length() - 1


def _subproof(first: int, leaves: Sequence[bytes], *, complete: bool) -> tuple[bytes, ...]:
    if first == len(leaves):
        return () if complete else (root_of(leaves),)
    split = _split(len(leaves))
    if first <= split:
        return (*_subproof(first, leaves[:split], complete=complete), root_of(leaves[split:]))
    return (*_subproof(first - split, leaves[split:], complete=False), root_of(leaves[:split]))
