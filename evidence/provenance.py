"""Whether provenance holds for these bytes and this grant: for a root agent, and offline for anyone."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from contract.result import Content
from contract.signing import PublicKey
from evidence.checkpoint import InvalidReceipt, Receipt
from evidence.dsse import InvalidProvenance, open_envelope, signing_key, upstream_digest
from evidence.entry import Entry, mismatches
from evidence.predicate import PREDICATE_TYPE, STATEMENT_TYPE, Statement
from evidence.row import Cell


def verify_provenance(
    envelope: Any,
    key: PublicKey,
    *,
    body: bytes | Content,
    agent_id: str | None = None,
    leaf_digest: str | None = None,
    leaf_jti: str | None = None,
    txn: str | None = None,
    call_hash: str | None = None,
    dataset: str | None = None,
    capability: str | None = None,
    ledger_keys: tuple[PublicKey, ...] | None = None,
) -> Statement:
    """The statement, where ``key`` signed it over exactly ``body`` for the grant the caller derived.

    ``body`` are the bytes, or what they are said to be by whoever has them: then they are to
    be compared with that when they come.

    ``key`` is the pinned key of the agent that was asked (from trust, or the ``cnf`` of
    the leaf); the envelope's ``keyid`` is not read. A root agent gives every keyword;
    an offline reader gives those it knows: what is ``None`` is *not* checked.
    ``ledger_keys`` default to ``key``. Whether the policy was right is not checked here.

    Raises ``InvalidProvenance``; its ``check`` is ``envelope``, ``signature``, ``payload``,
    ``type``, ``schema``, ``digest``, ``ledger``, or the member that is another one's.
    """
    statement = read_statement(open_envelope(envelope, key))
    content = Content.of(body) if isinstance(body, bytes) else body
    if content != Content(statement.result_digest, statement.predicate.result.size):
        raise InvalidProvenance("digest", "the provenance is for other result bytes")
    told = statement.predicate
    expected = {
        "agent_id": (agent_id, told.agent.id),
        "leaf_digest": (leaf_digest, told.grant.leaf_digest),
        "leaf_jti": (leaf_jti, told.grant.jti),
        "txn": (txn, told.grant.txn),
        "call_hash": (call_hash, told.operation.call_hash),
        "dataset": (dataset, told.dataset.dataset_id),
        "capability": (capability, told.operation.capability),
    }
    for name, (wanted, found) in expected.items():
        if wanted is not None and wanted != found:
            raise InvalidProvenance(name, f"the provenance names another {name.replace('_', ' ')}")
    if not receipt_of(statement).holds((key,) if ledger_keys is None else ledger_keys):
        raise InvalidProvenance("ledger", "the ledger receipt does not hold")
    return statement


def verify_saved(
    envelope: Any, keys: tuple[PublicKey, ...], *, body: bytes | Content, agent_id: str
) -> tuple[Statement, PublicKey]:
    """The statement of an answer that was kept, and which of the agent's keys signed it.

    ``keys`` are the agent's present key and its retired ones, for whoever reads offline: what
    arrives is verified with the present one alone. Raises as ``verify_provenance``.
    """
    key = signing_key(envelope, keys)
    return verify_provenance(envelope, key, body=body, agent_id=agent_id, ledger_keys=keys), key


def read_statement(value: dict[str, Any]) -> Statement:
    """The typed statement of a signed payload. Raises ``InvalidProvenance``."""
    if value.get("_type") != STATEMENT_TYPE or value.get("predicateType") != PREDICATE_TYPE:
        raise InvalidProvenance("type", f"the payload is not a Statement v1 with predicate {PREDICATE_TYPE}")
    try:
        return Statement.model_validate(value)
    except ValidationError as error:
        where = ".".join(str(part) for part in error.errors()[0]["loc"])
        raise InvalidProvenance("schema", f"the provenance is not complete, or contradicts itself: {where}") from error


def receipt_of(statement: Statement) -> Receipt:
    """The ledger receipt, unverified. Raises ``InvalidProvenance``."""
    try:
        return Receipt.from_json(statement.predicate.ledger)
    except InvalidReceipt as error:
        raise InvalidProvenance("ledger", str(error)) from error


def differences(statement: Statement, entry: Entry) -> tuple[str, ...]:
    """What a ledger's entry says otherwise than the statement whose receipt points to it; empty where nothing.

    The entry's own hash is recomputed, so an auditor may ask this of an unverified file.
    Raises ``InvalidProvenance`` for a statement without a receipt.
    """
    receipt, told = receipt_of(statement), statement.predicate
    plain: dict[str, Cell] = {
        "decision_id": told.decision.decision_id,
        "policy_id": told.decision.policy_id,
        "leaf_digest": told.grant.leaf_digest,
        "dataset": told.dataset.dataset_id,
        "revision": told.dataset.revision,
        "capability": told.operation.capability,
        "rows_returned": told.authorization.rows_returned,
        "upstream_digest": upstream_digest(told.upstream[0].envelope) if told.upstream else None,
    }
    found = [name for name, value in plain.items() if entry.cells[name] != value]
    if entry.index != receipt.index or entry.computed_leaf() != receipt.leaf_hash:
        found.append("leaf_hash")
    call_hash, result_digest = told.operation.call_hash, statement.result_digest
    return (*found, *mismatches(entry, receipt.opening, call_hash=call_hash, result_digest=result_digest))
