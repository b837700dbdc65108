"""How a ledger file begins."""

from __future__ import annotations

import secrets
import sqlite3

from contract.signing import Signer
from evidence.checkpoint import Checkpoint
from evidence.entry import FORMAT, SCHEMA, Head, kind_of, missing_columns, read_head
from evidence.merkle import Frontier
from evidence.row import rfc3339


def _is_new(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'head'").fetchone() is None


def found(connection: sqlite3.Connection, signer: Signer, now: float) -> Head:
    """The head of the file; a new file gets tables, a random origin and a signed empty checkpoint.

    A file of an earlier release gets the columns it lacks. Raises ``sqlite3.Error`` and ``InvalidLedger``.
    """
    if _is_new(connection):
        _lay(connection, signer, now)
    elif missing_columns(connection):
        _widen(connection)
    return read_head(connection)


def _widen(connection: sqlite3.Connection) -> None:
    """In one transaction, unless another process was faster. No row changes: what is not set is not hashed."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        for name in missing_columns(connection):
            connection.execute(f"ALTER TABLE entries ADD COLUMN {name} {kind_of(name)}")
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _lay(connection: sqlite3.Connection, signer: Signer, now: float) -> None:
    """In one transaction, unless another process was faster."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        if _is_new(connection):
            for statement in SCHEMA:
                connection.execute(statement)
            empty = Frontier()
            first = Checkpoint.sign(
                signer,
                origin=f"urn:dataset-agent:ledger:{secrets.token_hex(16)}",
                size=0,
                root=empty.root(),
                time=rfc3339(now),
            )
            connection.execute(
                "INSERT INTO head VALUES (1, ?, ?, 0, ?, ?, ?, ?)",
                (FORMAT, first.origin, first.root, first.time, first.signature, b""),
            )
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
