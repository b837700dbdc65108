"""The hop: what a call needs of another dataset agent, asked under a grant that only narrows.

The child is derived from the chain that came with the call, by this agent's own key, for
exactly the bytes that leave. It covers the one capability at the one agent (and what that
capability itself has to ask of a third, where its verified card says so), is no more
sensitive than the answer it completes, lives no longer than the leaf it stands on, and may be
delegated no deeper than needed. What comes back is verified before a row of it is used.
Nothing here knows A2A, ADK or HTTP.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from contract.authority import Authority
from contract.call import Call, encode_call
from contract.grant import VerifiedGrant
from contract.result import ResultDocument
from contract.schema import ResultColumn, schema_member
from contract.scope import Scope, Sensitivity
from contract.tracing import settle
from contract.verdict import NotGranted, Reason
from control_plane.descriptor import DatasetCapability, DatasetDescriptor, Delegation
from control_plane.manifest import CapabilityManifest
from delegation.receipt import verify_reply
from delegation.reply import Outcome, Reply, stop_of
from delegation.sending import Plan, Sent, Verified, send_with_leaf
from evidence.dsse import InvalidProvenance, signing_key
from evidence.predicate import Statement
from evidence.statement import upstream_of
from evidence.tree import verify_tree
from grants.trust import Trust, TrustedAgent
from remote_agent.outcome import BoundCall, Request, Supplied
from remote_agent.service import Errand, Service, Upstreams
from remote_agent.steps import Step, timed

_TRACE_ID: Final = re.compile(r"[0-9a-f]{32}")


def check_reach(grant: VerifiedGrant, capability: CapabilityManifest) -> None:
    """Refuse a grant that does not reach the agent the call would have to ask, before anything is spent."""
    if capability.delegates is not None:
        _scope(grant, capability.delegates)


async def delegate(authority: Authority, call: BoundCall, request: Request, service: Service) -> Supplied | None:
    """What another dataset agent adds to this answer; ``None`` where the capability asks nobody.

    The wait is bounded by ``call_timeout`` and by the life of the received leaf; cancelling it
    withdraws the call. Raises ``NotGranted`` with the other agent's own reason where it refused
    or could not decide, else with one of REMOTE_*.
    """
    _, capability, bound = call.parts()
    asked = capability.descriptor.delegates
    if asked is None:
        return None
    settle(_trace_id(authority.grant, request))
    agent, upstreams = service.trust.agent(asked.agent), service.upstreams
    if agent is None or upstreams is None:
        raise NotGranted(Reason.REMOTE_CARD_INVALID, f"no key is pinned here for {asked.agent}, which is to be asked")
    hop = _Hop(authority, capability.descriptor, asked, bound.canonical, request, service, upstreams, agent)
    patience = min(service.call_timeout, authority.grant.leaf_expires_at - service.clock())
    if patience <= 0:
        raise NotGranted(Reason.GRANT_EXPIRED, "the grant expired before another agent could be asked under it")
    try:
        async with asyncio.timeout(patience):
            return await hop.take(patience)
    except TimeoutError as late:
        why = f"{agent.id}: the dataset agent did not answer in time; whether it ran is unknown"
        raise NotGranted(Reason.REMOTE_TIMEOUT, why) from late


@dataclass(frozen=True, slots=True)
class _Hop:
    """One call's way to the other agent and back. ``arguments`` are this call's own, canonical."""

    authority: Authority
    capability: CapabilityManifest
    asked: Delegation
    arguments: Mapping[str, Any]
    request: Request
    service: Service
    upstreams: Upstreams
    agent: TrustedAgent

    @timed(Step.DELEGATE)
    async def take(self, patience: float) -> Supplied:
        descriptor, theirs = await self._described()
        plan = self._plan(theirs)
        errand = Errand(str(self.capability.sub_agent_name), plan, lambda: self._prepare(plan), patience)
        sent, reply = await self.upstreams.ask(self.authority, errand)
        if reply.outcome is not Outcome.COMPLETED:
            raise self._stopped(reply)
        verified = verify_reply(reply, plan=plan, sent=sent, descriptor=descriptor, trust=self.service.trust)
        self._check_rests(verified.statement, theirs)
        return _supplied(verified, reply)

    async def _described(self) -> tuple[DatasetDescriptor, DatasetCapability]:
        """Dataset and capability on the other agent's verified card, where they are what this one is written for."""
        scope = _scope(self.authority.grant, self.asked)
        descriptor = await self._descriptor()
        if descriptor is None or not _is_current(descriptor, scope):
            descriptor = await self._descriptor(anew=True)
        offered = _offered(descriptor, self.asked)
        if offered is None:
            raise self._stop(Reason.REMOTE_CARD_INVALID, "its card does not offer what is to be asked")
        descriptor, theirs = offered
        if not _is_current(descriptor, scope):
            raise self._stop(Reason.UNKNOWN_DATASET_REVISION, "its dataset has another revision than the grant names")
        if _shapes(theirs.results) != _shapes(self.capability.supply.columns if self.capability.supply else ()):
            raise self._stop(Reason.REMOTE_CARD_INVALID, "its card declares other columns than are expected of it")
        if not theirs.sensitivity.within(self.capability.sensitivity):
            raise self._stop(Reason.DESCRIPTOR_INVALID, "its rows are more sensitive than this capability says")
        return descriptor, theirs

    async def _descriptor(self, *, anew: bool = False) -> DatasetDescriptor | None:
        return await self.upstreams.descriptor(self.agent, self.asked.dataset, self.service.clock(), anew=anew)

    def _plan(self, theirs: DatasetCapability) -> Plan:
        """The bytes that will leave, and the narrowest grant they need."""
        supply = self.capability.supply
        given = {name: self.arguments[own] for name, own in supply.arguments.items()} if supply else {}
        arguments = {name: value for name, value in given.items() if value is not None}
        steps = [self.asked] if theirs.delegates is None else [self.asked, theirs.delegates]
        chain = tuple((self.request.grant_header() or "").split(","))
        return Plan(
            call=Call.parse(encode_call(self.asked.dataset, self.asked.capability, arguments)),
            agent_id=self.agent.id,
            scope=_scope(self.authority.grant, self.asked),
            chain=chain,
            narrow=_narrowed(self.authority.grant.scopes, steps, self.capability.sensitivity),
            # The leaf's own depth is the length of the chain it is derived from.
            max_depth=len(chain) + len(steps) - 1,
        )

    def _prepare(self, plan: Plan) -> Sent:
        service, now = self.service, self.service.clock()
        trace_id = _trace_id(self.authority.grant, self.request)
        return send_with_leaf(
            plan,
            service.signer,
            client=service.agent_id,
            audience=self.agent,
            now=now,
            ttl=service.leaf_ttl,
            headers=lambda to, grant: self.upstreams.headers(to, grant, trace_id, now),
        )

    def _check_rests(self, statement: Statement, theirs: DatasetCapability) -> None:
        """That it is of this trace, and rests on the agent its card names and on no other.

        On that one's proof too, where its key is pinned here.
        """
        if statement.predicate.invocation.trace_id != self.authority.grant.rctx.get("trace_id"):
            raise self._stop(Reason.REMOTE_PROVENANCE_INVALID, "its provenance names another trace")
        further = [] if theirs.delegates is None else [theirs.delegates.agent]
        if [stated.agent_id for stated in statement.predicate.upstream] != further:
            raise self._stop(Reason.REMOTE_PROVENANCE_INVALID, "its answer does not rest on what its card says")
        agents = self.service.trust.agents
        if all(name in agents for name in further):
            try:
                verify_tree(statement, {name: agents[name].accepted_keys for name in further})
            except InvalidProvenance as error:
                raise self._stop(Reason.REMOTE_PROVENANCE_INVALID, str(error)) from error

    def _stopped(self, reply: Reply) -> NotGranted:
        """The other agent's reason, in words of this one: foreign text is not passed on."""
        stop = stop_of(reply)
        said = f"it answered {stop.reason.value}" if reply.decision else stop.message
        return self._stop(stop.reason, said, policy_id=stop.policy_id, policy_version=stop.policy_version)

    def _stop(self, reason: Reason, why: str, **policy: Any) -> NotGranted:
        return NotGranted(reason, f"{self.agent.id}: {why}", **policy)


