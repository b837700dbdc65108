"""The in-toto Statement v1 of a granted result, as a closed model (``urn:dataset-agent:provenance:v1``).

Every member without a default is required: a result that lacks one is not returned. Code
writes every member; no text of a model, a person or a data source is among them. Text is
printable, instants are of the calendar, and members that say the same say it alike.
https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from contract.ids import MAX_ID_BYTES, Slug, Version
from contract.result import instant
from contract.schema import Strict

STATEMENT_TYPE: Final = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE: Final = "urn:dataset-agent:provenance:v1"

SKEW: Final = timedelta(seconds=5)
"""By how much two clocks may differ, as for grants."""

_Id = Annotated[str, Field(min_length=1, max_length=MAX_ID_BYTES, pattern=r"^[^\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+$")]
_Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
_TokenDigest = Annotated[str, Field(pattern=r"^([0-9a-f]{64}|[A-Za-z0-9_-]{43})$")]
_Count = Annotated[int, Field(ge=0, le=2**53 - 1)]
_Column = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,63}\.[a-z][a-z0-9_-]{0,63}$")]
_ToolOrigin = Literal["LOCAL", "MCP", "A2A"]


def _instant(text: str) -> str:
    instant(text)
    return text


_Time = Annotated[str, AfterValidator(_instant)]


def is_after(later: str, earlier: str) -> bool:
    """Whether one instant is after another by more than two clocks may differ."""
    return instant(later) - instant(earlier) > SKEW


class DigestSet(Strict):
    """A ``DigestSet`` of in-toto: here exactly one digest, in lower-case hex."""

    sha256: _Digest


class Subject(Strict):
    """What the statement is about: a result, by the digest of its bytes."""

    name: _Id
    digest: DigestSet


class Agent(Strict):
    """Who signed: ``id`` is the agent's audience name, pinned with its key in trust."""

    id: _Id


class Grant(Strict):
    """The grant the result was given under; ids and a digest, never the token."""

    issuer: _Id
    client: _Id
    jti: _Id
    root_jti: _Id
    txn: _Id
    leaf_digest: _TokenDigest


class DecisionMade(Strict):
    """The signer's own decision."""

    decision_id: _Id
    verdict: Literal["GRANTED"]
    reason: Literal["PRINCIPAL_AUTHORIZED"]
    policy_id: _Id
    policy_version: _Id


class Operation(Strict):
    """``requested_dataset`` is what was asked for; ``Dataset`` says what was read."""

    requested_dataset: Slug
    capability: Slug
    tool_name: _Id
    template_digest: _Digest
    call_hash: _Digest


class Dataset(Strict):
    """``sources`` are the source systems or tables the descriptor names."""

    dataset_id: Slug
    dataset_version: Version
    revision: Version
    schema_version: Version
    sources: Annotated[tuple[_Id, ...], Field(strict=False, min_length=1, max_length=256)]


class Limits(Strict):
    """The most rows and bytes that were allowed; ``None`` where nothing bounds them."""

    max_rows: _Count | None
    max_bytes: _Count | None


class Authorization(Strict):
    """What was applied: columns (``null`` is every one), digests of row constraints and masks, limits."""

    principal_class: _Id
    sensitivity: Literal["public", "internal", "confidential", "restricted"]
    columns: Annotated[tuple[_Column, ...], Field(strict=False)] | None
    row_constraints_digest: _Digest
    masks_digest: _Digest
    limits: Limits
    rows_returned: _Count
    truncated: bool

    @model_validator(mode="after")
    def _within(self) -> Self:
        if self.limits.max_rows is not None and self.rows_returned > self.limits.max_rows:
            raise ValueError("a result has no more rows than its limit")
        return self


class ExecutionDone(Strict):
    """The run that produced the rows: on a cache hit the earlier one, with its own times.

    ``tool_origin`` is A2A exactly where the result rests on another agent's (``upstream``).
    The bytes are there where the engine charges for them.
    """

    execution_id: _Id
    engine: _Id
    job_id: _Id | None
    tool_origin: _ToolOrigin
    started: _Time
    ended: _Time
    bytes_processed: _Count | None = None
    bytes_billed: _Count | None = None

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if is_after(self.started, self.ended):
            raise ValueError("a run ends after it started")
        return self


class Cache(Strict):
    """``key`` is absent where the capability is restricted or nothing was looked up.

    A result is ``used`` from the cache exactly on a HIT, and where it is STALE: past the time that
    it may be reused for. A HIT is ``derived`` where it was computed from the stored result of a
    wider call; the execution is then the one that made that.
    """

    outcome: Literal["HIT", "STALE", "MISS", "WITHHELD", "OFF"]
    used: bool
    key: _Id | None
    derived: bool = False

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.used is not (self.outcome in USED):
            raise ValueError("a result comes from the cache exactly on a HIT, and where it is STALE")
        if self.key is not None and self.outcome in _UNTOLD:
            raise ValueError("where the cache was not asked, or may not tell, no key is named")
        if self.derived and self.outcome != "HIT":
            raise ValueError("what is derived is a HIT")
        return self


