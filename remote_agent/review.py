"""What of a call a person must approve: looked up before admission, used after the leaf is spent, asked for where it is not there.

    look up -> admit -> spend -> use         the task's approval is for exactly this call: the path goes on
    look up -> admit -> spend -> put off     else: what waits is kept or told, recorded, and nothing runs

An approval never stands for anything but itself: the call that it settles the review of is verified,
bound and admitted like any, under a fresh grant. Of a call that needs no review nothing is looked up.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from approvals.approval import Approval, Asked, Requester, State
from approvals.book import Origin, Waits
from contract.grant import VerifiedGrant
from contract.ids import new_id
from contract.verdict import Decision, NotGranted, Reason, Verdict
from evidence.row import rfc3339
from grants.once import Once
from queries.bind import Bound
from remote_agent.accounting import refuse
from remote_agent.approvers_revoked import check_not_revoked
from remote_agent.cancelling import past_cancelling
from remote_agent.outcome import Answer, BoundCall, Request
from remote_agent.service import Service
from remote_agent.trail import Trail

Path = Callable[[], Awaitable[Answer]]
AskBack = Callable[[BoundCall, Trail, Service], Awaitable[Answer]]

_ENDS: Final = frozenset(
    {Reason.APPROVAL_DENIED, Reason.APPROVAL_EXPIRED, Reason.APPROVAL_ALREADY_DECIDED, Reason.CANCELLED}
)
_WAIT: Final = (State.PENDING, State.APPROVED)
_REVOKED: Final = (
    "the approver was revoked after the approval: cancel the task and send the call anew, to ask for another"
)
_LOST: Final = "what was used is not remembered from before: send the call anew, to ask for another approval"
_DIRECT: Final = 2
"""Tokens of a grant that no agent in the middle passed on: the issuer's, and the leaf."""


async def with_approval(call: BoundCall, grant: VerifiedGrant, request: Request, service: Service) -> BoundCall:
    """The call with what the approval of its task says to it; unchanged where it needs none, or its task has none."""
    capability = call.capability
    if call.bound is None or capability is None or not capability.descriptor.requires_review or not request.follows:
        return call
    try:
        said = await service.approvals.look(
            request.task_id, requester_of(grant), _asked(call, call.bound.canonical), service.clock()
        )
    except NotGranted as stop:  # told after admission, to who may make the call
        return replace(call, review=stop)
    return replace(call, review=said)


async def use(call: BoundCall, trail: Trail, service: Service) -> None:
    """Use the call's approval up, if it has one. Of several that try, in whatever process, one goes on.

    One that was given by somebody who was revoked since is used by nobody. Raises ``NotGranted``
    GRANT_REVOKED, APPROVAL_ALREADY_DECIDED, APPROVAL_EXPIRED, STATE_UNAVAILABLE.
    """
    if (approved := call.approved) is not None:
        await check_approver(call, service)
        await service.approvals.use(approved, service.clock())
        await _use_once(approved.kept.approval, service)
        trail.approved_by = approved.decision_id


async def _use_once(approval: Approval, service: Service) -> None:
    """In the memory of spent leaves too: a copy of the approvals that was put back does not know what was used since.

    Raises ``NotGranted`` as ``use``.
    """
    given = 0.0 if approval.ruling is None else approval.ruling.at
    try:
        await service.state.use(Once("approval", approval.id, given, approval.expires), now=service.clock())
    except NotGranted as stop:
        if stop.reason is Reason.GRANT_REPLAYED:
            raise NotGranted(Reason.APPROVAL_ALREADY_DECIDED, "the approval was used before") from stop
        if stop.reason is Reason.REPLAY_MEMORY_LOST:
            raise NotGranted(Reason.APPROVAL_EXPIRED, _LOST) from stop
        raise


async def check_approver(call: BoundCall, service: Service) -> None:
    """That who approved the call, if it was approved, was not revoked since. Raises GRANT_REVOKED, STATE_UNAVAILABLE."""
    ruling = None if call.approved is None else call.approved.kept.approval.ruling
    if ruling is not None:
        await check_not_revoked(service.state, ruling.subject, ruling.at, _REVOKED)


def reviewed(path: Path, trail: Trail, service: Service, ask_back: AskBack) -> Path:
    """The path, of which a review that is outstanding at admission is an outcome of its own."""

    async def taken() -> Answer:
        try:
            return await path()
        except NotGranted as stop:
            outstanding = stop.reason is Reason.REVIEW_REQUIRED and trail.decision is None
            if not outstanding or trail.call is None or trail.grant is None:
                raise
            return await _put_off(stop, trail.call, trail.grant, trail, service, ask_back)

    return taken


