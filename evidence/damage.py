"""What can be wrong with a ledger, by name, and which row is the first that is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Final

from contract.signing import PublicKey
from evidence.entry import Entry
from evidence.merkle import leaf_hash
from evidence.row import leaf_data


class Damage(StrEnum):
    """``problem`` says it in words; these are for programs, and in ``docs/audit.md``."""

    NOT_A_LEDGER = "not_a_ledger"
    FILE_DAMAGED = "file_damaged"
    ROW_EDITED = "row_edited"
    ROW_REMOVED = "row_removed"
    ROWS_REORDERED = "rows_reordered"
    NOT_SIGNED = "not_signed"
    TAIL_CUT = "tail_cut"
    HEAD_CUT = "head_cut"
    ROWS_WITHHELD = "rows_withheld"
    CHECKPOINT_SWAPPED = "checkpoint_swapped"
    FORK = "fork"
    BEHIND_RECEIPT = "behind_receipt"
    OTHER_LEDGER = "other_ledger"
    RECEIPT_INVALID = "receipt_invalid"


class Broken(Exception):
    """Where a walk ends. ``bad_row`` is the first row that is not what was signed, where it is a row's fault."""

    def __init__(self, damage: Damage, problem: str, bad_row: int | None = None) -> None:
        super().__init__(problem)
        self.damage = damage
        self.problem = problem
        self.bad_row = bad_row


_NEAR: Final = 512
"""How far from its place the signed place of a row is looked for: a signature costs 60 us."""

Behind = Callable[[], Iterator[Entry]]
"""Reads the rows again from the one that does not fit on."""


def missing(at: int, behind: Behind) -> Broken:
    """What happened where row ``at`` is not in its place: it is further behind, or nowhere."""
    for entry in behind():
        if entry.index == at:
            return Broken(Damage.ROWS_REORDERED, f"row {at} is not in its place: it stands behind later rows", at)
    return Broken(Damage.ROW_REMOVED, f"row {at} is missing: it was removed", at)


def misfit(at: int, behind: Behind, origin: str, keys: tuple[PublicKey, ...]) -> Broken:
    """What happened where the row that stands at ``at`` is not the one that was signed.

    It was edited, unless it was another row once: then that was moved up because row ``at`` is
    gone, or rows changed places.
    """
    look = _Places(frozenset(entry.leaf_hash for entry in behind()), origin, keys)
    rows = behind()
    was = look.place_of(next(rows))
    if was is None or was == at:
        return Broken(Damage.ROW_EDITED, f"row {at} was changed: its cells do not have the hash that was signed", at)
    for entry in rows:
        if look.place_of(entry, around=(at, entry.index, entry.index + was - at)) == at:
            return Broken(
                Damage.ROWS_REORDERED, f"row {at} was moved to row {entry.index}, and row {was} stands in its place", at
            )
    return Broken(Damage.ROW_REMOVED, f"row {at} was removed, and row {was} was moved up to its place", at)


class _Places:
    """Which row an entry was when it was hashed or signed, whatever index it has now."""

    def __init__(self, recorded: frozenset[bytes], origin: str, keys: tuple[PublicKey, ...]) -> None:
        self._recorded = recorded
        self._origin = origin
        self._keys = keys

    def place_of(self, entry: Entry, around: tuple[int, ...] | None = None) -> int | None:
        """Looked for everywhere, or only at the indices of ``around``; ``None`` where it cannot be told."""
        indices = around or tuple(_outwards(entry.index, entry.index + len(self._recorded)))
        try:
            for index in indices:
                if leaf_hash(leaf_data(index, entry.cells)) in self._recorded:
                    return index
            for index in indices[: 2 * _NEAR]:
                if self._signed(entry, index):
                    return index
        except (TypeError, ValueError):
            pass
        return None

    def _signed(self, entry: Entry, index: int) -> bool:
        """Whether the checkpoint that lies with the entry is the one of row ``index``."""
        as_was = Entry(index, entry.cells, entry.leaf_hash, entry.root, entry.signature)
        return as_was.checkpoint(self._origin).verifies(self._keys)


def _outwards(index: int, end: int) -> Iterator[int]:
    """``index``, then its neighbours, ever further away."""
    yield index
    for away in range(1, max(end - index, index + 1)):
        if index + away < end:
            yield index + away
        if index - away >= 0:
            yield index - away
