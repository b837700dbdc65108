"""Reading a ledger file: by a service, by an operator, or by an auditor with nothing else running."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from contract.errors import Category, Component, DatasetAgentError
from evidence.checkpoint import Checkpoint
from evidence.entry import Entry, InvalidLedger, read_entries, read_head
from evidence.row import COLUMNS
from evidence.sqlite_file import snapshot


@dataclass(frozen=True, slots=True)
class LedgerFile:
    """A ledger as it lies on disk. Entries are *unverified* (see ``evidence.verify``).

    Every method raises ``DatasetAgentError``: ``evidence.ledger.not_found`` or
    ``evidence.ledger.unreadable``.
    """

    path: Path

    def rows(self, *, start: int = 0) -> Iterator[Entry]:
        """Entries from ``start`` on, as of one commit."""
        with self.reading() as connection:
            yield from read_entries(connection, "WHERE idx >= ?", (start,))

    def get(self, index: int) -> Entry | None:
        with self.reading() as connection:
            return next(read_entries(connection, "WHERE idx = ?", (index,)), None)

    def find(self, column: str, value: str) -> Iterator[Entry]:
        """Entries whose ``column`` (``trace_id``, ``decision_id``, ``txn`` …) equals ``value``; reads every row."""
        if column not in COLUMNS:
            raise ValueError(f"the ledger has no column {column!r}")
        with self.reading() as connection:
            yield from read_entries(connection, f"WHERE {column} = ?", (value,))

    def checkpoint(self) -> Checkpoint:
        with self.reading() as connection:
            return read_head(connection).checkpoint

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """The file as of one commit."""
        if not self.path.is_file():
            raise DatasetAgentError(
                Component.EVIDENCE,
                Category.NOT_FOUND,
                "evidence.ledger.not_found",
                f"there is no ledger at {self.path}: name the file, or ask something first",
            )
        try:
            with snapshot(self.path) as connection:
                yield connection
        except (sqlite3.Error, InvalidLedger) as error:
            raise DatasetAgentError(
                Component.EVIDENCE,
                Category.CONFLICT,
                "evidence.ledger.unreadable",
                f"{self.path.name} cannot be read as a ledger ({error}): run 'evidence verify' on it",
            ) from error
