"""A row as it is stored: cells, leaf hash, and the checkpoint signed when it was appended."""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from evidence.checkpoint import Checkpoint
from evidence.merkle import Frontier, leaf_hash
from evidence.row import COLUMNS, LATER, Cell, LedgerRow, leaf_data, rfc3339
from evidence.subjects import Subject, commit, opening_of, subject_text


def kind_of(column: str) -> str:
    """The SQLite type of a column."""
    return "INTEGER" if column in ("rows_returned", "bytes_released", "derived") else "TEXT"


SCHEMA: Final = (
    "CREATE TABLE head (id INTEGER PRIMARY KEY CHECK (id = 1), format INTEGER NOT NULL, origin TEXT NOT NULL,"
    " size INTEGER NOT NULL, root BLOB NOT NULL, time TEXT NOT NULL, signature BLOB NOT NULL, peaks BLOB NOT NULL)"
    " STRICT",
    "CREATE TABLE entries (idx INTEGER PRIMARY KEY, "
    + ", ".join(f"{name} {kind_of(name)}" for name in COLUMNS)
    + ", leaf_hash BLOB NOT NULL, root BLOB NOT NULL, signature BLOB NOT NULL) STRICT",
)
FORMAT: Final = 1
BASE_SCHEMA: Final = (
    "CREATE TABLE IF NOT EXISTS base (id INTEGER PRIMARY KEY CHECK (id = 1), size INTEGER NOT NULL, root BLOB NOT NULL,"
    " time TEXT NOT NULL, signature BLOB NOT NULL, peaks BLOB NOT NULL) STRICT"
)

_NAMES: Final = ("idx", *COLUMNS, "leaf_hash", "root", "signature")
INSERT_ENTRY: Final = f"INSERT INTO entries ({', '.join(_NAMES)}) VALUES ({', '.join('?' * len(_NAMES))})"  # noqa: S608 - our own names
UPDATE_HEAD: Final = "UPDATE head SET size = ?, root = ?, time = ?, signature = ?, peaks = ? WHERE id = 1"
_SELECT_HEAD: Final = "SELECT format, origin, size, root, time, signature, peaks FROM head WHERE id = 1"


class InvalidLedger(ValueError):
    """A file that is no ledger, or whose head does not fit together."""


class NotALedger(InvalidLedger):
    """A file that is something else than a ledger: nothing in it was ever one."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One stored row; nothing about it is verified here (see ``evidence.verify``)."""

    index: int
    cells: dict[str, Cell]
    leaf_hash: bytes
    root: bytes
    signature: bytes

    def computed_leaf(self) -> bytes:
        """The leaf hash of the cells as they are now. Raises ``TypeError`` for a foreign type."""
        return leaf_hash(leaf_data(self.index, self.cells))

    def checkpoint(self, origin: str) -> Checkpoint:
        return Checkpoint(origin, self.index + 1, self.root, str(self.cells["recorded_at"]), self.signature)

    def event_ids(self) -> list[str]:
        ids: list[str] = orjson.loads(str(self.cells["event_ids"]))
        return ids


@dataclass(frozen=True, slots=True)
class Head:
    """The newest checkpoint of a ledger and the peaks of its tree."""

    checkpoint: Checkpoint
    frontier: Frontier


@dataclass(frozen=True, slots=True)
class Concealed:
    """A row whose personal members have become commitments, and the opening of those."""

    cells: dict[str, Cell]
    opening: bytes


def plain(row: LedgerRow) -> dict[str, Any]:
    """The members of ``row`` and its verdict, as JSON has them; personal ones are still in the clear."""
    return row.__dict__ | {
        "kind": row.kind.value,
        "side": row.side.value,
        "recorded_at": rfc3339(row.recorded_at),
        "verdict": row.verdict.value,
        "reason": row.reason.value,
    }


MEMBERS: Final = frozenset(LedgerRow.model_fields) | {"verdict"}
"""The names in ``plain``."""


def is_plain(members: object) -> bool:
    """Whether what another process sent has the form of ``plain``: its names, and values that a cell can hold."""
    if type(members) is not dict or members.keys() != MEMBERS:
        return False
    ids = members["event_ids"]
    cells = (value for name, value in members.items() if name != "event_ids")
    return type(ids) is list and all(type(one) is str for one in ids) and all(map(_is_cell, cells))


def subject_in(members: Mapping[str, Any]) -> Subject | None:
    """Who a row with these members is about, where it is known."""
    issuer, subject = members["issuer"], members["subject"]
    return None if issuer is None or subject is None else (issuer, subject)


def _is_cell(value: object) -> bool:
    return value is None or type(value) in (str, int)


