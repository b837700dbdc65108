"""Rotation and retention: older rows move to files beside the ledger, and later only their hashes are kept.

The tree is one through all of it. A rotation changes nothing that is hashed or signed; a
removal is a row of the ledger like any other, so that it cannot pass for a cut head.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from contract.signing import PublicKey
from evidence.checkpoint import Checkpoint
from evidence.commit import Commits
from evidence.entry import Entry, Head, InvalidLedger
from evidence.export import Beginning, entry_line, first_line, read_export, stripped
from evidence.exporting import sync_folder
from evidence.merkle import Frontier
from evidence.row import rfc3339
from evidence.segments import Segment, segment_path, segments_of
from evidence.sqlite_store import SqliteStore, reading_file
from evidence.verify import verify_ledger
from evidence.walk import removed_by, segment_text

_DROPPED_AT_ONCE: Final = 2_000


@dataclass(frozen=True, slots=True)
class Rotated:
    """Rows ``start`` to ``stop`` - 1 are in ``segment`` now; ``None`` where there was none to move."""

    start: int
    stop: int
    segment: Path | None


@dataclass(frozen=True, slots=True)
class Removal:
    """A segment whose rows are older than what is kept, and what the row of its removal says of it."""

    segment: Segment
    text: str
    newest: str


def rotate(ledger: Path, keys: tuple[PublicKey, ...], *, before: float | None = None) -> Rotated:
    """Move the rows to a segment beside the ledger: all, or those up to the first that is not older than ``before``.

    A service may write meanwhile. The segment is on disk and verified with ``keys`` before a row
    leaves the ledger. Raises ``InvalidLedger`` where it does not verify, ``sqlite3.Error``,
    ``LedgerBusy``, ``OSError``.
    """
    store = SqliteStore(ledger)
    try:
        store.connection.execute("PRAGMA busy_timeout=5000")
        with reading_file(ledger) as opened:
            base = opened.base()
            start = base.frontier.size if base else 0
            end = _end(
                opened.unrotated(), Head(opened.head().checkpoint, base.frontier if base else Frontier()), before
            )
            if end is None:
                return Rotated(start, start, None)
            path = segment_path(ledger, start, end.frontier.size)
            rows = (entry for entry in opened.unrotated() if entry.index < end.frontier.size)
            _write(path, [first_line(end.checkpoint, base)], map(entry_line, rows))
        _check(path, keys)
        _begin_at(store, end, start)
    finally:
        store.close()
    return Rotated(start, end.frontier.size, path)


def _end(entries: Iterable[Entry], at: Head, before: float | None) -> Head | None:
    """The last row that moves as the newest of a tree; ``None`` where the first one stays."""
    stay, frontier, last = "" if before is None else rfc3339(before), at.frontier, None
    for entry in entries:
        if stay and str(entry.cells["recorded_at"]) >= stay:
            break
        frontier, last = frontier.append(entry.leaf_hash), entry
    return None if last is None else Head(last.checkpoint(at.checkpoint.origin), frontier)


def _check(path: Path, keys: tuple[PublicKey, ...]) -> None:
    report = verify_ledger(path, keys, part=True)
    if not report.ok:
        path.unlink()
        raise InvalidLedger(f"nothing was moved: {report.problem}")


def _begin_at(store: SqliteStore, base: Head, start: int) -> None:
    """In short transactions, so that whoever serves goes on writing."""
    commits = Commits(store)
    with commits.patiently() as writing:
        before = store.base()
        if (before.frontier.size if before else 0) != start:
            raise InvalidLedger("nothing was moved: it was rotated meanwhile")
        writing.begin_at(base)
    gone = _DROPPED_AT_ONCE
    while gone == _DROPPED_AT_ONCE:
        with commits.patiently() as writing:
            gone = writing.drop(_DROPPED_AT_ONCE)


def removable(ledger: Path, *, before: float) -> Iterator[Removal]:
    """The segments whose last row is older than ``before`` and whose rows are there still, the oldest first."""
    limit = rfc3339(before)
    for segment in segments_of(ledger):
        newest, last, frontier = None, None, Frontier()
        for part in read_export(segment.path):
            if isinstance(part, Checkpoint):
                newest = part
            elif isinstance(part, Beginning):
                frontier = part.head.frontier
            elif isinstance(part, Entry):
                last = max(last or "", str(part.cells["recorded_at"]))
        if newest is None or last is None:
            continue
        if last >= limit:
            return
        yield Removal(segment, segment_text(frontier.size, newest.size, newest.root), last)


def already_told(entries: Iterable[Entry]) -> frozenset[str]:
    """The removals that rows speak of; one that broke off between its row and the file is not told twice."""
    return frozenset(str(entry.cells["segment"]) for entry in entries if removed_by(entry) is not None)


def strip(removal: Removal, keys: tuple[PublicKey, ...]) -> None:
    """Leave the hashes of the rows only, once a row says so. Raises ``InvalidLedger``, ``OSError``."""
    _check_whole(removal.segment, keys)
    lines = stripped(read_export(removal.segment.path))
    _write(removal.segment.path, (), lines)


def _check_whole(segment: Segment, keys: tuple[PublicKey, ...]) -> None:
    report = verify_ledger(segment.path, keys, part=True)
    if not report.ok:
        raise InvalidLedger(f"{segment.path} is not whole, nothing of it was removed: {report.problem}")


def _write(path: Path, first: Iterable[str], lines: Iterator[str]) -> None:
    """Whole or not at all, on disk when it returns."""
    folder = path.parent
    folder.mkdir(mode=0o700, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
        for some in (first, lines):
            for line in some:
                out.write(line.encode() + b"\n")
        out.flush()
        os.fsync(out.fileno())
    os.replace(partial, path)
    sync_folder(folder)
    sync_folder(folder.parent)