def _offered(
    descriptor: DatasetDescriptor | None, asked: Delegation
) -> tuple[DatasetDescriptor, DatasetCapability] | None:
    theirs = descriptor.capability(asked.capability) if descriptor else None
    return (descriptor, theirs) if descriptor and theirs else None


def _scope(grant: VerifiedGrant, asked: Delegation) -> Scope:
    scope = grant.scope_at(asked.dataset, asked.agent)
    if scope is None or asked.capability not in scope.actions:
        why = f"the call would widen the grant: it does not cover what has to be asked of {asked.agent}"
        raise NotGranted(Reason.GRANT_WIDENED, why)
    return scope


def _narrowed(held: Sequence[Scope], steps: Sequence[Delegation], ceiling: Sensitivity) -> tuple[Scope, ...]:
    """Of what is held exactly what the steps need. Four tokens leave room for one step after the next."""
    narrow: list[Scope] = []
    for scope in held:
        wanted = [step for step in steps if step.dataset == scope.dataset]
        actions = scope.actions & {step.capability for step in wanted}
        locations = scope.locations & {step.agent for step in wanted}
        if actions and locations:
            lower = min(scope.max_sensitivity, ceiling, key=lambda level: level.rank)
            narrow.append(replace(scope, actions=actions, locations=locations, max_sensitivity=lower))
    return tuple(narrow)


def _supplied(verified: Verified, reply: Reply) -> Supplied:
    if not isinstance(verified.document, ResultDocument):
        raise NotGranted(Reason.RESULT_TOO_LARGE, "the other agent's rows are too many to complete an answer from")
    if verified.document.truncated:
        raise NotGranted(Reason.RESULT_TOO_LARGE, "the other agent's rows are not complete, so nothing rests on them")
    upstream = upstream_of(verified.statement, verified.envelope, reply.task_id or None)
    return Supplied(verified.document, upstream, verified.upstream_digest)


def check_supplied(supplied: Supplied | None, trust: Trust) -> None:
    """That who supplied rows is trusted, by the key that they were signed with. Raises REMOTE_PROVENANCE_INVALID."""
    if supplied is None:
        return
    agent = trust.agent(supplied.upstream.agent_id)
    try:
        signing_key(supplied.upstream.envelope, () if agent is None else agent.accepted_keys)
    except InvalidProvenance as error:
        raise NotGranted(Reason.REMOTE_PROVENANCE_INVALID, f"{supplied.upstream.agent_id}: {error}") from error


def _is_current(descriptor: DatasetDescriptor, scope: Scope) -> bool:
    return (descriptor.version, descriptor.revision) == (scope.dataset_version, scope.revision)


def _shapes(columns: Sequence[ResultColumn]) -> list[dict[str, Any]]:
    return [schema_member(column) for column in columns]


def _trace_id(grant: VerifiedGrant, request: Request) -> str:
    """The trace that the grant names, where a ``traceparent`` can carry it (W3C Trace Context)."""
    named = str(grant.rctx.get("trace_id", ""))
    return named if _TRACE_ID.fullmatch(named) else request.trace_id
