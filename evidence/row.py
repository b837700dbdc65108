"""What one row of the ledger says: ids, codes and commitments; no argument, no row of data, no token.

The model is closed. Names and digests are checked against their own grammars; correlation
ids come from senders, so one that is not a plain id is stored as its digest: a hostile id
can neither smuggle a token into the ledger nor make the evidence fail.
"""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, Self

import orjson
from pydantic import AfterValidator, BeforeValidator, Field, FiniteFloat, model_validator

from contract.canonical import sha256_hex
from contract.grant import VerifiedGrant
from contract.ids import MAX_ID_BYTES, Slug, Version, is_name_of_record
from contract.schema import Strict
from contract.verdict import VERDICTS, Decision, Reason, Verdict


class Kind(StrEnum):
    """Why a row was written. Exactly one ``terminal`` row stands for each authenticated request."""

    TERMINAL = "terminal"
    RELEASE_STARTED = "release_started"
    BLOCKED = "blocked"
    CACHE_REFRESHED = "cache_refreshed"
    HUMAN_APPROVAL_GRANTED = "human_approval_granted"
    HUMAN_APPROVAL_DENIED = "human_approval_denied"
    SEGMENT_REMOVED = "segment_removed"
    SUBJECT_FORGOTTEN = "subject_forgotten"


class Side(StrEnum):
    """Whose ledger a row is in: the root agent's, or the dataset agent's (the remote of a call)."""

    ROOT = "root"
    REMOTE = "remote"


def _plain_id(value: str) -> str:
    if not is_name_of_record(value):
        raise ValueError("not a plain id: printable ASCII, 200 characters at most, no token")
    return value


def recordable(value: str) -> str:
    """``value`` where it is a plain id, else ``sha256:`` and its digest; equal ids stay equal."""
    if is_name_of_record(value):
        return value
    return "sha256:" + sha256_hex(value.encode("utf-8", "surrogatepass"))


def _recordable(value: Any) -> Any:
    return value if not isinstance(value, str) or not value or is_name_of_record(value) else recordable(value)


_Id = Annotated[str, AfterValidator(_plain_id)]
_Correlation = Annotated[str, Field(min_length=1), BeforeValidator(_recordable)]
_Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
_TokenDigest = Annotated[str, Field(pattern=r"^([0-9a-f]{64}|[A-Za-z0-9_-]{43})$")]


