"""Rows, keys and ledgers for the tests of evidence."""

from __future__ import annotations

import hashlib
import sqlite3
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from contract.result import CacheOutcome, Execution, ResultDocument
from contract.signing import PublicKey
from contract.verdict import Reason
from evidence.ledger import Ledger
from evidence.row import LedgerRow, Side
from evidence.statement import Invocation

NOW = 1_800_000_000.0
ISSUER = "https://issuer.dataset-agent.example"
SUBJECT = "u-eng-01"
CALL_HASH = hashlib.sha256(b'{"dataset":"d","capability":"c","arguments":{"batch":"B001"}}').hexdigest()
RESULT_DIGEST = hashlib.sha256(b"the rows").hexdigest()
AGENT = "urn:dataset-agent:remote"
BODY = b'{"schema":[],"rows":[],"row_count":0,"truncated":false,"as_of":"2027-01-15T08:00:00.000000Z"}'
DOCUMENT = ResultDocument(body=BODY, row_count=0, truncated=False, as_of="2027-01-15T08:00:00.000000Z")
EXECUTION = Execution(
    execution_id="exe-1", engine="duckdb", job_id=None, tool_origin="LOCAL", started=NOW - 1.5, ended=NOW - 1.25
)
INVOCATION = Invocation(request_id="req-0", trace_id="0" * 32, session_id="session-1", invocation_id="inv-0")


def draft_members(**changes: Any) -> dict[str, Any]:
    """What ``draft`` wants beside the authority."""
    members: dict[str, Any] = {
        "agent_id": AGENT,
        "call_hash": CALL_HASH,
        "requested_dataset": "purification-batches",
        "template_digest": "e" * 64,
        "document": DOCUMENT,
        "execution": EXECUTION,
        "cache": CacheOutcome("MISS", "dsc:1:key"),
        "invocation": INVOCATION,
        "sources": ["MES historian"],
        "now": NOW,
        "max_rows": 1000,
        "max_bytes": 2**20,
    }
    return {**members, **changes}


class SeedSigner:
    """A signer whose key is made from a number, so that every process of a test has the same."""

    def __init__(self, seed: int = 1) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32)
        self.public_key = PublicKey(self._key.public_key().public_bytes_raw())

    def sign(self, message: bytes) -> bytes:
        return self._key.sign(message)


def make_row(number: int = 0, **changes: Any) -> LedgerRow:
    """A GRANTED terminal row of the remote; ``number`` makes its ids its own."""
    members: dict[str, Any] = {
        "side": Side.REMOTE,
        "recorded_at": NOW + number,
        "agent_id": "urn:dataset-agent:remote",
        "client": "urn:dataset-agent:root",
        "request_id": f"req-{number}",
        "reason": Reason.PRINCIPAL_AUTHORIZED,
        "policy_id": "BPD-DATA-014",
        "policy_version": "2026.1",
        "decision_id": f"dec-{number:032x}",
        "issuer": ISSUER,
        "subject": SUBJECT,
        "tenant": "acme",
        "principal_class": "process_engineer",
        "requested_dataset": "purification-batches",
        "requested_capability": "batch_yield",
        "dataset": "purification-batches",
        "dataset_version": "1.0.0",
        "revision": "r1",
        "schema_version": "1",
        "capability": "batch_yield",
        "root_jti": f"jti-root-{number}",
        "leaf_jti": f"jti-leaf-{number}",
        "txn": f"txn-{number}",
        "leaf_digest": "d" * 64,
        "call_hash": CALL_HASH,
        "template_digest": "e" * 64,
        "result_digest": RESULT_DIGEST,
        "rows_returned": 2,
        "cache": "MISS",
        "execution_id": f"exe-{number}",
        "tool_origin": "LOCAL",
        "task_id": f"task-{number}",
        "trace_id": f"{number:032x}",
        "session_id": "session-1",
        "invocation_id": f"inv-{number}",
        "event_ids": ("event-1", "event-2"),
    }
    return LedgerRow(**{**members, **changes})


def refused_row(number: int = 0, reason: Reason = Reason.GRANT_EXPIRED, **changes: Any) -> LedgerRow:
    """A row of a request that stopped before anything was resolved."""
    return LedgerRow(
        **{
            "side": Side.REMOTE,
            "recorded_at": NOW + number,
            "agent_id": "urn:dataset-agent:remote",
            "request_id": f"req-{number}",
            "reason": reason,
            "policy_id": None,
            "policy_version": None,
            "decision_id": f"dec-{number:032x}",
            **changes,
        }
    )


def open_ledger(folder: Path, signer: SeedSigner | None = None, **options: Any) -> Ledger:
    return Ledger.open(
        folder / "ledger.db",
        SeedSigner() if signer is None else signer,
        subject_key_path=folder / "subjects.db",
        now=NOW,
        **options,
    )


def tamper(folder: Path, *statements: str) -> None:
    """Change the file behind the ledger's back."""
    connection = sqlite3.connect(folder / "ledger.db", isolation_level=None)
    try:
        for statement in statements:
            connection.execute(statement)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        connection.close()


def head_as_sql(folder: Path) -> str:
    """The statement that puts the head back to what it is now."""
    connection = sqlite3.connect(folder / "ledger.db", isolation_level=None)
    try:
        size, root, time, signature, peaks = connection.execute(
            "SELECT size, hex(root), time, hex(signature), hex(peaks) FROM head"
        ).fetchone()
    finally:
        connection.close()
    return (
        f"UPDATE head SET size = {size}, root = x'{root}', time = '{time}',"
        f" signature = x'{signature}', peaks = x'{peaks}'"
    )
