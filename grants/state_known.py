"""What one connection read of the SQLite state file, for as long as reading again would find the same.

SQLite itself answers from the pages that it has read for as long as ``PRAGMA data_version``
stays: that number changes when another connection, of this or of any other process, has
committed, and ``total_changes`` when this one has changed a row. A file that was written
past SQLite has another modification time. Where none of the three changed, there is nothing
to be read.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from grants.state import RevocationKind
from grants.state_header import Header, read_header
from grants.state_rows import Held, held_if_few, held_of, instants_in

MOST_KNOWN: Final = 32
"""Revocations that are held beside the file; where there are more, those that a grant names are read."""

_UNREAD: Final = (-1, -1, -1)


@dataclass(frozen=True, slots=True)
class Known:
    """``revoked`` has every revocation with its not-before instant; ``None`` where they are many."""

    header: Header | None
    revoked: Held | None


class Reading:
    """One connection's knowledge of its file. Not shared between connections or threads."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self._stamp: tuple[Any, ...] = _UNREAD
        self._known = Known(None, None)

    def look(self, modified: int) -> Known:
        """What the file holds now; ``modified`` is its modification time in nanoseconds, seen before.

        Raises ``sqlite3.Error`` and ``OSError`` as reading does. Another commit in between
        leaves what was read under a stamp that has passed, and it is read again next time.
        """
        version = self.connection.execute("PRAGMA data_version").fetchone()
        stamp = (version, self.connection.total_changes, modified)
        if stamp != self._stamp:
            self._known = Known(read_header(self.connection), held_if_few(self.connection, MOST_KNOWN))
            self._stamp = stamp
        return self._known

    def wrote(self, header: Header) -> None:
        """This connection committed ``header``, and no revocation, in the transaction that looked last."""
        self._stamp = (self._stamp[0], self.connection.total_changes, self._stamp[2])
        self._known = Known(header, self._known.revoked)

    @property
    def revokes(self) -> bool:
        """Whether anything was revoked, as of the last look."""
        return self._known.revoked is None or bool(self._known.revoked)

    def instants(self, names: Sequence[tuple[RevocationKind, str]]) -> Sequence[float | None]:
        """The not-before instants of ``names``, in their order, as of the last look. Raises as ``look``."""
        held = self._known.revoked
        return instants_in(held_of(self.connection, names) if held is None else held, names)
