"""One pass over a ledger from its first row to its newest checkpoint, growing the tree as the writer did."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from contract.signing import PublicKey
from evidence.checkpoint import Checkpoint, Receipt, by_a_stranger
from evidence.damage import Behind, Broken, Damage, misfit, missing
from evidence.entry import Entry, InvalidLedger
from evidence.export import Beginning, Leaves
from evidence.merkle import Frontier
from evidence.row import Kind

Held = Receipt | Checkpoint
"""What was taken away earlier, and shows what the file alone cannot."""

_SEGMENT: Final = re.compile(r"(\d{1,16})-(\d{1,16}):([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class SignedRows:
    """How many rows a key signed, the first of them and the last."""

    kid: str
    rows: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Removed:
    """Rows ``start`` to ``stop`` - 1 were removed by retention, as row ``by`` says; ``root`` is the tree's of ``stop``."""

    start: int
    stop: int
    root: str
    by: int


def segment_text(start: int, stop: int, root: bytes) -> str:
    """What the row of a removal says of it."""
    return f"{start}-{stop}:{root.hex()}"


def removed_by(entry: Entry) -> Removed | None:
    """What the row says that retention removed."""
    match = _SEGMENT.fullmatch(str(entry.cells.get("segment")))
    if entry.cells["kind"] != Kind.SEGMENT_REMOVED.value or match is None:
        return None
    return Removed(int(match[1]), int(match[2]), match[3], entry.index)


