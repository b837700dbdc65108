"""What a call makes further agents do: admitted before anything is minted, and verified before a row is kept.

A capability that ``delegates`` is completed by the agent it names, which may do the same. The
root decides about each of them as about the call itself, since its token is what they get.
"""

from __future__ import annotations

from contract.principal import Principal
from contract.scope import Scope
from contract.verdict import NotGranted, Reason, Verdict
from control_plane.admission import AdmissionRequest, decide
from control_plane.descriptor import DatasetCapability, DatasetDescriptor, Delegation
from delegation.offer import Offer
from delegation.receipt import check_applied
from evidence.dsse import InvalidProvenance
from evidence.predicate import Statement
from evidence.tree import verify_tree
from grants.claims import MAX_DEPTH
from root_agent.asking import Asking, Hop
from root_agent.service import Service


async def admit_hops(asking: Asking, principal: Principal, first: Hop, service: Service) -> tuple[Hop, ...]:
    """The agents that complete the call ``first``, in the order they are asked, each as the root decided.

    A grant has one entry a dataset, so a dataset that comes up twice cannot be asked; that
    also ends a circle. Raises ``NotGranted`` with the root's own decision, its policy named,
    where one of them is not granted; DESCRIPTOR_INVALID for a circle and for an answer more
    sensitive than what it completes; GRANT_TOO_DEEP; and the reason for which an agent's card
    could not be had.
    """
    hops: list[Hop] = [first]
    while (delegation := hops[-1].capability.delegates) is not None:
        if delegation.dataset in {hop.descriptor.dataset for hop in hops}:
            raise _invalid(hops[-1], "is completed from a dataset that is asked already")
        if len(hops) == MAX_DEPTH:
            raise NotGranted(
                Reason.GRANT_TOO_DEEP, f"the call is completed by more than {MAX_DEPTH - 1} further agents"
            )
        hop = await _admitted(asking, principal, delegation, service)
        if not hop.capability.sensitivity.within(hops[-1].capability.sensitivity):
            raise _invalid(hops[-1], "is declared less sensitive than what it is completed from")
        hops.append(hop)
    return tuple(hops[1:])


def scope_of(hop: Hop, principal: Principal) -> Scope:
    """Just this capability of this revision, at this agent, under the decision's obligations."""
    obligations = hop.decision.obligations
    return Scope(
        dataset=hop.descriptor.dataset,
        dataset_version=hop.descriptor.version,
        revision=hop.descriptor.revision,
        actions=frozenset({hop.capability.name}),
        locations=frozenset({hop.agent_id}),
        max_sensitivity=min(hop.capability.sensitivity, principal.clearance, key=lambda level: level.rank),
        columns=obligations.columns,
        constraints=obligations.rows,
    )


def verify_hops(statement: Statement, asking: Asking, service: Service) -> None:
    """That the answer rests on what was admitted for it and on nothing else, down to the last agent.

    ``statement`` is the asked agent's own, verified already; that it is of this asking's trace
    is judged with the root's own draft. Raises ``NotGranted(REMOTE_PROVENANCE_INVALID)``.
    """
    keys = {agent.id: agent.accepted_keys for agent in service.trust.agents.values()}
    try:
        branches = verify_tree(statement, keys)
    except InvalidProvenance as error:
        raise _unproven(str(error)) from error
    given: list[Statement] = []
    for hop in asking.hops:
        if len(branches) != 1:
            raise _unproven(f"it does not carry the answer of {hop.agent_id}")
        given.append(branches[0].statement)
        branches = branches[0].branches
    if branches:
        raise _unproven("it rests on an answer that was not admitted")
    for told, hop in zip(given, asking.hops, strict=True):
        _check_branch(told, hop)


async def _admitted(asking: Asking, principal: Principal, delegation: Delegation, service: Service) -> Hop:
    offer = _offer(asking, delegation)
    descriptor = offer.descriptor if offer else None
    decision = await decide(
        AdmissionRequest(
            principal=principal,
            dataset=delegation.dataset,
            capability=delegation.capability,
            descriptor=descriptor,
            policy_version=asking.world_in(service).policy_version,
            now=service.clock(),
            max_age_s=asking.wanted.max_age_s,
        ),
        asking.world_in(service).evaluator,
    )
    asked = f"the call also asks {delegation.agent} for {delegation.dataset} {delegation.capability}"
    if decision.verdict is not Verdict.GRANTED:
        raise NotGranted(
            decision.reason,
            f"{asked}: {decision.rationale}",
            policy_id=decision.policy_id,
            policy_version=decision.policy_version,
        )
    known = _described(descriptor, delegation)
    if known is None:
        raise NotGranted(Reason.UNREGISTERED_CAPABILITY, f"{asked}, which it does not offer")
    return Hop(delegation.agent, *known, decision)


def _offer(asking: Asking, delegation: Delegation) -> Offer | None:
    """The agent's offer of the dataset. Raises its reason where its card could not be had."""
    for offer in (*asking.offered, *asking.indirect):
        if (offer.agent_id, offer.dataset) == (delegation.agent, delegation.dataset):
            return offer
    for away in asking.unavailable:
        if away.agent_id == delegation.agent and away.concerns(delegation.dataset):
            raise NotGranted(away.decision.reason, away.decision.rationale)
    return None


def _described(descriptor: object, delegation: Delegation) -> tuple[DatasetDescriptor, DatasetCapability] | None:
    """What is delegated, as a readable card describes it."""
    if not isinstance(descriptor, DatasetDescriptor):
        return None
    capability = descriptor.capability(delegation.capability)
    return None if capability is None else (descriptor, capability)


def _check_branch(statement: Statement, hop: Hop) -> None:
    told, descriptor = statement.predicate, hop.descriptor
    data = told.dataset
    given = (told.agent.id, data.dataset_id, data.dataset_version, data.revision, data.schema_version)
    admitted = (hop.agent_id, descriptor.dataset, descriptor.version, descriptor.revision, descriptor.schema_version)
    if given != admitted or told.operation.capability != hop.capability.name:
        raise _unproven(f"it carries another answer than the one of {hop.agent_id} that was admitted")
    columns, permitted = told.authorization.columns, hop.decision.obligations.columns
    if permitted is not None and (columns is None or not set(columns) <= permitted):
        raise _unproven(f"{hop.agent_id} names columns that the grant does not cover")
    check_applied(statement, hop.capability, hop.capability.sensitivity)


def _invalid(hop: Hop, why: str) -> NotGranted:
    return NotGranted(Reason.DESCRIPTOR_INVALID, f"{hop.capability.name} of {hop.descriptor.dataset} {why}")


def _unproven(why: str) -> NotGranted:
    return NotGranted(Reason.REMOTE_PROVENANCE_INVALID, f"the result is not shown: {why}")