async def still_waiting(answer: Answer, trail: Trail, service: Service) -> Answer:
    """The answer; of a message that neither used nor ended what its task waits for, so that the task goes on waiting."""
    waits = trail.request.review
    if waits is None or answer.review is not None or trail.approved_by is not None:
        return answer
    ended = answer.decision.verdict is Verdict.GRANTED and answer.proposal is None
    if ended or answer.decision.reason in _ENDS:
        return answer
    return replace(answer, review=await _as_it_stands(waits, trail.request.task_id, service))


async def _as_it_stands(told: Mapping[str, Any], task_id: str, service: Service) -> Mapping[str, Any]:
    """What the task waits for: it may have been approved since the task was ``told`` of it."""
    try:
        kept = await service.approvals.of_task(task_id)
    except NotGranted:  # the store does not answer: what was told last is known
        return told
    return told if kept is None or kept.approval.state not in _WAIT else review_json(kept.approval)


def requester_of(grant: VerifiedGrant) -> Requester:
    return Requester(issuer=grant.issuer, subject=grant.subject, tenant=grant.tenant, client=grant.client)


def review_json(approval: Approval) -> dict[str, Any]:
    """What whoever asked is told of it, in the metadata of the task."""
    return {**approval.told(), "expires_at": rfc3339(approval.expires)}


async def _put_off(
    stop: NotGranted, call: BoundCall, grant: VerifiedGrant, trail: Trail, service: Service, ask_back: AskBack
) -> Answer:
    """The leaf is spent, as by any call that every other rule admits. Then: what is missing, what became of it, or that it waits."""
    await service.state.spend(grant, policy=None, now=service.clock())
    if call.missing:
        return await ask_back(call, trail, service)
    if isinstance(call.review, NotGranted):
        raise call.review
    if isinstance(call.review, Waits):
        return await _told(stop, call, call.review, trail, service)
    if len(grant.jtis) > _DIRECT:
        raise stop  # an agent in the middle could not send it again
    return await past_cancelling(_ask(stop, call, call.parts()[2], grant, trail, service))


async def _ask(
    stop: NotGranted, call: BoundCall, bound: Bound, grant: VerifiedGrant, trail: Trail, service: Service
) -> Answer:
    """Keep a new approval that waits, and record the decision that it is of. None is left without its row."""
    request, decision_id = trail.request, new_id("dec")
    invocation = grant.rctx.get("invocation_id")
    origin = Origin(
        task_id=request.task_id,
        context_id=request.context_id,
        request_id=request.request_id,
        decision_id=decision_id,
        trace_id=str(grant.rctx.get("trace_id") or request.trace_id) or None,
        invocation_id=str(invocation) if invocation else None,
        root_jti=grant.root_jti,
    )
    kept = await service.approvals.ask(requester_of(grant), _asked(call, bound.canonical), origin, service.clock())
    stopped = await refuse(_Outstanding(stop, decision_id), trail, service)
    if stopped.receipt is None:  # it could not be recorded, so nobody may approve it
        await service.approvals.withdraw(kept)
        return stopped
    return replace(stopped, call=call.call, review=review_json(kept.approval))


async def _told(stop: NotGranted, call: BoundCall, waits: Waits, trail: Trail, service: Service) -> Answer:
    """That it waits still; or which call was approved in its place, to be sent under a grant for that one."""
    if waits.proposed is not None:
        words = "the approver approved the call with other arguments: send the call that is proposed"
        stop = NotGranted(stop.reason, words, policy_id=stop.policy_id, policy_version=stop.policy_version)
    stopped = await refuse(stop, trail, service)
    if stopped.receipt is None:
        return stopped
    proposal = None if waits.proposed is None else _proposal(call, waits.proposed)
    return replace(stopped, call=call.call, review=review_json(waits.approval), proposal=proposal)


class _Outstanding(NotGranted):
    """The stop whose decision has the id that the approval was kept under."""

    def __init__(self, stop: NotGranted, decision_id: str) -> None:
        super().__init__(stop.reason, stop.message, policy_id=stop.policy_id, policy_version=stop.policy_version)
        self._decision_id = decision_id

    def decision(self, policy_version: str) -> Decision:
        return replace(super().decision(policy_version), decision_id=self._decision_id)


def _asked(call: BoundCall, arguments: Mapping[str, Any]) -> Asked:
    served, capability = call.place()
    return Asked(
        dataset=served.descriptor.dataset,
        dataset_version=served.descriptor.version,
        revision=served.descriptor.revision,
        capability=capability.descriptor.name,
        template_digest=capability.template.digest,
        arguments=dict(arguments),
    )


def _proposal(call: BoundCall, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """As a negotiation proposes a call. An argument that is absent in the canonical form is left out."""
    given = {name: value for name, value in arguments.items() if value is not None}
    named = {"dataset": call.call.dataset, "capability": call.call.capability, "arguments": given}
    return {"call": named, "missing": []}
