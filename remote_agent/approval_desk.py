"""Where approvers work: what waits, what it is about, and their decision, for the command and the admin door alike.

    who -> may they approve -> show; or: is it open -> bind and admit the call anew -> record -> decide

An approver is a verified person whom the policies permit it, and never the requester. Arguments are
shown to nobody else. What is approved is bound and admitted for its requester first, so nothing can be
approved that would be refused. The row of a decision is on disk before it takes effect; one that was
too late, by a blink, gets a row that says that nothing came of it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from approvals.approval import MAX_WHY, Approval, Ruling, check_open
from approvals.book import ApprovalBook, Kept
from contract.errors import Category, Component, DatasetAgentError
from contract.ids import new_id
from contract.principal import Principal
from contract.verdict import Decision, NotGranted, Reason, Verdict
from control_plane.admission import AdmissionRequest, Review, decide
from control_plane.approving import decide_approver
from control_plane.principals import Directory
from evidence.ledger import Ledger
from evidence.row import Kind, LedgerRow
from queries.bind import bind
from remote_agent.approval_row import row_of
from remote_agent.approval_view import line, waits, whole
from remote_agent.approvers_revoked import Revocations, unless_revoked
from remote_agent.service import ServedCapability, World

Worlds = Callable[[str], AbstractAsyncContextManager[World]]
"""The world as it is served, or would be, with at least this dataset in it."""


class People(Protocol):
    """Whoever verifies identity tokens of approvers."""

    async def verified(self, token: str, directory: Directory, now: float) -> Principal:
        """The person of an identity token. Raises ``DatasetAgentError`` and ``NotGranted``."""
        ...


@dataclass(frozen=True, slots=True)
class _Case:
    """An approval with its approver, the policies' answer about them, and the world that it is decided in."""

    kept: Kept
    approver: Principal
    decision: Decision
    world: World

    @property
    def approval(self) -> Approval:
        return self.kept.approval


