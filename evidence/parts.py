"""What a verifier reads of a ledger, wherever it lies: a stream of checkpoint, beginning, rows and hashes of rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from evidence.checkpoint import Checkpoint
from evidence.entry import Entry, Head, InvalidLedger
from evidence.export import Beginning, Leaves, is_export, read_export
from evidence.segments import Segment, segments_of
from evidence.sqlite_store import SqliteReading, reading_file

Part = Checkpoint | Beginning | Entry | Leaves


@dataclass(frozen=True, slots=True)
class Source:
    """A file that may be a ledger, with its segments beside it, or an export."""

    path: Path

    @contextmanager
    def parts(self) -> Iterator[Iterator[Part]]:
        """The newest checkpoint, where it begins unless that is row 0, and what it holds, in the order of the file.

        Nothing is verified. Raises ``InvalidLedger``, ``NotALedger``, ``sqlite3.Error``, ``OSError``.
        """
        if is_export(self.path):
            yield read_export(self.path)
            return
        with reading_file(self.path) as opened:
            yield _of_store(opened, segments_of(self.path))


def _of_store(opened: SqliteReading, segments: tuple[Segment, ...]) -> Iterator[Part]:
    yield opened.head().checkpoint
    base = opened.base()
    if base is not None:
        yield from _before(base, segments)
    yield from opened.unrotated()


def _before(base: Head, segments: tuple[Segment, ...]) -> Iterator[Part]:
    """The rows of the segments that lead up to ``base``; of two over the same rows the first is read."""
    at = None
    for segment in segments:
        if (at is None and segment.stop <= base.frontier.size) or segment.start == at:
            yield from _of_segment(segment, first=at is None)
            at = segment.stop
    if at is not None and at > base.frontier.size:
        raise InvalidLedger("the segments beside the ledger reach beyond its beginning")
    yield Beginning(base)


def _of_segment(segment: Segment, *, first: bool) -> Iterator[Part]:
    for part in read_export(segment.path):
        if isinstance(part, Checkpoint) or (isinstance(part, Beginning) and not first):
            continue
        yield part
