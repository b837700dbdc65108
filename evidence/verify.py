"""Whether a ledger is what its signer committed to, and where it stops being so; works offline."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Final

from contract.errors import Category, Component, DatasetAgentError
from contract.signing import PublicKey
from contract.sqlite_snapshot import WrittenMeanwhile, snapshot
from evidence.checkpoint import Checkpoint, Receipt, by_a_stranger
from evidence.entry import Entry, InvalidLedger, NotALedger, read_entries, read_foreign_head
from evidence.export import is_export, read_export
from evidence.merkle import Frontier
from evidence.reader import written_meanwhile

_ATTEMPTS: Final = 3


@dataclass(frozen=True, slots=True)
class SignedRows:
    """How many rows a key signed, the first of them and the last."""

    kid: str
    rows: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class LedgerReport:
    """``size`` rows were good before the walk ended; ``bad_row`` is the first that is not.

    ``bad_row`` is ``None`` on a good ledger, and on a problem that is no row's (a head
    nobody trusted signed, a receipt of another ledger). ``signed_by`` says which of the
    keys signed the good rows, the newest signer last. ``is_ledger`` is false for a file
    that is something else.
    """

    ok: bool
    size: int
    origin: str | None = None
    root: str | None = None
    bad_row: int | None = None
    problem: str | None = None
    signed_by: tuple[SignedRows, ...] = ()
    is_ledger: bool = True

    def public(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "size": self.size,
            "origin": self.origin,
            "root": self.root,
            "bad_row": self.bad_row,
            "problem": self.problem,
            "signed_by": [asdict(rows) for rows in self.signed_by],
        }


class _Broken(Exception):
    def __init__(self, problem: str, bad_row: int | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.bad_row = bad_row


def verify_ledger(
    path: Path,
    key: PublicKey | tuple[PublicKey, ...],
    *,
    receipt: Receipt | Checkpoint | None = None,
) -> LedgerReport:
    """Check every row, every checkpoint and the head of the ledger, or of its export, at ``path``.

    ``key`` is the ledger's key, or that and its retired ones. A cut tail that was cut
    carefully shows only against something taken away earlier: ``receipt`` is any later
    receipt or checkpoint of this ledger. Raises ``DatasetAgentError``: not found where
    there is no file, unavailable where it is written to again and again; everything else
    is in the report.
    """
    if not path.is_file():
        raise DatasetAgentError(
            Component.EVIDENCE, Category.NOT_FOUND, "evidence.ledger.not_found", f"there is no ledger at {path}"
        )
    keys = key if isinstance(key, tuple) else (key,)
    for _ in range(_ATTEMPTS):
        try:
            return _verified(path, keys, receipt)
        except WrittenMeanwhile:
            continue  # its service was started: what was read may be of two commits
    raise written_meanwhile(path)


def _verified(path: Path, keys: tuple[PublicKey, ...], receipt: Receipt | Checkpoint | None) -> LedgerReport:
    walk = _Walk(keys, receipt)
    try:
        if is_export(path):
            walk.run(read_export(path))
        else:
            with snapshot(path) as connection:
                walk.run(chain((read_foreign_head(connection).checkpoint,), read_entries(connection)))
    except _Broken as broken:
        return replace(walk.report(), ok=False, problem=broken.problem, bad_row=broken.bad_row)
    except NotALedger as error:
        return LedgerReport(ok=False, size=0, problem=f"not a ledger: {error}", is_ledger=False)
    except InvalidLedger as error:
        at_row = walk.frontier.size if walk.began else None
        return replace(walk.report(), ok=False, problem=str(error), bad_row=at_row)
    except WrittenMeanwhile:
        raise
    except (sqlite3.Error, OSError) as error:
        at = walk.frontier.size
        return replace(
            walk.report(), ok=False, problem=f"the file cannot be read from row {at} on: {error}", bad_row=at
        )
    return walk.report()


class _Walk:
    """One pass from the first row to the head, growing the tree as the writer did."""

    def __init__(self, keys: tuple[PublicKey, ...], receipt: Receipt | Checkpoint | None) -> None:
        self._keys = keys
        self._receipt = receipt if isinstance(receipt, Receipt) else None
        self._later = receipt.checkpoint if isinstance(receipt, Receipt) else receipt
        self._head: Checkpoint | None = None
        self._signed: dict[PublicKey, SignedRows] = {}
        self.frontier = Frontier()

    @property
    def began(self) -> bool:
        return self._head is not None

    def run(self, parts: Iterator[Checkpoint | Entry]) -> None:
        """The newest checkpoint, then the entries in order."""
        for part in parts:
            if isinstance(part, Checkpoint):
                self._begin(part)
            else:
                self._entry(part)
        self._end()

    def report(self) -> LedgerReport:
        origin = None if self._head is None else self._head.origin
        return LedgerReport(
            ok=True,
            size=self.frontier.size,
            origin=origin,
            root=self.frontier.root().hex(),
            signed_by=tuple(self._signed.values()),
        )

    def _begin(self, head: Checkpoint) -> None:
        self._head = head
        later = self._later
        if later is None:
            return
        if not later.verifies(self._keys):
            raise _Broken(f"the receipt is {by_a_stranger(self._keys)}")
        if later.origin != head.origin:
            raise _Broken("the receipt belongs to another ledger")
        if self._receipt is not None and not self._receipt.holds(self._keys):
            raise _Broken("the receipt does not prove its own row")
        self._compare_with_receipt(None)

    def _end(self) -> None:
        size, head = self.frontier.size, self._known_head()
        if size < head.size:
            raise _Broken(f"rows {size} to {head.size - 1} are missing: the tail was cut", size)
        if size > head.size:
            raise _Broken("there are rows behind the newest checkpoint", head.size)
        if self._later is not None and self._later.size > size:
            raise _Broken(f"the receipt speaks of {self._later.size} rows: the tail was cut", size)
        if head.root != self.frontier.root():
            raise _Broken("the newest checkpoint is not the root of the rows", size - 1 if size else None)
        if not head.verifies(self._keys):
            raise _Broken(f"the newest checkpoint is {by_a_stranger(self._keys)}", size - 1 if size else None)

    def _entry(self, entry: Entry) -> None:
        at = self.frontier.size
        if entry.index != at:
            raise _Broken(f"row {at} is missing", at)
        try:
            leaf = entry.computed_leaf()
        except (TypeError, ValueError) as error:
            raise _Broken(f"row {at} was changed: {error}", at) from error
        if leaf != entry.leaf_hash:
            raise _Broken(f"row {at} was changed: its cells do not have the hash that was recorded", at)
        grown = self.frontier.append(leaf)
        if grown.root() != entry.root:
            raise _Broken(f"row {at} was changed or moved: the tree up to it has another root", at)
        self._count(at, entry.checkpoint(self._known_head().origin))
        self.frontier = grown
        self._compare_with_receipt(entry)

    def _count(self, at: int, checkpoint: Checkpoint) -> None:
        """Several processes may change over to a new key at different times, so keys may alternate."""
        newest = next(reversed(self._signed), None)
        signer = checkpoint.signed_by(self._keys if newest is None else (newest, *self._keys))
        if signer is None:
            raise _Broken(f"row {at} is {by_a_stranger(self._keys)}", at)
        before = self._signed.pop(signer, SignedRows(signer.thumbprint, 0, at, at))
        self._signed[signer] = replace(before, rows=before.rows + 1, last=at)

    def _compare_with_receipt(self, entry: Entry | None) -> None:
        """A ledger that is consistent in itself may still be a fork of the one the receipt is from."""
        later, receipt, size = self._later, self._receipt, self.frontier.size
        own = entry if receipt is not None and entry is not None and entry.index == receipt.index else None
        if own is not None and receipt is not None and own.leaf_hash != receipt.leaf_hash:
            raise _Broken(f"row {own.index} is not the one the receipt was given for", own.index)
        if later is not None and later.size == size and later.root != self.frontier.root():
            raise _Broken("a row up to here was replaced: the receipt has another root", size - 1 if size else None)

    def _known_head(self) -> Checkpoint:
        if self._head is None:
            raise InvalidLedger("the file has no head of a known format")
        return self._head
