"""An export read as a ledger: for an auditor who has nothing but the file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from evidence.checkpoint import Checkpoint
from evidence.entry import Entry, Head
from evidence.export import Beginning, Leaves, checkpoint_of, read_export
from evidence.merkle import Frontier
from evidence.row import COLUMNS


@dataclass(frozen=True, slots=True)
class ExportReading:
    """``evidence.store.Reading`` over a file of JSON lines, read anew by each question."""

    path: Path

    def head(self) -> Head:
        """The newest checkpoint; its peaks are those of the rows that are there."""
        newest, frontier = self.checkpoint(), Frontier()
        for part in read_export(self.path):
            if isinstance(part, Beginning):
                frontier = part.head.frontier
            for leaf in _leaves(part):
                frontier = frontier.append(leaf)
        return Head(newest, frontier)

    def checkpoint(self) -> Checkpoint:
        return checkpoint_of(self.path)

    def base(self) -> Head | None:
        return next((part.head for part in read_export(self.path) if isinstance(part, Beginning)), None)

    def entries(self, start: int = 0) -> Iterator[Entry]:
        """Those whose rows are there still."""
        return (part for part in read_export(self.path) if isinstance(part, Entry) and part.index >= start)

    def find(self, column: str, value: str) -> Iterator[Entry]:
        if column not in COLUMNS:
            raise ValueError(f"the ledger has no column {column!r}")
        return (entry for entry in self.entries() if entry.cells[column] == value)


def _leaves(part: object) -> tuple[bytes, ...]:
    if isinstance(part, Entry):
        return (part.leaf_hash,)
    return part.hashes if isinstance(part, Leaves) else ()
