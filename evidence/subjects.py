"""Who a row is about, under a key that can be erased.

Every row has a random salt and an *opening*: HMAC(subject's key, salt). Subject, call hash
and result digest are stored as HMACs under the opening. Whoever holds a receipt holds the
opening of that one row; whoever holds the key file can open every row of a subject; once
the key is forgotten nobody can guess back from the ledger, and the tree still verifies.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import orjson

from contract.errors import Category, Component, DatasetAgentError
from evidence.sqlite_file import connect

_OPENING: Final = b"dataset-agent:ledger:opening:v1\x00"
_CACHED_SUBJECTS: Final = 4_096
_TABLE: Final = "CREATE TABLE IF NOT EXISTS subject_key (issuer TEXT, subject TEXT, key BLOB NOT NULL, PRIMARY KEY (issuer, subject)) STRICT, WITHOUT ROWID"

Subject = tuple[str, str]


def opening_of(key: bytes, salt: bytes) -> bytes:
    """The opening of the row with ``salt`` for the subject with ``key``."""
    return hmac.digest(key, _OPENING + salt, "sha256")


def commit(opening: bytes, tag: str, value: str) -> str:
    """Hex HMAC-SHA256 of a tagged value under a row's opening."""
    return hmac.digest(opening, tag.encode() + b"\x00" + value.encode(), hashlib.sha256).hex()


def subject_text(subject: Subject) -> str:
    """Issuer and subject as one unambiguous text."""
    return orjson.dumps(subject).decode()


def unerasable(error: Exception) -> DatasetAgentError:
    """The fault of a key that could not be erased."""
    return DatasetAgentError(
        Component.EVIDENCE,
        Category.UNAVAILABLE,
        "evidence.subjects.unavailable",
        f"the subject's key could not be erased ({error}): make the key file writable and try again",
    )


class SubjectKeys:
    """One random key per (issuer, subject) in a SQLite file of its own; several processes share it.

    Methods raise ``sqlite3.Error``. Deleted keys are overwritten in the file
    (``secure_delete``); blocks a disk or a backup keeps are beyond this module.
    """

    def __init__(self, path: Path) -> None:
        self._connection = connect(path, wal=False)
        self._connection.execute("PRAGMA secure_delete=ON")
        self._connection.execute(_TABLE)
        self._lock = threading.Lock()
        self._known: dict[Subject, bytes] = {}
        self._version = -1

    def key(self, subject: Subject) -> bytes:
        """The subject's key, made at first use."""
        with self._lock:
            self._notice_other_processes()
            return self._key(subject)

    def keys(self, subjects: Sequence[Subject | None]) -> list[bytes | None]:
        """``key`` of each, as of one moment; ``None`` for nobody."""
        with self._lock:
            if any(subjects):
                self._notice_other_processes()
            return [None if subject is None else self._key(subject) for subject in subjects]

    def existing(self, subject: Subject) -> bytes | None:
        """The subject's key, or ``None`` where there is none or it was forgotten."""
        with self._lock:
            return self._load(subject)

    def all(self) -> Iterator[tuple[Subject, bytes]]:
        """Every subject that is not forgotten."""
        with self._lock:
            rows = self._connection.execute("SELECT issuer, subject, key FROM subject_key").fetchall()
        return (((issuer, subject), key) for issuer, subject, key in rows)

    def forget(self, subject: Subject) -> bool:
        """Erase the subject's key; whether there was one. Other processes see it at their next row."""
        with self._lock:
            self._known.pop(subject, None)
            cursor = self._connection.execute("DELETE FROM subject_key WHERE issuer = ? AND subject = ?", subject)
            return cursor.rowcount > 0

    def close(self) -> None:
        with self._lock:
            self._known.clear()
            self._connection.close()

    def _notice_other_processes(self) -> None:
        version: int = self._connection.execute("PRAGMA data_version").fetchone()[0]
        if version != self._version:
            self._known.clear()
            self._version = version

    def _key(self, subject: Subject) -> bytes:
        key = self._known.get(subject)
        if key is None:
            key = self._load(subject) or self._create(subject)
            if len(self._known) >= _CACHED_SUBJECTS:
                self._known.clear()
            self._known[subject] = key
        return key

    def _load(self, subject: Subject) -> bytes | None:
        row = self._connection.execute(
            "SELECT key FROM subject_key WHERE issuer = ? AND subject = ?", subject
        ).fetchone()
        return None if row is None else bytes(row[0])

    def _create(self, subject: Subject) -> bytes:
        self._connection.execute(
            "INSERT OR IGNORE INTO subject_key VALUES (?, ?, ?)", (*subject, secrets.token_bytes(32))
        )
        key = self._load(subject)
        if key is None:
            raise sqlite3.OperationalError("a subject was forgotten while its key was made")
        return key