def conceal(members: Mapping[str, Any], subject_key: bytes | None) -> Concealed:
    """The cells of a row with the members of ``plain``.

    Without a subject the opening is random and only the receipt has it.
    """
    salt = secrets.token_bytes(16)
    opening = secrets.token_bytes(32) if subject_key is None else opening_of(subject_key, salt)
    subject = subject_in(members)
    special: dict[str, Cell] = {
        "subject_commitment": _commitment(opening, "subject", None if subject is None else subject_text(subject)),
        "call_commitment": _commitment(opening, "call", members["call_hash"]),
        "result_commitment": _commitment(opening, "result", members["result_digest"]),
        "event_ids": orjson.dumps(members["event_ids"]).decode(),
        "salt": salt.hex(),
    }
    cells: dict[str, Cell] = {name: special[name] if name in special else members[name] for name in COLUMNS}
    return Concealed(cells, opening)


def mismatches(
    entry: Entry,
    opening: bytes,
    *,
    subject: tuple[str, str] | None = None,
    call_hash: str | None = None,
    result_digest: str | None = None,
) -> tuple[str, ...]:
    """Which of the given values are *not* what the entry's commitments hold; empty where all are."""
    asked = {
        "subject": None if subject is None else subject_text(subject),
        "call": call_hash,
        "result": result_digest,
    }
    return tuple(
        tag
        for tag, value in asked.items()
        if value is not None and commit(opening, tag, value) != entry.cells[f"{tag}_commitment"]
    )


def read_entries(connection: sqlite3.Connection, where: str = "", parameters: tuple[Cell, ...] = ()) -> Iterator[Entry]:
    """Entries in the order of their index; ``where`` is SQL of this package. Raises ``sqlite3.Error``, ``InvalidLedger``."""
    missing = missing_columns(connection)
    shown = ", ".join(f"NULL AS {name}" if name in missing else name for name in _NAMES)
    for row in connection.execute(f"SELECT {shown} FROM entries {where} ORDER BY idx", parameters):  # noqa: S608 - our own names
        if type(row[0]) is not int or not all(isinstance(value, bytes) for value in row[-3:]):
            raise InvalidLedger("an entry has an index, a hash or a signature of a foreign type")
        yield Entry(row[0], dict(zip(COLUMNS, row[1:-3], strict=True)), *row[-3:])


def missing_columns(connection: sqlite3.Connection) -> tuple[str, ...]:
    """Those of ``LATER`` that the file, written by an earlier release, does not have."""
    found = {row[1] for row in connection.execute("PRAGMA table_info(entries)")}
    return tuple(name for name in LATER if name not in found)


def stored_head(connection: sqlite3.Connection) -> tuple[Any, ...]:
    """The row of the head as it is stored. Raises ``InvalidLedger`` where there is none, and ``sqlite3.Error``."""
    row: tuple[Any, ...] | None = connection.execute(_SELECT_HEAD).fetchone()
    if row is None:
        raise InvalidLedger("the file has no head of a known format")
    return row


def read_head(connection: sqlite3.Connection) -> Head:
    """Raises ``InvalidLedger``, also where root and peaks disagree, and ``sqlite3.Error``."""
    return head_of(stored_head(connection))


def head_of(row: tuple[Any, ...]) -> Head:
    """The head that a stored row says. Raises ``InvalidLedger``."""
    if row[0] != FORMAT:
        raise InvalidLedger("the file has no head of a known format")
    _, origin, size, root, time, signature, peaks = row
    if [type(value) for value in row] != [int, str, int, bytes, str, bytes, bytes]:
        raise InvalidLedger("the head has a value of a foreign type")
    try:
        frontier = Frontier.from_bytes(size, peaks)
    except ValueError as error:
        raise InvalidLedger("the head's peaks do not fit its size") from error
    if frontier.root() != root:
        raise InvalidLedger("the head's peaks do not hash to its root")
    return Head(Checkpoint(origin, size, root, time, signature), frontier)


def read_base(connection: sqlite3.Connection) -> Head | None:
    """What the first entry of the file stands on; ``None`` where that is row 0. Raises as ``read_head``."""
    if connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'base'").fetchone() is None:
        return None
    row = connection.execute(
        "SELECT head.format, head.origin, base.size, base.root, base.time, base.signature, base.peaks FROM base, head"
    ).fetchone()
    return None if row is None else head_of(row)


def read_foreign_head(connection: sqlite3.Connection) -> Head:
    """``read_head`` of a file that may be anything. Raises ``NotALedger`` too."""
    try:
        known = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'head'").fetchone() is not None
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_NOTADB:
            raise NotALedger("it is no database") from error
        raise
    if not known:
        raise NotALedger("the database has no head of one")
    return read_head(connection)


def _commitment(opening: bytes, tag: str, value: str | None) -> str | None:
    return None if value is None else commit(opening, tag, value)