class LedgerRow(Strict):
    """One outcome as the request path knows it, before the ledger conceals what is personal.

    ``recorded_at`` is POSIX seconds. ``issuer`` and ``subject`` stay together; ``subject``,
    ``call_hash`` and ``result_digest`` are stored as commitments only. ``requested_*`` is
    what was asked for, ``dataset`` and ``capability`` what was resolved (absent where
    nothing was). ``caused_by`` is the decision an approval, a block or a refresh belongs to.
    ``upstream_digest`` is the SHA-256 of the payload of the envelope that the result rests on:
    at the root agent the dataset agent's, at a dataset agent that of the one it asked.
    ``bytes_released`` is of a result that is fetched: what is about to be sent on the row of a
    release that starts, what was handed to the network on its terminal row. ``derived`` is 1 where a
    HIT was computed from the stored result of a wider call, whose execution is the row's. ``funnel`` counts how
    a question found its candidates: datasets registered, of which the person may know, matching, of these usable,
    capabilities and datasets shown. ``segment`` is on the row that says that retention removed rows:
    the first of them, the one behind the last, and the root of the tree up to there. ``request_id`` is this
    agent's own for the request: of all rows with it exactly one is terminal.
    """

    kind: Annotated[Kind, Field(strict=False)] = Kind.TERMINAL
    side: Annotated[Side, Field(strict=False)]
    recorded_at: FiniteFloat = Field(ge=0, le=253_402_300_799)
    agent_id: _Id
    client: _Id | None = None
    request_id: _Correlation

    reason: Annotated[Reason, Field(strict=False)]
    policy_id: _Id | None
    policy_version: _Id | None
    decision_id: _Id
    caused_by: _Id | None = None

    issuer: _Id | None = None
    subject: str | None = Field(default=None, min_length=1, max_length=MAX_ID_BYTES, repr=False)
    tenant: _Correlation | None = None
    principal_class: _Correlation | None = None

    requested_dataset: Slug | None = None
    requested_capability: Slug | None = None
    dataset: Slug | None = None
    dataset_version: Version | None = None
    revision: Version | None = None
    schema_version: Version | None = None
    capability: Slug | None = None

    root_jti: _Correlation | None = None
    leaf_jti: _Correlation | None = None
    txn: _Correlation | None = None
    leaf_digest: _TokenDigest | None = None

    call_hash: _Digest | None = Field(default=None, repr=False)
    template_digest: _Digest | None = None
    result_digest: _Digest | None = Field(default=None, repr=False)
    rows_returned: Annotated[int, Field(ge=0, le=2**53 - 1)] | None = None
    bytes_released: Annotated[int, Field(ge=0, le=2**53 - 1)] | None = None
    cache: Literal["HIT", "STALE", "MISS", "WITHHELD", "OFF"] | None = None
    derived: Literal[1] | None = None
    execution_id: _Correlation | None = None
    tool_origin: Literal["LOCAL", "MCP", "A2A"] | None = None
    task_id: _Correlation | None = None
    upstream_digest: _Digest | None = None

    segment: Annotated[str, Field(pattern=r"^\d{1,16}-\d{1,16}:[0-9a-f]{64}$")] | None = None
    funnel: Annotated[str, Field(pattern=r"^\d{1,9}(>\d{1,9}){5}$")] | None = None

    trace_id: _Correlation | None = None
    session_id: _Correlation | None = None
    invocation_id: _Correlation | None = None
    event_ids: Annotated[tuple[_Correlation, ...], Field(strict=False, max_length=64)] = ()

    @property
    def verdict(self) -> Verdict:
        return VERDICTS[self.reason]

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.verdict is Verdict.GRANTED and self.policy_id is None:
            raise ValueError("GRANTED names its policy")
        if self.verdict is Verdict.INDETERMINATE and self.policy_id is not None:
            raise ValueError("INDETERMINATE names no policy")
        if self.subject is not None and self.issuer is None:
            raise ValueError("a subject is known by its issuer")
        if self.derived is not None and self.cache != "HIT":
            raise ValueError("what is derived is a HIT")
        if (self.segment is not None) is not (self.kind is Kind.SEGMENT_REMOVED):
            raise ValueError("a removal names its rows, and nothing else does")
        resolved = (self.dataset_version, self.revision, self.capability)
        if self.verdict is Verdict.GRANTED and self.dataset is not None and None in resolved:
            raise ValueError("GRANTED on a dataset names its version, revision and capability")
        return self

    @staticmethod
    def decided(decision: Decision) -> dict[str, Any]:
        """The members of a row that a decision gives: ``LedgerRow(**LedgerRow.decided(d), side=…, …)``."""
        return {
            "reason": decision.reason,
            "policy_id": decision.policy_id,
            "policy_version": decision.policy_version or None,
            "decision_id": decision.decision_id,
        }

    @staticmethod
    def granted(grant: VerifiedGrant | None, principal_class: str | None) -> dict[str, Any]:
        """The members of a row that a verified grant gives; none without one."""
        if grant is None:
            return {}
        return {
            "issuer": grant.issuer,
            "subject": grant.subject,
            "tenant": grant.tenant,
            "principal_class": principal_class,
            "root_jti": grant.root_jti,
            "leaf_jti": grant.leaf_jti,
            "txn": grant.txn,
            "leaf_digest": grant.leaf_digest,
        }


Cell = str | int | None

#: Columns that ledgers of an earlier release lack. They are hashed where they say something.
LATER: Final = ("bytes_released", "derived", "funnel", "segment")

#: The columns of a stored row. Every one is hashed into the leaf.
COLUMNS: Final = (
    *("kind", "side", "recorded_at", "agent_id", "client", "request_id"),
    *("verdict", "reason", "policy_id", "policy_version", "decision_id", "caused_by"),
    *("issuer", "subject_commitment", "tenant", "principal_class"),
    *("requested_dataset", "requested_capability"),
    *("dataset", "dataset_version", "revision", "schema_version", "capability"),
    *("root_jti", "leaf_jti", "txn", "leaf_digest"),
    *("call_commitment", "template_digest", "result_commitment", "rows_returned"),
    *("cache", "execution_id", "tool_origin", "task_id", "upstream_digest"),
    *("trace_id", "session_id", "invocation_id", "event_ids", "salt"),
    *LATER,
)


def rfc3339(seconds: float) -> str:
    """POSIX seconds as RFC 3339 UTC with microseconds."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds")[:-6] + "Z"  # for +00:00


def leaf_data(index: int, cells: dict[str, Cell]) -> bytes:
    """The bytes a leaf hashes: RFC 8785 JSON of ``index`` and every cell, a ``LATER`` one only where it is set.

    Flat text, integers and nulls under ASCII names: there orjson's sorted output *is*
    the canonical form (a property test compares the two), at a hundredth of the cost.
    Raises ``TypeError`` for a cell of any other type.
    """
    for value in cells.values():
        if value is not None and type(value) is not str and type(value) is not int:
            raise TypeError("a cell is text, an integer or null")
    told = {name: value for name, value in cells.items() if value is not None or name not in LATER}
    return orjson.dumps({"index": index, **told}, option=orjson.OPT_SORT_KEYS)
