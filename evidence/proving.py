"""Proofs that anybody checks with a public key alone: that a row is in a ledger, that one ledger goes on from another."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evidence.checkpoint import Checkpoint
from evidence.entry import InvalidLedger
from evidence.export import Beginning, Leaves, newest_of
from evidence.merkle import consistency_path, inclusion_path, root_of
from evidence.parts import Source
from evidence.reader import check_there, told


@dataclass(frozen=True, slots=True)
class Tree:
    """The newest checkpoint of a ledger and the hash of every row up to it."""

    checkpoint: Checkpoint
    leaves: tuple[bytes, ...]

    def inclusion(self, index: int) -> dict[str, Any]:
        """That row ``index`` is in the tree of the newest checkpoint (RFC 9162, section 2.1.3). Raises ``IndexError``."""
        return {
            "index": index,
            "leaf_hash": self.leaves[index].hex(),
            "checkpoint": self.checkpoint.to_json(),
            "inclusion": [sibling.hex() for sibling in inclusion_path(index, self.leaves)],
        }

    def consistency(self, earlier: Checkpoint) -> dict[str, Any]:
        """That the tree of ``earlier`` is a prefix of this one (RFC 9162, section 2.1.4).

        Raises ``InvalidLedger`` where it is not, or there is no such proof.
        """
        if earlier.origin != self.checkpoint.origin:
            raise InvalidLedger("the receipt belongs to another ledger")
        if not 0 < earlier.size <= len(self.leaves):
            raise InvalidLedger(f"the receipt speaks of {earlier.size} rows, the ledger has {len(self.leaves)}")
        if root_of(self.leaves[: earlier.size]) != earlier.root:
            raise InvalidLedger("the receipt has another root: two histories")
        path = consistency_path(earlier.size, self.leaves)
        return {"from": earlier.to_json(), "to": self.checkpoint.to_json(), "path": [node.hex() for node in path]}


def tree_of(path: Path) -> Tree:
    """Of a ledger, its segments, or an export; *unverified*. Raises ``DatasetAgentError`` as ``LedgerFile``."""
    leaves: list[bytes] = []
    check_there(path)
    with told(str(path)), Source(path).parts() as parts:
        newest = newest_of(parts)
        for part in parts:
            if isinstance(part, Beginning):
                if part.head.frontier.size != len(leaves):
                    raise InvalidLedger(f"rows {len(leaves)} to {part.head.frontier.size - 1} are not here")
            elif isinstance(part, Leaves):
                leaves.extend(part.hashes)
            elif not isinstance(part, Checkpoint):
                leaves.append(part.leaf_hash)
    return Tree(newest, tuple(leaves[: newest.size]))
