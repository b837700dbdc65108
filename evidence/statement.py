"""Provenance of a granted result: drafted and proven complete before the ledger row, sealed after it.

The order matters. A draft holds everything but the receipt, so what is missing, what no
verifier above would read or what does not fit what it carries shows before a GRANTED row is
committed; sealing then only adds the receipt and signs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, cast

import orjson
from pydantic import ValidationError

from contract.authority import Authority
from contract.canonical import digest
from contract.result import CacheOutcome, Execution, Result
from contract.schema import Strict
from contract.scope import rows_to_json
from contract.signing import Signer
from contract.verdict import Decision, NotGranted, Reason
from evidence.checkpoint import Receipt
from evidence.dsse import InvalidProvenance, sign_envelope
from evidence.limits import MAX_OWN_BYTES, RECEIPT_BYTES
from evidence.predicate import PREDICATE_TYPE, STATEMENT_TYPE, USED, Predicate, Statement, Upstream
from evidence.row import rfc3339
from evidence.tree import check_tree, own_bytes

_NO_LEDGER: dict[str, Any] = {}
RESULT_NAME = "result"
_A2A: Final = "A2A"
_LASTING: Final[dict[str, type[Strict]]] = {
    name: cast("type[Strict]", Predicate.model_fields[name].annotation)
    for name in ("agent", "operation", "dataset", "authorization", "execution", "cache", "result")
}
_LEFT_OUT_BYTES: Final = 128
"""At most so many bytes are what a model says of members that a statement leaves out: no charge, not derived."""
_CHARGES: Final = ("bytes_processed", "bytes_billed")


@dataclass(frozen=True, slots=True)
class Invocation:
    """The ids that join a result to its request, its trace and its ADK session."""

    request_id: str
    trace_id: str
    session_id: str
    invocation_id: str
    task_id: str | None = None
    function_call_id: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Draft:
    """A complete statement that lacks only its receipt, and that can be sealed. Made by ``draft`` and ``relay``."""

    body: dict[str, Any]

    @property
    def result_digest(self) -> str:
        """Hex SHA-256 of the result bytes: what the ledger row commits to."""
        value: str = self.body["subject"][0]["digest"]["sha256"]
        return value

    def statement(self, receipt: Receipt) -> dict[str, Any]:
        predicate = {**self.body["predicate"], "ledger": receipt.to_json()}
        return {**self.body, "predicate": predicate}

    def seal(self, receipt: Receipt, signer: Signer) -> dict[str, Any]:
        """The signed envelope. Raises only what ``signer`` raises."""
        return sign_envelope(self.statement(receipt), signer)


def draft(
    authority: Authority,
    *,
    agent_id: str,
    call_hash: str,
    requested_dataset: str,
    template_digest: str,
    document: Result,
    execution: Execution,
    cache: CacheOutcome,
    invocation: Invocation,
    sources: Sequence[str],
    now: float,
    tool_name: str | None = None,
    max_rows: int | None = None,
    max_bytes: int | None = None,
    upstream: Sequence[Upstream] = (),
) -> Draft:
    """The provenance of ``document`` under ``authority``.

    ``sources`` are the source systems of the descriptor. ``upstream`` are the answers of
    other agents that the result was completed from (``upstream_of``): with any of them the
    ``tool_origin`` of the execution is A2A. Raises ``NotGranted``: ``EVIDENCE_UNAVAILABLE``
    naming the members that are missing or malformed, since a result without complete
    provenance is not returned; ``REMOTE_PROVENANCE_INVALID`` where what others gave is not in
    form, does not fit this call, or is too large to be carried on.
    """
    grant = authority.grant
    return _complete(
        level=len(grant.jtis),
        document=document,
        predicate={
            "agent": {"id": agent_id},
            "grant": {
                "issuer": grant.issuer,
                "client": grant.client,
                "jti": grant.leaf_jti,
                "root_jti": grant.root_jti,
                "txn": grant.txn,
                "leaf_digest": grant.leaf_digest,
            },
            "decision": _decision(authority.decision),
            "operation": {
                "requested_dataset": requested_dataset,
                "capability": authority.capability,
                "tool_name": tool_name or authority.capability,
                "template_digest": template_digest,
                "call_hash": call_hash,
            },
            "dataset": {
                "dataset_id": authority.dataset,
                "dataset_version": authority.dataset_version,
                "revision": authority.revision,
                "schema_version": authority.schema_version,
                "sources": list(sources),
            },
            "authorization": {
                "principal_class": authority.principal.principal_class,
                "sensitivity": authority.sensitivity.value,
                "columns": None if authority.columns is None else sorted(authority.columns),
                "row_constraints_digest": row_constraints_digest(authority),
                "masks_digest": masks_digest(authority),
                "limits": {"max_rows": max_rows, "max_bytes": max_bytes},
                "rows_returned": document.row_count,
                "truncated": document.truncated,
            },
            "execution": {
                "execution_id": execution.execution_id,
                "engine": execution.engine,
                "job_id": execution.job_id,
                "tool_origin": _A2A if upstream else execution.tool_origin,
                "started": rfc3339(execution.started),
                "ended": rfc3339(execution.ended),
                **_charged(execution),
            },
            "cache": _cached(cache),
            "invocation": invocation.to_json(),
            "upstream": [item.model_dump(mode="json") for item in upstream],
            "sealed_at": rfc3339(now),
        },
    )


def relay(
    upstream: Statement,
    envelope: dict[str, Any],
    *,
    agent_id: str,
    decision: Decision,
    document: Result,
    invocation: Invocation,
    now: float,
    task_id: str | None,
) -> Draft:
    """The provenance of a result another agent gave: its signed statement unchanged, and our own decision.

    ``upstream`` is what ``verify_provenance`` returned for ``envelope`` (``bare_envelope``);
    the execution is the other agent's, its origin here A2A. Raises as ``draft`` does.
    """
    told = upstream.predicate.model_dump(mode="json")
    return _complete(
        level=1,
        document=document,
        predicate={
            **{name: told[name] for name in ("grant", "operation", "dataset", "authorization")},
            "cache": {name: value for name, value in told["cache"].items() if name != "derived" or value},
            "agent": {"id": agent_id},
            "decision": _decision(decision),
            "execution": _relayed(told["execution"]),
            "invocation": invocation.to_json(),
            "upstream": [upstream_of(upstream, envelope, task_id).model_dump(mode="json")],
            "sealed_at": rfc3339(now),
        },
    )


def upstream_of(statement: Statement, envelope: Mapping[str, Any], task_id: str | None) -> Upstream:
    """What a statement says of an answer it rests on; ``statement`` was verified for ``envelope``.

    Nothing is checked here: the statement it becomes part of is, whole.
    """
    return Upstream.model_construct(
        agent_id=statement.predicate.agent.id,
        task_id=task_id,
        result_digest=statement.result_digest,
        envelope=dict(envelope),
    )


def row_constraints_digest(authority: Authority) -> str:
    return digest("urn:dataset-agent:row-constraints:v1", rows_to_json(authority.rows))


def masks_digest(authority: Authority) -> str:
    masks = {column: mask.value for column, mask in authority.masks.items()}
    return digest("urn:dataset-agent:masks:v1", masks)


def _decision(decision: Decision) -> dict[str, Any]:
    return {
        "decision_id": decision.decision_id,
        "verdict": decision.verdict.value,
        "reason": decision.reason.value,
        "policy_id": decision.policy_id,
        "policy_version": decision.policy_version,
    }


def _cached(cache: CacheOutcome) -> dict[str, Any]:
    """How the result was found; ``derived`` is there where it is true."""
    told = {"outcome": cache.outcome, "used": cache.outcome in USED, "key": cache.key}
    return {**told, "derived": True} if cache.derived else told


def _charged(execution: Execution) -> dict[str, int]:
    """What an engine that charges for bytes says; nothing of one that does not."""
    told = {name: getattr(execution, name) for name in _CHARGES}
    return {name: count for name, count in told.items() if count is not None}


def _relayed(execution: dict[str, Any]) -> dict[str, Any]:
    """Another agent's run as the root agent tells it, without the bytes that its engine does not charge for."""
    kept = {name: told for name, told in execution.items() if told is not None or name not in _CHARGES}
    return {**kept, "tool_origin": _A2A}


