"""What a SQLite state file holds beside its header: spent leaves and revocations."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from grants.state import Revocation, RevocationKind, in_order

TABLES: Final = """
CREATE TABLE IF NOT EXISTS spent (leaf TEXT PRIMARY KEY, until REAL NOT NULL) WITHOUT ROWID;
DROP INDEX IF EXISTS spent_until;
CREATE TABLE IF NOT EXISTS revoked (
  kind TEXT NOT NULL, value TEXT NOT NULL, not_before REAL NOT NULL, PRIMARY KEY (kind, value)
) WITHOUT ROWID;
"""
LOOKED_AT: Final = 2_048
"""Leaves that are looked at in one sweep: eight for each that is spent until the next."""
_FOREIGN: Final = "the state file holds what this program did not write"
REVOKE: Final = (
    "INSERT INTO revoked VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET not_before = max(not_before, excluded.not_before)"
)


Held = dict[tuple[str, str], Any]
"""Revocations as they were read: SQLite keeps any type anywhere, so an instant may be none."""


def held_of(connection: sqlite3.Connection, names: Sequence[tuple[RevocationKind, str]]) -> Held:
    """The revocations of ``names``."""
    marks = ", ".join(["(?, ?)"] * len(names))
    rows = connection.execute(
        f"SELECT kind, value, not_before FROM revoked WHERE (kind, value) IN (VALUES {marks})",  # noqa: S608
        [part for name in names for part in name],
    )
    return {(kind, value): instant for kind, value, instant in rows}


def held_if_few(connection: sqlite3.Connection, most: int) -> Held | None:
    """Every revocation; ``None`` where there are more than ``most``."""
    rows = connection.execute("SELECT kind, value, not_before FROM revoked LIMIT ?", (most + 1,)).fetchall()
    return None if len(rows) > most else {(kind, value): instant for kind, value, instant in rows}


def instants_in(held: Held, names: Sequence[tuple[RevocationKind, str]]) -> list[float | None]:
    """The not-before instants of ``names``, in their order. Raises ``OSError`` for one that is no number."""
    instants = [held.get(name) for name in names]
    if not all(instant is None or isinstance(instant, float) for instant in instants):
        raise OSError(_FOREIGN)
    return instants


def revocations_of(connection: sqlite3.Connection) -> list[Revocation]:
    """Every revocation, in order. Raises ``OSError`` for one that another hand wrote."""
    rows = connection.execute("SELECT kind, value, not_before FROM revoked").fetchall()
    if not all(isinstance(instant, float) for _, _, instant in rows):
        raise OSError(_FOREIGN)
    try:
        return in_order({(kind, value): instant for kind, value, instant in rows})
    except (ValueError, TypeError) as error:
        raise OSError(_FOREIGN) from error


def forget_leaves(connection: sqlite3.Connection, after: str, clock: float) -> str:
    """Look at the next leaves behind ``after`` and forget those that nobody accepts any more.

    Returns where to go on; empty for the beginning. An index by time would be written with every spend.
    """
    last = connection.execute(
        "SELECT leaf FROM spent WHERE leaf > ? ORDER BY leaf LIMIT 1 OFFSET ?", (after, LOOKED_AT - 1)
    ).fetchone()
    if last is None:
        connection.execute("DELETE FROM spent WHERE leaf > ? AND until < ?", (after, clock))
        return ""
    connection.execute("DELETE FROM spent WHERE leaf > ? AND leaf <= ? AND until < ?", (after, *last, clock))
    return str(last[0])


def holds_leaves(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM spent LIMIT 1").fetchone() is not None


def legible_revocations(path: Path) -> list[tuple[str, str, float]]:
    """What a torn file still tells of them."""
    try:
        with closing(sqlite3.connect(path, timeout=0)) as torn:
            rows = list(torn.execute("SELECT kind, value, not_before FROM revoked"))
    except sqlite3.Error:
        return []
    return [row for row in rows if isinstance(row[2], float)]