class Walk:
    """Raises ``Broken`` at the first thing that is not what was signed.

    ``held`` may be receipts of other ledgers too where one is of this. ``part`` says that the
    file is known to begin after row 0.
    """

    def __init__(self, keys: tuple[PublicKey, ...], held: Sequence[Held], *, part: bool = False) -> None:
        self._keys = keys
        self._held = held
        self._part = part
        self._receipts: dict[int, list[bytes]] = {}
        self._later: dict[int, Checkpoint] = {}
        self._head: Checkpoint | None = None
        self._signed: dict[PublicKey, SignedRows] = {}
        self._gaps: list[tuple[int, int, bytes]] = []
        self.removed: list[Removed] = []
        self.frontier = Frontier()
        self.begins = 0
        self._compared: set[int] = set()

    @property
    def head(self) -> Checkpoint | None:
        return self._head

    @property
    def compared(self) -> int:
        """How many of the sizes that receipts speak of were met."""
        return len(self._compared)

    @property
    def signed_by(self) -> tuple[SignedRows, ...]:
        return tuple(self._signed.values())

    def run(self, parts: Iterator[Checkpoint | Beginning | Entry | Leaves], behind: Behind) -> None:
        """``behind`` reads the entries again from the one that does not fit on."""
        for part in parts:
            if isinstance(part, Entry):
                self._entry(part, behind)
            elif isinstance(part, Leaves):
                self._leaves(part)
            elif isinstance(part, Beginning):
                self._stand_on(part)
            else:
                self._begin(part)
        self._end()

    def _begin(self, head: Checkpoint) -> None:
        self._head = head
        for held in self._held:
            self._take(held, head)
        if self._held and not self._later:
            raise Broken(Damage.OTHER_LEDGER, "the receipt belongs to another ledger")
        self._compare(None)

    def _take(self, held: Held, head: Checkpoint) -> None:
        checkpoint = held.checkpoint if isinstance(held, Receipt) else held
        if checkpoint.origin != head.origin and len(self._held) > 1:
            return
        if not checkpoint.verifies(self._keys):
            raise Broken(Damage.RECEIPT_INVALID, f"the receipt is {by_a_stranger(self._keys)}")
        if checkpoint.origin != head.origin:
            return
        if isinstance(held, Receipt):
            if not held.holds(self._keys):
                raise Broken(Damage.RECEIPT_INVALID, "the receipt does not prove its own row")
            self._receipts.setdefault(held.index, []).append(held.leaf_hash)
        before = self._later.setdefault(checkpoint.size, checkpoint)
        if before.root != checkpoint.root:
            raise Broken(Damage.FORK, f"the receipts are of two histories of {checkpoint.size} rows")

    def _stand_on(self, part: Beginning) -> None:
        """The rows before are in no file here, or the files before lead up to the same tree."""
        base, head = part.head, self._known_head()
        if base.checkpoint.origin != head.origin or not base.checkpoint.verifies(self._keys):
            raise Broken(
                Damage.CHECKPOINT_SWAPPED, f"the checkpoint it begins with is {by_a_stranger(self._keys)}", None
            )
        at = self.frontier.size
        if at == 0:
            self.begins, self.frontier = base.frontier.size, base.frontier
            self._gaps.append((0, base.frontier.size, base.checkpoint.root))
        elif at != base.frontier.size:
            raise Broken(Damage.ROW_REMOVED, f"rows {at} to {base.frontier.size - 1} are in no file here", at)
        elif self.frontier.root() != base.checkpoint.root:
            raise Broken(Damage.FORK, "the segments lead up to another tree than the ledger stands on", at - 1)
        self._compare(None)

    def _leaves(self, part: Leaves) -> None:
        at = self.frontier.size
        if part.start != at:
            raise Broken(Damage.ROW_REMOVED, f"row {at} is missing: not even its hash is here", at)
        for leaf in part.hashes:
            self.frontier = self.frontier.append(leaf)
            self._compare(leaf)
        if self._gaps and self._gaps[-1][1] == at:
            at = self._gaps.pop()[0]
        self._gaps.append((at, self.frontier.size, self.frontier.root()))

    def _end(self) -> None:
        size, head = self.frontier.size, self._known_head()
        if size < head.size:
            raise Broken(Damage.TAIL_CUT, f"rows {size} to {head.size - 1} are missing: the tail was cut", size)
        if size > head.size:
            raise Broken(
                Damage.CHECKPOINT_SWAPPED,
                f"there are rows behind the newest checkpoint: one of {head.size} rows was put in its place",
                head.size,
            )
        if head.root != self.frontier.root():
            raise Broken(
                Damage.CHECKPOINT_SWAPPED,
                "the newest checkpoint is not the root of the rows: another was put in its place",
                size - 1 if size else None,
            )
        if not head.verifies(self._keys):
            raise Broken(
                Damage.NOT_SIGNED, f"the newest checkpoint is {by_a_stranger(self._keys)}", size - 1 if size else None
            )
        beyond = max(self._later, default=0)
        if beyond > size:
            raise Broken(
                Damage.BEHIND_RECEIPT,
                f"the ledger ends at row {size - 1}, signed at {head.time}, and the receipt speaks of {beyond} rows at "
                f"{self._later[beyond].time}: the tail was cut, or an old backup was put back",
                size,
            )
        self._check_gaps()

    def _check_gaps(self) -> None:
        """Rows that are not here were removed by retention, as a row that is here says."""
        for start, stop, root in self._gaps:
            reached = start
            for removed in sorted(self.removed, key=lambda one: one.start):
                if removed.start <= reached < removed.stop:
                    reached = removed.stop
            ends = {removed.stop: removed.root for removed in self.removed}
            if reached >= stop and ends.get(stop) == root.hex():
                continue
            if stop != self.begins:
                raise Broken(
                    Damage.ROWS_WITHHELD,
                    f"of rows {reached} to {stop - 1} only the hashes are here, and no row says that retention removed them",
                    reached,
                )
            if not self._part and stop not in self._later:
                raise Broken(
                    Damage.HEAD_CUT,
                    f"rows 0 to {stop - 1} are not here, and no row says that retention removed them: the head was cut, "
                    "or the rows are in another file",
                    0,
                )

    def _entry(self, entry: Entry, behind: Behind) -> None:
        at, origin = self.frontier.size, self._known_head().origin
        if entry.index != at:
            raise missing(at, behind)
        try:
            leaf = entry.computed_leaf()
        except (TypeError, ValueError) as error:
            raise Broken(Damage.ROW_EDITED, f"row {at} was changed: {error}", at) from error
        grown = self.frontier.append(leaf)
        if leaf != entry.leaf_hash or grown.root() != entry.root:
            raise misfit(at, behind, origin, self._keys)
        self._count(at, entry.checkpoint(origin), behind)
        self.frontier = grown
        removed = removed_by(entry)
        if removed is not None:
            self.removed.append(removed)
        self._compare(leaf)

    def _count(self, at: int, checkpoint: Checkpoint, behind: Behind) -> None:
        """Several processes may change over to a new key at different times, so keys may alternate."""
        newest = next(reversed(self._signed), None)
        signer = checkpoint.signed_by(self._keys if newest is None else (newest, *self._keys))
        if signer is None:
            raise self._unsigned(at, behind)
        before = self._signed.pop(signer, SignedRows(signer.thumbprint, 0, at, at))
        self._signed[signer] = replace(before, rows=before.rows + 1, last=at)

    def _unsigned(self, at: int, behind: Behind) -> Broken:
        """A newest checkpoint that is signed, but is not the last row's, may be of another ledger."""
        head, last = self._known_head(), next(iter(deque(behind(), maxlen=1)), None)
        if not self._signed and last is not None and last.signature != head.signature and head.verifies(self._keys):
            return Broken(
                Damage.CHECKPOINT_SWAPPED,
                f"the newest checkpoint is not of these rows: row {at} is {by_a_stranger(self._keys)}",
                at,
            )
        return Broken(Damage.NOT_SIGNED, f"row {at} is {by_a_stranger(self._keys)}", at)

    def _compare(self, leaf: bytes | None) -> None:
        """A ledger that is consistent in itself may still be a fork of the one that a receipt is from."""
        size = self.frontier.size
        if leaf is not None and any(held != leaf for held in self._receipts.get(size - 1, ())):
            raise Broken(
                Damage.FORK, f"row {size - 1} is not the one the receipt was given for: two histories", size - 1
            )
        later = self._later.get(size)
        if later is None:
            return
        if later.root != self.frontier.root():
            raise Broken(
                Damage.FORK,
                "a row up to here was replaced: the receipt has another root, so there are two histories",
                size - 1 if size else None,
            )
        self._compared.add(size)

    def _known_head(self) -> Checkpoint:
        if self._head is None:
            raise InvalidLedger("the file has no head of a known format")
        return self._head


def entries_behind(parts: Iterator[Checkpoint | Beginning | Entry | Leaves], row: int) -> Iterator[Entry]:
    """The entries that stand at ``row`` and behind it, whatever index they have; a part that cannot be read ends them."""
    place = 0
    with suppress(InvalidLedger):
        for part in parts:
            if isinstance(part, Entry):
                if place >= row:
                    yield part
                place += 1
            elif isinstance(part, Leaves):
                place += len(part.hashes)
            elif isinstance(part, Beginning):
                place = part.head.frontier.size
