"""The values that travel along the request path."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from approvals.book import Approved, Waits
from contract.authority import Authority
from contract.call import RESULT_MEDIA_TYPE, Call, Operation, parse_follow_up
from contract.grant import VerifiedGrant
from contract.ids import InvocationId, SessionId, new_id
from contract.principal import Principal
from contract.result import CacheOutcome, Execution, Result, ResultDocument
from contract.schema import Parameter
from contract.scope import Scope, Sensitivity
from contract.verdict import Decision, NotGranted, Reason
from evidence.checkpoint import Receipt
from evidence.predicate import Upstream
from queries.bind import ArgumentsMissing, Bound
from remote_agent.service import ServedCapability, ServedDataset

_MALFORMED = "send exactly one part: raw application/json with the call, or text to negotiate one"


@dataclass(frozen=True, slots=True)
class Request:
    """One authenticated request, translated from the wire.

    ``client`` is the authenticated agent; ``on_behalf_of`` the person its assertion names
    as (issuer, tenant, subject). ``grants`` are the ``Execution-Grant`` field lines as they
    arrived; they are never part of a representation. ``task_id`` is the task it is answered
    under; with ``follows`` it is a further message of that task, which remembers the call
    ``half``, if any, and waits for the approval that ``review`` tells of, if any. ``media_type``
    is the form the result is wanted in. ``tool`` is the name of the MCP tool that was called;
    ``None`` for what came over A2A.
    """

    client: str
    operation: Operation
    grants: tuple[str, ...] = field(repr=False)
    call: bytes | None = field(default=None, repr=False)
    question: str | None = field(default=None, repr=False)
    on_behalf_of: tuple[str, str, str] | None = None
    trace_id: str = ""
    task_id: str = ""
    follows: bool = False
    context_id: str = ""
    half: Call | None = field(default=None, repr=False)
    review: Mapping[str, Any] | None = None
    media_type: str = RESULT_MEDIA_TYPE
    tool: str | None = None
    request_id: str = field(default_factory=lambda: new_id("req"))

    def grant_header(self) -> str | None:
        """The one header value, ``None`` without one; raises where there are several."""
        if len(self.grants) > 1:
            raise NotGranted(Reason.GRANT_MALFORMED, "the grant must be one header field line")
        return self.grants[0] if self.grants else None

    def parsed_call(self) -> Call:
        if self.call is None:
            raise NotGranted(Reason.CALL_MALFORMED, _MALFORMED)
        if self.follows:
            return parse_follow_up(self.call, task=self.task_id, half=self.half)
        return Call.parse(self.call)


@dataclass(frozen=True, slots=True)
class RunIds:
    """ADK's binding of one execution: session (thread), invocation (run) and function call."""

    session_id: SessionId
    invocation_id: InvocationId
    function_call_id: str | None = None

    @classmethod
    def fresh(cls) -> RunIds:
        return cls(SessionId.generate(), InvocationId.generate())


@dataclass(frozen=True, slots=True)
class BoundCall:
    """A call inside its grant's scope.

    ``served`` and ``capability`` are ``None`` where this agent serves no such thing, ``bound``
    there too, and where required arguments are ``missing`` or given ones are ``invalid``, which is
    told after admission alone. ``media_type`` and ``task_id`` are those of its request.
    ``review`` is what the approval of its task says to it.
    """

    call: Call
    scope: Scope
    principal: Principal
    served: ServedDataset | None
    capability: ServedCapability | None
    bound: Bound | None
    missing: tuple[Parameter, ...] = ()
    media_type: str = RESULT_MEDIA_TYPE
    task_id: str = ""
    review: Approved | Waits | NotGranted | None = None
    invalid: NotGranted | None = None

    @property
    def approved(self) -> Approved | None:
        """The approval of exactly this call, which is not used yet."""
        return self.review if isinstance(self.review, Approved) else None

    def place(self) -> tuple[ServedDataset, ServedCapability]:
        """What is called; an admitted call always has it."""
        if self.served is None or self.capability is None:
            raise NotGranted(Reason.UNREGISTERED_CAPABILITY, "it is not a registered capability of this agent")
        return self.served, self.capability

    def parts(self) -> tuple[ServedDataset, ServedCapability, Bound]:
        """The same with its arguments. Raises ARGUMENTS_MISSING where some have yet to be given, ARGUMENTS_INVALID."""
        served, capability = self.place()
        if self.invalid is not None:
            raise self.invalid
        if self.bound is None:
            raise ArgumentsMissing(self.missing)
        return served, capability, self.bound

    @property
    def restricted(self) -> bool:
        return self.parts()[1].descriptor.sensitivity is Sensitivity.RESTRICTED

    @property
    def freshness_class(self) -> str:
        """Results of one class may replace one another; it is the publisher's."""
        return self.parts()[0].descriptor.freshness.reuse_class


@dataclass(frozen=True, slots=True)
class Supplied:
    """What another dataset agent answered for this call, once its provenance was verified.

    ``digest`` is the SHA-256 of the payload of its envelope, which ``upstream`` holds.
    """

    document: ResultDocument = field(repr=False)
    upstream: Upstream = field(repr=False)
    digest: str


@dataclass(frozen=True, slots=True)
class Found:
    """A result, where it came from, and the run that fetched it."""

    document: Result
    execution: Execution
    cache: CacheOutcome
    run: RunIds

    def asked_by(self, request: Request) -> Found:
        """The same as the answer to ``request``: a tool's, where one was called, whatever run made the rows."""
        if request.tool is None:
            return self
        return replace(self, execution=replace(self.execution, tool_origin="MCP"))

    def told(self, now: float) -> Found:
        """What may be said of it; as of one that was made ``now`` where it may not be told whether it was stored.

        The ids are of this answer alone then, and no engine's job is named; the ledger's row is made of what this was.
        """
        if self.cache.outcome != "WITHHELD":
            return self
        made = Execution(new_id("exe"), self.execution.engine, None, self.execution.tool_origin, now, now)
        return replace(self, execution=made, run=RunIds.fresh())


Perform = Callable[[], Awaitable[tuple[Result, Execution]]]
Execute = Callable[[Authority, BoundCall, Perform], Awaitable[Found]]
"""Runs an admitted call through an agent runtime, which calls ``Perform`` exactly once."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What leaves: always a decision; rows and envelope only with a GRANTED one.

    ``receipt`` is ``None`` only where evidence could not be written; then there are no rows.
    ``proposal`` is the reply to a negotiation, and to a call that misses arguments. ``review`` tells of the
    approval that its task waits for. ``age_s`` is of a STALE result: seconds since its execution
    began. ``retry_after_s`` is in how many seconds to try again, where that is known.
    """

    decision: Decision
    grant: VerifiedGrant | None = None
    call: Call | None = None
    document: Result | None = None
    execution: Execution | None = None
    cache: CacheOutcome | None = None
    age_s: float | None = None
    receipt: Receipt | None = None
    envelope: Mapping[str, Any] | None = None
    proposal: Mapping[str, Any] | None = None
    review: Mapping[str, Any] | None = None
    retry_after_s: float | None = None
