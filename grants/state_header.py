"""What a SQLite state file says about itself, and what follows from it for the file that is found.

What nobody but an operator does to a file (empty it, exchange it, put an earlier copy back,
take its log away) is a memory lost. It is noticed by the progress that processes saw, by
the inode number, written inside the file, and by its modification time: only a checkpoint
of ours writes the main file, and gives it the time that was announced inside before.
"""

from __future__ import annotations

import math
import sqlite3
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from grants.state import Progress, new_memory

HEADER_TABLE: Final = """
CREATE TABLE IF NOT EXISTS memory (
  one INTEGER PRIMARY KEY CHECK (one = 1), name TEXT NOT NULL, epoch INTEGER NOT NULL, seq INTEGER NOT NULL,
  armed INTEGER NOT NULL, clock REAL NOT NULL, boot TEXT NOT NULL, inode INTEGER NOT NULL,
  modified INTEGER NOT NULL, announced INTEGER NOT NULL
);
"""


_TYPES: Final = [str, int, int, int, float, str, int, int, int]


@dataclass(frozen=True, slots=True)
class Header:
    """The one row of ``memory``. The last two are modification times of the file in nanoseconds.

    ``boot`` is the machine's boot id. ``announced`` is the time that the next checkpoint
    gives the file, or that the last one gave it.
    """

    progress: Progress
    armed: int
    clock: float
    boot: str
    inode: int
    modified: int
    announced: int

    def further(self, spent: int, clock: float) -> Header:
        """After so many more leaves, the last of them at ``clock``."""
        progress = self.progress.further(spent)
        return Header(progress, self.armed, clock, self.boot, self.inode, self.modified, self.announced)


class Condition(Enum):
    """Whether a state file remembers all that was ever written to it."""

    SOUND = auto()
    CLOSED = auto()
    """The last process that closed it moved the log into the file: only the modification time is new."""
    LOST = auto()
    TORN = auto()
    """Another hand wrote the file while its log was in use: its pages do not belong together."""


def condition(
    header: Header | None,
    *,
    seen: Progress | None,
    lost: bool,
    boot: str,
    inode: int,
    modified: int,
    log_in_use: bool,
) -> Condition:
    """Judge a file by its header. ``lost`` is what a process knows beside it, as that a log was taken away."""
    if header is None:
        return Condition.LOST
    exchanged = header.boot != boot or header.inode != inode
    ours = modified in (header.modified, header.announced)
    if log_in_use and not ours and not exchanged:
        return Condition.TORN
    if lost or exchanged or header.progress.behind(seen):
        return Condition.LOST
    return Condition.SOUND if ours else Condition.CLOSED


def gone_on(held: Header | None, seen: Progress | None, *, armed: int, boot: str, inode: int, modified: int) -> Header:
    """The header of a memory that begins, or goes on after a loss; no instant and no count goes back."""
    known = [progress for progress in (held.progress if held else None, seen) if progress is not None]
    return Header(
        progress=Progress(
            known[0].memory if known else new_memory(),
            max((one.epoch for one in known), default=0) + 1,
            max((one.seq for one in known), default=0) + 1,
        ),
        armed=max(armed, held.armed if held else 0),
        clock=held.clock if held else 0.0,
        boot=boot,
        inode=inode,
        modified=modified,
        announced=modified,
    )


def next_announced(header: Header, now: float) -> int:
    """A modification time that the file never had: whole seconds, which every file system keeps, and one at least."""
    return max(int(now), header.announced // 10**9 + 1) * 10**9


def read_header(connection: sqlite3.Connection) -> Header | None:
    """Raises ``sqlite3.Error``, and ``OSError`` for a row that another hand wrote: SQLite keeps any type anywhere."""
    row = connection.execute(
        "SELECT name, epoch, seq, armed, clock, boot, inode, modified, announced FROM memory"
    ).fetchone()
    if row is None:
        return None
    if [type(value) for value in row] != _TYPES or not math.isfinite(row[4]) or row[3] < 1:
        raise OSError("the state file holds what this program did not write")
    return Header(Progress(*row[:3]), *row[3:])


def write_header(connection: sqlite3.Connection, header: Header) -> None:
    told = header.progress
    row = (told.memory, told.epoch, told.seq, header.armed, header.clock, header.boot, header.inode)
    connection.execute(
        "REPLACE INTO memory VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (*row, header.modified, header.announced)
    )