class ApprovalDesk:
    """Every answer is one JSON object, the same from here and over HTTP: ``approval``, ``decision`` and ``evidence``.

    What is not GRANTED is an answer, with the decision that says why and no approval. Faults are
    ``DatasetAgentError``.
    """

    def __init__(
        self,
        agent_id: str,
        worlds: Worlds,
        approvals: ApprovalBook,
        ledger: Callable[[], Ledger],
        people: People,
        revocations: Callable[[], Revocations],
        clock: Callable[[], float],
    ) -> None:
        self._agent_id = agent_id
        self._worlds = worlds
        self._approvals = approvals
        self._ledger = ledger
        self._people = people
        self._revocations = revocations
        self._clock = clock

    async def listed(self, *, everything: bool = False) -> dict[str, Any]:
        """What waits and is not over; with ``everything`` also what was decided, and is not forgotten. No argument."""
        now = self._clock()
        found = [one for one in await self._approvals.all() if everything or waits(one, now)]
        async with self._worlds("") as world:
            return {"approvals": [line(one, world.directory, now) for one in found]}

    async def show(self, approval_id: str, token: str) -> dict[str, Any]:
        """One approval with its arguments, for who may approve it."""
        return await _told(self._show(approval_id, token))

    async def approve(
        self, approval_id: str, token: str, *, edits: Mapping[str, Any] | None = None, why: str = ""
    ) -> dict[str, Any]:
        """Approve the call, with ``edits`` in place of some of its arguments."""
        return await _told(self._approve(approval_id, token, edits or {}, why))

    async def deny(self, approval_id: str, token: str, *, why: str = "") -> dict[str, Any]:
        """Deny the call."""
        return await _told(self._deny(approval_id, token, why))

    async def _show(self, approval_id: str, token: str) -> dict[str, Any]:
        async with self._worlds(await self._dataset_of(approval_id)) as world:
            case = await self._permitted(approval_id, token, world)
            told = self._done(case.approval, case, None)
            parameters = [
                one.model_dump(mode="json", exclude_unset=True) for one in _capability(case).descriptor.parameters
            ]
            return told | {"approval": told["approval"] | {"parameters": parameters}}

    async def _approve(self, approval_id: str, token: str, edits: Mapping[str, Any], why: str) -> dict[str, Any]:
        async with self._worlds(await self._dataset_of(approval_id)) as world:
            case = await self._open(approval_id, token, world)
            arguments = await self._admitted(case, {**case.approval.asked.arguments, **edits})
            ruling = self._ruling(case, why)
            receipt = await self._recorded(case, case.decision, Kind.HUMAN_APPROVAL_GRANTED)
            try:
                ruled = await self._approvals.approve(case.kept, ruling, arguments, self._clock())
            except NotGranted as late:
                await self._recorded(case, _late(case, late), Kind.BLOCKED, cause=case.decision.decision_id)
                raise
            return self._done(ruled, case, receipt)

    async def _deny(self, approval_id: str, token: str, why: str) -> dict[str, Any]:
        async with self._worlds(await self._dataset_of(approval_id)) as world:
            case = await self._open(approval_id, token, world)
            ruling = self._ruling(case, why)
            denied = NotGranted(
                Reason.APPROVAL_DENIED, "an approver denied the call", policy_id=case.decision.policy_id
            )
            told = denied.decision(case.decision.policy_version)
            ruling = ruling.model_copy(update={"decision_id": told.decision_id})
            receipt = await self._recorded(case, told, Kind.HUMAN_APPROVAL_DENIED)
            try:
                ruled = await self._approvals.deny(case.kept, ruling, self._clock())
            except NotGranted as late:
                await self._recorded(case, _late(case, late), Kind.BLOCKED, cause=told.decision_id)
                raise
            return self._done(ruled, case, receipt)

    async def _dataset_of(self, approval_id: str) -> str:
        return (await self._find(approval_id)).approval.asked.dataset

    async def _find(self, approval_id: str) -> Kept:
        """By its id or the end of one. Raises NOT_FOUND."""
        kept = await self._approvals.find(approval_id)
        if kept is None:
            ends = [
                one.id for one in await self._approvals.all() if len(approval_id) >= 8 and one.id.endswith(approval_id)
            ]
            kept = await self._approvals.find(ends[0]) if len(ends) == 1 else None
        if kept is None:
            raise _fault(Category.NOT_FOUND, "unknown", "there is no such approval: approvals list shows what waits")
        return kept

    async def _case(self, approval_id: str, token: str, world: World) -> _Case:
        kept = await self._find(approval_id)
        try:
            approver = await self._people.verified(token, world.directory, self._clock())
        except NotGranted as stranger:  # signed in, and nobody here
            told = stranger.decision(world.policy_version)
            await self._written(row_of(kept.approval, None, told, Kind.BLOCKED))
            raise
        asked = kept.approval.asked
        request = self._request(approver, asked.dataset, asked.capability, world)
        decision = await decide_approver(request, kept.approval.requester.person, world.evaluator)
        decision = await unless_revoked(decision, self._revocations(), approver.subject, token)
        return _Case(kept, approver, decision, world)

    async def _permitted(self, approval_id: str, token: str, world: World) -> _Case:
        """The case of an approver who may see it, and decide it. Who may not is recorded, and refused."""
        case = await self._case(approval_id, token, world)
        if case.decision.verdict is not Verdict.GRANTED:
            await self._recorded(case, case.decision, Kind.BLOCKED)
            _check(case.decision)
        return case

    async def _open(self, approval_id: str, token: str, world: World) -> _Case:
        """The same, of what can still be decided."""
        case = await self._permitted(approval_id, token, world)
        check_open(case.approval, self._clock())
        return case

    async def _admitted(self, case: _Case, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """The canonical arguments of a call that would be granted to its requester now, its review settled."""
        asked, requester, world = case.approval.asked, case.approval.requester, case.world
        capability = _capability(case)
        if capability.template.digest != asked.template_digest:
            raise NotGranted(
                Reason.APPROVAL_MISMATCH, "the capability was changed since it was asked for: it has to be asked anew"
            )
        given = {name: value for name, value in arguments.items() if value is not None}
        bound = bind(capability.template, given)
        principal = world.directory.find(*requester.person)
        if principal is None or principal.tenant != requester.tenant:
            raise NotGranted(Reason.UNKNOWN_PRINCIPAL, "the requester is not in this agent's directory any more")
        request = self._request(principal, asked.dataset, asked.capability, world, review=Review.GIVEN)
        _check(await decide(request, world.evaluator))
        return bound.canonical

    def _request(
        self,
        principal: Principal,
        dataset: str,
        capability: str,
        world: World,
        *,
        review: Review = Review.OUTSTANDING,
    ) -> AdmissionRequest:
        return AdmissionRequest(
            principal=principal,
            dataset=dataset,
            capability=capability,
            descriptor=world.lookup(dataset),
            policy_version=world.policy_version,
            now=self._clock(),
            review=review,
        )

    def _ruling(self, case: _Case, why: str) -> Ruling:
        if len(why) > MAX_WHY:
            raise _fault(Category.INVALID_INPUT, "why", f"a reason has at most {MAX_WHY} characters")
        decision = case.decision
        return Ruling(
            issuer=case.approver.issuer,
            subject=case.approver.subject,
            decision_id=decision.decision_id,
            policy_id=str(decision.policy_id),
            policy_version=decision.policy_version,
            at=self._clock(),
            why=why,
        )

    async def _recorded(
        self, case: _Case, decision: Decision, kind: Kind, *, cause: str | None = None
    ) -> Mapping[str, Any]:
        """The row of what an approver decided, or tried to, beside the original decision's, which stays as it is."""
        return await self._written(row_of(case.approval, case.approver, decision, kind, cause=cause))

    async def _written(self, row: Callable[[str, float], LedgerRow]) -> Mapping[str, Any]:
        return (await self._ledger().append_async(row(self._agent_id, self._clock()))).to_json()

    def _done(self, ruled: Approval, case: _Case, receipt: Mapping[str, Any] | None) -> dict[str, Any]:
        return {
            "approval": whole(ruled, case.world.directory, self._clock()),
            "decision": case.decision.public(),
            "evidence": None if receipt is None else dict(receipt),
        }


async def _told(work: Awaitable[dict[str, Any]]) -> dict[str, Any]:
    try:
        return await work
    except NotGranted as stop:
        return {"approval": None, "decision": stop.decision(stop.policy_version).public(), "evidence": None}


def _capability(case: _Case) -> ServedCapability:
    """What is to be approved; who was permitted to approve it was permitted that of something served."""
    asked = case.approval.asked
    return case.world.datasets[asked.dataset].capabilities[asked.capability]


def _check(decision: Decision) -> None:
    """Raises what is not GRANTED."""
    if decision.verdict is not Verdict.GRANTED:
        raise NotGranted(
            decision.reason, decision.rationale, policy_id=decision.policy_id, policy_version=decision.policy_version
        )


def _late(case: _Case, stop: NotGranted) -> Decision:
    return Decision(
        reason=stop.reason,
        policy_id=None,
        policy_version=case.decision.policy_version,
        rationale=stop.message,
        decision_id=new_id("dec"),
    )


def _fault(category: Category, code: str, message: str) -> DatasetAgentError:
    return DatasetAgentError(Component.REMOTE_AGENT, category, f"remote_agent.approvals.{code}", message)