USED: Final = ("HIT", "STALE")
"""How a result is found that was stored: nothing ran for it."""
_UNTOLD: Final = ("WITHHELD", "OFF")


class Result(Strict):
    """The form of the result, its size in bytes and when its data were last true."""

    media_type: _Id
    size: _Count
    as_of: _Time


class InvocationIds(Strict):
    """The ids that join a statement with a request, a trace, an ADK run and an A2A task."""

    request_id: _Id
    trace_id: _Id
    session_id: _Id
    invocation_id: _Id
    task_id: _Id | None
    function_call_id: _Id | None


class _Signature(Strict):
    keyid: _Id
    sig: str


class _Envelope(Strict):
    payload_type: Annotated[str, Field(alias="payloadType")]
    payload: str
    signatures: Annotated[tuple[_Signature, ...], Field(strict=False, min_length=1, max_length=1)]


def _bare(envelope: dict[str, Any]) -> dict[str, Any]:
    """As ``dsse.bare_envelope`` makes it: what nobody vouches for has no place in a statement."""
    _Envelope.model_validate(envelope)
    return envelope


class Upstream(Strict):
    """The signed provenance of an answer that this one relays, or was completed from, and whose it is.

    ``envelope`` has the payload as it was signed and the one signature that was verified, and
    nothing beside them.
    """

    agent_id: _Id
    task_id: _Id | None
    result_digest: _Digest
    envelope: Annotated[dict[str, Any], AfterValidator(_bare)]


class Predicate(Strict):
    """Who answered, under which grant and decision, and how the result came about."""

    agent: Agent
    grant: Grant
    decision: DecisionMade
    operation: Operation
    dataset: Dataset
    authorization: Authorization
    execution: ExecutionDone
    cache: Cache
    result: Result
    invocation: InvocationIds
    ledger: dict[str, Any]
    upstream: Annotated[tuple[Upstream, ...], Field(strict=False, max_length=8)]
    sealed_at: _Time

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if is_after(self.execution.ended, self.sealed_at):
            raise ValueError("what was sealed had ended")
        if self.authorization.sensitivity == "restricted" and self.cache.outcome not in _UNTOLD:
            raise ValueError("of a restricted capability the cache does not tell")
        most = self.authorization.limits.max_bytes
        if most is not None and self.result.size > most:
            raise ValueError("a result has no more bytes than its limit")
        return self


class Statement(Strict):
    """One result of one grant. The wire's ``_type`` and ``predicateType`` are checked before."""

    type: Annotated[Literal["https://in-toto.io/Statement/v1"], Field(alias="_type")]
    subject: Annotated[tuple[Subject, ...], Field(strict=False, min_length=1, max_length=1)]
    predicate_type: Annotated[Literal["urn:dataset-agent:provenance:v1"], Field(alias="predicateType")]
    predicate: Predicate

    @property
    def result_digest(self) -> str:
        """Hex SHA-256 of the result bytes as sent."""
        return self.subject[0].digest.sha256

    def to_json(self) -> dict[str, Any]:
        return self.model_dump(mode="json", by_alias=True)

    def summary(self) -> dict[str, Any]:
        """The record of one result in flat names, for screens and exports."""
        told = self.predicate
        return {
            "agent_id": told.agent.id,
            "requested_dataset": told.operation.requested_dataset,
            "dataset_id": told.dataset.dataset_id,
            "dataset_version": told.dataset.dataset_version,
            "dataset_revision": told.dataset.revision,
            "schema_version": told.dataset.schema_version,
            "capability": told.operation.capability,
            "policy_id": told.decision.policy_id,
            "policy_version": told.decision.policy_version,
            "decision": told.decision.verdict,
            "decision_id": told.decision.decision_id,
            "grant_id": told.grant.jti,
            "tool_name": told.operation.tool_name,
            "tool_origin": told.execution.tool_origin,
            "sources": list(told.dataset.sources),
            "cache": {
                "used": told.cache.used,
                "outcome": told.cache.outcome,
                "derived": told.cache.derived,
                "execution_id": told.execution.execution_id,
            },
            "as_of": told.result.as_of,
            "rows_returned": told.authorization.rows_returned,
            "trace_id": told.invocation.trace_id,
            "request_id": told.invocation.request_id,
            "executed_at": told.execution.ended,
            "adk": {"session_id": told.invocation.session_id, "invocation_id": told.invocation.invocation_id},
        }
