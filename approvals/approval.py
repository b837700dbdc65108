"""One approval as a value: which call waits, for whom, who decided, and what that is good for.

Everything here is a pure function of frozen values; the time is passed in. An approval is bound
to the task in which it was asked for, to who asked (person, tenant and client), to dataset,
capability and template, and to the digest of the canonical arguments. It grants nothing: it
settles the one rule of admission that waits for a person, of a call that is admitted anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final, Self

from pydantic import Field, FiniteFloat, model_validator

from contract.canonical import canonical_json, sha256_hex
from contract.ids import Slug, Version
from contract.schema import Strict
from contract.verdict import NotGranted, Reason

MAX_WHY: Final = 500
_Id = Annotated[str, Field(min_length=1, max_length=512)]
_Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class State(StrEnum):
    """Where an approval stands: PENDING until somebody decides, APPROVED until it is used; the others are ends."""

    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    USED = "used"
    """For its one call."""
    WITHDRAWN = "withdrawn"


class Requester(Strict):
    """The verified person of the grant, and the agent that asked for them."""

    issuer: _Id
    subject: _Id
    tenant: _Id
    client: _Id

    @property
    def person(self) -> tuple[str, str]:
        return self.issuer, self.subject


class Asked(Strict):
    """What was asked for. ``arguments`` are canonical, with defaults filled in."""

    dataset: Slug
    dataset_version: Version
    revision: Version
    capability: Slug
    template_digest: _Digest
    arguments: dict[str, Any] = Field(repr=False)

    @property
    def place(self) -> tuple[str, str, str]:
        """What an approval cannot be moved from: dataset, capability, and the template that it stands for."""
        return self.dataset, self.capability, self.template_digest


class Ruling(Strict):
    """Who decided, under which of the policies, when (POSIX seconds), and in their own words why."""

    issuer: _Id
    subject: _Id
    decision_id: _Id
    policy_id: _Id
    policy_version: str
    at: FiniteFloat
    why: str = Field(default="", max_length=MAX_WHY, repr=False)


class Approval(Strict):
    """``decision_id`` is of the decision that every rule but the review holds: the ledger has its row.

    ``request_id`` names the one request that asked, ``invocation_id`` the root agent's run that sent it.
    ``edited`` are the arguments that the approver put in place of those asked for. Times are POSIX seconds.
    """

    id: _Id
    task_id: _Id
    context_id: str = ""
    request_id: _Id
    decision_id: _Id
    trace_id: str | None = None
    invocation_id: str | None = None
    root_jti: _Id
    requester: Requester
    asked: Asked
    created: FiniteFloat
    expires: FiniteFloat
    state: Annotated[State, Field(strict=False)] = State.PENDING
    ruling: Ruling | None = None
    edited: dict[str, Any] | None = Field(default=None, repr=False)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.state is not State.WITHDRAWN and (self.ruling is None) != (self.state is State.PENDING):
            raise ValueError("an approval has a ruling once somebody decided, and not before")
        return self

    @property
    def arguments(self) -> Mapping[str, Any]:
        """Those that are approved, or that wait to be."""
        return self.asked.arguments if self.edited is None else self.edited

    @property
    def people(self) -> frozenset[tuple[str, str]]:
        """Who asked and who decided, as (issuer, subject)."""
        decided = () if self.ruling is None else ((self.ruling.issuer, self.ruling.subject),)
        return frozenset({self.requester.person, *decided})

    def is_over(self, now: float) -> bool:
        return now >= self.expires

    def told(self) -> dict[str, Any]:
        """What whoever asked is told of it: no argument, and nobody's name."""
        return {"approval_id": self.id, "state": self.state.value, "edited": self.edited is not None}


def digest_of(arguments: Mapping[str, Any]) -> str:
    """The digest of canonical arguments: equal exactly for equal meaning."""
    return sha256_hex(canonical_json(dict(arguments)))


class Standing(StrEnum):
    """What an approval says to the call that is sent in its task."""

    WAITING = "waiting"
    EDITED = "edited"
    APPROVED = "approved"


def judge(approval: Approval, requester: Requester, asked: Asked, now: float) -> Standing:
    """Whether the approval is for exactly this call of exactly this requester, and where it stands.

    ``EDITED``: it is approved with other arguments, and this is the call that was asked for. Raises
    ``NotGranted`` with APPROVAL_MISMATCH, APPROVAL_DENIED, APPROVAL_ALREADY_DECIDED or APPROVAL_EXPIRED.
    """
    if approval.requester != requester:
        raise _mismatch("the approval is of a call of somebody else")
    if approval.state is State.DENIED:
        raise NotGranted(Reason.APPROVAL_DENIED, "an approver denied the call")
    if approval.state in (State.USED, State.WITHDRAWN):
        raise NotGranted(Reason.APPROVAL_ALREADY_DECIDED, f"the approval was {approval.state.value} already")
    if approval.is_over(now):
        raise NotGranted(Reason.APPROVAL_EXPIRED, "the approval was not given, or not used, in time")
    if approval.asked.place != asked.place:
        raise _mismatch("the approval is of another capability, or of what it was before it was changed")
    digest = digest_of(asked.arguments)
    if digest == digest_of(approval.arguments):
        return Standing.APPROVED if approval.state is State.APPROVED else Standing.WAITING
    if approval.state is State.APPROVED and digest == digest_of(approval.asked.arguments):
        return Standing.EDITED
    raise _mismatch("the approval is of other arguments")


def check_open(approval: Approval, now: float) -> None:
    """That nobody decided yet, and in time. Raises ``NotGranted``."""
    if approval.state is not State.PENDING:
        raise NotGranted(Reason.APPROVAL_ALREADY_DECIDED, f"the approval was {approval.state.value} already")
    if approval.is_over(now):
        raise NotGranted(Reason.APPROVAL_EXPIRED, "the approval was not given in time")


def approved(approval: Approval, ruling: Ruling, arguments: Mapping[str, Any], now: float) -> Approval:
    """Approved with ``arguments``, canonical ones. Raises ``NotGranted`` as ``check_open``."""
    check_open(approval, now)
    same = digest_of(arguments) == digest_of(approval.asked.arguments)
    return _after(approval, state=State.APPROVED, ruling=ruling, edited=None if same else dict(arguments))


def denied(approval: Approval, ruling: Ruling, now: float) -> Approval:
    """Denied. Raises ``NotGranted`` as ``check_open``."""
    check_open(approval, now)
    return _after(approval, state=State.DENIED, ruling=ruling)


def used(approval: Approval, now: float) -> Approval:
    """Used up. Raises ``NotGranted`` where it is not approved, or over."""
    if approval.state is not State.APPROVED:
        raise NotGranted(Reason.APPROVAL_ALREADY_DECIDED, "the approval cannot be used any more")
    if approval.is_over(now):
        raise NotGranted(Reason.APPROVAL_EXPIRED, "the approval was not used in time")
    return _after(approval, state=State.USED)


def withdrawn(approval: Approval) -> Approval | None:
    """Taken back by who asked; ``None`` where it is used or denied, which stays so."""
    if approval.state not in (State.PENDING, State.APPROVED):
        return None
    return _after(approval, state=State.WITHDRAWN)


def _after(approval: Approval, **changes: Any) -> Approval:
    return Approval.model_validate({**dict(approval), **changes})


def _mismatch(why: str) -> NotGranted:
    return NotGranted(Reason.APPROVAL_MISMATCH, why)
