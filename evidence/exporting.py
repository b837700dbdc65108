"""Writing an export: whole, from a row on, or where an earlier try broke off."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import orjson

from evidence.checkpoint import Checkpoint
from evidence.entry import Entry, Head
from evidence.export import Beginning, Leaves, entry_line, first_line, leaves_line, newest_of
from evidence.merkle import Frontier
from evidence.parts import Part, Source
from evidence.reader import check_there, told


class RowsRemoved(ValueError):
    """An export cannot begin at a row of which only the hash is left."""


def export_lines(path: Path, *, start: int = 0) -> Iterator[str]:
    """The lines, without line ends, as of one commit, from row ``start`` on. Raises ``DatasetAgentError`` as ``LedgerFile``.

    ``RowsRemoved`` where there is no checkpoint of ``start`` rows: retention removed the one before.
    """
    check_there(path)
    with told(str(path)), Source(path).parts() as parts:
        newest = newest_of(parts)
        stands, rest = _after(parts, newest, start)
        if stands is None:
            raise RowsRemoved(
                f"row {start - 1} was removed by retention: there is no checkpoint to begin with behind it"
            )
        yield first_line(newest, stands)
        yield from map(_line_of, rest)


def _rows_from(path: Path, start: int) -> Iterator[str]:
    """``export_lines`` without the first one."""
    with told(str(path)), Source(path).parts() as parts:
        yield from map(_line_of, _after(parts, newest_of(parts), start)[1])


def _line_of(part: Entry | Leaves) -> str:
    return entry_line(part) if isinstance(part, Entry) else leaves_line(part)


def _after(parts: Iterator[Part], newest: Checkpoint, start: int) -> tuple[Head | None, Iterator[Entry | Leaves]]:
    """What row ``start`` stands on, where there is a checkpoint of it, and what is there of it and the rows behind.

    Where the first row that is there is later, that one.
    """
    stands: Head | None = Head(newest, Frontier())
    frontier = Frontier()
    for part in parts:
        if isinstance(part, Beginning):
            stands, frontier = part.head, part.head.frontier
        elif isinstance(part, Entry | Leaves):
            if frontier.size >= start:
                return stands, _held(chain((part,), parts))
            hashes = part.hashes if isinstance(part, Leaves) else (part.leaf_hash,)
            for at, leaf in enumerate(hashes):
                if frontier.size == start:
                    return None, _held(chain((Leaves(start, hashes[at:]),), parts))
                frontier = frontier.append(leaf)
            stands = Head(part.checkpoint(newest.origin), frontier) if isinstance(part, Entry) else None
    return stands, iter(())


def _held(parts: Iterator[Part]) -> Iterator[Entry | Leaves]:
    return (part for part in parts if isinstance(part, Entry | Leaves))


@dataclass(frozen=True, slots=True)
class Exported:
    """Rows ``begins`` to ``size`` - 1 of the ledger ``origin`` are in the file, the first ``resumed`` from an earlier try."""

    origin: str
    begins: int
    size: int
    resumed: int = 0


Progress = Callable[[Iterator[str], int], Iterator[str]]
"""Sees the lines that are written, and how many there will be at most."""


def write_export(ledger: Path, file: Path, *, start: int = 0, progress: Progress = lambda lines, _: lines) -> Exported:
    """Write the export from row ``start`` on to ``file``, whole or not at all, readable by its user only.

    What was written before it broke off is in ``file`` with ``.partial`` behind its name, and the
    next try for the same rows goes on there, up to the checkpoint that it begins with. Raises
    ``OSError`` and as ``export_lines``.
    """
    partial = file.with_name(file.name + ".partial")
    lines = export_lines(ledger, start=start)
    first = next(lines)
    exported, rows, length = _told(first), _told(first).begins, 0
    begun = _begun(partial)
    if begun is not None and (begun[0].origin, begun[0].begins) == (exported.origin, exported.begins):
        exported, rows, length = begun
        lines = _rows_from(ledger, rows)
    with os.fdopen(os.open(partial, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as out:
        out.seek(length)
        out.truncate()
        if not length:
            out.write(first.encode() + b"\n")
        for line in progress(lines, exported.size - rows):
            if _row_of(line) >= exported.size:
                break
            out.write(line.encode() + b"\n")
        out.flush()
        os.fsync(out.fileno())
    os.replace(partial, file)
    sync_folder(file.parent)
    return replace(exported, resumed=rows - exported.begins if length else 0)


def sync_folder(folder: Path) -> None:
    """A new name in it is on disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _begun(partial: Path) -> tuple[Exported, int, int] | None:
    """What an export that broke off is of, the row it goes on with, and how many bytes of it are good."""
    try:
        with partial.open("rb") as file:
            line = next(file)
            begun, length = _told(line.decode()), len(line)
            rows = begun.begins
            for line in file:
                if not line.endswith(b"\n"):
                    break
                rows = _row_of(line.decode()) + _rows_in(line.decode())
                length += len(line)
    except (OSError, StopIteration, ValueError, KeyError, TypeError):
        return None
    return begun, rows, length


def _told(line: str) -> Exported:
    value = orjson.loads(line)
    begins = value["begins"]["checkpoint"]["size"] if "begins" in value else 0
    return Exported(str(value["checkpoint"]["origin"]), int(begins), int(value["checkpoint"]["size"]))


def _row_of(line: str) -> int:
    """The first row of a line."""
    value = orjson.loads(line)
    return int(value["leaves"]["start"] if "leaves" in value else value["index"])


def _rows_in(line: str) -> int:
    value = orjson.loads(line)
    return len(value["leaves"]["hashes"]) if "leaves" in value else 1