def _complete(*, document: Result, predicate: dict[str, Any], level: int) -> Draft:
    """``level`` is the place of the statement in the tree it becomes part of (``check_tree``).

    What is of the closed model, within its sizes, is JSON that every verifier reads.
    """
    result = {"media_type": document.media_type, "size": document.size, "as_of": document.as_of}
    body = {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": RESULT_NAME, "digest": {"sha256": document.digest}}],
        "predicateType": PREDICATE_TYPE,
        "predicate": {**predicate, "result": result, "ledger": _NO_LEDGER},
    }
    statement = _typed(body)
    if not _is_small(body) and own_bytes(statement) + RECEIPT_BYTES > MAX_OWN_BYTES:
        # What the root agent relays is the other's own part.
        reason = Reason.REMOTE_PROVENANCE_INVALID if level == 1 else Reason.EVIDENCE_UNAVAILABLE
        raise NotGranted(reason, f"the result's provenance is over {MAX_OWN_BYTES} bytes")
    try:
        if statement.predicate.upstream:
            check_tree(statement, level=level)
    except InvalidProvenance as error:
        why = f"what the result rests on does not fit it: {error}"
        raise NotGranted(Reason.REMOTE_PROVENANCE_INVALID, why) from error
    return Draft(body)


def _is_small(body: dict[str, Any]) -> bool:
    """Whether it is within the limit with all that it carries, and with the members that were left out."""
    return len(orjson.dumps(body)) + _LEFT_OUT_BYTES + RECEIPT_BYTES <= MAX_OWN_BYTES


def _typed(body: dict[str, Any]) -> Statement:
    predicate = body["predicate"]
    lasting = _lasting(orjson.dumps({name: predicate[name] for name in _LASTING}))
    try:
        return Statement.model_validate({**body, "predicate": {**predicate, **lasting}})
    except ValidationError as error:
        places = [problem["loc"] for problem in error.errors()]
        named = ", ".join(sorted({".".join(str(part) for part in place) for place in places}))
        if any(place[:2] == ("predicate", "upstream") for place in places):
            raise NotGranted(
                Reason.REMOTE_PROVENANCE_INVALID, f"what the result rests on is not in form: {named}"
            ) from error
        raise NotGranted(Reason.EVIDENCE_UNAVAILABLE, f"the result has no complete provenance: {named}") from error


@lru_cache(maxsize=256)
def _lasting(told: bytes) -> dict[str, Any]:
    """Members that the next answer from a stored result repeats: in form once is in form. None where one is not."""
    try:
        return {name: _LASTING[name].model_validate(member) for name, member in orjson.loads(told).items()}
    except ValidationError:
        return {}
